"""Keys and signatures, against the vectors that the Rust code is tested with, and against files of the command line."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from countersign import Key, KeyFileError
from countersign.keys import public_bytes_of, verifies
from countersign.signing import Signable, actions_digest, content_digest, sign, signature_base
from tests.gate import ROOT, Gate

VECTORS: dict[str, Any] = json.loads((ROOT / "vectors/signatures.json").read_text())
GOOD = [case for case in VECTORS["cases"] if case["expect"] == "ok"]


def request_of(case: dict[str, Any]) -> Signable:
    condition, actions = case["headers"].get("If-Match"), case["headers"].get("Countersign-Actions")
    body = case.get("body", "").encode()
    return Signable(case["method"], case["authority"], case["path"], case.get("query"), body, condition, actions)


def parts_of(case: dict[str, Any]) -> tuple[list[str], str, bytes]:
    params = case["headers"]["Signature-Input"].split("=", 1)[1]
    names = [name.strip('"') for name in params[1 : params.index(")")].split(" ")]
    return names, params, base64.b64decode(case["headers"]["Signature"].split(":")[1])


def test_there_are_vectors() -> None:
    assert len(GOOD) >= 3
    assert len(VECTORS["cases"]) > len(GOOD)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: str(case["name"]))
def test_the_base_of_a_good_request_is_the_vectors_and_its_signature_holds(case: dict[str, Any]) -> None:
    request = request_of(case)
    names, params, signature = parts_of(case)
    base = signature_base(request, names, params)
    assert base == case["base"]
    assert verifies(public_bytes_of(VECTORS["key"]), signature, base.encode())
    assert not verifies(public_bytes_of(VECTORS["key"]), signature, base.encode() + b" ")


def test_a_batch_is_listed_as_the_vectors_list_it() -> None:
    [case] = [case for case in GOOD if "Countersign-Actions" in case["headers"]]
    bodies = [json.dumps(one, separators=(",", ":")).encode() for one in json.loads(case["body"])]
    assert actions_digest(bodies) == case["headers"]["Countersign-Actions"]
    assert request_of(case).covered()[-1] == "countersign-actions"


def test_what_is_signed_covers_what_the_gate_wants() -> None:
    key = Key.generate()
    request = Signable("POST", "gate.example:8420", "/v1/actions", "wait_ms=5", b"{}")
    fields = sign(key, request, "gate.example/log", created=1_700_000_000, nonce="jT8dA0yZbq3mX5wK")
    params = fields["Signature-Input"].removeprefix("sig1=")
    assert params == (
        '("@method" "@authority" "@path" "@query" "content-digest");created=1700000000;nonce="jT8dA0yZbq3mX5wK"'
        f';keyid="{key.did}";tag="countersign:gate.example/log"'
    )
    assert fields["Content-Digest"] == content_digest(b"{}")
    signature = base64.b64decode(fields["Signature"].split(":")[1])
    base = signature_base(request, request.covered(), params)
    assert verifies(key.public_bytes(), signature, base.encode())


def test_every_signature_has_a_nonce_of_its_own() -> None:
    key, request = Key.generate(), Signable("GET", "gate.example", "/v1/pacts", None, b"")
    inputs = {sign(key, request, "gate.example/log")["Signature-Input"] for _ in range(100)}
    assert len(inputs) == 100
    assert all("content-digest" not in one and "@query" not in one for one in inputs)


def test_key_files_are_the_command_lines(gate: Gate, tmp_path: Path) -> None:
    assert Key.load(gate.key("refund-1")).did == gate.must("key", "show", "refund-1.key").strip()
    key = Key.generate()
    key.save(tmp_path / "own.key")
    assert gate.must("key", "show", str(tmp_path / "own.key")).strip() == key.did
    assert public_bytes_of(key.did) == key.public_bytes()
    assert Key.load(tmp_path / "own.key").did == key.did


def test_key_files_are_never_overwritten_and_never_shared(tmp_path: Path) -> None:
    file = tmp_path / "a.key"
    Key.generate().save(file)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(KeyFileError, match="never overwritten"):
        Key.generate().save(file)
    os.chmod(file, 0o640)
    with pytest.raises(KeyFileError, match="chmod 600"):
        Key.load(file)
    with pytest.raises(KeyFileError, match="cannot read"):
        Key.load(tmp_path / "b.key")
    other = tmp_path / "c.key"
    other.touch(0o600)
    other.write_text("not a key")
    with pytest.raises(KeyFileError, match="PKCS#8"):
        Key.load(other)


def test_a_key_never_shows_its_secret() -> None:
    key = Key.generate()
    assert repr(key) == f"Key({key.did})"


@pytest.mark.parametrize("y", [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18])
def test_weak_points_verify_nothing(y: int) -> None:
    # Under the neutral element, R = S·B with S = 0 would fit every message.
    weak = y.to_bytes(32, "little")
    assert not verifies(weak, (1).to_bytes(32, "little") + bytes(32), b"anything")
    assert not verifies(Key.generate().public_bytes(), weak + bytes(32), b"anything")


@pytest.mark.parametrize("word", ["did:key:z6Mk", "did:key:z0OIl", "did:web:x", "did:key:z" + "z" * 90])
def test_what_is_not_a_key_name_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="did:key"):
        public_bytes_of(word)
