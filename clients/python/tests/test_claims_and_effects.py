"""Claims against the real gate; and what a gate can answer about claims and effects, with a scripted one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from countersign import (
    AsyncClient,
    Client,
    Committed,
    Evidence,
    Failed,
    GateError,
    InDoubt,
    InFlight,
    NotDoneError,
    Rejected,
    Settled,
    fact,
)
from tests.gate import Gate

ACCOUNT = fact("Account", "42")
CLAIMED = {"claim": "clm_812", "entry": 812, "facts": [ACCOUNT], "expires_at": 5_000, "until": 60_000}
GONE = (404, {"error": {"code": "claim_not_found", "message": "m", "hint": "h", "request_id": "r"}})
EVIDENCE = {"attempts": 1, "summary": "HTTP 201", "status": 201, "result": '{"id":"po_1"}'}
FLIGHT = {"verdict": "in_flight", "action": "00", "entry": 813, "effect": "eff_813", "dispatch_at": 9}


class Script:
    """A gate that answers by a list."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[str, str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.seen.append((request.method, request.url.raw_path.decode(), body))
        status, answer = self.answers.pop(0)
        return httpx.Response(status, json=answer)

    def client(self) -> Client:
        return Client("http://gate.example", agent="a", http=httpx.Client(transport=httpx.MockTransport(self)))


def test_while_a_claim_stands_nobody_else_relies_on_its_fact(
    gate: Gate, client: Client, fraud: Client, payout: str
) -> None:
    gate.put("Payout", payout, {"state": "open", "amount": 1})
    seen, name = client.observe(fact("Payout", payout)), fact("Payout", payout)
    with fraud.claim(name, for_ms=10_000, reason="under investigation") as claim:
        assert claim.name.startswith("clm_")
        assert claim.answer.facts == (name,)
        blocked = client.act("payouts", "pay", {"payout": payout}, observations=[seen])
        assert isinstance(blocked, Rejected)
        assert blocked.code == "fact_claimed"
        # Whose claim it is, is told only to those who may know.
        assert claim.name in blocked.explain()
        assert "fraud-1" not in blocked.explain()
        before = claim.expires_at
        assert before < claim.extend(20_000).expires_at <= claim.answer.until
        with pytest.raises(GateError) as taken:
            client.claim(name, for_ms=1_000, reason="me too")
        assert taken.value.code in ("fact_claimed", "claim_not_allowed")
    assert claim.withdrawn
    assert isinstance(client.act("payouts", "pay", {"payout": payout}, observations=[seen]), Committed)


def test_an_action_under_a_claim_that_has_ended_is_rejected_by_the_gate(gate: Gate, fraud: Client, payout: str) -> None:
    gate.put("Payout", payout, {"state": "open", "amount": 1})
    claim = fraud.claim(fact("Payout", payout), for_ms=10_000, reason="a hold is on its way")
    claim.withdraw()
    late = fraud.act("payouts", "hold", {"payout": payout}, claim=claim)
    assert isinstance(late, Rejected)
    assert late.code == "claim_lost"
    with pytest.raises(GateError) as ended:
        claim.extend(1_000)
    assert (ended.value.status, ended.value.code) == (404, "claim_not_found")
    with fraud.claim(fact("Payout", payout), for_ms=10_000, reason="again") as good:
        assert isinstance(fraud.act("payouts", "hold", {"payout": payout}, claim=good), Committed)


def test_an_effect_that_is_not_there_is_said_not_to_be(client: Client) -> None:
    with pytest.raises(GateError) as missing:
        client.effect("eff_0", wait_ms=10)
    assert (missing.value.status, missing.value.code) == (404, "effect_not_found")


def test_a_claim_is_made_extended_used_and_withdrawn() -> None:
    longer = {**CLAIMED, "expires_at": 9_000}
    committed = {"verdict": "committed", "action": "00", "entry": 814}
    script = Script((200, CLAIMED), (200, longer), (200, committed), (200, {"entry": 815}))
    client = script.client()
    with client.claim(ACCOUNT, for_ms=5_000, reason="a freeze is on its way") as claim:
        assert (claim.name, claim.expires_at, claim.answer.until) == ("clm_812", 5_000, 60_000)
        assert claim.extend(4_000).expires_at == 9_000
        client.act("billing", "freeze", {"account": "42"}, claim=claim)
    assert claim.withdrawn
    assert [(method, path) for method, path, _ in script.seen] == [
        ("POST", "/v1/claims"),
        ("POST", "/v1/claims/clm_812/extend"),
        ("POST", "/v1/actions"),
        ("POST", "/v1/claims/clm_812/withdraw"),
    ]
    assert script.seen[0][2] == {"facts": [ACCOUNT], "for_ms": 5_000, "reason": "a freeze is on its way"}
    assert script.seen[2][2]["claim"] == "clm_812"


