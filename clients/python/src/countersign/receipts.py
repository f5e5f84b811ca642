"""Receipts, verified offline: with the log's public key alone, trusting no one (docs/formats/log.md of the project)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from countersign.errors import ReceiptError
from countersign.facts import Attested
from countersign.keys import is_weak, verifies
from countersign.leaves import read_leaf

_PREFIX = "rct1."
_LEAF_BYTES_MAX = 65_535
_PROOF_HASHES_MAX = 65
_NOTE_BYTES_MAX = 131_072
_SIGNATURE_LINES_MAX = 64
_SIZE_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogKey:
    """The public key of a log, `<origin>+<id>+<base64>`, as in `log.vkey` of a data folder."""

    origin: str
    id: bytes
    public: bytes

    @classmethod
    def parse(cls, text: str) -> LogKey:
        """Reads a key; its id must be the one that follows from it."""
        parts = text.strip().split("+", 2)
        if len(parts) != 3:
            raise ReceiptError("this is not the key of a log: it is written <origin>+<id>+<base64>")
        origin, key_id, encoded = parts
        data = _base64(encoded, "the log's key")
        if not _is_origin(origin) or len(data) != 33 or data[0] != 1 or is_weak(data[1:]):
            raise ReceiptError("this is not the Ed25519 key of a log")
        expected = hashlib.sha256(origin.encode() + b"\n" + data).digest()[:4]
        if key_id != expected.hex():
            raise ReceiptError(f"the id of the log's key should be {expected.hex()} and is {key_id}")
        return cls(origin, expected, data[1:])


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A signed statement of origin, size and root of a log, verified."""

    origin: str
    size: int
    root: bytes
    signed_by: LogKey


@dataclass(frozen=True, slots=True)
class VerifiedEntry:
    """An entry that is in the log, under a checkpoint that its key has signed."""

    index: int
    leaf: Mapping[str, Any]
    """The public part of the entry."""
    leaf_bytes: bytes = field(repr=False)
    checkpoint: Checkpoint


def verify_receipt(receipt: str, *keys: LogKey | str) -> VerifiedEntry:
    """Checks a receipt against the log's key. Raises `ReceiptError`; never guesses.

    Where the key was rotated, name the one of that time, or several: each is believed for checkpoints of any size. That a
    replaced key signed nothing after its time is for `countersign verify`, which reads the whole log.
    """
    index, leaf_bytes, proof, note = parse_receipt(receipt)
    checkpoint = verify_checkpoint(note, *keys)
    if root_of(index, checkpoint.size, leaf_hash(leaf_bytes), proof) != checkpoint.root:
        raise ReceiptError(f"the proof does not lead from entry {index} to the checkpoint's root")
    leaf = _leaf(leaf_bytes)
    if leaf.get("index", index) != index:
        raise ReceiptError(f"the leaf says that it is entry {leaf.get('index')}, the receipt that it is {index}")
    return VerifiedEntry(index, leaf, leaf_bytes, checkpoint)


def verify_attested(attested: Attested, *keys: LogKey | str) -> tuple[VerifiedEntry, Mapping[str, Any]]:
    """Checks what proves an entry: the receipt, and that the entry commits to this payload. Raises `ReceiptError`.

    Gives the entry and the object of its payload. Of an observation, `by` of the leaf is the agent, `time` when, and `attested` of the
    payload what it was shown; the facts in it are places in `facts`, which has types and ids by turns. That the agent itself signed its
    request is for `countersign verify --attested`.
    """
    entry = verify_receipt(attested.receipt, *keys)
    if entry.index != attested.entry:
        raise ReceiptError(f"it says that it is entry {attested.entry}, and proves entry {entry.index}")
    try:
        salt = bytes.fromhex(attested.salt)
    except ValueError as error:
        raise ReceiptError("the salt is not hexadecimal") from error
    if len(salt) != 16 or commitment(salt, attested.payload.encode()).hex() != entry.leaf.get("commitment"):
        raise ReceiptError("the payload is not the one that the entry commits to")
    try:
        payload, _ = json.JSONDecoder().raw_decode(attested.payload)
    except ValueError as error:
        raise ReceiptError("the payload is not one of an entry") from error
    if not isinstance(payload, dict):
        raise ReceiptError("the payload is not one of an entry")
    return entry, payload


