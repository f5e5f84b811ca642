"""One call from its first attempt to its answer, without I/O: when it is sent again, and what may be said when it fails.

Every attempt has the same body, and so the same idempotency key, and is signed on its own, with the present time and a new
nonce: the gate takes a nonce once, and answers a repeated key with the verdict it has already given. Once an attempt may have
arrived, only a verdict says what became of the call; no refusal of a later attempt does.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import httpx

from countersign import tls
from countersign.calls import Call
from countersign.errors import CountersignError, GateError, OutcomeUnknownError, ProtocolError, TransportError

if TYPE_CHECKING:
    from countersign.sending import Sender

T = TypeVar("T")

# Of these, no byte of the request had left.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

# Answers to a request that was not looked at, and may be later; likewise `not_ready` and every 429 with a `Retry-After`.
_LATER = ("busy", "shutting_down")

# Answers that do not say whether the request was carried out: of 5xx, all but those above and these. A signature that was
# here before may have been here with this very request, sent twice by something on the way.
_READ_FAILED = ("external_unread", "no_adapter")
_UNCLEAR = "signature_replayed"

# Answers of a gate that has looked for the keys: this very request was never carried out.
_NEVER = ("idempotency_key_reused", "group_repeats")

# `created` has whole seconds, so the next one is soon enough to sign again.
_SIGN_AGAIN_AFTER_S = 1.1

Step: TypeAlias = httpx.Request | float
"""What a client has to do next: send this, or wait for so many seconds."""
Sent: TypeAlias = httpx.Response | httpx.RequestError | None
"""What came of it; None of waiting."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how patiently. `Retries(attempts=1, patience_s=0)` sends every call once."""

    attempts: int = 4
    """At most so many requests whose answer was lost, or did not say what became of them."""
    first_delay_s: float = 0.1
    """Doubled with every attempt, and shortened at random by up to a half."""
    longest_delay_s: float = 2.0
    patience_s: float = 5.0
    """For so long a call is sent again that certainly did not arrive: the gate is not there, not ready or busy."""

    def delay_s(self, attempt: int) -> float:
        """How long to wait after this attempt, counted from 1."""
        longest = min(self.longest_delay_s, self.first_delay_s * float(2 ** min(attempt - 1, 30)))
        return longest * random.uniform(0.5, 1.0)


class _Fate(Enum):
    """What an attempt says about the request that it sent."""

    ANSWERED = auto()
    """The gate carried it out, and says so."""
    REFUSED = auto()
    """It was not carried out."""
    NOT_NOW = auto()
    """It was not carried out, and may be later."""
    SIGN_AGAIN = auto()
    """It was not carried out, and another signature may pass."""
    NEVER = auto()
    """It was not carried out, by no attempt: the gate has looked for its key."""
    UNKNOWN = auto()
    """It may have been carried out."""


def exchange(sender: Sender, call: Call[T]) -> Generator[Step, Sent, T]:
    """Sends a call, as often as it takes and may be, and reads the answer. Both clients drive this, and do nothing else."""
    if sender.needs_origin:
        origin: Call[None] = Call("GET", "/log/checkpoint", lambda _: None)
        response = yield from _Attempts(origin, sender).made()
        sender.learn_origin(response)
    attempts = _Attempts(call, sender)
    response = yield from attempts.made()
    return attempts.read(response)


