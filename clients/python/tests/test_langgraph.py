"""The tool node, in real graphs of LangGraph, with a model that follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition

from countersign import AsyncClient, Client, CountersignError, TransportError, fact
from countersign.langgraph import Action, GatedToolNode, observation_tool
from tests.gate import ORIGIN, Gate

Turn = Callable[[Sequence[AnyMessage]], AIMessage]


def calls(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{name}", "type": "tool_call"}])


def graph_of(node: GatedToolNode, turns: list[Turn], checkpointer: Any = None) -> Any:
    """The usual loop: model, tools, model, until the model calls nothing. The model says what the script says."""

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [turns.pop(0)(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


class Desk:
    """Tools of a refund desk, and what they did."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.paid: list[int] = []

        @tool
        def refund(account: str, amount: int) -> str:
            """Pay money back."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @tool
        def wipe() -> str:
            """Delete everything."""
            raise AssertionError("must not run")

        def account_of(account: str) -> list[str]:
            return [fact("Account", account)]

        def params(arguments: Any) -> dict[str, Any]:
            return {**arguments, "currency": "USD", "destination": "acct_treasury_1"}

        self.refund = Action("billing", "refund", lambda p: account_of(p["account"]), params)
        self.get_account = observation_tool(client, "get_account", "Look at an account.", account_of)
        self.node = GatedToolNode(
            [self.get_account, refund, add, wipe],
            client=client,
            actions={"refund": self.refund},
            free={"add"},
        )


def tool_messages(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def done(_: Sequence[AnyMessage]) -> AIMessage:
    return AIMessage("done")


def test_the_model_looks_and_acts_and_the_tool_runs(client: Client, account: str) -> None:
    desk = Desk(client)
    turns: list[Turn] = [
        lambda _: calls("get_account", account=account),
        lambda _: calls("refund", account=account, amount=4_800),
        done,
    ]
    state = graph_of(desk.node, turns).invoke({"messages": [HumanMessage("refund 48 dollars")]})
    looked, acted = tool_messages(state)
    [shown] = json.loads(str(looked.content))
    assert shown == {
        "fact": fact("Account", account),
        "value": {"status": "active", "balance": 900_000},
        "withheld": ["owner"],
    }
    assert "obs1." not in str(looked.content)
    assert (acted.content, acted.status, desk.paid) == ("paid 4800", "success", [4_800])


def test_a_model_that_is_told_why_looks_again_and_gives_up(client: Client, fraud: Client, account: str) -> None:
    desk = Desk(client)

    def freeze_meanwhile(_: Sequence[AnyMessage]) -> AIMessage:
        fraud.act("billing", "freeze", {"account": account}).unwrap()
        return calls("refund", account=account, amount=4_800)

    def read_the_rejection(messages: Sequence[AnyMessage]) -> AIMessage:
        text = str(messages[-1].content)
        assert "Not done, and nothing was changed" in text
        assert "account-is-active" in text
        assert "expected 'active', found 'frozen', changed by fraud-1" in text
        assert f"observe {fact('Account', account)} again" in text
        return calls("get_account", account=account)

    def see_the_freeze(messages: Sequence[AnyMessage]) -> AIMessage:
        assert json.loads(str(messages[-1].content))[0]["value"]["status"] == "frozen"
        return AIMessage("The account is frozen; I will not refund.")

    turns = [lambda _: calls("get_account", account=account), freeze_meanwhile, read_the_rejection, see_the_freeze]
    state = graph_of(desk.node, turns).invoke({"messages": [HumanMessage("refund 48 dollars")]})
    assert desk.paid == []
    rejected = tool_messages(state)[1]
    assert rejected.status == "error"
    assert rejected.artifact["countersign"]["verdict"]["code"] == "precondition_failed"
    assert state["messages"][-1].content == "The account is frozen; I will not refund."


def test_a_model_without_the_right_is_told_so_and_the_tool_does_not_run(fraud: Client, account: str) -> None:
    desk = Desk(fraud)
    turns: list[Turn] = [lambda _: calls("refund", account=account, amount=1), done]
    state = graph_of(desk.node, turns).invoke({"messages": [HumanMessage("refund")]})
    [refused] = tool_messages(state)
    assert refused.status == "error"
    assert "fraud-1 may not do `refund`" in str(refused.content)
    assert refused.artifact["countersign"]["error"]["code"] == "not_allowed"
    assert desk.paid == []


def test_what_was_shown_counts_also_after_the_graph_was_saved_and_loaded(
    client: Client, fraud: Client, account: str
) -> None:
    saver, config = InMemorySaver(), {"configurable": {"thread_id": account}}
    first = graph_of(Desk(client).node, [lambda _: calls("get_account", account=account), done], saver)
    first.invoke({"messages": [HumanMessage("look")]}, config)
    fraud.act("billing", "freeze", {"account": account}).unwrap()
    desk = Desk(client)
    second = graph_of(desk.node, [lambda _: calls("refund", account=account, amount=1), done], saver)
    state = second.invoke({"messages": [HumanMessage("now refund")]}, config)
    assert "expected 'active', found 'frozen'" in str(tool_messages(state)[-1].content)
    assert desk.paid == []


def test_a_graph_that_is_resumed_after_a_crash_does_not_act_twice(client: Client, account: str) -> None:
    desk, saver, config = Desk(client), InMemorySaver(), {"configurable": {"thread_id": f"crash-{account}"}}
    bodies = []

    @tool
    def refund(account: str, amount: int) -> str:
        """Pay money back."""
        bodies.append(amount)
        if len(bodies) == 1:
            raise SystemError("the process died after the commit")
        return "paid"

    node = GatedToolNode([desk.get_account, refund], client=client, actions={"refund": desk.refund})
    look_and_refund: list[Turn] = [
        lambda _: calls("get_account", account=account),
        lambda _: calls("refund", account=account, amount=100),
        done,
    ]
    graph = graph_of(node, look_and_refund, saver)
    with pytest.raises(SystemError):
        graph.invoke({"messages": [HumanMessage("refund")]}, config)
    state = graph.invoke(None, config)
    assert (tool_messages(state)[-1].content, bodies) == ("paid", [100, 100])
    assert client.observe(fact("Account", account))[fact("Account", account)]["balance"] == 900_000 - 100


def test_a_resumed_call_that_looked_on_the_spot_is_not_made_again_either(client: Client, account: str) -> None:
    desk, saver, config = Desk(client), InMemorySaver(), {"configurable": {"thread_id": f"crash-{account}"}}

    @tool
    def refund(account: str, amount: int) -> str:
        """Pay money back."""
        raise SystemError("the process died after the commit")

    node = GatedToolNode([refund], client=client, actions={"refund": desk.refund})
    graph = graph_of(node, [lambda _: calls("refund", account=account, amount=100), done], saver)
    with pytest.raises(SystemError):
        graph.invoke({"messages": [HumanMessage("refund")]}, config)
    state = graph.invoke(None, config)
    assert "was decided before" in str(tool_messages(state)[-1].content)
    assert client.observe(fact("Account", account))[fact("Account", account)]["balance"] == 900_000 - 100


def test_the_same_call_in_another_message_is_another_action(client: Client, account: str) -> None:
    desk = Desk(client)
    turns: list[Turn] = [lambda _: calls("refund", account=account, amount=7) for _ in range(2)]
    graph_of(desk.node, [*turns, done]).invoke({"messages": []})
    assert desk.paid == [7, 7]
    assert client.observe(fact("Account", account))[fact("Account", account)]["balance"] == 900_000 - 14


def test_what_the_model_never_looked_at_is_observed_for_it_where_the_mapping_says_so(
    client: Client, account: str
) -> None:
    desk = Desk(client)
    graph_of(desk.node, [lambda _: calls("refund", account=account, amount=7), done]).invoke({"messages": []})
    assert desk.paid == [7]


def test_without_facts_a_pact_can_insist_on_a_look(gate: Gate, client: Client, payout: str) -> None:
    gate.put("Payout", payout, {"state": "open", "amount": 10})
    paid: list[str] = []

    @tool
    def pay(payout: str) -> str:
        """Pay."""
        paid.append(payout)
        return "paid"

    see = observation_tool(client, "see", "Look at a payout.", lambda payout: [fact("Payout", payout)])
    node = GatedToolNode([see, pay], client=client, actions={"pay": Action("payouts", "pay")})
    turns: list[Turn] = [
        lambda _: calls("pay", payout=payout),
        lambda _: calls("see", payout=payout),
        lambda _: calls("pay", payout=payout),
        done,
    ]
    state = graph_of(node, turns).invoke({"messages": []})
    unseen, _, seen = tool_messages(state)
    assert unseen.artifact["countersign"]["verdict"]["code"] == "observation_required"
    assert (seen.content, paid) == ("paid", [payout])


def test_a_review_tells_the_model_to_wait_for_a_person(gate: Gate, client: Client, payout: str) -> None:
    gate.put("Payout", payout, {"state": "open", "amount": 5_000})

    @tool
    def pay(payout: str) -> str:
        """Pay."""
        raise AssertionError("must not run")

    mapping = {"pay": Action("payouts", "pay", lambda p: [fact("Payout", p["payout"])])}
    node = GatedToolNode([pay], client=client, actions=mapping)
    state = graph_of(node, [lambda _: calls("pay", payout=payout), done]).invoke({"messages": []})
    [waiting] = tool_messages(state)
    assert "a person must approve it" in str(waiting.content)
    assert waiting.artifact["countersign"]["verdict"]["review"].startswith("rev_")


def test_a_tool_that_nobody_mapped_is_refused_and_a_free_one_runs(client: Client) -> None:
    desk = Desk(client)
    turns: list[Turn] = [lambda _: calls("wipe"), lambda _: calls("add", a=1, b=2), lambda _: calls("nothing"), done]
    state = graph_of(desk.node, turns).invoke({"messages": []})
    refused, added, unknown = tool_messages(state)
    assert (refused.status, refused.artifact["countersign"]["error"]["code"]) == ("error", "tool_unmapped")
    assert (added.content, added.status) == ("3", "success")
    assert unknown.status == "error"


def test_arguments_that_the_tool_would_refuse_never_reach_the_gate(client: Client, account: str) -> None:
    desk = Desk(client)
    turns: list[Turn] = [lambda _: calls("refund", account=account, amount="much"), done]
    state = graph_of(desk.node, turns).invoke({"messages": []})
    [misfit] = tool_messages(state)
    assert misfit.artifact["countersign"]["error"]["code"] == "invalid_params"
    assert client.observe(fact("Account", account)).facts[0].version == 1


def test_a_misspelt_name_is_refused_when_the_node_is_made(client: Client) -> None:
    with pytest.raises(CountersignError, match="no tool refnud"):
        GatedToolNode([], client=client, actions={"refnud": Action("billing", "refund")})


def test_a_gate_that_cannot_be_reached_is_raised_and_no_tool_runs(gate: Gate, account: str) -> None:
    with Client("http://127.0.0.1:9", key=gate.key("refund-1"), origin=ORIGIN) as nowhere:
        desk = Desk(nowhere)
        graph = graph_of(desk.node, [lambda _: calls("refund", account=account, amount=1), done])
        with pytest.raises(TransportError):
            graph.invoke({"messages": []})
    assert desk.paid == []


def test_an_async_graph_does_the_same(gate: Gate, account: str) -> None:
    async def story() -> None:
        async with AsyncClient(gate.url, key=gate.key("refund-1"), origin=ORIGIN) as client:
            desk = Desk(client)
            turns: list[Turn] = [
                lambda _: calls("get_account", account=account),
                lambda _: calls("refund", account=account, amount=9),
                lambda _: calls("refund", account=account, amount=10**6),
                lambda _: calls("wipe"),
                done,
            ]
            state = await graph_of(desk.node, turns).ainvoke({"messages": []})
            messages = tool_messages(state)
            assert [one.status for one in messages] == ["success", "success", "error", "error"]
            assert desk.paid == [9]
            saver, config = InMemorySaver(), {"configurable": {"thread_id": f"async-{account}"}}

            @tool
            def refund(account: str, amount: int) -> str:
                """Pay money back."""
                raise SystemError("the process died after the commit")

            node = GatedToolNode([refund], client=client, actions={"refund": desk.refund})
            crashing = graph_of(node, [lambda _: calls("refund", account=account, amount=1), done], saver)
            with pytest.raises(SystemError):
                await crashing.ainvoke({"messages": [HumanMessage("refund")]}, config)
            resumed = await crashing.ainvoke(None, config)
            assert "was decided before" in str(tool_messages(resumed)[-1].content)
            balance = (await client.observe(fact("Account", account)))[fact("Account", account)]["balance"]
            assert balance == 900_000 - 9 - 1
            with pytest.raises(CountersignError, match="ainvoke"):
                graph_of(desk.node, [lambda _: calls("refund", account=account, amount=1)]).invoke({"messages": []})

    asyncio.run(story())
