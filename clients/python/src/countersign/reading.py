"""Reads answers of the gate member by member: what is not as v1 has it is a `ProtocolError`, not a surprise later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from countersign.errors import ProtocolError

T = TypeVar("T")


class Reader:
    """One JSON object of an answer."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, Mapping):
            raise ProtocolError(f"{what} is not a JSON object: this is not an answer of a gate")
        self.value: Mapping[str, Any] = value
        """The object as it came."""
        self._what = what

    def anything(self, name: str) -> Any:
        """A member of any kind; None where there is none."""
        return self.value.get(name)

    def text(self, name: str) -> str:
        """A string that must be there."""
        return self._must(name, self.maybe_text(name))

    def number(self, name: str) -> int:
        """An integer that must be there."""
        return self._must(name, self.maybe_number(name))

    def flag(self, name: str) -> bool:
        """Whether a member is there and true."""
        return self.value.get(name) is True

    def maybe_text(self, name: str) -> str | None:
        """A string, or None."""
        value = self.value.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(name, "a string")

    def maybe_number(self, name: str) -> int | None:
        """An integer, or None."""
        value = self.value.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self._wrong(name, "an integer")

    def maybe(self, name: str) -> Reader | None:
        """An object, or None."""
        value = self.value.get(name)
        return None if value is None else Reader(value, f"{name} of {self._what}")

    def objects(self, name: str) -> list[Reader]:
        """A list of objects; empty where there is none."""
        return [Reader(one, f"{name} of {self._what}") for one in self._list(name)]

    def texts(self, name: str) -> list[str]:
        """A list of strings; empty where there is none."""
        values = self._list(name)
        if not all(isinstance(one, str) for one in values):
            raise self._wrong(name, "a list of strings")
        return [str(one) for one in values]

    def _list(self, name: str) -> list[Any]:
        value = self.value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return value

    def _must(self, name: str, value: T | None) -> T:
        if value is None:
            raise ProtocolError(f"{self._what} has no {name!r}: this is not an answer of a gate, or of a newer one")
        return value

    def _wrong(self, name: str, wanted: str) -> ProtocolError:
        return ProtocolError(f"{name!r} of {self._what} is not {wanted}")
