"""Verdicts as values: frozen, typed, to branch on with `match` or `isinstance`.

A verdict that this client does not know is never taken for done: reading one raises `ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias

from countersign.errors import NotDoneError, ProtocolError, RejectedError
from countersign.reading import Reader

Why: TypeAlias = Literal["false", "error", "stale", "changed"]


@dataclass(frozen=True, slots=True)
class PactRef:
    """The pact that a verdict was made under."""

    name: str
    version: int
    hash: str


@dataclass(frozen=True, slots=True)
class Wrote:
    """A fact that an action wrote."""

    fact: str
    version: int


@dataclass(frozen=True, slots=True)
class FailedRead:
    """One attribute that a failed precondition reads: as it was observed, and as it is."""

    attribute: str
    observed: bool
    """Whether the agent had observed it; then, without `expected`, it was absent."""
    expected: Any
    """As observed; None where it was absent, not observed, or is withheld."""
    actual: Any
    """As it is; None where it is absent or withheld."""
    withheld: bool
    """The agent may not see this attribute, so neither value is told."""
    version: int | None
    """Of the fact now; None for an external fact."""
    changed_by: str | None
    changed_at: int | None
    """In ledger milliseconds."""
    entry: int | None
    read_in: str | None = None
    """Where it was read, if it is external: the adapter. Who changed it there the gate does not know."""
    read_at: int | None = None
    """In ledger milliseconds."""


@dataclass(frozen=True, slots=True)
class FailedPrecondition:
    """One precondition that does not hold."""

    precondition: str
    that: str
    """The condition as the pact has it."""
    why: str
    """`false`, `error`, `stale` or `changed`; more may come."""
    reads: tuple[FailedRead, ...]
    gap_ms: int | None
    """Time since the oldest observation it relied on."""
    hint: str
    """What to observe again."""
    error: str | None


@dataclass(frozen=True, slots=True)
class ParamMisfit:
    """A parameter that does not fit the pact."""

    at: str
    """Which, as a JSON pointer; empty for the parameters as a whole."""
    what: str
    """What is wrong with it."""


@dataclass(frozen=True, slots=True)
class Shadowed:
    """What enforcement would have answered, of an action type in shadow mode."""

    code: str
    message: str
    hint: str
    failed: tuple[FailedPrecondition, ...]


@dataclass(frozen=True, slots=True)
class WaivedBy:
    """Who waived which preconditions."""

    reviewer: str
    review: int
    preconditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for the outcome of an external call."""

    attempts: int
    summary: str
    """What came of it, in a sentence."""
    status: int | None
    """The status that the service gave."""
    result: str | None
    """What the service answered, as far as the gate keeps it."""
    receipt: str | None
    """The receipt that the service keeps."""
    withheld: bool = False
    """Whether `result` and `receipt` are left out because the agent may not see all that the call was made of."""
    code: str | None = None
    """The stable code of what came of it."""
    reread_ms: int | None = None
    """What reading again took that the call rests on."""
    window_ms: int | None = None
    """How long it was from when that was begun to when the call was answered: changes past the gate in that time were not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What all verdicts have."""

    action: str | None
    """The action's id: SHA-256 of its body."""
    entry: int | None
    """The ledger entry; None after a check, which leaves none."""
    pact: PactRef | None
    gap_ms: int | None
    """Time between the oldest observation relied on and its use."""
    atomicity: str | None
    receipt: str | None
    """Verifies offline: `countersign.receipts`."""
    repeated: bool
    """The verdict was given before, under the same idempotency key."""
    checked: bool
    """Only checked: nothing was written, and nothing is promised."""
    readings: Mapping[str, Any] | None
    """Of a write that is guarded as read: what it rests on, what changed, and what reading it again cost."""
    beside: tuple[str, ...]
    """Calls in doubt that may still have had their effect on what this one changed or rested on."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The answer as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocked(_Answer):
    """What verdicts have that give reasons."""

    code: str
    """The stable code; each has a page in docs/codes."""
    message: str
    hint: str
    failed: tuple[FailedPrecondition, ...]
    observe: tuple[str, ...] = ()
    """The facts that have to be observed first."""
    misfits: tuple[ParamMisfit, ...] = ()
    """The parameters that do not fit the pact."""

    def explain(self) -> str:
        """All reasons, as text for a person or a model."""
        return _explain(self.code, self.message, self.hint, self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(_Answer):
    """Everything held, and the effects are done with this entry."""

    wrote: tuple[Wrote, ...]
    shadowed: Shadowed | None
    waived_by: WaivedBy | None

    def unwrap(self) -> Committed:
        """Itself: it is done."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(_Blocked):
    """Something did not hold. Nothing was done, and the entry says why."""

    def unwrap(self) -> NoReturn:
        """Raises `RejectedError`."""
        raise RejectedError(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Review(_Blocked):
    """A person decides. Nothing is done until then; `client.verdict` tells what became of it."""

    review: str
    expires_at: int | None
    """Until when a person may decide, in ledger milliseconds."""

    def unwrap(self) -> NoReturn:
        """Raises `NotDoneError`."""
        raise NotDoneError(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight(_Answer):
    """An external call is cooling or dispatched: no one knows yet."""

    effect: str
    """Its name, for `client.effect` and `client.wait`."""
    state: str
    """`cooling` or `dispatched`."""
    dispatch_at: int | None
    """When a cooling call is decided again, in ledger milliseconds."""

    def explain(self) -> str:
        """What that means, as text."""
        return f"The call {self.effect} is {self.state}: its outcome is not known yet."

    def unwrap(self) -> NoReturn:
        """Raises `NotDoneError`."""
        raise NotDoneError(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(_Answer):
    """The external call happened, and the facts are written."""

    effect: str
    evidence: Evidence | None
    wrote: tuple[Wrote, ...]

    def unwrap(self) -> Settled:
        """Itself: it is done."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_Blocked):
    """The external call did not happen and will not. No fact was written, and charges were given back."""

    effect: str
    evidence: Evidence | None

    def unwrap(self) -> NoReturn:
        """Raises `NotDoneError`."""
        raise NotDoneError(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt(_Blocked):
    """The external call may or may not have happened. Do not act again: a probe or a person settles it."""

    effect: str
    evidence: Evidence | None

    def unwrap(self) -> NoReturn:
        """Raises `NotDoneError`."""
        raise NotDoneError(self)


Done: TypeAlias = Committed | Settled
Accepted: TypeAlias = Committed | Review | InFlight | Settled | Failed | InDoubt
"""What `act(raise_on_rejection=True)` returns."""
Outcome: TypeAlias = InFlight | Settled | Failed | InDoubt
"""What can become of an external call."""
Verdict: TypeAlias = Committed | Rejected | Review | InFlight | Settled | Failed | InDoubt


def read_verdict(answer: Mapping[str, Any]) -> Verdict:
    """Reads the verdict on an action."""
    reader = Reader(answer, "a verdict")
    kind = reader.text("verdict")
    if kind == "committed":
        shadowed, waived = reader.maybe("shadowed"), reader.maybe("waived_by")
        return Committed(
            **_common(reader),
            wrote=_wrote(reader),
            shadowed=None if shadowed is None else _shadowed(shadowed),
            waived_by=None if waived is None else _waived_by(waived),
        )
    if kind == "rejected":
        return Rejected(**_common(reader), **_reasons(reader, kind))
    if kind == "review":
        expires_at = reader.maybe_number("expires_at")
        return Review(**_common(reader), **_reasons(reader, kind), review=reader.text("review"), expires_at=expires_at)
    return _outcome(reader, reader.value)


def read_effect(answer: Mapping[str, Any]) -> Outcome:
    """Reads what became of an external call. It is told of the effect, so names of pact and action type stay in `raw`."""
    reader = Reader(answer, "an effect")
    told = {name: value for name, value in answer.items() if name not in ("pact", "action")}
    return _outcome(Reader({**told, "verdict": reader.text("state")}, "an effect"), reader.value)


def _outcome(reader: Reader, raw: Mapping[str, Any]) -> Outcome:
    kind = reader.text("verdict")
    common = {**_common(reader), "raw": raw}
    if kind in ("in_flight", "cooling", "dispatched"):
        dispatch_at = reader.maybe_number("dispatch_at")
        state = "dispatched" if dispatch_at is None else "cooling"
        return InFlight(**common, effect=reader.text("effect"), state=state, dispatch_at=dispatch_at)
    evidence = _evidence(reader)
    if kind == "settled":
        return Settled(**common, effect=reader.text("effect"), evidence=evidence, wrote=_wrote(reader))
    if kind == "failed":
        return Failed(**common, **_reasons(reader, kind), effect=reader.text("effect"), evidence=evidence)
    if kind == "in_doubt":
        return InDoubt(**common, **_reasons(reader, kind), effect=reader.text("effect"), evidence=evidence)
    raise ProtocolError(f"the gate answered with {kind!r}, which this client does not know")


def _evidence(reader: Reader) -> Evidence | None:
    found = reader.maybe("evidence")
    if found is None:
        return None
    return Evidence(
        found.number("attempts"),
        found.text("summary"),
        found.maybe_number("status"),
        found.maybe_text("result"),
        found.maybe_text("receipt"),
        found.flag("withheld"),
        found.maybe_text("code"),
        found.maybe_number("reread_ms"),
        found.maybe_number("window_ms"),
    )


def _common(reader: Reader) -> dict[str, Any]:
    pact = reader.maybe("pact")
    return {
        "action": reader.maybe_text("action"),
        "entry": reader.maybe_number("entry"),
        "pact": None if pact is None else PactRef(pact.text("name"), pact.number("version"), pact.text("hash")),
        "gap_ms": reader.maybe_number("gap_ms"),
        "atomicity": reader.maybe_text("atomicity"),
        "receipt": reader.maybe_text("receipt"),
        "repeated": reader.flag("repeated"),
        "checked": reader.flag("checked"),
        "beside": tuple(str(effect) for effect in reader.value.get("beside", ())),
        "readings": None if (readings := reader.maybe("readings")) is None else readings.value,
        "raw": reader.value,
    }


def _reasons(reader: Reader, kind: str) -> dict[str, Any]:
    """Of a call, what speaks for its outcome is the reason; where reasons were erased, the kind takes their place."""
    evidence = _evidence(reader)
    return {
        "code": reader.maybe_text("code") or kind,
        "message": reader.maybe_text("message") or (evidence.summary if evidence else kind.replace("_", " ")),
        "hint": reader.maybe_text("hint") or "",
        "failed": tuple(map(_failed, reader.objects("failed"))),
        "observe": tuple(reader.texts("observe")),
        "misfits": tuple(ParamMisfit(one.text("at"), one.text("what")) for one in reader.objects("misfits")),
    }


def _wrote(reader: Reader) -> tuple[Wrote, ...]:
    return tuple(Wrote(one.text("fact"), one.number("version")) for one in reader.objects("wrote"))


def _shadowed(reader: Reader) -> Shadowed:
    failed = tuple(map(_failed, reader.objects("failed")))
    return Shadowed(reader.text("code"), reader.text("message"), reader.text("hint"), failed)


def _waived_by(reader: Reader) -> WaivedBy:
    return WaivedBy(reader.text("reviewer"), reader.number("review"), tuple(reader.texts("preconditions")))


def _failed(reader: Reader) -> FailedPrecondition:
    return FailedPrecondition(
        precondition=reader.text("precondition"),
        that=reader.text("that"),
        why=reader.text("why"),
        reads=tuple(map(_read, reader.objects("reads"))),
        gap_ms=reader.maybe_number("gap_ms"),
        hint=reader.text("hint"),
        error=reader.maybe_text("error"),
    )


def _read(reader: Reader) -> FailedRead:
    return FailedRead(
        attribute=reader.text("attribute"),
        observed=reader.flag("observed"),
        expected=reader.anything("expected"),
        actual=reader.anything("actual"),
        withheld=reader.flag("withheld"),
        version=reader.maybe_number("version"),
        changed_by=reader.maybe_text("changed_by"),
        changed_at=reader.maybe_number("changed_at"),
        entry=reader.maybe_number("entry"),
        read_in=reader.maybe_text("read_in"),
        read_at=reader.maybe_number("read_at"),
    )


def _explain(code: str, message: str, hint: str, failed: tuple[FailedPrecondition, ...]) -> str:
    lines = [f"{code}: {message}"]
    for one in failed:
        lines.append(f"- {one.precondition} ({one.why}): {one.that}")
        for read in one.reads:
            expected = f"expected {read.expected!r}, " if read.observed and read.expected is not None else ""
            by = f", changed by {read.changed_by}" if read.changed_by else ""
            by = f", read in {read.read_in}" if read.read_in else by
            found = "not for this agent to see" if read.withheld else f"{expected}found {read.actual!r}"
            lines.append(f"    {read.attribute}: {found}{by}")
        if one.error:
            lines.append(f"    {one.error}")
    if hint:
        lines.append(f"hint: {hint}")
    return "\n".join(lines)
