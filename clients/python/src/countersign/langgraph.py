"""A tool node for LangGraph whose tool calls go through the gate.

Needs the extra `langgraph`. Put `GatedToolNode` where a graph has its `ToolNode`:

- `observation_tool(client, …)` makes a tool by which the model observes facts. What it was shown stays in the conversation, with the
  sealed token as the message's artifact: the model never sees the token, cannot alter it, and what it was shown is what its
  actions are compared with, also after the graph was saved and loaded.
- A tool named in `actions` is an action. The node sends the call's arguments as its parameters, with the observations that
  the conversation holds of the facts in question, and runs the tool only if the verdict is `committed`.
- Any other tool is refused, unless it is named in `free`: fail closed.

What keeps a tool from running comes back as an ordinary tool message with status `error`: a plain sentence, the failed
preconditions with what was expected and what was found, and what to look at again. The verdict itself is its artifact.

A graph that is resumed after a crash repeats the call that it had not saved. The action is not done again: its idempotency
key follows from the conversation, the message and the call. The tool's body, though, runs again where the first
verdict was `committed`, since no one knows how far it had come; let it be something that can be repeated.

What a tool body may and may not rely on is said in `countersign.actions`: it holds here too.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

try:
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import BaseTool, StructuredTool
    from langgraph.prebuilt import ToolNode
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
    from pydantic import BaseModel, ValidationError
except ImportError as error:
    raise ImportError("the tool node needs langgraph\nhint: pip install 'countersign[langgraph]'") from error

from countersign.actions import Facts
from countersign.aio import AsyncClient
from countersign.client import Client
from countersign.errors import CountersignError, GateError
from countersign.facts import Observation
from countersign.verdicts import Committed, Settled, Verdict

# The gate takes at most so many observations with one action; the latest of a fact counts.
_OBSERVATIONS_MAX = 16

_ARTIFACT = "countersign"


@dataclass(frozen=True, slots=True)
class Action:
    """A tool that is an action of a pact."""

    pact: str
    action: str
    facts: Facts | None = None
    """The facts that it is about. Those that the model never looked at are observed on the spot; without `facts`, all that
    it looked at goes along and nothing is observed for it, so that a pact can insist on a look."""
    params: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """From the tool's arguments to the action's parameters, where they differ."""
    delegation: str | None = None


class GatedToolNode(ToolNode):
    """`ToolNode`, with a gate in front of its tools."""

    def __init__(
        self,
        tools: Sequence[BaseTool | Callable[..., Any]],
        *,
        client: Client | AsyncClient,
        actions: Mapping[str, Action],
        free: Collection[str] = (),
        name: str = "tools",
        messages_key: str = "messages",
        **more: Any,
    ) -> None:
        """With a `Client` the node runs either way, with an `AsyncClient` only with `ainvoke` and `astream`.

        `more` goes to `ToolNode`. Unless its `handle_tool_errors` says otherwise, what keeps the gate from deciding is raised.
        """
        self._gate = _Gate(dict(actions), frozenset(free), messages_key)
        sync = client if isinstance(client, Client) else None
        awaits = client if isinstance(client, AsyncClient) else None

        def guard(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> ToolMessage | Command[Any]:
            if sync is None:
                raise CountersignError("this node has an AsyncClient\nhint: use ainvoke, or give it a Client")
            return _sync_guard(self._gate, sync, request, execute)

        async def async_guard(
            request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
        ) -> ToolMessage | Command[Any]:
            if awaits is None:
                raise CountersignError("this node has a Client\nhint: this is a mistake of the node, please report it")
            return await _async_guard(self._gate, awaits, request, execute)

        super().__init__(
            tools,
            name=name,
            messages_key=messages_key,
            wrap_tool_call=guard,
            awrap_tool_call=async_guard if awaits is not None else None,
            **more,
        )
        unknown = sorted({*actions, *free} - set(self.tools_by_name))
        if unknown:
            raise CountersignError(f"there is no tool {', '.join(unknown)}\nhint: a misspelt name would guard nothing")


def observation_tool(
    client: Client | AsyncClient, name: str, description: str, facts: Callable[..., Sequence[str]], **more: Any
) -> BaseTool:
    """A tool by which the model observes facts: `observation_tool(client, "get_account", "…", lambda account: [fact("Account", account)])`.

    The arguments of `facts` are the tool's arguments; annotate them, or pass `args_schema`, so that the model knows their types.
    """

    def sync(**arguments: Any) -> tuple[str, Any]:
        if not isinstance(client, Client):
            raise CountersignError("this tool has an AsyncClient\nhint: use ainvoke, or give it a Client")
        return _shown(client.observe(*facts(**arguments)))

    async def awaits(**arguments: Any) -> tuple[str, Any]:
        if isinstance(client, AsyncClient):
            return _shown(await client.observe(*facts(**arguments)))
        return sync(**arguments)

    schema = (
        more.pop("args_schema", None)
        or StructuredTool.from_function(facts, name=name, description=description).args_schema
    )
    return StructuredTool(
        name=name,
        description=description,
        func=sync,
        coroutine=awaits,
        args_schema=schema,
        response_format="content_and_artifact",
        metadata={_ARTIFACT: "observation"},
        **more,
    )


@dataclass(frozen=True)
class _Gate:
    """What the node knows about its tools, and how a call becomes an action."""

    actions: Mapping[str, Action]
    free: frozenset[str]
    messages_key: str

    def passes(self, request: ToolCallRequest) -> bool:
        """Whether the tool needs no verdict: it only looks, or was named as free."""
        if request.tool_call["name"] in self.actions:
            return False
        looks = request.tool is not None and (request.tool.metadata or {}).get(_ARTIFACT) == "observation"
        return looks or request.tool_call["name"] in self.free

    def refusal(self, request: ToolCallRequest) -> ToolMessage:
        """What is said of a tool that no one has mapped."""
        name = request.tool_call["name"]
        text = (
            f"Not done: the tool {name} has no action at the gate. Do not call it again; say that it is not available."
        )
        return _message(request, text, {"error": {"code": "tool_unmapped", "message": text}})

    def plan(self, request: ToolCallRequest) -> _Planned | ToolMessage:
        """What to ask the gate for; or, where that makes no sense, what to tell the model."""
        action = self.actions.get(request.tool_call["name"])
        if action is None:
            return self.refusal(request)
        misfit = _misfit(request)
        if misfit is not None:
            return misfit
        arguments = request.tool_call["args"]
        params = arguments if action.params is None else action.params(arguments)
        tokens, missing = self.relied_on(action, action.facts(params) if action.facts else (), request)
        return _Planned(action, params, tokens, missing, self.name_of(request))

    def messages(self, request: ToolCallRequest) -> list[Any]:
        """The conversation."""
        state = request.state
        found = state if isinstance(state, list) else _member(state, self.messages_key)
        return found if isinstance(found, list) else []

    def seen(self, request: ToolCallRequest) -> list[tuple[str, frozenset[str]]]:
        """The observations that the conversation holds, oldest first: token and facts."""
        found = []
        for message in self.messages(request):
            artifact = message.artifact if isinstance(message, ToolMessage) else None
            seen = artifact.get(_ARTIFACT) if isinstance(artifact, dict) else None
            if isinstance(seen, dict) and isinstance(seen.get("observation"), str):
                found.append((seen["observation"], frozenset(seen.get("facts", ()))))
        return found

    def name_of(self, request: ToolCallRequest) -> tuple[str, ...] | None:
        """The permanent name of this call: its conversation, its message and itself. None where the message has no id."""
        thread = str((request.runtime.config.get("configurable") or {}).get("thread_id", ""))
        wanted = request.tool_call["id"]
        for message in reversed(self.messages(request)):
            if isinstance(message, AIMessage) and any(call["id"] == wanted for call in message.tool_calls):
                return None if message.id is None or wanted is None else ("langgraph", thread, message.id, wanted)
        return None

    def relied_on(self, action: Action, wanted: Sequence[str], request: ToolCallRequest) -> tuple[list[str], list[str]]:
        """The tokens to send along, and the facts that must be observed first."""
        seen = self.seen(request)
        if action.facts is None:
            return [token for token, _ in seen][-_OBSERVATIONS_MAX:], []
        tokens: list[str] = []
        missing: list[str] = []
        for fact in wanted:
            latest = next((token for token, facts in reversed(seen) if fact in facts), None)
            if latest is None:
                missing.append(fact)
            elif latest not in tokens:
                tokens.append(latest)
        return tokens[-_OBSERVATIONS_MAX + 1 :], missing


@dataclass(frozen=True)
class _Planned:
    """A call that is to be asked for at the gate."""

    action: Action
    params: Mapping[str, Any]
    tokens: list[str]
    missing: list[str]
    """Facts to observe first."""
    name: tuple[str, ...] | None

    def ask(self, key: str | None, observed: Observation | None) -> dict[str, Any]:
        """The arguments of `act`."""
        return {
            "pact": self.action.pact,
            "action": self.action.action,
            "params": self.params,
            "observations": [*self.tokens, *([] if observed is None else [observed])],
            "idempotency_key": key,
            "delegation": self.action.delegation,
        }


def _sync_guard(
    gate: _Gate, client: Client, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]
) -> ToolMessage | Command[Any]:
    if gate.passes(request):
        return _result(execute(request))
    planned = gate.plan(request)
    if isinstance(planned, ToolMessage):
        return planned
    key = None if planned.name is None else client.idempotency_key_for(*planned.name)
    observed = client.observe(*planned.missing) if planned.missing else None
    try:
        verdict = client.act(**planned.ask(key, observed))
    except GateError as error:
        return _refused(request, error)
    return _result(execute(request)) if isinstance(verdict, Committed) else _told(request, verdict)


async def _async_guard(
    gate: _Gate, client: AsyncClient, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
) -> ToolMessage | Command[Any]:
    if gate.passes(request):
        return _result(await execute(request))
    planned = gate.plan(request)
    if isinstance(planned, ToolMessage):
        return planned
    key = None if planned.name is None else client.idempotency_key_for(*planned.name)
    observed = await client.observe(*planned.missing) if planned.missing else None
    try:
        verdict = await client.act(**planned.ask(key, observed))
    except GateError as error:
        return _refused(request, error)
    return _result(await execute(request)) if isinstance(verdict, Committed) else _told(request, verdict)


def _misfit(request: ToolCallRequest) -> ToolMessage | None:
    """Arguments that the tool itself would refuse are refused before the gate is asked, not after it has committed."""
    schema = None if request.tool is None else request.tool.tool_call_schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            schema.model_validate(request.tool_call["args"])
        except ValidationError as error:
            text = f"Not done: the arguments do not fit the tool. Correct them and call it again.\n{error}"
            return _message(request, text, {"error": {"code": "invalid_params", "message": str(error)}})
    return None


_WITHOUT_RIGHT = frozenset({"not_allowed", "trust_too_low", "unknown_action", "delegation_refused"})


def _refused(request: ToolCallRequest, error: GateError) -> ToolMessage:
    """What a model can be told of an error; everything else is for the operator of the graph."""
    if error.code == "idempotency_key_reused":
        # A graph that was resumed repeats its call, and facts observed on the spot were observed again: the key is used up.
        text = (
            "This call was decided before, and is not made again. Look at what it is about to see whether it was done."
        )
    elif error.code in _WITHOUT_RIGHT:
        text = f"Not done, and nothing was changed: {error.message}. Do not call it again: {error.hint}."
    else:
        raise error
    return _message(request, text, {"error": {"code": error.code, "message": error.message, "hint": error.hint}})


def _told(request: ToolCallRequest, verdict: Verdict) -> ToolMessage:
    """A verdict on which the tool did not run, in words that a model can act on."""
    artifact = {"verdict": dict(verdict.raw)}
    if isinstance(verdict, Settled):
        # The gate made the call itself; there is nothing left for the tool to do.
        return _message(
            request,
            json.dumps({"done": True, "result": verdict.evidence and verdict.evidence.result}),
            artifact,
            status="success",
        )
    if isinstance(verdict, Committed):
        raise CountersignError("a committed action was taken for one that is not")
    kinds = {
        "rejected": "Not done, and nothing was changed. Look again at what is named below, then decide again.",
        "review": "Not done yet: a person must approve it. Do not call it again; say that it waits for approval.",
        "failed": "Not done: the external call was refused, and nothing was changed.",
        "in_doubt": "It is not known whether this was done. Do not call it again; say that a person must look.",
        "in_flight": "This is under way, and its outcome is not known yet. Do not call it again.",
    }
    word = type(verdict).__name__
    kind = {"InDoubt": "in_doubt", "InFlight": "in_flight"}.get(word, word.lower())
    return _message(request, f"{kinds[kind]}\n{verdict.explain()}", artifact)


def _message(request: ToolCallRequest, text: str, artifact: Any, status: str = "error") -> ToolMessage:
    return ToolMessage(
        content=text,
        name=request.tool_call["name"],
        tool_call_id=request.tool_call["id"] or "",
        artifact={_ARTIFACT: artifact},
        status=status,
    )


def _shown(seen: Observation) -> tuple[str, Any]:
    """What the model reads, and what stays beside it."""
    facts = [
        {"fact": one.fact, "value": None if one.value is None else dict(one.value), "withheld": list(one.withheld)}
        for one in seen.facts
    ]
    artifact = {_ARTIFACT: {"observation": seen.token, "facts": [one.fact for one in seen.facts]}}
    return json.dumps(facts, ensure_ascii=False), artifact


def _member(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _result(result: Any) -> ToolMessage | Command[Any]:
    """A tool may answer with a list, which a wrapped call passes on as it is, whatever its type says."""
    answer: ToolMessage | Command[Any] = result
    return answer