def test_a_claim_that_is_refused_or_has_ended_is_raised_with_its_code() -> None:
    taken = (409, {"error": {"code": "fact_claimed", "message": "by fraud-1", "hint": "h", "request_id": "r"}})
    client = Script(taken, (200, CLAIMED), GONE).client()
    with pytest.raises(GateError, match="fact_claimed"):
        client.claim(ACCOUNT, for_ms=1, reason="r")
    claim = client.claim(ACCOUNT, for_ms=1, reason="r")
    with pytest.raises(GateError, match="claim_not_found"):
        claim.extend(5)


def test_an_action_under_a_claim_that_was_lost_is_rejected() -> None:
    lost = {
        "verdict": "rejected",
        "action": "00",
        "entry": 813,
        "code": "claim_lost",
        "message": "it has expired",
        "hint": "h",
    }
    verdict = Script((200, lost)).client().act("billing", "freeze", {"account": "42"}, claim="clm_812")
    assert isinstance(verdict, Rejected)
    assert verdict.code == "claim_lost"


def test_what_went_wrong_inside_is_what_is_seen() -> None:
    with pytest.raises(ZeroDivisionError), Script((200, CLAIMED), GONE).client().claim(ACCOUNT, for_ms=1, reason="r"):
        raise ZeroDivisionError
    claim = Script((200, CLAIMED), GONE).client().claim(ACCOUNT, for_ms=1, reason="r")
    with pytest.raises(GateError, match="claim_not_found"):
        claim.withdraw()


def test_a_call_is_waited_for() -> None:
    settled = {
        "effect": "eff_813",
        "state": "settled",
        "entry": 815,
        "pact": "billing",
        "action": "refund",
        "agent": "a",
        "evidence": EVIDENCE,
    }
    flying = {"effect": "eff_813", "state": "dispatched", "entry": 814, "pact": "billing", "action": "refund"}
    script = Script((200, FLIGHT), (200, flying), (200, settled))
    client = script.client()
    verdict = client.act("billing", "refund", {}, wait_ms=200)
    assert isinstance(verdict, InFlight)
    assert (verdict.effect, verdict.state, verdict.dispatch_at) == ("eff_813", "cooling", 9)
    with pytest.raises(NotDoneError, match="not known yet"):
        verdict.unwrap()
    outcome = client.wait(verdict, timeout_s=10)
    assert isinstance(outcome, Settled)
    assert outcome.unwrap().evidence == Evidence(1, "HTTP 201", 201, '{"id":"po_1"}', None)
    assert [path.split("=")[0] for _, path, _ in script.seen] == [
        "/v1/actions?wait_ms",
        "/v1/effects/eff_813?wait_ms",
        "/v1/effects/eff_813?wait_ms",
    ]


def test_waiting_has_an_end() -> None:
    flying = (200, {"effect": "eff_813", "state": "dispatched", "entry": 814, "pact": "billing", "action": "refund"})
    script = Script(*[flying] * 100)
    assert isinstance(script.client().wait("eff_813", timeout_s=0.2), InFlight)
    assert 2 <= len(script.seen) <= 10


def test_what_failed_and_what_is_in_doubt_are_told_apart() -> None:
    failed = {
        "effect": "eff_1",
        "state": "failed",
        "entry": 2,
        "code": "refused",
        "message": "no such payee",
        "hint": "h",
    }
    doubt = {
        "effect": "eff_1",
        "state": "in_doubt",
        "entry": 2,
        "evidence": {"attempts": 3, "summary": "no answer came"},
    }
    client = Script((200, failed), (200, doubt), (200, {**FLIGHT, "verdict": "settled", "state": "settled"})).client()
    outcome = client.effect("eff_1")
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == ("refused", "no such payee")
    doubtful = client.effect("eff_1")
    assert isinstance(doubtful, InDoubt)
    with pytest.raises(NotDoneError, match="no answer came"):
        doubtful.unwrap()
    assert isinstance(client.act("p", "a", {}, wait_ms=100), Settled)


def test_the_async_client_claims_and_waits_too() -> None:
    settled = {"effect": "eff_813", "state": "settled", "entry": 815}
    script = Script((200, CLAIMED), (200, CLAIMED), (200, {"entry": 1}), (200, settled))

    async def story() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(script))
        async with AsyncClient("http://gate.example", agent="a", http=http) as client, http:
            async with await client.claim(ACCOUNT, for_ms=1, reason="r") as claim:
                await claim.extend(2)
            assert claim.withdrawn
            assert isinstance(await client.wait("eff_813", timeout_s=5), Settled)

    asyncio.run(story())
