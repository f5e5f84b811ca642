"""What is sent again, and what is not: with a transport that fails as told, and against the real gate through a bad line."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from countersign import AsyncClient, Client, Committed, GateError, Key, ProtocolError, Retries, TransportError, fact
from tests.gate import ORIGIN, Gate
from tests.test_client import refund

QUICK = Retries(attempts=3, first_delay_s=0.001, longest_delay_s=0.002)
COMMITTED = {"verdict": "committed", "action": "00", "entry": 7}
BUSY = {"error": {"code": "busy", "message": "the queue is full", "hint": "try again", "request_id": "r1"}}

Step = Callable[[httpx.Request], httpx.Response]


class Line:
    """A transport that answers by a script and keeps what it was sent."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.sent: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        return self.steps.pop(0)(request)

    def client(self, **more: Any) -> Client:
        return Client(
            "http://gate.example",
            key=Key.generate(),
            origin="gate.example/log",
            retries=QUICK,
            http=httpx.Client(transport=httpx.MockTransport(self)),
            **more,
        )

    def nonces(self) -> list[str]:
        return [re.findall(r'nonce="([^"]+)"', one.headers["Signature-Input"])[0] for one in self.sent]


def answer(status: int, body: Any) -> Step:
    return lambda _request: httpx.Response(status, json=body)


def fails(kind: type[httpx.TransportError]) -> Step:
    def step(request: httpx.Request) -> httpx.Response:
        raise kind("the line went dead", request=request)

    return step


@pytest.mark.parametrize("trouble", [answer(503, BUSY), fails(httpx.ConnectError), fails(httpx.ReadError)])
def test_an_action_is_sent_again_with_the_same_body_and_a_new_nonce(trouble: Step) -> None:
    line = Line(trouble, trouble, answer(200, COMMITTED))
    assert isinstance(line.client().act("p", "a", {}), Committed)
    assert len({one.content for one in line.sent}) == 1
    assert len(json.loads(line.sent[0].content)["idempotency_key"]) >= 22
    assert len(set(line.nonces())) == 3


def test_it_is_sent_at_most_as_often_as_told() -> None:
    line = Line(*[fails(httpx.ReadTimeout)] * 9)
    with pytest.raises(TransportError, match="may have been decided") as raised:
        line.client().act("p", "a", {}, idempotency_key="k" * 22)
    assert (raised.value.attempts, len(line.sent), raised.value.idempotency_key) == (3, 3, "k" * 22)
    line = Line(*[answer(503, BUSY)] * 9)
    with pytest.raises(GateError) as refused:
        line.client().act("p", "a", {})
    assert (refused.value.code, refused.value.request_id, len(line.sent)) == ("busy", "r1", 3)


def test_a_refusal_is_not_sent_again() -> None:
    line = Line(answer(500, {"error": {"code": "internal_error"}}))
    with pytest.raises(GateError, match="internal_error"):
        line.client().act("p", "a", {})
    assert len(line.sent) == 1


def test_what_counts_twice_is_sent_again_only_if_no_byte_left() -> None:
    claimed = {"claim": "clm_8", "entry": 8, "facts": [], "expires_at": 1, "until": 2}
    line = Line(fails(httpx.ConnectError), answer(200, claimed))
    assert line.client().extend_claim("clm_8", 5).claim == "clm_8"
    line = Line(fails(httpx.ReadError), answer(200, claimed))
    with pytest.raises(TransportError):
        line.client().extend_claim("clm_8", 5)
    assert len(line.sent) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"', b"{}"])
def test_what_is_no_answer_of_a_gate_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        Line(lambda _: httpx.Response(200, content=body)).client().act("p", "a", {})
    with pytest.raises(ProtocolError, match="HTTP 502"):
        Line(lambda _: httpx.Response(502, content=body)).client().act("p", "a", {})


@pytest.mark.parametrize("verdict", ["paused", "Committed", "", None, 3])
def test_a_verdict_that_is_not_known_is_never_taken_for_done(verdict: Any) -> None:
    with pytest.raises(ProtocolError):
        Line(answer(200, {**COMMITTED, "verdict": verdict})).client().act("p", "a", {})


def test_the_async_client_sends_again_too() -> None:
    line = Line(fails(httpx.ReadError), answer(503, BUSY), answer(200, COMMITTED))

    async def story() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(line))
        async with http, AsyncClient("http://gate.example", agent="a", retries=QUICK, http=http) as client:
            assert isinstance(await client.act("p", "a", {}), Committed)

    asyncio.run(story())
    assert len({one.content for one in line.sent}) == 1
    assert line.sent[0].headers["Countersign-Agent"] == "a"


class LosesAnswers(httpx.BaseTransport):
    """Passes requests on to the gate, and loses the first answers."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        if self.losses:
            self.losses -= 1
            response.close()
            raise httpx.ReadError("the answer was lost", request=request)
        return response

    def close(self) -> None:
        self.inner.close()


def test_an_action_whose_answer_was_lost_twice_happened_once(gate: Gate, client: Client, account: str) -> None:
    seen = client.observe(fact("Account", account))
    with (
        httpx.Client(transport=LosesAnswers(2)) as http,
        Client(gate.url, key=gate.key("refund-1"), origin=ORIGIN, http=http, retries=QUICK) as unlucky,
    ):
        verdict = unlucky.act("billing", "refund", refund(account, 100), observations=[seen])
    assert isinstance(verdict, Committed)
    assert verdict.repeated
    assert client.observe(fact("Account", account))[fact("Account", account)]["balance"] == 900_000 - 100


def test_a_gate_that_is_not_there_is_named() -> None:
    with (
        Client("http://127.0.0.1:9", agent="a", retries=QUICK) as client,
        pytest.raises(TransportError, match="is the gate running"),
    ):
        client.observe(fact("Account", "42"))
