"""What both clients know: the gate's address and name, the key, and how a call becomes a signed request."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

import httpx

from countersign.calls import Call
from countersign.errors import CountersignError, ProtocolError
from countersign.keys import Key
from countersign.retrying import Retries
from countersign.signing import Signable, sign

DEFAULT_URL = "http://127.0.0.1:8420"


class Sender:
    """Builds requests. Holds no connection and waits for nothing."""

    def __init__(
        self,
        url: str,
        key: Key | str | os.PathLike[str] | None,
        origin: str | None,
        agent: str | None,
        retries: Retries,
        timeout_s: float,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise CountersignError(f"{url!r} is not the address of a gate\nhint: for example {DEFAULT_URL}")
        if key is not None and agent is not None:
            raise CountersignError(
                "both a key and an agent were given\nhint: who signs is who acts; `agent` is for open gates, which have no keys"
            )
        self.url = url.rstrip("/")
        self.key = key if key is None or isinstance(key, Key) else Key.load(key)
        self.origin = origin
        self.agent = agent
        self.retries = retries
        self.timeout_s = timeout_s

    @property
    def needs_origin(self) -> bool:
        """Whether the gate must be asked for its name before anything can be signed for it."""
        return self.key is not None and self.origin is None

    def learn_origin(self, response: httpx.Response) -> None:
        """Takes the gate's name from its checkpoint: the first line."""
        line = response.text.split("\n", 1)[0]
        if response.status_code != 200 or not line or any(c.isspace() for c in line):
            raise ProtocolError(
                f"{self.url} does not say its origin (HTTP {response.status_code})\nhint: is this a gate?"
            )
        self.origin = line

    def request(self, call: Call[Any]) -> httpx.Request:
        """A request for this attempt, with a signature and nonce of its own."""
        query = "" if call.query is None else f"?{call.query}"
        headers = {"Accept": "application/json"}
        if call.body:
            headers["Content-Type"] = "application/json"
        if self.agent is not None:
            headers["Countersign-Agent"] = self.agent
        limit_s = self.timeout_s + call.wait_ms / 1000
        request = httpx.Request(
            call.method,
            f"{self.url}{call.path}{query}",
            headers=headers,
            content=call.body or None,
            extensions={"timeout": httpx.Timeout(limit_s).as_dict()},
        )
        if self.key is not None and self.origin is not None:
            request.headers.update(sign(self.key, _signable(request, call), self.origin))
        return request


def _signable(request: httpx.Request, call: Call[Any]) -> Signable:
    """Reads back what will be sent, so that what is signed is what leaves."""
    path, mark, query = request.url.raw_path.decode("ascii").partition("?")
    authority = request.headers["host"].lower()
    return Signable(request.method, authority, path, query if mark else None, call.body, actions=call.actions)
