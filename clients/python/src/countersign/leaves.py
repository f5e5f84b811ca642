"""Leaves: the public part of an entry, read from its bytes (docs/formats/entry.md of the project).

A leaf is one CBOR map in the deterministic form of RFC 8949, section 4.2.1. Every other spelling is refused, so one leaf has one
reading. What is read is shown with the names and words that the gate's own interface uses.
"""

from __future__ import annotations

from typing import Any

_MEMBERS = (
    "v",
    "kind",
    "commitment",
    "index",
    "time",
    "by",
    "auth",
    "action",
    "key",
    "verdict",
    "pact",
    "reads",
    "writes",
    "review",
    "effect",
    "claim",
    "held",
    "erased",
    "scope",
    "log_key",
    "session",
    "because_of",
    "labels",
    "severity",
    "confidence",
    "score",
    # A number that no member has.
    None,
    "deletes",
    "identity",
    "request",
    "batch",
    "actions",
    "keys",
)

_KINDS = (
    "action",
    "approval",
    "claim",
    "clock",
    "confirm",
    "denials",
    "dispatch",
    "erasure",
    "expiry",
    "extension",
    "feed",
    "genesis",
    "halt",
    "held",
    "pact",
    "refusal",
    "resume",
    "rotation",
    "settle",
    "shadow",
    "withdrawal",
    "batch",
    "group",
    "reading",
    "session",
    # Numbers that no kind has here.
    None,
    None,
    "observation",
)

_WORDS = {
    "kind": {number: kind for number, kind in enumerate(_KINDS, 1) if kind is not None},
    "verdict": dict(enumerate(("committed", "failed", "in_doubt", "in_flight", "rejected", "review", "settled"), 1)),
    "auth": {0: "none", 1: "signature", 2: "gateway"},
    "identity": {1: "agent", 2: "operator"},
}

_FORMAT = 4


def read_leaf(data: bytes) -> dict[str, Any]:
    """Reads a leaf. Raises `ValueError` for anything that a gate of this format does not write."""
    reader = _Reader(data)
    members = reader.map()
    reader.end()
    if members.get(0) != _FORMAT:
        raise ValueError("this is not a leaf of format 4")
    leaf: dict[str, Any] = {}
    for number, value in members.items():
        name = _MEMBERS[number] if number < len(_MEMBERS) else None
        if name is None:
            raise ValueError(f"member {number} of a leaf is not known")
        leaf[name] = _shown(name, value)
    return leaf


def _shown(name: str, value: Any) -> Any:
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise ValueError(f"{name} {value} is not known")
        return _WORDS[name][value]
    if name == "pact":
        pact_name, version, digest = value
        return {"hash": digest, "name": pact_name, "version": version}
    if name in ("reads", "writes", "score"):
        return [list(pair) for pair in zip(value[::2], value[1::2], strict=True)]
    return value


class _Reader:
    """As much of CBOR as leaves have: integers, byte strings as hexadecimal, texts, arrays, and one map of numbers."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def end(self) -> None:
        if self._at != len(self._data):
            raise ValueError("bytes follow the leaf")

    def map(self) -> dict[int, Any]:
        major, count = self._head()
        if major != 5:
            raise ValueError("a leaf is a map")
        members: dict[int, Any] = {}
        last = -1
        for _ in range(count):
            major, number = self._head()
            if major != 0 or number <= last:
                raise ValueError("the members of a leaf are numbers in ascending order")
            last = number
            members[number] = self._value()
        return members

    def _value(self) -> Any:
        major, number = self._head()
        if major == 0:
            return number
        if major == 1:
            return -1 - number
        if major == 2:
            return self._take(number).hex()
        if major == 3:
            return self._take(number).decode()
        if major == 4:
            return [self._value() for _ in range(min(number, len(self._data)))]
        raise ValueError(f"a leaf holds nothing of major type {major}")

    def _head(self) -> tuple[int, int]:
        first = self._take(1)[0]
        major, short = first >> 5, first & 31
        if short < 24:
            return major, short
        if short > 27:
            raise ValueError("a length must be there, and be definite")
        size = 1 << (short - 24)
        number = int.from_bytes(self._take(size), "big")
        if number < (24 if size == 1 else 1 << (4 * size)):
            raise ValueError("a number must be as short as it can be")
        return major, number

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) != length:
            raise ValueError("the leaf is cut short")
        self._at += length
        return taken
