"""Several actions at once: what to ask for, and what came of each.

One signature covers all of them. Each is decided on its own and in order, or, with `atomic=True`, all of them commit or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from countersign.errors import ProtocolError
from countersign.facts import Observation
from countersign.reading import Reader
from countersign.verdicts import Verdict, read_verdict

if TYPE_CHECKING:
    from countersign.claims import AsyncClaim, Claim

# The codes by which a gate says of one action that it was not decided. Of every other nothing is known.
_NOT_DECIDED = frozenset(
    {
        "agent_not_active",
        "body_too_large",
        "delegation_refused",
        "idempotency_key_reused",
        "invalid_field",
        "invalid_json",
        "not_allowed",
        "observation_refused",
        "shutting_down",
        "too_many_keys",
        "trust_too_low",
        "unknown_action",
        "unknown_agent",
        "unknown_field",
        "unknown_pact",
    }
)

# The gate has looked for the key, and found it with another action: so no attempt with this body was ever carried out.
_NEVER = "idempotency_key_reused"


@dataclass(frozen=True, slots=True)
class Act:
    """One action of a batch: what `client.act` takes."""

    pact: str
    action: str
    params: Mapping[str, Any] = field(default_factory=dict)
    observations: Sequence[Observation | str] = ()
    idempotency_key: str | None = None
    """A random one unless given. Give one if your program may end during the call: only with it can you ask again."""
    delegation: str | None = None
    claim: Claim | AsyncClaim | str | None = None


@dataclass(frozen=True, slots=True)
class NotDecided:
    """An action of a batch that has no verdict, for whichever reason it would have had none alone."""

    code: str
    """The stable code; each has a page in docs/codes."""
    message: str
    hint: str
    idempotency_key: str
    """Of the action, to ask for it again."""
    may_have_committed: bool
    """Whether it is not certain that nothing was done: then ask again with the same key and never with another."""
    entry: int | None = None
    """The entry that is in the way: of `idempotency_key_reused`, the one that was made under the key."""


def read_batch(answer: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[Verdict | NotDecided, ...]:
    """The results of a batch, one for each action."""
    results = Reader(answer, "a batch").objects("results")
    if len(results) != len(keys):
        raise ProtocolError(f"{len(keys)} actions were sent, and {len(results)} answered")
    return tuple(_read(one, key) for one, key in zip(results, keys, strict=True))


def in_doubt(results: tuple[Verdict | NotDecided, ...]) -> tuple[Verdict | NotDecided, ...]:
    """The same where an earlier attempt may have arrived: a refusal of this one says nothing about that."""
    return tuple(
        replace(one, may_have_committed=True) if isinstance(one, NotDecided) and one.code != _NEVER else one
        for one in results
    )


def _read(reader: Reader, key: str) -> Verdict | NotDecided:
    error = reader.maybe("error")
    if error is None:
        return read_verdict(reader.value)
    code = error.text("code")
    return NotDecided(
        code=code,
        message=error.text("message"),
        hint=error.text("hint"),
        idempotency_key=key,
        may_have_committed=code not in _NOT_DECIDED,
        entry=error.maybe_number("entry"),
    )
