"""Delegation tokens: a part of an agent's right, handed to another agent, offline (docs/formats/delegation.md).

Needs the extra `delegation`, which brings `biscuit-python`. Whether a hop claims more than it was given is for the gate
to say, at the action's own place in the order; here tokens are only written and signed. An agent that merely acts
under a token needs none of this: `client.act(…, delegation=token)` passes it on as it is.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

try:
    from biscuit_auth import (
        Biscuit,
        BiscuitBuilder,
        BiscuitSerializationError,
        BiscuitValidationError,
        BlockBuilder,
        Fact,
        KeyPair,
        PrivateKey,
        PublicKey,
        UnverifiedBiscuit,
    )
except ImportError as error:
    raise ImportError("delegations need biscuit-python\nhint: pip install 'countersign[delegation]'") from error

from countersign.errors import DelegationError
from countersign.facts import parts_of
from countersign.keys import Key, public_bytes_of

_PREFIX = "dlg1."
_TOKEN_BYTES_MAX = 16_384
_HOPS_MAX = 8
_STATEMENT = re.compile(r'([a-z_]+)\(((?:"[^"\\\n]*"|-?[0-9]+)(?:, (?:"[^"\\\n]*"|-?[0-9]+))*)\);\n')
_TERM = re.compile(r'"([^"]*)"|(-?[0-9]+)')


@dataclass(frozen=True, slots=True)
class Hop:
    """One handing-on: to whom, and how much. What is None is not limited."""

    to: str
    key: str
    """The public name of that agent's key."""
    actions: frozenset[tuple[str, str]] | None = None
    """Action types as (pact, action)."""
    max: Mapping[str, int] = field(default_factory=dict)
    one_of: Mapping[str, frozenset[str]] = field(default_factory=dict)
    facts: frozenset[tuple[str, str]] | None = None
    """Facts as (type, id)."""
    expires_at: int | None = None
    """In milliseconds UTC, compared with ledger time."""
    depth: int = 0


def delegate(
    key: Key,
    agent: str,
    to: str,
    to_key: str,
    *,
    gate: str,
    actions: Sequence[str] | None,
    max: Mapping[str, int] | None = None,  # noqa: A002 - the vocabulary's own word
    only: Mapping[str, Sequence[str]] | None = None,
    facts: Sequence[str] | None = None,
    expires_in_s: float | None = None,
    depth: int = 0,
) -> str:
    """Hands a part of `agent`'s own right at one gate to `to`, signed with `agent`'s key.

    `gate` is that gate's origin, the first line of its /log/checkpoint: at any other gate the token is worth nothing.

    `actions` are written `billing.refund`; None, which must be said, passes on every action type.
    """
    hop = _hop(to, to_key, actions, max, only, facts, expires_in_s, depth)
    builder = BiscuitBuilder()
    builder.add_fact(Fact("from({agent}, {key})", {"agent": agent, "key": key.did}))
    builder.add_fact(Fact("gate({gate})", {"gate": gate}))
    for fact in _statements(hop):
        builder.add_fact(fact)
    return _token(builder.build(_private(key)))


def hand_on(
    token: str,
    key: Key,
    to: str,
    to_key: str,
    *,
    actions: Sequence[str] | None = None,
    max: Mapping[str, int] | None = None,  # noqa: A002 - the vocabulary's own word
    only: Mapping[str, Sequence[str]] | None = None,
    facts: Sequence[str] | None = None,
    expires_in_s: float | None = None,
    depth: int = 0,
) -> str:
    """Passes on a part of what the holder of `key` was given. Limits that are not given here are inherited."""
    biscuit = _open(token)
    *_, last = _hops(biscuit)
    if last.key != key.did:
        raise DelegationError(f"this delegation was made to {last.to} under {last.key}; only that key can hand it on")
    if biscuit.block_count() >= _HOPS_MAX:
        raise DelegationError(f"a delegation has at most {_HOPS_MAX} hops")
    block = BlockBuilder("")
    for fact in _statements(_within(_hop(to, to_key, actions, max, only, facts, expires_in_s, depth), last)):
        block.add_fact(fact)
    signed = biscuit.third_party_request().create_block(_private(key), block)
    public = KeyPair.from_private_key(_private(key)).public_key
    return _token(biscuit.append_third_party(public, signed))


def hops_of(token: str) -> tuple[Hop, ...]:
    """What a token says, hop by hop, after verifying its signatures. Who is active only the gate knows."""
    return tuple(_hops(_open(token)))


def _hop(
    to: str,
    to_key: str,
    actions: Sequence[str] | None,
    largest: Mapping[str, int] | None,
    only: Mapping[str, Sequence[str]] | None,
    facts: Sequence[str] | None,
    expires_in_s: float | None,
    depth: int,
) -> Hop:
    try:
        public_bytes_of(to_key)
        names = None if facts is None else frozenset(map(parts_of, facts))
    except ValueError as error:
        raise DelegationError(str(error)) from error
    pairs = None
    if actions is not None:
        split = [tuple(one.split(".")) for one in actions]
        if not split or any(len(one) != 2 for one in split):
            raise DelegationError("actions are written PACT.ACTION, for example billing.refund")
        pairs = frozenset((one[0], one[1]) for one in split)
    return Hop(
        to,
        to_key,
        pairs,
        dict(largest or {}),
        {name: frozenset(values) for name, values in (only or {}).items()},
        names,
        None if expires_in_s is None else int((time.time() + expires_in_s) * 1000),
        depth,
    )


