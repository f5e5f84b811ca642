"""Tool calls through the MCP gateway, with its verdicts as values. The agreement is docs/formats/mcp.md of the project.

Needs the extra `mcp`, which brings the official SDK. Wrap its client or session:

    async with mcp.Client("http://127.0.0.1:8430/mcp") as client:
        gateway = Gateway(client)
        match await gateway.call("transfer", {"from": "42", "to": "43", "amount": 100}):
            case Answered(result=result): …                       # the upstream did it
            case Blocked(verdict=Rejected(), retry=retry): …      # nothing happened; `retry.calls` says what to look at
            case Pending() as pending: …                          # a person decides; later: gateway.ask(pending)
            case Refused(code=code): …                            # the gateway would not even ask

A result without a verdict never counts as done: `isError` from the upstream itself is `ToolFailed`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias

import anyio

try:
    from mcp.types import CallToolResult, TextContent
except ImportError as error:
    raise ImportError("the gateway helper needs the MCP SDK\nhint: pip install 'countersign[mcp]'") from error

from countersign.errors import CountersignError, GateError, NotDoneError, ProtocolError, RejectedError
from countersign.reading import Reader
from countersign.verdicts import Committed, Failed, InDoubt, InFlight, Rejected, Review, Settled, read_verdict

CONTINUE = "countersign_continue"
"""The gateway's own tool, by which a call that is not over is asked for."""

_MEMBER = "countersign"
# The gateway waits no longer than this for a change.
_WAIT_MS_MAX = 5_000
_HOWS = frozenset({"again", "call", "continue", "later", "change", "never"})


class Session(Protocol):
    """What of the SDK is used: `mcp.Client` and `mcp.ClientSession` both have it."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, meta: Any = None
    ) -> CallToolResult:
        """Calls a tool."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that would make sense."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Retry:
    """What would make sense next."""

    how: str
    """`again`, `call`, `continue`, `later`, `change` or `never`; what is not known counts as `never`."""
    calls: tuple[ToolCall, ...]
    """With `call`: what to look at before deciding again."""
    after_ms: int | None


@dataclass(frozen=True, slots=True)
class Answered:
    """The upstream did what was asked for; or, without a verdict, the call passed through a gateway that does not guard it."""

    result: CallToolResult
    verdict: Committed | Settled | None

    def unwrap(self) -> CallToolResult:
        """The upstream's result."""
        return self.result


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nothing was done."""

    verdict: Rejected | Failed
    retry: Retry

    def unwrap(self) -> NoReturn:
        """Raises `RejectedError` or `NotDoneError`."""
        raise RejectedError(self.verdict) if isinstance(self.verdict, Rejected) else NotDoneError(self.verdict)


@dataclass(frozen=True, slots=True)
class Pending:
    """The call is not over. Ask with the continuation; do not call again."""

    verdict: Review | InFlight | InDoubt
    continuation: str
    retry: Retry

    def unwrap(self) -> NoReturn:
        """Raises `NotDoneError`."""
        raise NotDoneError(self.verdict)


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no verdict: the tool is not mapped, its definition has changed, or the gate could not be asked.

    With code `outcome_unknown` the call may have been made anyway: ask again where `retry.how` is `continue`, repeat it with the
    same idempotency key, or not at all.
    """

    code: str
    message: str
    hint: str
    request_id: str
    retry: Retry
    idempotency_key: str | None = None
    """Where it is not known whether the call was made (`outcome_unknown`): what it was asked for under."""

    def unwrap(self) -> NoReturn:
        """Raises `GateError`, or `ProtocolError` where it is not known whether the call was made."""
        if self.code == "outcome_unknown":
            raise ProtocolError(f"{self.message}\nhint: {self.hint}\nidempotency key: {self.idempotency_key}")
        raise GateError(0, self.code, self.message, self.hint, self.request_id, [])


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """The tool itself says that it failed."""

    result: CallToolResult
    verdict: Committed | Settled | None

    def unwrap(self) -> NoReturn:
        """Raises `ToolFailedError`."""
        raise ToolFailedError(self.result)


class ToolFailedError(CountersignError):
    """Raised by `unwrap` where the tool itself failed."""

    def __init__(self, result: CallToolResult) -> None:
        self.result = result
        """The tool's result."""
        text = " ".join(one.text for one in result.content if isinstance(one, TextContent))
        super().__init__(f"the tool failed: {text}")