class _Attempts(Generic[T]):
    """The attempts of one call."""

    def __init__(self, call: Call[T], sender: Sender) -> None:
        self._call = call
        self._sender = sender
        self._retries = sender.retries
        self._made = 0
        self._unknown = 0
        self._signed_again = 0
        self._patient_until_s = time.monotonic() + self._retries.patience_s

    def made(self) -> Generator[Step, Sent, httpx.Response]:
        """Makes attempts until one is answered with 200; raises what is known where none is."""
        while True:
            sent = yield self._sender.request(self._call)
            if sent is None:
                raise CountersignError("a client waited where it had to send; this is a fault of this package")
            self._made += 1
            fate, error, after_s = self._judge(sent)
            if error is None and isinstance(sent, httpx.Response):
                return sent
            delay_s = self._again(fate, after_s)
            if delay_s is None:
                cause = sent if isinstance(sent, httpx.RequestError) else None
                raise self._final(fate, error or _not_a_gate(sent)) from cause
            yield delay_s

    def read(self, response: httpx.Response) -> T:
        """The answer as a value. What cannot be read says nothing about what was done."""
        try:
            answer = self._call.read(_object(response))
            return self._call.doubt(answer) if self._call.doubt is not None and self._unknown > 0 else answer
        except ProtocolError as error:
            if self._call.writes:
                raise OutcomeUnknownError(error, self._made, self._call) from error
            raise

    def _judge(self, sent: httpx.Response | httpx.RequestError) -> tuple[_Fate, CountersignError | None, float | None]:
        if isinstance(sent, httpx.RequestError):
            message = f"{self._call.method} {self._call.path}: {type(sent).__name__}: {sent}"
            hint = tls.hint(sent) or "is the gate running, and is this its address?"
            error = TransportError(message, hint, self._made)
            if tls.is_final(sent):
                return _Fate.REFUSED, error, None
            return (_Fate.NOT_NOW if isinstance(sent, _UNSENT) else _Fate.UNKNOWN), error, None
        if sent.status_code == 200:
            return _Fate.ANSWERED, None, None
        refused = _refusal(sent)
        # An answer without the gate's own words may come from a proxy that has passed the request on.
        if not isinstance(refused, GateError):
            return _Fate.UNKNOWN, refused, None
        return _said(refused), refused, refused.retry_after_s

    def _again(self, fate: _Fate, after_s: float | None) -> float | None:
        """How long to wait before the next attempt; None where there is none."""
        now_s = time.monotonic()
        delay_s = self._retries.delay_s(self._made) if after_s is None else after_s
        if fate is _Fate.NOT_NOW:
            return delay_s if now_s + delay_s <= self._patient_until_s else None
        if fate is _Fate.SIGN_AGAIN:
            self._signed_again += 1
            return _SIGN_AGAIN_AFTER_S if self._signed_again < self._retries.attempts else None
        if fate is _Fate.UNKNOWN:
            self._unknown += 1
            # The gate may have been stopped; its restart gets as much time as the first start.
            self._patient_until_s = now_s + self._retries.patience_s
            return delay_s if self._call.repeatable and self._unknown < self._retries.attempts else None
        return None

    def _final(self, fate: _Fate, error: CountersignError) -> CountersignError:
        is_unknown = self._call.writes and self._unknown > 0 and fate is not _Fate.NEVER
        return OutcomeUnknownError(error, self._made, self._call) if is_unknown else error


def _said(refused: GateError) -> _Fate:
    if refused.status == 429 or refused.code == "not_ready":
        # Where it is not said for how long, only a person can change it.
        return _Fate.REFUSED if refused.retry_after_s is None else _Fate.NOT_NOW
    if refused.code in _LATER:
        return _Fate.NOT_NOW
    if refused.code == "signature_expired":
        return _Fate.SIGN_AGAIN
    if refused.code in _NEVER:
        return _Fate.NEVER
    if refused.code == _UNCLEAR or (refused.status >= 500 and refused.code not in _READ_FAILED):
        return _Fate.UNKNOWN
    return _Fate.REFUSED


def _object(response: httpx.Response) -> Mapping[str, Any]:
    try:
        answer = json.loads(response.content)
    except ValueError as error:
        raise _not_a_gate(response) from error
    if not isinstance(answer, dict):
        raise _not_a_gate(response)
    return answer


def _refusal(response: httpx.Response) -> GateError | ProtocolError:
    try:
        detail = _object(response).get("error")
    except ProtocolError as error:
        return error
    if response.status_code < 400 or not isinstance(detail, dict) or not isinstance(detail.get("code"), str):
        return _not_a_gate(response)

    def text(name: str) -> str:
        return str(detail.get(name, ""))

    problems, entry = detail.get("problems"), detail.get("entry")
    after = response.headers.get("Retry-After", "")
    return GateError(
        response.status_code,
        text("code"),
        text("message"),
        text("hint"),
        text("request_id"),
        problems if isinstance(problems, list) else [],
        float(after) if after.isdecimal() else None,
        entry if isinstance(entry, int) else None,
    )


def _not_a_gate(response: httpx.Response | httpx.RequestError) -> ProtocolError:
    if isinstance(response, httpx.RequestError):
        return ProtocolError(str(response))
    start = response.text[:200]
    return ProtocolError(
        f"HTTP {response.status_code} without the JSON of a gate: {start!r}\nhint: is this its address?"
    )
