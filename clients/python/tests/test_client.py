"""The client against the real gate."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import pytest

from countersign import (
    AsyncClient,
    Client,
    Committed,
    GateError,
    Key,
    NotDoneError,
    Rejected,
    RejectedError,
    Review,
    fact,
    new_idempotency_key,
)
from tests.gate import ORIGIN, Gate


def refund(account: str, amount: int = 4_800) -> dict[str, Any]:
    return {"account": account, "amount": amount, "currency": "USD", "destination": "acct_treasury_1"}


def test_an_action_on_what_still_holds_commits(client: Client, account: str) -> None:
    seen = client.observe(fact("Account", account))
    assert seen[fact("Account", account)] == {"status": "active", "balance": 900_000}
    assert seen.facts[0].withheld == ("owner",)
    verdict = client.act("billing", "refund", refund(account), observations=[seen])
    assert isinstance(verdict, Committed)
    assert verdict.pact is not None
    assert (verdict.pact.name, verdict.repeated, verdict.checked) == ("billing", False, False)
    assert [(one.fact, one.version) for one in verdict.wrote] == [(fact("Account", account), 2)]
    assert verdict.gap_ms is not None
    assert verdict.unwrap() is verdict


def test_a_rejection_is_a_value_that_says_what_was_expected_and_what_was_found(
    client: Client, fraud: Client, account: str
) -> None:
    seen = client.observe(fact("Account", account))
    fraud.act("billing", "freeze", {"account": account}).unwrap()
    verdict = client.act("billing", "refund", refund(account), observations=[seen])
    assert isinstance(verdict, Rejected)
    assert verdict.code == "precondition_failed"
    [failed] = verdict.failed
    assert (failed.precondition, failed.why) == ("account-is-active", "false")
    assert failed.gap_ms is not None
    assert "observe" in failed.hint
    [read] = failed.reads
    assert (read.expected, read.actual, read.changed_by) == ("active", "frozen", "fraud-1")
    assert "expected 'active', found 'frozen', changed by fraud-1" in verdict.explain()
    with pytest.raises(RejectedError, match="account-is-active") as raised:
        verdict.unwrap()
    assert raised.value.verdict is verdict


def test_a_rejection_is_raised_where_asked_for(client: Client, account: str) -> None:
    with pytest.raises(RejectedError) as raised:
        client.act("billing", "refund", refund(account, 10**6), raise_on_rejection=True)
    assert raised.value.verdict.code == "invalid_params"


def test_a_check_promises_nothing_and_leaves_no_entry(client: Client, account: str) -> None:
    seen = client.observe(fact("Account", account))
    verdict = client.check("billing", "refund", refund(account), observations=[seen])
    assert isinstance(verdict, Committed)
    assert (verdict.checked, verdict.entry, verdict.receipt) == (True, None, None)
    assert client.observe(fact("Account", account)).facts[0].version == 1


def test_the_same_key_is_answered_with_the_same_verdict(client: Client, account: str) -> None:
    seen, key = client.observe(fact("Account", account)), new_idempotency_key()
    first = client.act("billing", "refund", refund(account), observations=[seen], idempotency_key=key)
    again = client.act("billing", "refund", refund(account), observations=[seen], idempotency_key=key)
    assert isinstance(first, Committed)
    assert isinstance(again, Committed)
    assert (again.entry, again.repeated) == (first.entry, True)
    with pytest.raises(GateError) as raised:
        client.act("billing", "refund", refund(account, 1), observations=[seen], idempotency_key=key)
    assert (raised.value.status, raised.value.code) == (409, "idempotency_key_reused")
    assert isinstance(raised.value.entry, int)


def test_an_action_that_a_person_must_approve_waits_and_is_answered_under_its_key(
    gate: Gate, client: Client, payout: str
) -> None:
    gate.put("Payout", payout, {"state": "open", "amount": 5_000})
    seen, key = client.observe(fact("Payout", payout)), new_idempotency_key()
    verdict = client.act("payouts", "pay", {"payout": payout}, observations=[seen], idempotency_key=key)
    assert isinstance(verdict, Review)
    assert [one.precondition for one in verdict.failed] == ["small-enough"]
    assert verdict.expires_at is not None
    with pytest.raises(NotDoneError, match="small-enough"):
        verdict.unwrap()
    assert isinstance(client.verdict(verdict), Review)
    gate.admin("review", "approve", verdict.review, "--yes")
    followed = client.verdict(verdict)
    assert isinstance(followed, Committed)
    assert client.verdict(int(verdict.review.removeprefix("rev_"))) == followed
    after = client.act("payouts", "pay", {"payout": payout}, observations=[seen], idempotency_key=key)
    assert isinstance(after, Committed)
    assert after.waived_by is not None
    assert after.waived_by.preconditions == ("small-enough",)
    with (
        Client(gate.url, key=gate.key("fraud-1"), origin=ORIGIN) as other,
        pytest.raises(GateError) as raised,
    ):
        other.verdict(verdict)
    assert (raised.value.status, raised.value.code) == (404, "action_not_found")


def test_a_refusal_of_the_request_is_raised_with_code_hint_and_request(gate: Gate, client: Client) -> None:
    with pytest.raises(GateError) as raised:
        client.observe("Account 42")
    error = raised.value
    assert (error.status, error.code) == (400, "invalid_field")
    assert error.hint
    assert error.request_id
    with pytest.raises(GateError) as raised:
        client.entry(0)
    assert (raised.value.status, raised.value.code) == (403, "not_authorised")
    with Client(gate.url, key=Key.generate(), origin=ORIGIN) as stranger, pytest.raises(GateError) as raised:
        stranger.observe(fact("Account", "42"))
    assert (raised.value.status, raised.value.code) == (401, "key_unknown")
    with (
        Client(gate.url, key=gate.key("refund-1"), origin="other.example/log") as elsewhere,
        pytest.raises(GateError) as raised,
    ):
        elsewhere.observe(fact("Account", "42"))
    assert raised.value.code == "signature_tag"
    with Client(gate.url) as nobody, pytest.raises(GateError) as raised:
        nobody.observe(fact("Account", "42"))
    assert raised.value.code == "signature_missing"


def test_the_gate_is_asked_for_its_name_where_it_is_not_given(gate: Gate, account: str) -> None:
    with Client(gate.url, key=gate.key("refund-1")) as client:
        assert client.observe(fact("Account", account)).facts[0].version == 1


def test_an_auditor_reads_entries(gate: Gate, client: Client, account: str) -> None:
    seen = client.observe(fact("Account", account))
    entry = client.act("billing", "refund", refund(account), observations=[seen]).unwrap().entry
    assert entry is not None
    with Client(gate.url, key=gate.admin_key, origin=ORIGIN) as auditor:
        found = auditor.entry(entry)
    assert (found.index, found.leaf["by"], found.leaf["auth"]) == (entry, "refund-1", "signature")
    assert found.payload is not None
    assert found.payload["decision"]["verdict"] == "committed"


def test_whatever_a_fact_is_called_stays_inside_its_quotes(gate: Gate, client: Client) -> None:
    odd = 'x" ; Account::"a1 \\ é'
    assert client.observe(fact("Account", odd)).facts[0].fact == fact("Account", odd)


def test_the_async_client_does_the_same(gate: Gate, account: str) -> None:
    async def story() -> None:
        async with (
            AsyncClient(gate.url, key=gate.key("refund-1")) as client,
            AsyncClient(gate.url, key=gate.key("fraud-1"), origin=ORIGIN) as fraud,
        ):
            seen = await client.observe(fact("Account", account))
            verdict = await client.act("billing", "refund", refund(account, 1), observations=[seen])
            assert isinstance(verdict, Committed)
            assert verdict.entry is not None
            assert (await client.receipt(verdict.entry)).startswith("rct1.")
            assert (await client.check("billing", "refund", refund(account, 1), observations=[seen])).checked
            (await fraud.act("billing", "freeze", {"account": account})).unwrap()
            rejected = await client.act("billing", "refund", refund(account, 1), observations=[seen])
            assert isinstance(rejected, Rejected)
            with pytest.raises(RejectedError):
                await client.act("billing", "refund", refund(account, 1), raise_on_rejection=True)

    asyncio.run(story())


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    def shape(client: type) -> dict[str, list[str]]:
        methods = {name: getattr(client, name) for name in vars(client) if not name.startswith("_")}
        return {name: list(inspect.signature(method).parameters) for name, method in methods.items()}

    assert shape(Client) == shape(AsyncClient)
    assert "act" in shape(Client)


def test_a_key_for_what_has_a_name_is_the_same_again_and_only_the_agents(gate: Gate) -> None:
    mine, again = Client(key=gate.key("refund-1")), Client(key=gate.key("refund-1"))
    other, keyless = Client(key=gate.key("fraud-1")), Client(agent="a")
    key = mine.idempotency_key_for("order", "7")
    assert key == again.idempotency_key_for("order", "7")
    others = [
        other.idempotency_key_for("order", "7"),
        mine.idempotency_key_for("order7"),
        mine.idempotency_key_for("order", "7", ""),
    ]
    assert len({key, *others}) == 4
    assert re.fullmatch("[A-Za-z0-9_-]{43}", key)
    assert keyless.idempotency_key_for("order", "7") != keyless.idempotency_key_for("order", "7")
