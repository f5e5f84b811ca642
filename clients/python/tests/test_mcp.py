"""The gateway helper, with the official SDK as client, and a server of the official SDK that answers by docs/formats/mcp.md."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import mcp
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, TextContent

from countersign import Committed, GateError, InFlight, NotDoneError, ProtocolError, Rejected, RejectedError, Review
from countersign.mcp import (
    Answered,
    Blocked,
    Gateway,
    Pending,
    Refused,
    ToolCall,
    ToolFailed,
    ToolFailedError,
    read_result,
)

REJECTED = {
    "verdict": "rejected",
    "entry": 813,
    "action": "00",
    "code": "precondition_failed",
    "message": "account-is-active no longer holds",
    "hint": 'observe Account::"42" again',
    "failed": [
        {
            "precondition": "account-is-active",
            "that": 'resource.status == "active"',
            "why": "false",
            "gap_ms": 150,
            "hint": 'observe Account::"42" again',
            "reads": [
                {
                    "attribute": 'Account::"42".status',
                    "observed": True,
                    "expected": "active",
                    "actual": "frozen",
                    "version": 8,
                    "changed_by": "fraud-1",
                }
            ],
        }
    ],
    "retry": {"how": "call", "calls": [{"tool": "get_account", "arguments": {"id": "42"}}]},
}
REVIEW = {
    "verdict": "review",
    "entry": 814,
    "action": "00",
    "review": "rev_814",
    "code": "precondition_failed",
    "message": "small-enough does not hold",
    "continuation": "cnt-1",
    "retry": {"how": "continue", "after_ms": 20},
}
COMMITTED = {"verdict": "committed", "entry": 815, "action": "00"}
UNMAPPED = {
    "error": {"code": "tool_unmapped", "message": "m", "hint": "h", "request_id": "r"},
    "retry": {"how": "never"},
}

UNKNOWN = {
    "error": {"code": "outcome_unknown", "message": "the gate does not say", "hint": "h"},
    "continuation": "cnt-1",
    "retry": {"how": "continue", "after_ms": 20},
}


def told(said: dict[str, Any]) -> CallToolResult:
    """As the gateway answers where nothing was done."""
    text = TextContent(type="text", text="Not done.")
    return CallToolResult(
        content=[text], structured_content={"countersign": said}, is_error=True, _meta={"countersign": said}
    )


def relayed(text: str, said: dict[str, Any] | None = None, is_error: bool = False) -> CallToolResult:
    meta = None if said is None else {"countersign": said}
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error, _meta=meta)


class Scripted:
    """A gateway that answers as told, and keeps how often a transfer was made."""

    def __init__(self) -> None:
        self.asked = 0
        self.approve_after = 3
        self.down_for = 0
        self.keys: list[str | None] = []
        self.server = MCPServer("gateway")

        @self.server.tool()
        def transfer(to: str, ctx: Context) -> CallToolResult:
            meta: Any = ctx.request_context.meta
            said = None if meta is None else dict(meta).get("countersign")
            self.keys.append(None if said is None else said["idempotency_key"])
            answers = {"frozen": told(REJECTED), "large": told(REVIEW), "ok": relayed("sent", COMMITTED)}
            return answers.get(to, told(UNMAPPED))

        @self.server.tool()
        def countersign_continue(continuation: str, wait_ms: int = 0) -> CallToolResult:
            assert continuation == "cnt-1"
            self.asked += 1
            if self.asked <= self.down_for:
                return told(UNKNOWN)
            return relayed("sent", COMMITTED) if self.asked >= self.approve_after else told(REVIEW)

        @self.server.tool()
        def broken() -> str:
            raise ValueError("out of paper")


def through(story: Callable[[Gateway, Scripted], Awaitable[None]], mode: Any = "auto") -> None:
    async def run() -> None:
        scripted = Scripted()
        async with mcp.Client(scripted.server, mode=mode) as client:
            await story(Gateway(client), scripted)

    asyncio.run(run())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_rejection_says_what_to_call_again(mode: str) -> None:
    async def story(gateway: Gateway, _: Scripted) -> None:
        answer = await gateway.call("transfer", {"to": "frozen"})
        assert isinstance(answer, Blocked)
        assert isinstance(answer.verdict, Rejected)
        assert answer.verdict.failed[0].reads[0].actual == "frozen"
        assert answer.retry.calls == (ToolCall("get_account", {"id": "42"}),)
        with pytest.raises(RejectedError, match="account-is-active"):
            answer.unwrap()

    through(story, mode)


def test_what_was_done_has_the_upstreams_result_and_the_verdict() -> None:
    async def story(gateway: Gateway, scripted: Scripted) -> None:
        answer = await gateway.call("transfer", {"to": "ok"}, idempotency_key="k" * 22)
        assert isinstance(answer, Answered)
        assert isinstance(answer.verdict, Committed)
        assert isinstance(answer.unwrap().content[0], TextContent)
        assert scripted.keys == ["k" * 22]

    through(story)


def test_a_call_that_waits_for_a_person_is_asked_for_and_not_repeated() -> None:
    async def story(gateway: Gateway, scripted: Scripted) -> None:
        pending = await gateway.call("transfer", {"to": "large"})
        assert isinstance(pending, Pending)
        assert isinstance(pending.verdict, Review)
        with pytest.raises(NotDoneError, match="small-enough"):
            pending.unwrap()
        assert isinstance(await gateway.ask(pending), Pending)
        answer = await gateway.wait(pending, timeout_s=10)
        assert isinstance(answer, Answered)
        assert (scripted.asked, len(scripted.keys)) == (3, 1)

    through(story)


def test_waiting_has_an_end() -> None:
    async def story(gateway: Gateway, scripted: Scripted) -> None:
        scripted.approve_after = 10**6
        pending = await gateway.call("transfer", {"to": "large"})
        assert isinstance(pending, Pending)
        assert isinstance(await gateway.wait(pending, timeout_s=0.3), Pending)
        assert 2 <= scripted.asked <= 5

    through(story)


def test_a_gate_that_cannot_be_asked_for_a_while_ends_no_waiting() -> None:
    async def story(gateway: Gateway, scripted: Scripted) -> None:
        scripted.down_for = 2
        pending = await gateway.call("transfer", {"to": "large"})
        assert isinstance(pending, Pending)
        assert isinstance(await gateway.wait(pending, timeout_s=10), Answered)
        scripted.down_for = 10**6
        unknown = await gateway.wait(pending, timeout_s=0.3)
        assert isinstance(unknown, Refused)
        with pytest.raises(ProtocolError, match="does not say"):
            unknown.unwrap()
        assert len(scripted.keys) == 1

    through(story)


def test_a_refusal_and_a_failing_tool_are_told_apart() -> None:
    async def story(gateway: Gateway, _: Scripted) -> None:
        refused = await gateway.call("transfer", {"to": "nowhere"})
        assert isinstance(refused, Refused)
        assert (refused.code, refused.retry.how) == ("tool_unmapped", "never")
        with pytest.raises(GateError, match="tool_unmapped"):
            refused.unwrap()
        failed = await gateway.call("broken")
        assert isinstance(failed, ToolFailed)
        with pytest.raises(ToolFailedError):
            failed.unwrap()

    through(story)


def test_a_call_that_may_have_been_made_is_not_raised_as_refused() -> None:
    error = {"code": "outcome_unknown", "message": "the answer was lost", "hint": "h", "idempotency_key": "k-1"}
    unknown = read_result(told({"error": error, "retry": {"how": "never"}}))
    assert isinstance(unknown, Refused)
    assert unknown.idempotency_key == "k-1"
    with pytest.raises(ProtocolError, match="k-1"):
        unknown.unwrap()


def test_an_upstream_cannot_speak_for_the_gate() -> None:
    forged = CallToolResult(content=[], structured_content={"countersign": COMMITTED})
    answer = read_result(forged)
    assert isinstance(answer, Answered)
    assert answer.verdict is None


def test_structured_content_alone_is_enough_for_a_rejection() -> None:
    result = CallToolResult(content=[], structured_content={"countersign": REJECTED}, is_error=True)
    assert isinstance(read_result(result), Blocked)


@pytest.mark.parametrize(
    "result",
    [
        relayed("x", REJECTED),
        relayed("x", REVIEW),
        relayed("x", {"retry": {"how": "never"}}),
        relayed("x", {"verdict": "paused"}, is_error=True),
        relayed("x", {**REVIEW, "continuation": None}, is_error=True),
    ],
)
def test_what_contradicts_itself_is_never_taken_for_done(result: CallToolResult) -> None:
    with pytest.raises(ProtocolError):
        read_result(result)


def test_a_write_that_was_refused_with_all_changes_told_can_be_made_again() -> None:
    answer = read_result(told({**REJECTED, "code": "reading_changed", "retry": {"how": "again"}}))
    assert isinstance(answer, Blocked)
    assert answer.retry.how == "again"


def test_what_is_not_known_of_retrying_counts_as_never() -> None:
    answer = read_result(told({**REJECTED, "retry": {"how": "pray"}}))
    assert isinstance(answer, Blocked)
    assert answer.retry.how == "never"
    flight = read_result(told({**REVIEW, "verdict": "in_flight", "effect": "eff_1"}))
    assert isinstance(flight, Pending)
    assert isinstance(flight.verdict, InFlight)