def _within(hop: Hop, parent: Hop) -> Hop:
    """Takes over what the hop does not limit itself: left out, it would claim more than was given, and be refused."""
    return replace(
        hop,
        actions=parent.actions if hop.actions is None else hop.actions,
        max={**parent.max, **hop.max},
        one_of={**parent.one_of, **hop.one_of},
        facts=parent.facts if hop.facts is None else hop.facts,
        expires_at=parent.expires_at if hop.expires_at is None else hop.expires_at,
    )


def _statements(hop: Hop) -> Iterator[Fact]:
    def two(name: str, a: str, b: str | int) -> Fact:
        return Fact(f"{name}({{a}}, {{b}})", {"a": a, "b": b})

    yield two("to", hop.to, hop.key)
    for pact, action in sorted(hop.actions or ()):
        yield two("action", pact, action)
    for param, most in sorted(hop.max.items()):
        yield two("max", param, most)
    for param, values in sorted(hop.one_of.items()):
        for value in sorted(values):
            yield two("one_of", param, value)
    for fact_type, fact_id in sorted(hop.facts or ()):
        yield two("fact", fact_type, fact_id)
    if hop.expires_at is not None:
        yield Fact("expires({at})", {"at": hop.expires_at})
    yield Fact("depth({n})", {"n": hop.depth})


def _open(token: str) -> Biscuit:
    """Verifies with the key that the first block names. That it is the root delegator's own is for the gate to say."""
    encoded = token.strip().removeprefix(_PREFIX)
    if not token.strip().startswith(_PREFIX) or len(token.strip()) > _TOKEN_BYTES_MAX:
        raise DelegationError("this is not a delegation: it begins with dlg1. and has at most 16,384 bytes")
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        base64.b64decode(padded, altchars=b"-_", validate=True)
        unverified = UnverifiedBiscuit.from_base64(padded)
        roots = [terms[1] for name, terms in _read(unverified.block_source(0)) if name == "from" and len(terms) == 2]
        if len(roots) != 1 or not isinstance(roots[0], str):
            raise DelegationError("the delegation does not name who passes on")
        root = PublicKey(f"ed25519/{public_bytes_of(roots[0]).hex()}")
        biscuit = unverified.verify(root)
    except (BiscuitValidationError, BiscuitSerializationError, binascii.Error, ValueError) as error:
        raise DelegationError(f"the delegation does not hold: {error}") from error
    _check_signers(biscuit)
    return biscuit


def _check_signers(biscuit: Biscuit) -> None:
    """Every block after the first is signed by whom the block before names."""
    expected = None
    for number, hop in enumerate(_hops(biscuit)):
        if number and str(biscuit.block_external_key(number)) != expected:
            raise DelegationError(f"hop {number + 1} of the delegation is not signed by whom the hop before it names")
        expected = f"ed25519/{public_bytes_of(hop.key).hex()}"


def _hops(biscuit: Biscuit) -> Iterator[Hop]:
    for number in range(biscuit.block_count()):
        yield _hop_of(_read(biscuit.block_source(number)))


def _hop_of(statements: Sequence[tuple[str, list[str | int]]]) -> Hop:
    to: tuple[str, str] | None = None
    actions: set[tuple[str, str]] = set()
    facts: set[tuple[str, str]] = set()
    largest: dict[str, int] = {}
    one_of: dict[str, frozenset[str]] = {}
    expires_at, depth = None, 0
    for name, terms in statements:
        match name, terms:
            case ("from", [str(), str()]) | ("gate", [str()]):
                pass
            case "to", [str(agent), str(key)]:
                to = (agent, key)
            case "action", [str(pact), str(action)]:
                actions.add((pact, action))
            case "max", [str(param), int(most)]:
                largest[param] = most
            case "one_of", [str(param), str(value)]:
                one_of[param] = one_of.get(param, frozenset()) | {value}
            case "fact", [str(fact_type), str(fact_id)]:
                facts.add((fact_type, fact_id))
            case "expires", [int(at)]:
                expires_at = at
            case "depth", [int(n)]:
                depth = n
            case _:
                raise DelegationError(f"the delegation holds {name!r} in a form that delegations must not hold")
    if to is None:
        raise DelegationError("the delegation does not say to whom it was made")
    return Hop(*to, frozenset(actions) or None, largest, one_of, frozenset(facts) or None, expires_at, depth)


def _read(source: str) -> list[tuple[str, list[str | int]]]:
    """Reads a block as the library prints it. It prints quotes inside strings as they are, so what has any is refused.

    A string made to look like several statements is read as those; a token made from that claims what the gate
    will not grant, and is refused there.
    """
    found: list[tuple[str, list[str | int]]] = []
    at = 0
    while at < len(source):
        matched = _STATEMENT.match(source, at)
        if matched is None:
            raise DelegationError("this client cannot read the delegation\nhint: use `countersign delegation new`")
        terms: list[str | int] = [int(n) if n else text for text, n in _TERM.findall(matched[2])]
        found.append((matched[1], terms))
        at = matched.end()
    return found


def _token(biscuit: Biscuit) -> str:
    token = _PREFIX + biscuit.to_base64().rstrip("=")
    if len(token) > _TOKEN_BYTES_MAX:
        raise DelegationError(f"the delegation has {len(token)} bytes; a gate takes at most {_TOKEN_BYTES_MAX}")
    return token


def _private(key: Key) -> PrivateKey:
    return PrivateKey(f"ed25519-private/{key.private_bytes().hex()}")
