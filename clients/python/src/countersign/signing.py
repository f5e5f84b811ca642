"""HTTP Message Signatures (RFC 9421) as the gate wants them: see docs/guides/identity.md of the project."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from countersign.keys import Key


@dataclass(frozen=True, slots=True)
class Signable:
    """What of a request is signed."""

    method: str
    authority: str
    """Host, and port where it is not the scheme's own, in lower case."""
    path: str
    """As sent, percent-encoded."""
    query: str | None
    """As sent, without the question mark."""
    body: bytes
    if_match: str | None = None
    """The field `If-Match`, where it is sent: without it the request means something else."""
    actions: str | None = None
    """The field `Countersign-Actions` of a batch: which actions the signature is for."""

    def component(self, name: str) -> str:
        """The value of one covered component."""
        if name == "content-digest":
            return content_digest(self.body)
        if name == "if-match":
            if self.if_match is None:
                raise ValueError("`if-match` is covered and not sent")
            return self.if_match
        if name == "countersign-actions":
            if self.actions is None:
                raise ValueError("`countersign-actions` is covered and not sent")
            return self.actions
        values = {
            "@method": self.method,
            "@authority": self.authority,
            "@path": self.path,
            "@query": f"?{self.query or ''}",
        }
        return values[name]

    def covered(self) -> list[str]:
        """What the gate wants covered, for this request."""
        names = ["@method", "@authority", "@path"]
        if self.query is not None:
            names.append("@query")
        if self.body:
            names.append("content-digest")
        if self.if_match is not None:
            names.append("if-match")
        if self.actions is not None:
            names.append("countersign-actions")
        return names


def content_digest(body: bytes) -> str:
    """The value of `Content-Digest` (RFC 9530)."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def actions_digest(bodies: Sequence[bytes]) -> str:
    """The value of `Countersign-Actions`: the digest of the ids of a batch's actions, one behind the other."""
    return content_digest(b"".join(hashlib.sha256(body).digest() for body in bodies))


def signature_base(request: Signable, covered: Sequence[str], params: str) -> str:
    """The text that is signed; `params` is the member of `Signature-Input` without its label."""
    lines = [f'"{name}": {request.component(name)}' for name in covered]
    return "\n".join([*lines, f'"@signature-params": {params}'])


def sign(
    key: Key, request: Signable, origin: str, created: int | None = None, nonce: str | None = None
) -> dict[str, str]:
    """The fields to send along. Each call draws a new nonce: a signature is accepted once."""
    covered = request.covered()
    names = " ".join(f'"{name}"' for name in covered)
    now = int(time.time()) if created is None else created
    word = secrets.token_urlsafe(18) if nonce is None else nonce
    params = f'({names});created={now};nonce="{word}";keyid="{key.did}";tag="countersign:{origin}"'
    signature = base64.b64encode(key.sign(signature_base(request, covered, params).encode())).decode()
    fields = {"Signature-Input": f"sig1={params}", "Signature": f"sig1=:{signature}:"}
    if request.body:
        fields["Content-Digest"] = content_digest(request.body)
    if request.actions is not None:
        fields["Countersign-Actions"] = request.actions
    return fields
