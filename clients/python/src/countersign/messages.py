"""Messages between agents: what waits in an inbox. It comes again, under one name, until it is acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from countersign.reading import Reader
from countersign.verdicts import PactRef


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why a message is not handed out now: it comes whole once that is over."""

    code: str
    """`halted`, or `agent_not_active`."""
    what: str
    """The scope that is halted, or the agent."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as its recipient is given it."""

    message: str
    """Its name, `msg_…`, which never changes: a program that has handled it knows it again by this."""
    entry: int
    at: int
    """When it was delivered, in ledger milliseconds."""
    sender: str
    """Who sent it. The gate knows, whatever the message says."""
    auth: str
    """How that is known: `signature`, `gateway`, or `none` in an open gate."""
    chain: tuple[str, ...]
    """On whose behalf it was sent, root first; empty where it was sent in the sender's own right."""
    pact: PactRef | None
    action: str | None
    approved_by: str | None
    body: Mapping[str, Any] | None
    """What it says; None where it was erased or is withheld."""
    erased: bool
    withheld: Withheld | None


@dataclass(frozen=True, slots=True)
class Inbox:
    """A page of an inbox, oldest first."""

    position: int
    messages: tuple[Message, ...]
    next: str | None
    """Where more wait behind these: what to ask for with `after`."""
    waiting: int
    """How many wait in all."""

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What was acknowledged. Asking again changes nothing."""

    entry: int | None
    """The entry; None where none of the messages still waited."""
    acknowledged: tuple[str, ...]
    not_waiting: tuple[str, ...]
    """Those that did not wait for this agent: acknowledged before, or no messages to it."""
    waiting: int


class Following:
    """What to ask for next when an inbox is followed: what comes, and what was withheld and no longer is."""

    def __init__(self, after: str | None) -> None:
        self.after = after
        self._withheld: set[int] = set()
        self._scan: str | None = None

    @property
    def waits(self) -> bool:
        """Whether the next page is one to wait for."""
        return self._scan is None

    @property
    def start(self) -> str | None:
        """Behind which message the next page begins."""
        return self.after if self._scan is None else self._scan

    def news(self, page: Inbox) -> list[Message]:
        """What of a page was not given yet."""
        if self._scan is not None:
            self._scan = page.next
            whole = [one for one in page if one.entry in self._withheld and one.withheld is None]
            self._withheld.difference_update(one.entry for one in whole)
            return whole
        for one in page:
            self.after = one.message
            if one.withheld is not None:
                self._withheld.add(one.entry)
        if self._withheld:
            self._scan = f"msg_{min(self._withheld) - 1}"
        return list(page.messages)


def read_inbox(answer: Mapping[str, Any]) -> Inbox:
    """Reads a page."""
    reader = Reader(answer, "an inbox")
    return Inbox(
        position=reader.number("position"),
        messages=tuple(_message(one) for one in reader.objects("messages")),
        next=reader.maybe_text("next"),
        waiting=reader.number("waiting"),
    )


def read_acknowledged(answer: Mapping[str, Any]) -> Acknowledged:
    """Reads what was acknowledged."""
    reader = Reader(answer, "an acknowledgement")
    return Acknowledged(
        entry=reader.maybe_number("entry"),
        acknowledged=tuple(reader.texts("acknowledged")),
        not_waiting=tuple(reader.texts("not_waiting")),
        waiting=reader.number("waiting"),
    )


def _message(reader: Reader) -> Message:
    pact, body, withheld = reader.maybe("pact"), reader.maybe("body"), reader.maybe("withheld")
    return Message(
        message=reader.text("message"),
        entry=reader.number("entry"),
        at=reader.number("at"),
        sender=reader.text("from"),
        auth=reader.text("auth"),
        chain=tuple(reader.texts("chain")),
        pact=None if pact is None else PactRef(pact.text("name"), pact.number("version"), pact.text("hash")),
        action=reader.maybe_text("action"),
        approved_by=reader.maybe_text("approved_by"),
        body=None if body is None else dict(body.value),
        erased=reader.flag("erased"),
        withheld=None if withheld is None else Withheld(withheld.text("code"), withheld.text("what")),
    )
