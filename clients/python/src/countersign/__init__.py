"""Act through a Countersign gate: observe facts, decide, and act only if what you decided on still holds.

    from countersign import Client, Committed, Rejected, fact

    with Client(key="refund-1.key") as client:
        seen = client.observe(fact("Account", "42"))
        match client.act("billing", "refund", {…}, observations=[seen]):
            case Committed(entry=entry): …
            case Rejected(code=code, failed=failed): …

Everything that a gate decides comes back as a value; what keeps it from deciding is raised. There are no rules in here:
the pact is the gate's business.
"""

from countersign.actions import ActionType, AsyncActionType, NotRun, Ran
from countersign.aio import AsyncClient
from countersign.batches import Act, NotDecided
from countersign.calls import Claimed, new_idempotency_key
from countersign.claims import AsyncClaim, Claim
from countersign.client import Client
from countersign.errors import (
    CountersignError,
    DelegationError,
    GateError,
    KeyFileError,
    NotDoneError,
    OutcomeUnknownError,
    ProtocolError,
    ReceiptError,
    RejectedError,
    TransportError,
)
from countersign.facts import Attested, Entry, Observation, ObservedFact, fact
from countersign.keys import Key
from countersign.receipts import LogKey, VerifiedEntry, verify_attested, verify_receipt
from countersign.retrying import Retries
from countersign.verdicts import (
    Accepted,
    Committed,
    Done,
    Evidence,
    Failed,
    FailedPrecondition,
    FailedRead,
    InDoubt,
    InFlight,
    Outcome,
    PactRef,
    ParamMisfit,
    Rejected,
    Review,
    Settled,
    Shadowed,
    Verdict,
    WaivedBy,
    Wrote,
)

__all__ = [
    "Accepted",
    "Act",
    "ActionType",
    "AsyncActionType",
    "AsyncClaim",
    "AsyncClient",
    "Attested",
    "Claim",
    "Claimed",
    "Client",
    "Committed",
    "CountersignError",
    "DelegationError",
    "Done",
    "Entry",
    "Evidence",
    "Failed",
    "FailedPrecondition",
    "FailedRead",
    "GateError",
    "InDoubt",
    "InFlight",
    "Key",
    "KeyFileError",
    "LogKey",
    "NotDecided",
    "NotDoneError",
    "NotRun",
    "Observation",
    "ObservedFact",
    "Outcome",
    "OutcomeUnknownError",
    "PactRef",
    "ParamMisfit",
    "ProtocolError",
    "Ran",
    "ReceiptError",
    "Rejected",
    "RejectedError",
    "Retries",
    "Review",
    "Settled",
    "Shadowed",
    "TransportError",
    "Verdict",
    "VerifiedEntry",
    "WaivedBy",
    "Wrote",
    "fact",
    "new_idempotency_key",
    "verify_attested",
    "verify_receipt",
]
