"""Claims: an announced write. While one holds, no action of anyone else relies on its facts."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING

from countersign.calls import Claimed
from countersign.errors import CountersignError

if TYPE_CHECKING:
    from countersign.aio import AsyncClient
    from countersign.client import Client


class _Held:
    """What both kinds of claim have."""

    def __init__(self, claimed: Claimed) -> None:
        self.answer = claimed
        """The claim as the gate last answered it."""
        self.withdrawn = False

    @property
    def name(self) -> str:
        """Its name, `clm_…`, which an action carries."""
        return self.answer.claim

    @property
    def expires_at(self) -> int:
        """When it ends, in ledger milliseconds, unless it is extended or withdrawn."""
        return self.answer.expires_at


class Claim(_Held):
    """A claim that holds until it expires or is withdrawn; as a context manager it is withdrawn at the end."""

    def __init__(self, client: Client, claimed: Claimed) -> None:
        super().__init__(claimed)
        self._client = client

    def extend(self, for_ms: int) -> Claim:
        """Extends it from now, up to the pact's limit. Raises `GateError` (`claim_not_found`) where it has ended."""
        self.answer = self._client.extend_claim(self.name, for_ms)
        return self

    def withdraw(self) -> None:
        """Ends it now. Once is enough."""
        if not self.withdrawn:
            self._client.withdraw_claim(self.name)
            self.withdrawn = True

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # It ends by itself, soon; what went wrong inside matters more, and a lost claim needs no withdrawing.
        with contextlib.suppress(CountersignError):
            self.withdraw()


class AsyncClaim(_Held):
    """`Claim` for `AsyncClient`."""

    def __init__(self, client: AsyncClient, claimed: Claimed) -> None:
        super().__init__(claimed)
        self._client = client

    async def extend(self, for_ms: int) -> AsyncClaim:
        """See `Claim.extend`."""
        self.answer = await self._client.extend_claim(self.name, for_ms)
        return self

    async def withdraw(self) -> None:
        """See `Claim.withdraw`."""
        if not self.withdrawn:
            await self._client.withdraw_claim(self.name)
            self.withdrawn = True

    async def __aenter__(self) -> AsyncClaim:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        # As in `Claim`: it ends by itself.
        with contextlib.suppress(CountersignError):
            await self.withdraw()
