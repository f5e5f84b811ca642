"""The client for programs that block. `AsyncClient` has the same methods to await."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, ParamSpec, TypeVar, overload

import httpx

from countersign import calls, tls
from countersign.actions import ActionType, Facts
from countersign.batches import Act, NotDecided
from countersign.calls import Call, Claimed
from countersign.claims import Claim
from countersign.errors import CountersignError, OutcomeUnknownError, RejectedError
from countersign.facts import Entry, Observation
from countersign.keys import Key
from countersign.retrying import Retries, Sent, exchange
from countersign.sending import DEFAULT_URL, Sender
from countersign.verdicts import Accepted, InDoubt, InFlight, Outcome, Rejected, Review, Verdict

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# How long one request of `wait` lets the gate wait; the next one follows at once.
_WAIT_MS = 5_000


class Client:
    """One agent, or operator, at one gate.

    `key` signs every request; `origin` is the gate's name, for which it signs. Without `origin` the gate is asked for it
    once, which is fine as long as no one else can answer at that address. `agent` is for open gates, which have no keys.
    Over https, `ca` is a file with the authorities to trust instead of the public ones, and `certificate` with
    `certificate_key` a client certificate to show. Bring an `httpx.Client` of your own as `http` for proxies or other
    settings of TLS; it is then yours to close.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: Key | str | os.PathLike[str] | None = None,
        origin: str | None = None,
        agent: str | None = None,
        retries: Retries | None = None,
        timeout_s: float = 10.0,
        http: httpx.Client | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        certificate_key: str | os.PathLike[str] | None = None,
    ) -> None:
        self._sender = Sender(url, key, origin, agent, retries or Retries(), timeout_s)
        self._own_http = http is None
        # Settings of the environment are left out: a proxy that someone set elsewhere is no one to sign through.
        trusted = tls.context(ca, certificate, certificate_key)
        if http is not None and trusted is not None:
            raise CountersignError(
                "`http` and TLS files were both given\nhint: give the client that you bring its own `verify`"
            )
        self._http = (
            httpx.Client(trust_env=False, verify=True if trusted is None else trusted) if http is None else http
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, unless they were brought along."""
        if self._own_http:
            self._http.close()

    def observe(self, *facts: str, attest: bool = False) -> Observation:
        """Shows facts, and seals what was shown: the token goes along with the action that is decided on it.

        With `attest`, what was shown becomes an entry of the ledger, and `attested` of the answer proves it to others
        (`verify_attested`).
        """
        return self.run(calls.observe(facts, attest=attest))

    @overload
    def act(
        self,
        pact: str,
        action: str,
        params: Mapping[str, Any],
        *,
        observations: Sequence[Observation | str] = (),
        idempotency_key: str | None = None,
        delegation: str | None = None,
        claim: Claim | str | None = None,
        wait_ms: int = 0,
        raise_on_rejection: Literal[False] = False,
    ) -> Verdict: ...

    @overload
    def act(
        self,
        pact: str,
        action: str,
        params: Mapping[str, Any],
        *,
        observations: Sequence[Observation | str] = (),
        idempotency_key: str | None = None,
        delegation: str | None = None,
        claim: Claim | str | None = None,
        wait_ms: int = 0,
        raise_on_rejection: Literal[True],
    ) -> Accepted: ...

    def act(
        self,
        pact: str,
        action: str,
        params: Mapping[str, Any],
        *,
        observations: Sequence[Observation | str] = (),
        idempotency_key: str | None = None,
        delegation: str | None = None,
        claim: Claim | str | None = None,
        wait_ms: int = 0,
        raise_on_rejection: bool = False,
    ) -> Verdict:
        """Asks for an action: decided, and if everything holds done, in one step.

        Attempts that fail on the way are repeated with the same idempotency key, so it happens at most once. `wait_ms`
        lets the gate wait for the settlement of an external call. Raises `GateError` or `TransportError` where it was
        certainly not done, and `OutcomeUnknownError` where it may have been. If you may cancel a call, or your program may
        end during it, give it an `idempotency_key` of your own: only with it can you ask what became of it.
        """
        verdict = self.run(
            calls.act(
                pact,
                action,
                params,
                observations=observations,
                idempotency_key=idempotency_key,
                delegation=delegation,
                claim=claim.name if isinstance(claim, Claim) else claim,
                wait_ms=wait_ms,
            )
        )
        if raise_on_rejection and isinstance(verdict, Rejected):
            raise RejectedError(verdict)
        return verdict

    def act_many(
        self, acts: Sequence[Act], *, atomic: bool = False, wait_ms: int = 0
    ) -> tuple[Verdict | NotDecided, ...]:
        """Asks for up to 256 actions under one signature: what came of each, in their order.

        Each is decided on its own, as if it had come alone; one that the gate does not decide is `NotDecided`. With `atomic`,
        up to 32 actions commit all or none: if one is rejected, the others are too, with the code `group_rejected`.

        Attempts that fail on the way are repeated with the same idempotency keys, so nothing happens twice. Raises `GateError`
        or `TransportError` where certainly nothing was done, and `OutcomeUnknownError`, with all keys, where something may have
        been. `NotDecided.may_have_committed` says the same of one action.
        """
        return self.run(calls.act_many(acts, atomic=atomic, wait_ms=wait_ms))

    def find_out(self, unknown: OutcomeUnknownError) -> Verdict:
        """Asks once more for the very action whose outcome is not known: its verdict now, and never a second time.

        If no attempt had arrived, it is decided now. Raises `OutcomeUnknownError` again where the gate still gives no answer.
        """
        if unknown.idempotency_key is None:
            raise CountersignError(
                "what has no idempotency key cannot be asked for again without doing it twice"
            ) from unknown
        verdict: Verdict = self.run(unknown.call)
        return verdict

    def find_out_many(self, unknown: OutcomeUnknownError) -> tuple[Verdict | NotDecided, ...]:
        """The same for a batch: what came of each of its actions, none of which is ever done twice."""
        if unknown.idempotency_key is not None or not unknown.idempotency_keys:
            raise CountersignError("this was no batch; use find_out") from unknown
        results: tuple[Verdict | NotDecided, ...] = self.run(unknown.call)
        return results

    def check(
        self,
        pact: str,
        action: str,
        params: Mapping[str, Any],
        *,
        observations: Sequence[Observation | str] = (),
        delegation: str | None = None,
    ) -> Verdict:
        """The verdict as it would be now. Writes nothing and promises nothing about later."""
        return self.run(
            calls.act(
                pact,
                action,
                params,
                observations=observations,
                idempotency_key=None,
                delegation=delegation,
                claim=None,
                wait_ms=0,
                check=True,
            )
        )

    def claim(self, *facts: str, for_ms: int, reason: str) -> Claim:
        """Announces a write: `with client.claim(…) as claim:`.

        Raises `GateError` where there is nothing to enter: `fact_claimed`, by someone else; `claim_not_allowed`, by any pact.
        """
        return Claim(self, self.run(calls.claim(facts, for_ms, reason)))

    def extend_claim(self, claim: str, for_ms: int) -> Claimed:
        """Extends a claim from now. Raises `GateError` (`claim_not_found`) where it has ended."""
        return self.run(calls.extend(claim, for_ms))

    def withdraw_claim(self, claim: str) -> None:
        """Ends a claim now."""
        self.run(calls.withdraw(claim))

    def effect(self, effect: InFlight | str, *, wait_ms: int = 0) -> Outcome:
        """What has become of an external call; the gate waits for up to `wait_ms` for a change."""
        return self.run(calls.effect(effect if isinstance(effect, str) else effect.effect, wait_ms))

    def wait(self, effect: InFlight | str, *, timeout_s: float) -> Outcome:
        """Asks until the call is settled, failed or in doubt, or until the time is up: then it is still `InFlight`."""
        ends = time.monotonic() + timeout_s
        while True:
            left_ms = int((ends - time.monotonic()) * 1000)
            asked_at = time.monotonic()
            outcome = self.effect(effect, wait_ms=max(0, min(_WAIT_MS, left_ms)))
            if not isinstance(outcome, InFlight) or time.monotonic() >= ends:
                return outcome
            if time.monotonic() - asked_at < 0.05:
                # The gate did not wait; neither hurry it nor trust it to next time.
                time.sleep(min(0.05, max(0.0, ends - time.monotonic())))

    def verdict(self, about: Review | InFlight | InDoubt | int, *, wait_ms: int = 0) -> Verdict:
        """What has become of an action of this agent that was not over, however long ago it was asked for.

        By its verdict, or by the entry of its first one. It acts on nothing: an approval executes what was parked.
        """
        return self.run(calls.verdict(about, wait_ms))

    def entry(self, index: int) -> Entry:
        """One entry with its payload; for auditors."""
        return self.run(calls.entry(index))

    def receipt(self, index: int) -> str:
        """The receipt of an entry under the latest checkpoint; `countersign.receipts.verify` checks it offline."""
        return self.run(calls.receipt(index))

    def idempotency_key_for(self, *words: str) -> str:
        """An idempotency key that is the same whenever this agent asks with the same words, also after a restart.

        For what must be done once for each thing that has a name, such as one message of one conversation. Only anyone who holds
        the agent's key can tell it. An open gate's agent has no key to make it from: then it is random.
        """
        key = self._sender.key
        return calls.new_idempotency_key() if key is None else key.word_for("idempotency", *words)

    def action(
        self, pact: str, action: str, *, observe: Facts | None = None, delegation: str | None = None
    ) -> Callable[[Callable[P, R]], ActionType[P, R]]:
        """Makes a plain function a gated action: see `countersign.actions` for what that does and does not guarantee."""

        def decorate(body: Callable[P, R]) -> ActionType[P, R]:
            return ActionType(self, pact, action, body, observe, delegation)

        return decorate

    def run(self, call: Call[T]) -> T:
        """Sends a call, as often as it takes and may be, and reads the answer."""
        steps = exchange(self._sender, call)
        sent: Sent = None
        while True:
            try:
                step = steps.send(sent)
            except StopIteration as done:
                answer: T = done.value
                return answer
            if isinstance(step, float):
                time.sleep(step)
                sent = None
                continue
            try:
                sent = self._http.send(step)
            except httpx.RequestError as error:
                sent = error
