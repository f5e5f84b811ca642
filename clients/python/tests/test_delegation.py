"""Delegations made here, judged by the real gate and its command line; and the other way round."""

from __future__ import annotations

import json

import pytest

from countersign import Client, Committed, DelegationError, GateError, Key, Rejected, fact
from countersign.delegation import Hop, delegate, hand_on, hops_of
from tests.gate import ORIGIN, Gate
from tests.test_client import refund


def lead(gate: Gate) -> Key:
    return Key.load(gate.key("lead"))


def helper(gate: Gate) -> Key:
    return Key.load(gate.key("helper"))


def test_a_right_that_was_handed_on_is_used_and_limited(gate: Gate, account: str) -> None:
    token = delegate(
        lead(gate),
        "lead",
        "helper",
        helper(gate).did,
        gate=ORIGIN,
        actions=["billing.refund"],
        max={"amount": 1_000},
        only={"currency": ["USD"]},
        facts=[fact("Account", account)],
        expires_in_s=3_600,
    )
    with Client(gate.url, key=helper(gate), origin=ORIGIN) as client, Client(gate.url, key=lead(gate)) as looks:
        # The helper's own role shows it nothing; the pact wants a fresh look at the account, so without one it fails.
        verdict = client.act("billing", "refund", refund(account, 80), delegation=token)
        assert isinstance(verdict, Rejected)
        assert [(one.precondition, one.why) for one in verdict.failed] == [("account-is-active", "unobserved")]
        too_much = client.act("billing", "refund", refund(account, 1_001), delegation=token)
        assert isinstance(too_much, Rejected)
        assert too_much.code == "delegation_out_of_scope"
        with pytest.raises(GateError) as own_right:
            client.act("billing", "refund", refund(account, 80))
        assert own_right.value.code == "not_allowed"
        with pytest.raises(GateError):
            client.act("billing", "refund", refund(account, 80), observations=[looks.observe(fact("Account", account))])


def test_two_hops_made_here_commit_and_the_chain_is_in_the_entry(gate: Gate, account: str) -> None:
    first = Key.load(gate.key("refund-1"))
    token = delegate(
        lead(gate),
        "lead",
        "fraud-1",
        Key.load(gate.key("fraud-1")).did,
        gate=ORIGIN,
        actions=None,
        max={"amount": 500},
        depth=1,
    )
    token = hand_on(token, Key.load(gate.key("fraud-1")), "refund-1", first.did, actions=["billing.refund"])
    assert [hop.max for hop in hops_of(token)] == [{"amount": 500}] * 2
    with Client(gate.url, key=first, origin=ORIGIN) as client, Client(gate.url, key=gate.admin_key) as auditor:
        seen = client.observe(fact("Account", account))
        verdict = client.act("billing", "refund", refund(account, 80), observations=[seen], delegation=token)
        assert isinstance(verdict, Committed), verdict
        assert verdict.entry is not None
        payload = auditor.entry(verdict.entry).payload
        assert payload is not None
        assert payload["chain"]["root"] == "lead"
        assert [hop["to"] for hop in payload["chain"]["hops"]] == ["fraud-1", "refund-1"]


def test_the_command_line_reads_what_is_made_here(gate: Gate) -> None:
    odd = fact("Account", 'a "quoted" \\ é')
    token = delegate(
        lead(gate), "lead", "helper", helper(gate).did, gate=ORIGIN, actions=["billing.refund"], facts=[odd], depth=2
    )
    shown = json.loads(gate.must("delegation", "show", token, "--json"))
    assert shown["root"] == "lead"
    [hop] = shown["hops"]
    assert (hop["facts"], hop["depth"], hop["actions"]) == ([odd], 2, [["billing", "refund"]])


def test_what_the_command_line_makes_is_read_and_handed_on_here(gate: Gate) -> None:
    token = gate.must(
        *(
            "delegation",
            "new",
            "--key",
            "lead.key",
            "--as",
            "lead",
            "--gate",
            ORIGIN,
            "--to",
            "helper",
            "--to-key",
            helper(gate).did,
        ),
        *("--action", "billing.refund", "--max", "amount=1000", "--only", "currency=USD"),
        *("--fact", 'Account::"42"', "--expires", "1h", "--depth", "1"),
    ).strip()
    [hop] = hops_of(token)
    assert hop.expires_at is not None
    assert hop == Hop(
        "helper",
        helper(gate).did,
        frozenset({("billing", "refund")}),
        {"amount": 1000},
        {"currency": frozenset({"USD"})},
        frozenset({("Account", "42")}),
        hop.expires_at,
        1,
    )
    other = Key.generate()
    longer = hand_on(token, helper(gate), "other", other.did, max={"amount": 10})
    shown = json.loads(gate.must("delegation", "show", longer, "--json"))
    assert [one["limits"]["amount"]["max"] for one in shown["hops"]] == [1000, 10]
    assert shown["hops"][1]["facts"] == ['Account::"42"']
    assert [one["expires_at"] for one in shown["hops"]] == [hop.expires_at] * 2


def test_only_whom_it_was_made_to_hands_it_on(gate: Gate) -> None:
    token = delegate(lead(gate), "lead", "helper", helper(gate).did, gate=ORIGIN, actions=None, depth=3)
    with pytest.raises(DelegationError, match="only that key"):
        hand_on(token, lead(gate), "x", Key.generate().did)


def test_what_was_altered_is_not_read(gate: Gate) -> None:
    token = delegate(lead(gate), "lead", "helper", helper(gate).did, gate=ORIGIN, actions=None)
    middle = len(token) // 2
    swapped = "B" if token[middle] == "A" else "A"
    for bad in (token[:middle] + swapped + token[middle + 1 :], token[:-8], "dlg2." + token[5:], "dlg1.", "dlg1.é"):
        with pytest.raises(DelegationError):
            hops_of(bad)


def test_what_cannot_be_meant_is_refused(gate: Gate) -> None:
    with pytest.raises(DelegationError, match="did:key"):
        delegate(lead(gate), "lead", "helper", "helper", gate=ORIGIN, actions=None)
    with pytest.raises(DelegationError, match=r"PACT\.ACTION"):
        delegate(lead(gate), "lead", "helper", helper(gate).did, gate=ORIGIN, actions=["refund"])
    with pytest.raises(DelegationError, match="PACT"):
        delegate(lead(gate), "lead", "helper", helper(gate).did, gate=ORIGIN, actions=[])
    with pytest.raises(DelegationError, match="name of a fact"):
        delegate(lead(gate), "lead", "helper", helper(gate).did, gate=ORIGIN, actions=None, facts=["Account::42"])
    quoted = delegate(
        lead(gate), "lead", "helper", helper(gate).did, gate=ORIGIN, actions=None, only={"note": ['"']}, depth=1
    )
    with pytest.raises(DelegationError, match="cannot read"):
        hand_on(quoted, helper(gate), "x", Key.generate().did)
