"""When a request is sent again, and when an answer or failure is final. Waiting itself is the clients' business.

Every attempt has the same body, and so the same idempotency key, and a signature with a nonce of its own: the gate
takes a nonce once, and answers a repeated key with the verdict it has already given.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx

from countersign.calls import Call
from countersign.errors import GateError, ProtocolError, TransportError

T = TypeVar("T")

# Of these, no byte of the request had left.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how patiently."""

    attempts: int = 4
    """At most so many requests for one call."""
    first_delay_s: float = 0.1
    """Doubled with every attempt, and shortened at random by up to a half."""
    longest_delay_s: float = 2.0

    def delay_s(self, attempt: int) -> float:
        """How long to wait after this attempt, counted from 1."""
        longest = min(self.longest_delay_s, self.first_delay_s * float(2 ** (attempt - 1)))
        return longest * random.uniform(0.5, 1.0)


class Attempts(Generic[T]):
    """The attempts of one call."""

    def __init__(self, call: Call[T], retries: Retries) -> None:
        self._call = call
        self._retries = retries
        self._made = 0

    def after_failure(self, error: httpx.TransportError) -> float:
        """How long to wait before the next attempt; raises where there is none."""
        self._made += 1
        may_repeat = self._call.repeatable or isinstance(error, _UNSENT)
        if may_repeat and self._made < self._retries.attempts:
            return self._retries.delay_s(self._made)
        hint = "is the gate running, and is this its address?"
        if not isinstance(error, _UNSENT) and self._call.idempotency_key:
            hint = "it may have been decided; ask again with the same body and idempotency_key to learn the verdict"
        message = f"{self._call.method} {self._call.path}: {type(error).__name__}: {error}"
        raise TransportError(message, hint, self._made, self._call.idempotency_key) from error

    def after_answer(self, response: httpx.Response) -> float | None:
        """How long to wait before the next attempt; None where this answer counts. A 503 is not a verdict."""
        self._made += 1
        if response.status_code != 503 or self._made >= self._retries.attempts:
            return None
        return self._retries.delay_s(self._made)

    def read(self, response: httpx.Response) -> T:
        """The answer as a value, or the error that it is."""
        answer = _object(response)
        if response.status_code != 200:
            raise _error(response, answer)
        return self._call.read(answer)


def _object(response: httpx.Response) -> Mapping[str, Any]:
    try:
        answer = json.loads(response.content)
    except ValueError as error:
        raise _not_a_gate(response) from error
    if not isinstance(answer, dict):
        raise _not_a_gate(response)
    return answer


def _error(response: httpx.Response, answer: Mapping[str, Any]) -> GateError | ProtocolError:
    detail = answer.get("error")
    if not isinstance(detail, dict):
        return _not_a_gate(response)

    def text(name: str) -> str:
        return str(detail.get(name, ""))

    problems = detail.get("problems")
    return GateError(
        response.status_code,
        text("code"),
        text("message"),
        text("hint"),
        text("request_id"),
        problems if isinstance(problems, list) else [],
    )


def _not_a_gate(response: httpx.Response) -> ProtocolError:
    start = response.text[:200]
    return ProtocolError(
        f"HTTP {response.status_code} without the JSON of a gate: {start!r}\nhint: is this its address?"
    )
