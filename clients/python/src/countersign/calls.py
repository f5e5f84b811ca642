"""Requests as data: what to send, whether it may be sent twice, and how to read the answer.

Both clients build their requests here, so they differ in waiting and in nothing else.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from countersign.batches import Act, NotDecided, in_doubt, read_batch
from countersign.facts import Entry, Observation, read_entry, read_observation
from countersign.reading import Reader
from countersign.signing import actions_digest
from countersign.verdicts import InDoubt, InFlight, Outcome, Review, Verdict, read_effect, read_verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request."""

    method: str
    path: str
    """From `/v1` on, percent-encoded."""
    read: Callable[[Mapping[str, Any]], T]
    query: str | None = None
    body: bytes = b""
    writes: bool = False
    """Whether it changes something. If so and it has no key, it is sent again only if it certainly did not arrive."""
    idempotency_key: str | None = None
    """What the gate knows it again by: with it, sending it twice does it once."""
    idempotency_keys: tuple[str, ...] = ()
    """The same of every action of a batch."""
    actions: str | None = None
    """Of a batch, the field `Countersign-Actions`, which its signature covers."""
    doubt: Callable[[T], T] | None = None
    """What an answer means where an earlier attempt may have arrived: what it says of no earlier attempt is not known."""
    wait_ms: int = 0
    """For how long the gate may take its time, which is added to the time limit."""

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice is the same as sending it once."""
        return not self.writes or self.idempotency_key is not None or bool(self.idempotency_keys)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim as the gate answers it."""

    claim: str
    entry: int
    facts: tuple[str, ...]
    expires_at: int
    """In ledger milliseconds."""
    until: int
    """The latest it can be extended to."""


def new_idempotency_key() -> str:
    """A key with 192 random bits. The gate wants at least 128, since the digest of the body is public."""
    return secrets.token_urlsafe(24)


def observe(facts: Sequence[str], *, attest: bool = False) -> Call[Observation]:
    """`POST /v1/observe`."""
    asked: dict[str, Any] = {"facts": list(facts)}
    if attest:
        asked["attest"] = True
    return Call("POST", "/v1/observe", read_observation, body=_json(asked))


def act(
    pact: str,
    action: str,
    params: Mapping[str, Any],
    *,
    observations: Sequence[Observation | str],
    idempotency_key: str | None,
    delegation: str | None,
    claim: str | None,
    wait_ms: int,
    check: bool = False,
) -> Call[Verdict]:
    """`POST /v1/actions`, or `/v1/actions/check`. The body is made once, so every attempt sends the same bytes."""
    key = idempotency_key or new_idempotency_key()
    body = _action(pact, action, params, observations, key, delegation, claim)
    path = "/v1/actions/check" if check else "/v1/actions"
    query = urlencode({"wait_ms": wait_ms}) if wait_ms else None
    return Call(
        "POST",
        path,
        read_verdict,
        query=query,
        body=body,
        writes=not check,
        idempotency_key=None if check else key,
        idempotency_keys=() if check else (key,),
        wait_ms=wait_ms,
    )


def act_many(acts: Sequence[Act], *, atomic: bool, wait_ms: int) -> Call[tuple[Verdict | NotDecided, ...]]:
    """`POST /v1/actions/batch`. The bodies are made once, so every attempt sends the same bytes."""
    keys = tuple(one.idempotency_key or new_idempotency_key() for one in acts)
    bodies = [
        _action(one.pact, one.action, one.params, one.observations, key, one.delegation, _claim_name(one.claim))
        for one, key in zip(acts, keys, strict=True)
    ]
    query = urlencode([*([("atomic", "true")] if atomic else []), *([("wait_ms", wait_ms)] if wait_ms else [])])
    return Call(
        "POST",
        "/v1/actions/batch",
        lambda answer: read_batch(answer, keys),
        query=query or None,
        body=b"[" + b",".join(bodies) + b"]",
        writes=True,
        idempotency_keys=keys,
        actions=actions_digest(bodies),
        doubt=in_doubt,
        wait_ms=wait_ms,
    )


def _claim_name(claim: object) -> str | None:
    return claim if claim is None or isinstance(claim, str) else str(getattr(claim, "name", claim))


def _action(
    pact: str,
    action: str,
    params: Mapping[str, Any],
    observations: Sequence[Observation | str],
    key: str,
    delegation: str | None,
    claim: str | None,
) -> bytes:
    """The body of an action: the gate knows it by its digest."""
    body: dict[str, Any] = {"pact": pact, "action": action, "idempotency_key": key, "params": dict(params)}
    if observations:
        body["observations"] = [one if isinstance(one, str) else one.token for one in observations]
    if delegation is not None:
        body["delegation"] = delegation
    if claim is not None:
        body["claim"] = claim
    return _json(body)


def claim(facts: Sequence[str], for_ms: int, reason: str) -> Call[Claimed]:
    """`POST /v1/claims`. It has no idempotency key: one whose answer was lost ends by itself."""
    body = {"facts": list(facts), "for_ms": for_ms, "reason": reason}
    return Call("POST", "/v1/claims", _claimed, body=_json(body), writes=True)


def extend(claim: str, for_ms: int) -> Call[Claimed]:
    """`POST /v1/claims/{claim}/extend`."""
    path = f"/v1/claims/{quote(claim, safe='')}/extend"
    return Call("POST", path, _claimed, body=_json({"for_ms": for_ms}), writes=True)


def withdraw(claim: str) -> Call[None]:
    """`POST /v1/claims/{claim}/withdraw`."""
    path = f"/v1/claims/{quote(claim, safe='')}/withdraw"
    return Call("POST", path, lambda _: None, body=b"{}", writes=True)


def effect(effect: str, wait_ms: int) -> Call[Outcome]:
    """`GET /v1/effects/{effect}`."""
    query = urlencode({"wait_ms": wait_ms}) if wait_ms else None
    return Call("GET", f"/v1/effects/{quote(effect, safe='')}", read_effect, query=query, wait_ms=wait_ms)


def verdict(about: Review | InFlight | InDoubt | int, wait_ms: int) -> Call[Verdict]:
    """`GET /v1/actions/{entry}`: of what is parked or under way, its name has the entry that it began in."""
    match about:
        case Review(review=name) | InFlight(effect=name) | InDoubt(effect=name):
            began = int(name.rpartition("_")[2])
        case began:
            pass
    query = urlencode({"wait_ms": wait_ms}) if wait_ms else None
    return Call("GET", f"/v1/actions/{began}", read_verdict, query=query, wait_ms=wait_ms)


def entry(index: int) -> Call[Entry]:
    """`GET /v1/ledger/entries/{index}`."""
    return Call("GET", f"/v1/ledger/entries/{index}", read_entry)


def receipt(index: int) -> Call[str]:
    """`GET /v1/ledger/receipts/{index}`."""
    return Call("GET", f"/v1/ledger/receipts/{index}", lambda answer: Reader(answer, "a receipt").text("receipt"))


def _claimed(answer: Mapping[str, Any]) -> Claimed:
    reader = Reader(answer, "a claim")
    return Claimed(
        claim=reader.text("claim"),
        entry=reader.number("entry"),
        facts=tuple(reader.texts("facts")),
        expires_at=reader.number("expires_at"),
        until=reader.number("until"),
    )


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