def parse_receipt(receipt: str) -> tuple[int, bytes, list[bytes], str]:
    """Takes a receipt apart, into index, leaf, proof and checkpoint, and verifies nothing."""
    if not receipt.startswith(_PREFIX):
        raise ReceiptError("this is not a receipt: it does not begin with rct1.")
    encoded = receipt[len(_PREFIX) :]
    try:
        data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ReceiptError("the receipt is not base64url") from error
    if base64.urlsafe_b64encode(data).decode().rstrip("=") != encoded:
        raise ReceiptError("the receipt is not spelled as a gate spells it")
    bytes_ = _Bytes(data)
    index = int.from_bytes(bytes_.take(8), "big")
    length = int.from_bytes(bytes_.take(4), "big")
    if length > _LEAF_BYTES_MAX:
        raise ReceiptError("the leaf in the receipt is too long")
    leaf = bytes_.take(length)
    count = int.from_bytes(bytes_.take(4), "big")
    if count > _PROOF_HASHES_MAX:
        raise ReceiptError("the proof in the receipt is too long")
    proof = [bytes_.take(32) for _ in range(count)]
    try:
        return index, leaf, proof, bytes_.rest().decode()
    except UnicodeDecodeError as error:
        raise ReceiptError("the checkpoint in the receipt is not UTF-8") from error


def verify_checkpoint(note: str, *keys: LogKey | str) -> Checkpoint:
    """Opens a checkpoint with one of the log's keys."""
    known = [key if isinstance(key, LogKey) else LogKey.parse(key) for key in keys]
    if not known:
        raise ReceiptError("no key of the log was given, and without one nothing can be verified")
    if len(note.encode()) > _NOTE_BYTES_MAX:
        raise ReceiptError("the checkpoint is too long")
    text, blank, signatures = note.rpartition("\n\n")
    if not blank or not signatures.endswith("\n"):
        raise ReceiptError("this is not a signed note")
    text += "\n"
    origin, size, root = _statement(text)
    lines = signatures[:-1].split("\n")
    if len(lines) > _SIGNATURE_LINES_MAX:
        raise ReceiptError("the checkpoint has too many signatures")
    signed_by = _signer(text, origin, lines, known)
    if signed_by is None:
        raise ReceiptError(f"the checkpoint of {origin} is not signed with a key that was given")
    return Checkpoint(origin, size, root, signed_by)


def leaf_hash(leaf: bytes) -> bytes:
    """The hash of an entry (RFC 6962)."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node (RFC 6962)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def commitment(salt: bytes, payload: bytes) -> bytes:
    """What the leaf holds in place of a payload."""
    return hashlib.sha256(salt + payload).digest()


def root_of(index: int, size: int, leaf: bytes, proof: Sequence[bytes]) -> bytes:
    """The root to which an inclusion proof leads (RFC 9162, 2.1.3.2); raises where the proof has another length."""
    if not 0 <= index < size <= _SIZE_MAX:
        raise ReceiptError(f"entry {index} is not in a log of {size}")
    node, last, root = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise ReceiptError("the proof is too long")
        if node & 1 or node == last:
            root = node_hash(sibling, root)
            while node and not node & 1:
                node, last = node >> 1, last >> 1
        else:
            root = node_hash(root, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise ReceiptError("the proof is too short")
    return root


def _statement(text: str) -> tuple[str, int, bytes]:
    lines = text.split("\n")
    if len(lines) != 4 or lines[3]:
        raise ReceiptError("the checkpoint does not have three lines: it has extensions, or is something else")
    origin, size, root = lines[0], lines[1], _base64(lines[2], "the root")
    if not _is_origin(origin) or not (size.isascii() and size.isdigit()) or (size != "0" and size.startswith("0")):
        raise ReceiptError("the checkpoint has no origin or no size")
    if len(size) > 19 or int(size) > _SIZE_MAX or len(root) != 32:
        raise ReceiptError("the checkpoint's size or root is out of range")
    return origin, int(size), root


def _signer(text: str, origin: str, lines: Sequence[str], known: Sequence[LogKey]) -> LogKey | None:
    """The first known key that signed. A line that names a known key and does not verify spoils the note; others' do not."""
    found = None
    for line in lines:
        words = line.split(" ")
        if len(words) != 3 or words[0] != "\u2014":
            raise ReceiptError("a signature line of the checkpoint is malformed")
        data = _base64(words[2], "a signature")
        for key in known:
            if words[1] != key.origin or data[:4] != key.id:
                continue
            if key.origin != origin or not verifies(key.public, data[4:], text.encode()):
                raise ReceiptError("the signature on the checkpoint does not hold")
            found = found or key
    return found


def _leaf(data: bytes) -> Mapping[str, Any]:
    """What is not a leaf of this format is shown as empty, since its bytes are what was proved."""
    try:
        return read_leaf(data)
    except ValueError:
        return {}


def _is_origin(text: str) -> bool:
    whole = 1 <= len(text.encode()) <= 256
    return whole and not any(c.isspace() or c == "+" or ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text)


def _base64(text: str, what: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ReceiptError(f"{what} is not base64") from error
    if base64.b64encode(data).decode() != text:
        raise ReceiptError(f"{what} is not spelled as base64 should be")
    return data


class _Bytes:
    """Bytes, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise ReceiptError("the receipt is cut off")
        taken, self._at = self._data[self._at : end], end
        return taken

    def rest(self) -> bytes:
        return self._data[self._at :]
