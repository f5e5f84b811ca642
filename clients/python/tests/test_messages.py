"""Messages against the real gate: sent, read, read again, acknowledged; by no one else, and through a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from countersign import AsyncClient, Client, Committed, GateError, Message, Rejected
from tests.gate import ORIGIN, Gate


@pytest.fixture
def lead(gate: Gate) -> Iterator[Client]:
    """`lead`, with an empty inbox."""
    with Client(gate.url, key=gate.key("lead"), origin=ORIGIN) as lead:
        for message in lead.inbox():
            lead.acknowledge(message)
        yield lead


def tell(client: Client, to: str, text: str) -> str:
    verdict = client.act("office", "tell", {"to": to, "text": text, "about": {"case": "7"}})
    assert isinstance(verdict, Committed)
    return f"msg_{verdict.entry}"


def texts(messages: Iterator[Message] | tuple[Message, ...]) -> list[str]:
    return [str((one.body or {}).get("text")) for one in messages]


def test_a_message_comes_again_until_it_is_acknowledged(client: Client, lead: Client) -> None:
    first, second = tell(client, "lead", "one"), tell(client, "lead", "two")
    page = lead.inbox()
    assert [one.message for one in page] == [first, second]
    assert (page.waiting, page.next) == (2, None)
    message = page.messages[0]
    assert (message.sender, message.auth, message.action) == ("refund-1", "signature", "tell")
    assert message.pact is not None
    assert message.pact.name == "office"
    assert message.body == {"text": "one", "about": {"case": "7"}}
    assert not message.erased
    assert message.withheld is None
    assert message.chain == ()
    assert [one.message for one in lead.inbox(after=first)] == [second]
    assert lead.inbox(limit=1).next == first
    done = lead.acknowledge(message)
    assert (done.acknowledged, done.not_waiting, done.waiting) == ((first,), (), 1)
    again = lead.acknowledge(message, second)
    assert (again.acknowledged, again.not_waiting) == ((second,), (first,))
    assert lead.acknowledge(message).entry is None
    assert lead.inbox().messages == ()


def test_no_one_else_reads_or_acknowledges_it(client: Client, fraud: Client, lead: Client) -> None:
    sent = tell(client, "lead", "for lead only")
    for other in (client, fraud):
        assert sent not in [one.message for one in other.inbox()]
        assert other.acknowledge(sent).not_waiting == (sent,)
    assert [one.message for one in lead.inbox()] == [sent]


def test_to_no_one_nothing_is_delivered(gate: Gate, client: Client) -> None:
    nobody = client.act("office", "tell", {"to": "nobody", "text": "hello?"})
    assert isinstance(nobody, Rejected)
    assert nobody.code == "fact_missing"
    gate.admin("agent", "new", "gone-1", "--org", "acme")
    gate.admin("agent", "revoke", "gone-1")
    gone = client.act("office", "tell", {"to": "gone-1", "text": "hello?"})
    assert isinstance(gone, Rejected)
    assert gone.code == "recipient_not_active"
    with Client(gate.url, key=gate.key("gone-1"), origin=ORIGIN) as revoked, pytest.raises(GateError) as refused:
        revoked.inbox()
    assert refused.value.code == "agent_not_active"


def test_an_inbox_is_waited_for_and_followed(gate: Gate, client: Client, lead: Client) -> None:
    async def both() -> list[str]:
        got: list[str] = []
        async with AsyncClient(gate.url, key=gate.key("lead"), origin=ORIGIN) as reader:
            waiting = asyncio.create_task(reader.inbox(wait_ms=20_000))
            await asyncio.to_thread(tell, client, "lead", "came")
            got += texts((await waiting).messages)
            await asyncio.to_thread(tell, client, "lead", "later")
            async for message in reader.follow():
                got += texts((message,))
                await reader.acknowledge(message)
                if len(got) == 3:
                    break
        return got

    assert asyncio.run(asyncio.wait_for(both(), 60)) == ["came", "came", "later"]
    assert lead.inbox().waiting == 0


def test_what_a_halted_agent_sent_is_withheld_until_it_is_resumed(gate: Gate, client: Client, lead: Client) -> None:
    sent = tell(client, "lead", "before the halt")
    gate.admin("halt", "add", "--agent", "refund-1", "--reason", "a worm")
    try:
        (withheld,) = lead.inbox()
        assert (withheld.message, withheld.body) == (sent, None)
        assert withheld.withheld is not None
        assert (withheld.withheld.code, withheld.withheld.what) == ("halted", "agent:refund-1")
        following = lead.follow(wait_ms=1)
        assert next(following).withheld is not None
    finally:
        gate.admin("halt", "lift", "--agent", "refund-1", "--reason", "over")
    assert texts((next(following),)) == ["before the halt"]
