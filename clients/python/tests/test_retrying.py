"""What is sent again, and what is not: with a transport that fails as told, and against the real gate through a bad line."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from countersign import (
    AsyncClient,
    Client,
    Committed,
    CountersignError,
    GateError,
    Key,
    OutcomeUnknownError,
    ProtocolError,
    Retries,
    TransportError,
    Verdict,
    fact,
    retrying,
)
from tests.gate import ORIGIN, Gate
from tests.test_client import refund

QUICK = Retries(attempts=3, first_delay_s=0.001, longest_delay_s=0.002, patience_s=0.05)
COMMITTED = {"verdict": "committed", "action": "00", "entry": 7}


def error(code: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": "why", "hint": "try again", "request_id": "r1"}}


BUSY = error("busy")

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


def answer(status: int, body: Any, **headers: str) -> Step:
    return lambda _request: httpx.Response(status, json=body, headers=headers)


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


LOST: list[Step] = [
    fails(httpx.ReadTimeout),
    fails(httpx.ReadError),
    fails(httpx.WriteError),
    fails(httpx.RemoteProtocolError),
    answer(500, error("internal_error")),
    answer(500, error("log_unreadable")),
    answer(503, error("ledger_failed")),
    # Something on the way sent the same bytes twice, and the other copy came first.
    answer(401, error("signature_replayed")),
    # A proxy that has passed the request on, or not.
    lambda _: httpx.Response(502, content=b"<html>"),
    lambda _: httpx.Response(504, json={}),
]
"""Attempts that may have arrived, and of which nothing says what became."""

REFUSALS = [
    (401, "signature_expired"),
    (401, "key_unknown"),
    (403, "not_authorised"),
    (429, "rate_limited"),
    (503, "busy"),
    (503, "not_ready"),
    (503, "shutting_down"),
]
"""Answers that leave no entry."""


@pytest.fixture(autouse=True)
def no_second_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_SIGN_AGAIN_AFTER_S", 0.001)


@pytest.mark.parametrize("lost", LOST)
def test_after_an_attempt_that_may_have_arrived_no_refusal_says_that_nothing_was_done(lost: Step) -> None:
    for status, code in REFUSALS:
        line = Line(lost, *[answer(status, error(code))] * 999)
        with pytest.raises(OutcomeUnknownError, match="may have committed") as raised:
            line.client().act("p", "a", {}, idempotency_key="k" * 22)
        assert not isinstance(raised.value, GateError | TransportError | ProtocolError)
        assert raised.value.idempotency_key == "k" * 22
        assert isinstance(raised.value.cause, GateError)
        assert raised.value.cause.code == code
    line = Line(lost, *[fails(httpx.ConnectError)] * 999)
    with pytest.raises(OutcomeUnknownError) as raised:
        line.client().act("p", "a", {}, idempotency_key="k" * 22)
    assert isinstance(raised.value.cause, TransportError)


@pytest.mark.parametrize("lost", LOST)
def test_what_is_never_answered_is_sent_as_often_as_told_and_then_unknown(lost: Step) -> None:
    line = Line(*[lost] * 9)
    with pytest.raises(OutcomeUnknownError) as raised:
        line.client().act("p", "a", {}, idempotency_key="k" * 22)
    assert (raised.value.attempts, len(line.sent), raised.value.idempotency_key) == (3, 3, "k" * 22)
    assert len(set(line.nonces())) == 3


@pytest.mark.parametrize(("status", "code"), REFUSALS)
def test_what_was_refused_from_the_first_attempt_on_was_not_done(status: int, code: str) -> None:
    line = Line(fails(httpx.ConnectError), *[answer(status, error(code))] * 999)
    with pytest.raises(GateError) as refused:
        line.client().act("p", "a", {})
    assert (refused.value.code, refused.value.request_id) == (code, "r1")


def test_a_gate_that_has_just_started_is_given_time() -> None:
    line = Line(
        *[fails(httpx.ConnectError)] * 5,
        answer(503, error("not_ready"), **{"Retry-After": "0"}),
        answer(200, COMMITTED),
    )
    assert isinstance(line.client().act("p", "a", {}), Committed)
    # It says that it takes longer than anybody here waits.
    line = Line(answer(429, error("rate_limited"), **{"Retry-After": "60"}))
    with pytest.raises(GateError) as refused:
        line.client().act("p", "a", {})
    assert refused.value.retry_after_s == 60
    # It does not say how long it takes, so a person has to look.
    line = Line(answer(503, error("not_ready")))
    with pytest.raises(GateError):
        line.client().act("p", "a", {})


def test_a_signature_that_came_too_late_is_made_again() -> None:
    line = Line(answer(401, error("signature_expired")), answer(200, COMMITTED))
    assert isinstance(line.client().act("p", "a", {}), Committed)
    assert len(set(line.nonces())) == 2


def test_a_key_that_is_another_actions_settles_it() -> None:
    line = Line(fails(httpx.ReadError), answer(409, error("idempotency_key_reused")))
    with pytest.raises(GateError, match="idempotency_key_reused"):
        line.client().act("p", "a", {})


def test_asking_what_became_of_it_sends_the_very_same_body() -> None:
    line = Line(*[fails(httpx.ReadError)] * 3, answer(200, COMMITTED))
    client = line.client()
    with pytest.raises(OutcomeUnknownError) as raised:
        client.act("p", "a", {"x": 1})
    assert isinstance(client.find_out(raised.value), Committed)
    assert len({one.content for one in line.sent}) == 1


def test_a_refusal_is_not_sent_again() -> None:
    line = Line(answer(422, error("invalid_value")))
    with pytest.raises(GateError, match="invalid_value"):
        line.client().act("p", "a", {})
    assert len(line.sent) == 1


def test_what_counts_twice_is_sent_again_only_if_no_byte_left() -> None:
    claimed = {"claim": "clm_8", "entry": 8, "facts": [], "expires_at": 1, "until": 2}
    line = Line(fails(httpx.ConnectError), answer(200, claimed))
    assert line.client().extend_claim("clm_8", 5).claim == "clm_8"
    for lost in LOST:
        line = Line(lost, answer(200, claimed))
        with pytest.raises(OutcomeUnknownError, match="may have been done") as raised:
            line.client().extend_claim("clm_8", 5)
        assert len(line.sent) == 1
        assert raised.value.idempotency_key is None
        with pytest.raises(CountersignError, match="no idempotency key"):
            line.client().find_out(raised.value)


def test_an_answer_to_a_reading_call_that_is_lost_is_no_doubt() -> None:
    line = Line(*[fails(httpx.ReadError)] * 9)
    with pytest.raises(TransportError):
        line.client().observe(fact("Account", "42"))
    assert len(line.sent) == 3


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"', b"{}"])
def test_what_is_no_answer_of_a_gate_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        Line(lambda _: httpx.Response(200, content=body)).client().observe(fact("Account", "42"))
    with pytest.raises(ProtocolError, match="HTTP 502"):
        Line(*[lambda _: httpx.Response(502, content=body)] * 3).client().observe(fact("Account", "42"))
    with pytest.raises(OutcomeUnknownError, match="may have committed"):
        Line(lambda _: httpx.Response(200, content=body)).client().act("p", "a", {})


@pytest.mark.parametrize("verdict", ["paused", "Committed", "", None, 3])
def test_a_verdict_that_is_not_known_is_taken_neither_for_done_nor_for_not_done(verdict: Any) -> None:
    with pytest.raises(OutcomeUnknownError) as raised:
        Line(answer(200, {**COMMITTED, "verdict": verdict})).client().act("p", "a", {})
    assert isinstance(raised.value.cause, ProtocolError)


def test_the_async_client_sends_again_too() -> None:
    line = Line(fails(httpx.ReadError), answer(503, BUSY), answer(200, COMMITTED))

    async def story() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(line))
        async with http, AsyncClient("http://gate.example", agent="a", retries=QUICK, http=http) as client:
            assert isinstance(await client.act("p", "a", {}), Committed)

    asyncio.run(story())
    assert len({one.content for one in line.sent}) == 1
    assert line.sent[0].headers["Countersign-Agent"] == "a"


def test_the_async_client_says_unknown_too() -> None:
    line = Line(fails(httpx.ReadError), answer(401, error("key_unknown")), answer(200, COMMITTED))

    async def story() -> Verdict:
        http = httpx.AsyncClient(transport=httpx.MockTransport(line))
        async with http, AsyncClient("http://gate.example", agent="a", retries=QUICK, http=http) as client:
            with pytest.raises(OutcomeUnknownError) as raised:
                await client.act("p", "a", {})
            return await client.find_out(raised.value)

    assert isinstance(asyncio.run(story()), Committed)
    assert len({one.content for one in line.sent}) == 1


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
