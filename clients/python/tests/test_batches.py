"""Several actions at once: against the real gate, and through a line that fails as told."""

from __future__ import annotations

import asyncio
import hashlib
import json

import httpx
import pytest

from countersign import (
    Act,
    AsyncClient,
    Client,
    Committed,
    CountersignError,
    GateError,
    NotDecided,
    OutcomeUnknownError,
    Rejected,
    fact,
    new_idempotency_key,
)
from countersign.signing import actions_digest
from tests.gate import ORIGIN, Gate
from tests.test_client import refund
from tests.test_retrying import COMMITTED, Line, answer, error, fails


def refused(code: str) -> dict[str, object]:
    return {"error": {"code": code, "message": "why", "hint": "what to do"}}


def test_each_action_has_a_result_of_its_own_in_their_order(client: Client, account: str) -> None:
    seen = client.observe(fact("Account", account))
    act = Act("billing", "refund", refund(account, 100), [seen])
    results = client.act_many(
        [act, Act("billing", "refund", refund(account, 900_001), [seen]), Act("unheard-of", "x"), act]
    )
    first, second, third, fourth = results
    assert isinstance(first, Committed)
    assert isinstance(second, Rejected)
    assert second.code == "invalid_params"
    assert isinstance(third, NotDecided)
    assert (third.code, third.may_have_committed) == ("unknown_pact", False)
    assert isinstance(fourth, Committed)
    assert (first.entry, fourth.entry) == (first.entry, (first.entry or 0) + 2)
    assert client.observe(fact("Account", account))[fact("Account", account)]["balance"] == 900_000 - 200


def test_a_group_commits_as_a_whole_or_not_at_all(client: Client, account: str) -> None:
    seen = client.observe(fact("Account", account))
    good = [Act("billing", "refund", refund(account, amount), [seen]) for amount in (1, 2)]
    assert all(isinstance(one, Committed) for one in client.act_many(good, atomic=True))
    bad = [*good, Act("billing", "refund", refund(account, 900_001), [seen])]
    results = client.act_many(bad, atomic=True)
    assert [one.code for one in results if isinstance(one, Rejected)] == [
        "group_rejected",
        "group_rejected",
        "invalid_params",
    ]
    assert client.observe(fact("Account", account))[fact("Account", account)]["balance"] == 900_000 - 3


def test_the_same_keys_never_act_twice(client: Client, account: str) -> None:
    seen = client.observe(fact("Account", account))
    acts = [
        Act("billing", "refund", refund(account, 1), [seen], idempotency_key=new_idempotency_key()) for _ in range(3)
    ]
    first, again = client.act_many(acts), client.act_many(acts)
    assert [one.entry for one in first] == [one.entry for one in again]
    assert all(isinstance(one, Committed) and one.repeated for one in again)
    with pytest.raises(GateError) as raised:
        client.act_many([acts[0], Act("billing", "refund", refund(account, 1), [seen])], atomic=True)
    assert raised.value.code == "group_repeats"
    assert client.observe(fact("Account", account))[fact("Account", account)]["balance"] == 900_000 - 3


def test_it_can_be_awaited(gate: Gate, account: str) -> None:
    async def run() -> None:
        async with AsyncClient(gate.url, key=gate.key("refund-1"), origin=ORIGIN) as client:
            seen = await client.observe(fact("Account", account))
            acts = [Act("billing", "refund", refund(account, 1), [seen]) for _ in range(64)]
            results = await client.act_many(acts)
            assert len(results) == 64
            assert all(isinstance(one, Committed) for one in results)

    asyncio.run(run())


def test_every_attempt_sends_the_same_actions_and_signs_them_anew() -> None:
    line = Line(fails(httpx.ReadError), answer(503, error("busy")), answer(200, {"results": [COMMITTED, COMMITTED]}))
    results = line.client().act_many([Act("p", "a"), Act("p", "b")], atomic=True)
    assert all(isinstance(one, Committed) for one in results)
    assert len({one.content for one in line.sent}) == 1
    assert len(set(line.nonces())) == 3
    for request in line.sent:
        bodies = [json.dumps(one, separators=(",", ":")).encode() for one in json.loads(request.content)]
        assert request.headers["Countersign-Actions"] == actions_digest(bodies)
        assert '"countersign-actions"' in request.headers["Signature-Input"]
        assert request.url.query == b"atomic=true"
        assert hashlib.sha256(bodies[0]).digest() != hashlib.sha256(bodies[1]).digest()


def test_a_batch_that_may_have_committed_is_never_said_not_to_have() -> None:
    line = Line(fails(httpx.ReadError), answer(403, error("agent_not_active")))
    with pytest.raises(OutcomeUnknownError) as raised:
        line.client().act_many([Act("p", "a", idempotency_key="k" * 22), Act("p", "b", idempotency_key="l" * 22)])
    assert raised.value.idempotency_keys == ("k" * 22, "l" * 22)
    assert raised.value.idempotency_key is None
    assert "k" * 22 in str(raised.value)
    # The same is asked for again, byte for byte.
    line.steps = [answer(200, {"results": [COMMITTED, refused("not_allowed")]})]
    client = line.client()
    done, open_ = client.find_out_many(raised.value)
    assert isinstance(done, Committed)
    assert isinstance(open_, NotDecided)
    assert line.sent[-1].content == line.sent[0].content
    with pytest.raises(CountersignError, match="cannot be asked"):
        client.find_out(raised.value)


@pytest.mark.parametrize(
    ("code", "lost_before", "may_have_committed"),
    [
        ("not_allowed", False, False),
        ("not_allowed", True, True),
        ("idempotency_key_reused", True, False),
        ("ledger_failed", False, True),
        ("something_new", False, True),
    ],
)
def test_what_is_said_of_one_action_is_no_more_than_is_known(
    code: str, lost_before: bool, may_have_committed: bool
) -> None:
    steps = [answer(200, {"results": [refused(code)]})]
    line = Line(*([fails(httpx.ReadError)] if lost_before else []), *steps)
    [result] = line.client().act_many([Act("p", "a")])
    assert isinstance(result, NotDecided)
    assert result.may_have_committed is may_have_committed


def test_an_answer_of_another_length_says_nothing() -> None:
    line = Line(answer(200, {"results": [COMMITTED]}))
    with pytest.raises(OutcomeUnknownError):
        line.client().act_many([Act("p", "a"), Act("p", "b")])