Answer: TypeAlias = Answered | Blocked | Pending | Refused | ToolFailed


class Gateway:
    """Calls tools through the gateway."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> Answer:
        """Calls a tool. With a key (`countersign.new_idempotency_key`) the same call can be repeated and acts once."""
        meta = None if idempotency_key is None else {_MEMBER: {"idempotency_key": idempotency_key}}
        return read_result(await self._session.call_tool(tool, dict(arguments or {}), meta=meta))

    async def ask(self, pending: Pending | str, *, wait_ms: int = 0) -> Answer:
        """What has become of a call. Acts never, however often it is asked."""
        continuation = pending if isinstance(pending, str) else pending.continuation
        arguments = {"continuation": continuation, "wait_ms": min(wait_ms, _WAIT_MS_MAX)}
        return read_result(await self._session.call_tool(CONTINUE, arguments, meta=None))

    async def wait(self, pending: Pending, *, timeout_s: float) -> Answer:
        """Asks until the call is over or in doubt, or until the time is up: then it is still `Pending`, or not known."""
        ends = time.monotonic() + timeout_s
        answer: Answer = pending
        while _is_worth_asking(answer):
            left_s = ends - time.monotonic()
            if left_s <= 0:
                break
            asked_at = time.monotonic()
            answer = await self.ask(pending, wait_ms=int(left_s * 1000))
            if isinstance(answer, Pending):
                pending = answer
            # A gateway that does not wait by itself is neither hurried nor trusted to next time.
            pause_s = max(0.1, (answer.retry.after_ms or 0) / 1000 if isinstance(answer, Pending | Refused) else 0)
            if _is_worth_asking(answer) and time.monotonic() - asked_at < pause_s:
                await anyio.sleep(min(pause_s, max(0.0, ends - time.monotonic())))
        return answer


def _is_worth_asking(answer: Answer) -> bool:
    """Whether the gateway may say more later: the call is not over, or the gate could not be asked about it."""
    if isinstance(answer, Refused):
        return answer.code == "outcome_unknown" and answer.retry.how == "continue"
    return isinstance(answer, Pending) and not isinstance(answer.verdict, InDoubt)


def read_result(result: CallToolResult) -> Answer:
    """Reads a tool result of the gateway."""
    said = _said(result)
    if said is None:
        return ToolFailed(result, None) if result.is_error else Answered(result, None)
    retry = _retry(said)
    if "verdict" not in said:
        error = Reader(said, "a refusal").maybe("error")
        if error is None:
            raise ProtocolError(
                "the gateway answered with neither a verdict nor an error; it is not known what was done"
            )
        request_id = error.maybe_text("request_id") or ""
        return Refused(
            error.text("code"),
            error.text("message"),
            error.maybe_text("hint") or "",
            request_id,
            retry,
            error.maybe_text("idempotency_key"),
        )
    verdict = read_verdict(said)
    if isinstance(verdict, Committed | Settled):
        # A tool that ran and says itself that it failed keeps its own result.
        return ToolFailed(result, verdict) if result.is_error else Answered(result, verdict)
    if not result.is_error:
        raise ProtocolError(
            "the gateway says that nothing was done, and not that this is an error; it is not known what was done"
        )
    if isinstance(verdict, Rejected | Failed):
        return Blocked(verdict, retry)
    return Pending(verdict, Reader(said, "a pending result").text("continuation"), retry)


def _said(result: CallToolResult) -> Mapping[str, Any] | None:
    """What the gateway said: in `_meta`, which no upstream can fill; elsewhere only where it cannot make a success."""
    for place in (result.meta, result.structured_content if result.is_error else None):
        said = place.get(_MEMBER) if isinstance(place, Mapping) else None
        if isinstance(said, Mapping):
            return said
    return None


def _retry(said: Mapping[str, Any]) -> Retry:
    reader = Reader(said, "an answer of the gateway").maybe("retry")
    if reader is None:
        return Retry("never", (), None)
    how = reader.maybe_text("how") or "never"
    calls = []
    for call in reader.objects("calls"):
        arguments = call.maybe("arguments")
        calls.append(ToolCall(call.text("tool"), {} if arguments is None else arguments.value))
    return Retry(how if how in _HOWS else "never", tuple(calls), reader.maybe_number("after_ms"))
