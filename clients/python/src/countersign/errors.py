"""What is raised. A verdict is not among it: a rejection is an answer, and raised only where asked for (`NotDoneError`).

Of a call that changes something, `GateError` and `TransportError` say that it was not done, for certain. Whenever that is not
certain it is `OutcomeUnknownError`, which is none of the two, so that no handler for them takes it for "not done".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from countersign.calls import Call
    from countersign.verdicts import Failed, InDoubt, InFlight, Rejected, Review


class CountersignError(Exception):
    """Everything that this package raises by itself."""


class GateError(CountersignError):
    """The gate refused the request (4xx) or could not take it (5xx): nothing was done, by no attempt of this call."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        hint: str,
        request_id: str,
        problems: list[Any],
        retry_after_s: float | None = None,
        entry: int | None = None,
    ) -> None:
        self.status = status
        """The status of HTTP."""
        self.code = code
        """The stable code; each has a page in docs/codes."""
        self.message = message
        """The cause."""
        self.hint = hint
        """What to do about it."""
        self.request_id = request_id
        """Under which the gate's own logs speak of this request."""
        self.problems = problems
        """Every problem of a pact that was refused."""
        self.retry_after_s = retry_after_s
        """After how long it is worth trying again, where the gate says so."""
        self.entry = entry
        """The entry that is in the way: of `idempotency_key_reused`, the one that was made under the key."""
        super().__init__(f"{code} (HTTP {status}): {message}\nhint: {hint}\nrequest: {request_id}")


class TransportError(CountersignError):
    """The gate was not reached, so nothing was done; or, of a call that only reads, its answer was lost."""

    def __init__(self, message: str, hint: str, attempts: int) -> None:
        self.message = message
        """What happened, last."""
        self.hint = hint
        """What to do about it."""
        self.attempts = attempts
        """How often it was tried."""
        super().__init__(f"{message} (attempts: {attempts})\nhint: {hint}")


class OutcomeUnknownError(CountersignError):
    """It may have been done: an attempt may have arrived, and no answer says what became of it.

    Do not start over with a new idempotency key: that can do it twice. `client.find_out(error)` asks for the very same
    action again, and is answered with what was done, or does it now, but never does it twice. After a restart of your program
    `act` with the same arguments and `idempotency_key=error.idempotency_key` does the same. The gate knows a key
    for a day. What went wrong last is `cause`.
    """

    def __init__(self, cause: CountersignError, attempts: int, call: Call[Any]) -> None:
        self.cause = cause
        """The error of the last attempt: `GateError`, `TransportError` or `ProtocolError`."""
        self.attempts = attempts
        """How often it was tried."""
        self.call = call
        """The request, to be asked for again."""
        self.idempotency_key = call.idempotency_key
        """The key of the action; None for claims, which have none and end by themselves, and for batches."""
        self.idempotency_keys = call.idempotency_keys
        """The keys of all actions that may have committed, in their order."""
        if call.idempotency_key is None and call.idempotency_keys:
            what = f"the batch may have committed, under idempotency keys {', '.join(call.idempotency_keys)}"
            hint = "find out with client.find_out_many(error), or repeat it with the same actions and keys: it never acts twice"
        elif call.idempotency_key is None:
            what, hint = "this may have been done", "look before you ask for it again"
        else:
            what = f"the action may have committed, under idempotency key {call.idempotency_key}"
            hint = "find out with client.find_out(error), or repeat it with the same arguments and key: it never acts twice"
        last = str(cause).partition("\n")[0]
        super().__init__(f"unknown: {what}; the last attempt: {last} (attempts: {attempts})\nhint: {hint}")


class ProtocolError(CountersignError):
    """The answer is not one of v1: this is not a gate, or a newer one than this client knows. It says nothing about what was done."""


class NotDoneError(CountersignError):
    """Raised by `unwrap` on a verdict that is not, or not yet, done. The verdict is in `verdict`."""

    def __init__(self, verdict: Rejected | Review | InFlight | Failed | InDoubt) -> None:
        self.verdict: Rejected | Review | InFlight | Failed | InDoubt = verdict
        """What the gate answered."""
        super().__init__(verdict.explain())


class RejectedError(NotDoneError):
    """Raised for a rejection, where `unwrap` or `raise_on_rejection` asked for it."""

    verdict: Rejected

    def __init__(self, verdict: Rejected) -> None:
        super().__init__(verdict)


class KeyFileError(CountersignError):
    """A key file cannot be used."""


class ReceiptError(CountersignError):
    """A receipt or checkpoint does not verify. Nothing that it says may be believed."""


class DelegationError(CountersignError):
    """A delegation token cannot be made or read here."""
