"""What is raised. A verdict is not among it: a rejection is an answer, and raised only where asked for (`NotDoneError`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from countersign.verdicts import Failed, InDoubt, InFlight, Rejected, Review


class CountersignError(Exception):
    """Everything that this package raises by itself."""


class GateError(CountersignError):
    """The gate refused the request (4xx) or could not take it (5xx). There is no verdict and no entry."""

    def __init__(self, status: int, code: str, message: str, hint: str, request_id: str, problems: list[Any]) -> None:
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
        super().__init__(f"{code} (HTTP {status}): {message}\nhint: {hint}\nrequest: {request_id}")


class TransportError(CountersignError):
    """The gate was not reached, or its answer was lost."""

    def __init__(self, message: str, hint: str, attempts: int, idempotency_key: str | None) -> None:
        self.message = message
        """What happened, last."""
        self.hint = hint
        """What to do about it."""
        self.attempts = attempts
        """How often it was tried."""
        self.idempotency_key = idempotency_key
        """The key of an action: with it, and the same body, asking again is safe."""
        super().__init__(f"{message} (attempts: {attempts})\nhint: {hint}")


class ProtocolError(CountersignError):
    """The answer is not one of v1: this is not a gate, or a newer one than this client knows."""


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
