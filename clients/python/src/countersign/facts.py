"""Naming facts, and what an agent was shown of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from countersign.reading import Reader

_NAME = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)::"((?:[^"\\]|\\["\\])*)"')


def fact(fact_type: str, fact_id: str) -> str:
    """The name of a fact, such as `Account::"42"`; whatever the id holds stays inside the quotes."""
    escaped = fact_id.replace("\\", "\\\\").replace('"', '\\"')
    return f'{fact_type}::"{escaped}"'


def parts_of(name: str) -> tuple[str, str]:
    """Type and id of a fact, from its name; ValueError where it is not one."""
    matched = _NAME.fullmatch(name)
    if matched is None:
        raise ValueError(f'{name!r} is not the name of a fact, such as Account::"42"')
    return matched[1], re.sub(r"\\(.)", r"\1", matched[2])


@dataclass(frozen=True, slots=True)
class ObservedFact:
    """One fact as it was shown."""

    fact: str
    version: int | None
    """0 where there is no such fact; None for an external fact."""
    value: Mapping[str, Any] | None
    """None where there is none."""
    withheld: tuple[str, ...]
    """Attributes that no grant shows to this agent."""
    written_at: int | None
    atomicity: str


@dataclass(frozen=True, slots=True)
class Attested:
    """What proves to others what an entry says: give them all of it; `verify_attested` checks it offline."""

    entry: int
    receipt: str
    salt: str
    payload: str
    """As it is stored; it holds what was shown, and nothing of what was withheld."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What an agent was shown, when, and the sealed token of it that an action carries."""

    token: str
    observed_at: int
    """In ledger milliseconds."""
    position: int
    facts: tuple[ObservedFact, ...]
    attested: Attested | None
    """Where it was asked for."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        """The value of a fact; KeyError where it was not asked for or there is none."""
        for one in self.facts:
            if one.fact == name and one.value is not None:
                return one.value
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the ledger."""

    index: int
    leaf: Mapping[str, Any]
    """The public part."""
    payload: Mapping[str, Any] | None
    """None where it was erased."""
    erased: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)


def read_observation(answer: Mapping[str, Any]) -> Observation:
    """Reads the answer to `observe`."""
    reader = Reader(answer, "an observation")
    facts = tuple(map(_observed, reader.objects("facts")))
    return Observation(
        reader.text("observation"),
        reader.number("observed_at"),
        reader.number("position"),
        facts,
        _attested(answer.get("attested")),
        reader.value,
    )


def _attested(value: Any) -> Attested | None:
    if value is None:
        return None
    reader = Reader(value, "what proves an entry")
    return Attested(reader.number("entry"), reader.text("receipt"), reader.text("salt"), reader.text("payload"))


def read_entry(answer: Mapping[str, Any]) -> Entry:
    """Reads one entry."""
    reader = Reader(answer, "an entry")
    leaf, payload = reader.maybe("leaf"), reader.maybe("payload")
    return Entry(
        reader.number("index"),
        {} if leaf is None else leaf.value,
        None if payload is None else payload.value,
        reader.flag("erased"),
        reader.value,
    )


def _observed(reader: Reader) -> ObservedFact:
    value = reader.maybe("value")
    return ObservedFact(
        fact=reader.text("fact"),
        version=reader.maybe_number("version"),
        value=None if value is None else value.value,
        withheld=tuple(reader.texts("withheld")),
        written_at=reader.maybe_number("written_at"),
        atomicity=reader.text("atomicity"),
    )
