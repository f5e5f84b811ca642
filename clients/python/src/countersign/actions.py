"""A plain function as a gated action: `@client.action("billing", "refund", observe=…)`.

A call observes the facts that `observe` names, asks the gate for the action with the call's arguments as parameters, and
runs the body only if the verdict is `committed`. It returns `Ran` with the body's value, or the verdict as it is.

What holds: the body runs only after an entry in which every precondition held on the facts at that entry's own place in
the order, and at most once for that entry. What does not hold: nothing keeps the facts as they are while the body runs; if
the process dies, or the body raises, after the commit, the entry and the facts it wrote stay while the body's own work
is missing or half done. So the body is for work that may follow a decision: telling someone, returning a value, a
write that can be repeated. Where the external effect itself must not happen on facts that have changed, or must
happen exactly once, use a `call` in the pact: then the gate makes it, under a fence, and keeps account of it.

Observing in the same breath makes the gap almost nothing, and so says nothing about what the caller had decided on
before. Where a model or a person looked first, pass what they were shown: `refund.given(observation)(…)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

from countersign.facts import Observation
from countersign.verdicts import Committed, Failed, InDoubt, InFlight, Rejected, Review, Settled

if TYPE_CHECKING:
    from countersign.aio import AsyncClient
    from countersign.client import Client

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Facts: TypeAlias = Callable[[Mapping[str, Any]], Sequence[str]]
"""From the parameters of an action to the facts to observe for it."""


@dataclass(frozen=True, slots=True)
class Ran(Generic[R_co]):
    """The action committed, and the body ran."""

    value: R_co
    """What the body returned."""
    verdict: Committed

    def unwrap(self) -> R_co:
        """The body's value."""
        return self.value


NotRun: TypeAlias = Rejected | Review | InFlight | Settled | Failed | InDoubt
"""Verdicts on which the body does not run; with a `call` in the pact the gate does the work itself, so neither then."""


class _Gated(Generic[P]):
    """What both kinds have: the names, and how arguments become parameters."""

    def __init__(
        self, pact: str, action: str, body: Callable[P, object], observe: Facts | None, delegation: str | None
    ) -> None:
        self.pact = pact
        """The pact."""
        self.action = action
        """The action type."""
        self._observe = observe
        self._delegation = delegation
        self._signature = inspect.signature(body)
        self.__name__ = getattr(body, "__name__", action)
        self.__doc__ = body.__doc__
        self.__wrapped__ = body

    def params(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The parameters that a call with these arguments asks for; what is None is left out."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return {name: value for name, value in bound.arguments.items() if value is not None}


class ActionType(_Gated[P], Generic[P, R]):
    """A function that runs only when its action has committed."""

    def __init__(
        self,
        client: Client,
        pact: str,
        action: str,
        body: Callable[P, R],
        observe: Facts | None,
        delegation: str | None,
        given: tuple[Observation | str, ...] | None = None,
    ) -> None:
        super().__init__(pact, action, body, observe, delegation)
        self._client = client
        self._body = body
        self._given = given

    def given(self, *observations: Observation | str) -> ActionType[P, R]:
        """The same, decided on what was observed before instead of on a new look."""
        return ActionType(
            self._client, self.pact, self.action, self._body, self._observe, self._delegation, observations
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Ran[R] | NotRun:
        """Observes, acts, and runs the body if committed."""
        params = self.params(*args, **kwargs)
        observations: Sequence[Observation | str] = self._given or ()
        if self._given is None and self._observe is not None:
            observations = [self._client.observe(*self._observe(params))]
        verdict = self._client.act(
            self.pact, self.action, params, observations=observations, delegation=self._delegation
        )
        if isinstance(verdict, Committed):
            return Ran(self._body(*args, **kwargs), verdict)
        return verdict


class AsyncActionType(_Gated[P], Generic[P, R]):
    """`ActionType` for `AsyncClient` and a body to await."""

    def __init__(
        self,
        client: AsyncClient,
        pact: str,
        action: str,
        body: Callable[P, Awaitable[R]],
        observe: Facts | None,
        delegation: str | None,
        given: tuple[Observation | str, ...] | None = None,
    ) -> None:
        super().__init__(pact, action, body, observe, delegation)
        self._client = client
        self._body = body
        self._given = given

    def given(self, *observations: Observation | str) -> AsyncActionType[P, R]:
        """See `ActionType.given`."""
        return AsyncActionType(
            self._client, self.pact, self.action, self._body, self._observe, self._delegation, observations
        )

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Ran[R] | NotRun:
        """See `ActionType.__call__`."""
        params = self.params(*args, **kwargs)
        observations: Sequence[Observation | str] = self._given or ()
        if self._given is None and self._observe is not None:
            observations = [await self._client.observe(*self._observe(params))]
        verdict = await self._client.act(
            self.pact, self.action, params, observations=observations, delegation=self._delegation
        )
        if isinstance(verdict, Committed):
            return Ran(await self._body(*args, **kwargs), verdict)
        return verdict
