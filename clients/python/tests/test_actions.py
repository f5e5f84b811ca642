"""A plain function as a gated action."""

from __future__ import annotations

import asyncio

import pytest

from countersign import AsyncClient, Client, Ran, Rejected, RejectedError, fact
from tests.gate import ORIGIN, Gate


def test_the_body_runs_only_when_committed(client: Client, fraud: Client, account: str) -> None:
    ran: list[int] = []

    @client.action("billing", "refund", observe=lambda params: [fact("Account", params["account"])])
    def refund(account: str, amount: int, currency: str = "USD", destination: str = "acct_treasury_1") -> str:
        """Pays back."""
        ran.append(amount)
        return f"paid {amount}"

    answer = refund(account, 100)
    assert isinstance(answer, Ran)
    assert (answer.value, answer.unwrap(), ran) == ("paid 100", "paid 100", [100])
    assert answer.verdict.wrote[0].fact == fact("Account", account)
    assert (refund.__name__, refund.__doc__, refund.action) == ("refund", "Pays back.", "refund")

    fraud.act("billing", "freeze", {"account": account}).unwrap()
    blocked = refund(account, amount=200)
    assert isinstance(blocked, Rejected)
    assert ran == [100]
    with pytest.raises(RejectedError, match="account-is-active"):
        blocked.unwrap()


def test_what_was_seen_before_counts_where_it_is_given(client: Client, fraud: Client, account: str) -> None:
    @client.action("billing", "refund", observe=lambda params: [fact("Account", params["account"])])
    def refund(account: str, amount: int, currency: str, destination: str) -> None:
        raise AssertionError("must not run")

    seen = client.observe(fact("Account", account))
    fraud.act("billing", "freeze", {"account": account}).unwrap()
    blocked = refund.given(seen)(account, 1, "USD", "acct_treasury_1")
    assert isinstance(blocked, Rejected)
    assert blocked.failed[0].reads[0].expected == "active"
    # A new look sees the freeze, so nothing was expected to be otherwise.
    again = refund(account, 1, "USD", "acct_treasury_1")
    assert isinstance(again, Rejected)
    assert again.failed[0].reads[0].expected == "frozen"


def test_a_body_that_raises_leaves_the_entry(client: Client, account: str) -> None:
    @client.action("billing", "refund", observe=lambda params: [fact("Account", params["account"])])
    def refund(account: str, amount: int, currency: str, destination: str) -> None:
        raise OSError("the printer is on fire")

    with pytest.raises(OSError, match="printer"):
        refund(account, 100, "USD", "acct_treasury_1")
    assert client.observe(fact("Account", account))[fact("Account", account)]["balance"] == 900_000 - 100


def test_an_async_body_runs_only_when_committed(gate: Gate, account: str) -> None:
    async def story() -> None:
        async with AsyncClient(gate.url, key=gate.key("refund-1"), origin=ORIGIN) as client:
            ran: list[int] = []

            @client.action("billing", "refund", observe=lambda params: [fact("Account", params["account"])])
            async def refund(account: str, amount: int, currency: str, destination: str) -> int:
                ran.append(amount)
                return amount

            answer = await refund(account, 5, "USD", "acct_treasury_1")
            assert isinstance(answer, Ran)
            assert answer.value == 5
            seen = await client.observe(fact("Account", account))
            assert isinstance(await refund.given(seen)(account, 10**6, "USD", "acct_treasury_1"), Rejected)
            assert ran == [5]

    asyncio.run(story())
