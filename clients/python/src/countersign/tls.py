"""Whom to trust over TLS, and what to show."""

from __future__ import annotations

import os
import ssl

import httpx

from countersign.errors import CountersignError

PathLike = str | os.PathLike[str]


def context(
    ca: PathLike | None, certificate: PathLike | None, certificate_key: PathLike | None
) -> ssl.SSLContext | None:
    """The trust of a client that was told some; None where nothing was said, and the usual one holds.

    With `ca` only the authorities in that file are trusted.
    """
    if certificate is None and certificate_key is not None:
        raise CountersignError(
            "there is a key and no certificate that it is for\nhint: name its file with `certificate`"
        )
    if ca is None and certificate is None:
        return None
    try:
        # The public ones are those that httpx trusts, whatever certificate is shown.
        trusted = httpx.create_ssl_context(trust_env=False) if ca is None else ssl.create_default_context(cafile=ca)
        if certificate is not None:
            trusted.load_cert_chain(certificate, certificate_key)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(os.fspath(path) for path in (ca, certificate, certificate_key) if path is not None)
        raise CountersignError(
            f"the TLS files cannot be used ({named}): {error}\nhint: all are in PEM, and the key is that of the certificate"
        ) from error
    return trusted


def hint(error: BaseException | None) -> str | None:
    """What to do about an error, if TLS is its cause."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return _untrusted(error)
        if isinstance(error, ssl.SSLError):
            return "does the gate speak TLS there, and does it want a client certificate (`certificate`)? its log says why it refused"
        error = error.__cause__ or error.__context__
    return None


def is_final(error: BaseException | None) -> bool:
    """Whether a second try would end in the same way: one of the two certificates is not good, and nothing was looked at."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        if isinstance(error, ssl.SSLError) and any(word in str(error).upper() for word in _REFUSALS):
            return True
        error = error.__cause__ or error.__context__
    return False


# Alerts of a server that refuses a client's certificate, or wants one: it has looked at nothing that came after the handshake.
_REFUSALS = (
    "ALERT_CERTIFICATE",
    "ALERT CERTIFICATE",
    "ALERT_BAD_CERTIFICATE",
    "ALERT BAD CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT UNKNOWN CA",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT UNSUPPORTED CERTIFICATE",
    "CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_CERTIFICATE_REVOKED",
)


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message
    if "expired" in said or "not yet valid" in said:
        return "its operator renews the certificate; is this machine's clock right?"
    if "mismatch" in said or "match" in said:
        return "call it by a name that its certificate has"
    return "name the file with the certificate of its authority with `ca`"
