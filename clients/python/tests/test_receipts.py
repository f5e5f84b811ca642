"""Receipts, verified offline: the vectors, the real gate's, and everything that must not pass."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from countersign import Client, Key, LogKey, ReceiptError, fact, verify_attested, verify_receipt
from countersign.leaves import read_leaf
from countersign.receipts import commitment, leaf_hash, node_hash, parse_receipt, root_of, verify_checkpoint
from tests.gate import ACCOUNT, ORIGIN, ROOT, Gate
from tests.test_client import refund

VECTORS: dict[str, Any] = json.loads((ROOT / "vectors/ledger.json").read_text())
ENTRIES: list[dict[str, Any]] = json.loads((ROOT / "vectors/entries.json").read_text())["entries"]
KEY: str = VECTORS["key"]["verifier_key"]
RECEIPTS: list[dict[str, Any]] = VECTORS["receipts"]


def test_hashes_are_the_vectors() -> None:
    for leaf in VECTORS["hash"]["leaves"]:
        assert leaf_hash(bytes.fromhex(leaf["leaf"])).hex() == leaf["hash"]
    node = VECTORS["hash"]["node"]
    assert node_hash(bytes.fromhex(node["left"]), bytes.fromhex(node["right"])).hex() == node["hash"]
    kept = VECTORS["commitment"]
    assert commitment(bytes.fromhex(kept["salt"]), bytes.fromhex(kept["payload"])).hex() == kept["hash"]


def test_leaves_of_the_vectors_are_read_as_the_gate_shows_them() -> None:
    for entry in ENTRIES:
        leaf = bytes.fromhex(entry["leaf"])
        assert read_leaf(leaf) == entry["shown"]["leaf"]
        cut = [leaf[:end] for end in range(len(leaf))]
        # One leaf has one spelling.
        for other in (*cut, leaf + b"\0", leaf[:2] + b"\x18\x04" + leaf[3:], leaf[:2] + b"\x05" + leaf[3:]):
            with pytest.raises(ValueError, match=r"."):
                read_leaf(other)


@pytest.mark.parametrize("vector", RECEIPTS, ids=lambda vector: f"entry {vector['index']}")
def test_receipts_of_the_vectors_verify(vector: dict[str, Any]) -> None:
    verified = verify_receipt(vector["receipt"], KEY)
    assert verified.index == vector["index"]
    assert verified.leaf_bytes.hex() == vector["leaf"]
    assert (verified.checkpoint.origin, verified.checkpoint.size) == ("example.com/gate", 300)
    index, leaf, proof, note = parse_receipt(vector["receipt"])
    assert (index, leaf.hex(), [one.hex() for one in proof]) == (vector["index"], vector["leaf"], vector["proof"])
    assert note == vector["checkpoint"]


@pytest.mark.parametrize("vector", VECTORS["checkpoints"], ids=lambda vector: f"size {vector['size']}")
def test_checkpoints_of_the_vectors_verify(vector: dict[str, Any]) -> None:
    checkpoint = verify_checkpoint(vector["note"], KEY)
    roots = {one["size"]: one["root"] for one in VECTORS["tree"]["roots"]}
    assert (checkpoint.size, checkpoint.root.hex()) == (vector["size"], roots[vector["size"]])


def test_proofs_of_every_small_tree_lead_to_its_root() -> None:
    def root(leaves: list[bytes]) -> bytes:
        if len(leaves) == 1:
            return leaves[0]
        half = 1 << (len(leaves) - 1).bit_length() - 1
        return node_hash(root(leaves[:half]), root(leaves[half:]))

    def proof(index: int, leaves: list[bytes]) -> list[bytes]:
        if len(leaves) == 1:
            return []
        half = 1 << (len(leaves) - 1).bit_length() - 1
        if index < half:
            return [*proof(index, leaves[:half]), root(leaves[half:])]
        return [*proof(index - half, leaves[half:]), root(leaves[:half])]

    for size in range(1, 34):
        leaves = [leaf_hash(bytes([n])) for n in range(size)]
        for index in range(size):
            steps = proof(index, leaves)
            assert root_of(index, size, leaves[index], steps) == root(leaves)
            with pytest.raises(ReceiptError, match="too long"):
                root_of(index, size, leaves[index], [*steps, bytes(32)])
            if steps:
                with pytest.raises(ReceiptError, match="too short"):
                    root_of(index, size, leaves[index], steps[:-1])
                for at in range(len(steps)):
                    wrong = [bytes(32) if n == at else step for n, step in enumerate(steps)]
                    assert root_of(index, size, leaves[index], wrong) != root(leaves)


def test_the_gates_receipts_verify_with_its_log_key_and_no_other(gate: Gate, client: Client, account: str) -> None:
    seen = client.observe(fact("Account", account))
    verdict = client.act("billing", "refund", refund(account), observations=[seen]).unwrap()
    assert verdict.entry is not None
    assert verdict.receipt is not None
    verified = verify_receipt(verdict.receipt, gate.log_key)
    assert verified.index == verdict.entry
    assert (verified.leaf["by"], verified.leaf["verdict"], verified.leaf["action"]) == (
        "refund-1",
        "committed",
        verdict.action,
    )
    assert verified.checkpoint.origin == ORIGIN
    later = verify_receipt(client.receipt(verdict.entry), gate.log_key)
    assert later.leaf == verified.leaf
    with pytest.raises(ReceiptError, match="not signed with a key that was given"):
        verify_receipt(verdict.receipt, KEY)


def test_after_a_rotation_the_key_of_the_time_counts(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    gate.start()
    try:
        before = gate.log_key
        with Client(gate.url, key=gate.admin_key, origin=ORIGIN) as auditor:
            old = auditor.receipt(0)
            gate.admin("key", "rotate-log", "--reason", "a test")
            after = gate.log_key
            gate.put("Account", "42", ACCOUNT)
            new = auditor.receipt(0)
    finally:
        gate.stop()
    assert before != after
    assert verify_receipt(old, before).leaf == verify_receipt(new, after).leaf
    assert verify_receipt(new, before, after).checkpoint.signed_by == LogKey.parse(after)
    for receipt, key in ((old, after), (new, before)):
        with pytest.raises(ReceiptError, match="not signed with a key that was given"):
            verify_receipt(receipt, key)


def test_one_flipped_bit_anywhere_is_found() -> None:
    data = base64.urlsafe_b64decode(RECEIPTS[2]["receipt"].removeprefix("rct1.") + "==")
    for at in range(len(data)):
        altered = bytearray(data)
        altered[at] ^= 1
        word = "rct1." + base64.urlsafe_b64encode(bytes(altered)).decode().rstrip("=")
        with pytest.raises(ReceiptError):
            verify_receipt(word, KEY)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda word: word + "=",
        lambda word: word[:-4],
        lambda word: word.replace("rct1.", "rct2."),
        lambda word: word.replace("-", "+", 1),
        lambda word: word + "\n",
        lambda word: "rct1.",
        lambda word: "rct1.AAAA",
    ],
)
def test_another_spelling_is_refused(spoil: Any) -> None:
    with pytest.raises(ReceiptError):
        verify_receipt(spoil(RECEIPTS[1]["receipt"]), KEY)


def test_a_witness_is_passed_over_and_a_false_signature_of_the_log_is_not() -> None:
    note: str = VECTORS["checkpoints"][2]["note"]
    witness = base64.b64encode(b"wxyz" + bytes(64)).decode()
    assert verify_checkpoint(f"{note}\u2014 witness.example {witness}\n", KEY).size == 300
    false = base64.b64encode(LogKey.parse(KEY).id + bytes(64)).decode()
    with pytest.raises(ReceiptError, match="does not hold"):
        verify_checkpoint(f"{note}\u2014 example.com/gate {false}\n", KEY)
    with pytest.raises(ReceiptError, match="three lines"):
        verify_checkpoint(note.replace("\n\n", "\nextension\n\n"), KEY)
    with pytest.raises(ReceiptError, match="no key"):
        verify_checkpoint(note)


def test_keys_that_are_none_are_refused() -> None:
    origin, key_id, key = KEY.split("+", 2)
    weak = base64.b64encode(b"\x01" + (1).to_bytes(32, "little")).decode()
    for text in (f"{origin}+00000000+{key}", f"{origin}+{key_id}", f"a b+{key_id}+{key}", f"{origin}+{key_id}+{weak}"):
        with pytest.raises(ReceiptError):
            LogKey.parse(text)
    assert LogKey.parse(KEY + "\n").public != Key.generate().public_bytes()


def test_what_was_shown_is_proved_to_others_and_nothing_else_is(gate: Gate, client: Client, account: str) -> None:
    name = fact("Account", account)
    shown = client.observe(name, attest=True)
    assert client.observe(name).attested is None
    attested = shown.attested
    assert attested is not None
    entry, payload = verify_attested(attested, gate.log_key)
    assert (entry.leaf["kind"], entry.leaf["time"], entry.index) == ("observation", shown.observed_at, shown.position)
    assert payload["attested"][0]["value"] == dict(shown[name])
    for forged in (
        replace(attested, payload=attested.payload.replace("active", "frozen")),
        replace(attested, salt="00" * 16),
        replace(attested, salt="zz"),
        replace(attested, entry=attested.entry + 1),
    ):
        with pytest.raises(ReceiptError):
            verify_attested(forged, gate.log_key)
