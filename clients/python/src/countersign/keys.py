"""Ed25519 keys of agents and operators, in the files that `countersign agent new` and `countersign key new` make."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from countersign.errors import KeyFileError

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PREFIX = "did:key:z"
_ED25519 = b"\xed\x01"

_P = 2**255 - 19
_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
# The y coordinates of all points whose order divides 8. A signature under such a key proves nothing: it fits many texts.
_SMALL_ORDER = frozenset({0, 1, _P - 1, _ORDER_8, _P - _ORDER_8})


class Key:
    """A private key. It stays in this process; the gate knows its public name only."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.did = did_of(private.public_key())
        """The public name, `did:key:z6Mk…`."""

    def __repr__(self) -> str:
        return f"Key({self.did})"

    @classmethod
    def generate(cls) -> Key:
        """A new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Key:
        """Reads a key file: PKCS#8 PEM, and like the command line only one that no one else can read."""
        file = Path(path)
        try:
            mode = file.stat().st_mode & 0o777
            pem = file.read_bytes()
        except OSError as error:
            raise KeyFileError(
                f"cannot read the key {file}: {error}\nhint: `countersign agent new` makes one"
            ) from error
        if os.name == "posix" and mode & 0o077:
            raise KeyFileError(
                f"the key {file} can be read by others (mode {mode:o})\n"
                f"hint: chmod 600 {file}, and rotate the key if it is not yours alone any more"
            )
        try:
            private = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise KeyFileError(f"{file} is no private key in PKCS#8 PEM: {error}") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyFileError(
                f"{file} is a key of another kind\nhint: only Ed25519 is accepted; `countersign key new`"
            )
        return cls(private)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the key to a new file of mode 0600. A file that is there is never overwritten."""
        pem = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise KeyFileError(f"{path} is there already, and a key is never overwritten") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())

    def sign(self, message: bytes) -> bytes:
        """The signature of Ed25519, 64 bytes."""
        return self._private.sign(message)

    def word_for(self, *words: str) -> str:
        """A word of 256 bits that follows from this key and these words: the same every time, and no one else can tell it.

        It is the digest of a signature, which Ed25519 makes without randomness. What is signed begins with a text that no
        request, delegation or checkpoint begins with.
        """
        spelled = json.dumps(words, ensure_ascii=True).encode()
        digest = hashlib.sha256(self.sign(b"countersign word\x00" + spelled)).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def private_bytes(self) -> bytes:
        """The 32 secret bytes, for libraries that want them."""
        return self._private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())

    def public_bytes(self) -> bytes:
        """The 32 public bytes."""
        return self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def did_of(public: Ed25519PublicKey) -> str:
    """The public name of a key."""
    number = int.from_bytes(_ED25519 + public.public_bytes(Encoding.Raw, PublicFormat.Raw), "big")
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = _ALPHABET[digit] + digits
    return _PREFIX + digits


def public_bytes_of(did: str) -> bytes:
    """The 32 bytes of the key that a public name names."""
    number = 0
    for digit in did.removeprefix(_PREFIX):
        value = _ALPHABET.find(digit)
        if value < 0:
            raise ValueError(f"{did} is not a did:key")
        number = number * 58 + value
    if number >> (34 * 8):
        raise ValueError(f"{did} is not the did:key of an Ed25519 key")
    data = number.to_bytes(34, "big")
    if not did.startswith(_PREFIX) or data[:2] != _ED25519:
        raise ValueError(f"{did} is not the did:key of an Ed25519 key")
    return data[2:]


def verifies(public: bytes, signature: bytes, message: bytes) -> bool:
    """Strict verification, as the gate does it: no point of small order, and one spelling of everything.

    The library refuses a scalar that is too large and compares R by its bytes; what it does not look at is done here.
    """
    if len(public) != 32 or len(signature) != 64 or is_weak(public) or is_weak(signature[:32]):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_weak(point: bytes) -> bool:
    """Whether a point is of small order, or not in its one spelling."""
    y = int.from_bytes(point, "little") & ((1 << 255) - 1)
    return y >= _P or y in _SMALL_ORDER
