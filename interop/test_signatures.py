"""Signatures on requests, judged by an implementation that is not ours.

The library signs and the gate verifies; our client signs and the library verifies; and both read the vectors. Run by
`cargo xtask test`, which gives the binary's path in COUNTERSIGN.
"""

import base64
import datetime
import hashlib
import http.server
import json
import os
import pathlib
import secrets
import signal
import subprocess
import tempfile
import threading
import unittest

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, HTTPSignatureKeyResolver, InvalidSignature
from http_message_signatures.algorithms import ED25519

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("COUNTERSIGN", str(ROOT / "target/debug/countersign"))
ORIGIN = "interop.example/log"
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def did_of(public_key):
    """The did:key of an Ed25519 key, worked out here and not by the binary."""
    number = int.from_bytes(b"\xed\x01" + public_key.public_bytes_raw(), "big")
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = ALPHABET[digit] + digits
    return "did:key:z" + digits


def key_of(did):
    """The public key that a did:key names."""
    number = 0
    for digit in did.removeprefix("did:key:z"):
        number = number * 58 + ALPHABET.index(digit)
    return Ed25519PublicKey.from_public_bytes(number.to_bytes(34, "big")[2:])


def digest_of(body):
    return "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":"


class Keys(HTTPSignatureKeyResolver):
    """Private keys that are known here; public keys follow from their names."""

    def __init__(self, *private_keys):
        self.private = {did_of(key.public_key()): key for key in private_keys}

    def resolve_private_key(self, key_id):
        return self.private[key_id]

    def resolve_public_key(self, key_id):
        return key_of(key_id)


def run(*words, cwd, **more):
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "100"}
    return subprocess.run([BINARY, *words], cwd=cwd, env=environment, capture_output=True, text=True, **more)


def must(*words, cwd):
    ran = run(*words, cwd=cwd)
    assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
    return ran.stdout


class Recorder(http.server.BaseHTTPRequestHandler):
    """A server that keeps what it was sent, and knows only its own name."""

    seen = []

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        Recorder.seen.append((self.command, self.path, dict(self.headers), body))
        if self.path == "/log/checkpoint":
            content, kind = f"{ORIGIN}\n1\nAAAA\n".encode(), "text/plain"
        else:
            error = {"code": "not_found", "message": "this only listens", "hint": "none", "request_id": "0"}
            content, kind = json.dumps({"error": error}).encode(), "application/json"
        self.send_response(200 if kind == "text/plain" else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


class OurClient(unittest.TestCase):
    """What our command line signs, the library accepts."""

    def test_the_library_verifies_what_our_client_signs(self):
        Recorder.seen = []
        server = http.server.HTTPServer(("127.0.0.1", 0), Recorder)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}"
        with tempfile.TemporaryDirectory() as folder:
            did = must("key", "new", "a.key", cwd=folder).strip()
            pem = pathlib.Path(folder, "a.key").read_bytes()
            private = serialization.load_pem_private_key(pem, password=None)
            self.assertEqual(did_of(private.public_key()), did)
            at = ["--server", url, "--key", "a.key"]
            pathlib.Path(folder, "p.toml").write_text((ROOT / "examples/billing.toml").read_text())
            run("fact", "get", "Account", "4/2 é", *at, cwd=folder)
            run("ledger", "list", *at, cwd=folder)
            run("fact", "put", "Account", "42", '{"status":"é"}', *at, cwd=folder)
            run("fact", "delete", "Account", "42", *at, cwd=folder)
            run("fact", "delete", "Account", "42", "--if-match", "7", *at, cwd=folder)
            run("pact", "publish", "p.toml", *at, cwd=folder)
            run("observe", "Account::42", *at, cwd=folder)
        signed = [request for request in Recorder.seen if request[1] != "/log/checkpoint"]
        self.assertEqual({method for method, *_ in signed}, {"GET", "POST", "PUT", "DELETE"})
        self.assertTrue(any("?" in path for _, path, *_ in signed), "none had a query")
        self.assertTrue(any("if-match" in map(str.lower, headers) for _, _, headers, _ in signed), "none had a condition")
        for method, path, headers, body in signed:
            with self.subTest(f"{method} {path}"):
                self.verify(url, method, path, headers, body, did)

    def verify(self, url, method, path, headers, body, did):
        if body:
            self.assertEqual(headers["content-digest"], digest_of(body))
        request = requests.Request(method, url, headers=headers, data=body).prepare()
        request.url = url + path
        [result] = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=Keys()).verify(request)
        self.assertEqual(result.parameters["keyid"], did)
        self.assertEqual(result.parameters["tag"], f"countersign:{ORIGIN}")
        covered = {name.strip('"') for name in result.covered_components} - {"@signature-params"}
        needed = {"@method", "@authority", "@path"}
        needed |= {"@query"} if "?" in path else set()
        needed |= {"content-digest"} if body else set()
        needed |= {"if-match"} if "if-match" in map(str.lower, headers) else set()
        self.assertEqual(covered, needed)
        request.method = "HEAD"
        with self.assertRaises(InvalidSignature):
            HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=Keys()).verify(request)


class OurGate(unittest.TestCase):
    """What the library signs, the real binary accepts; and what was altered after signing it does not."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cwd = cls.folder.name
        # A key that another program made, which the binary must read.
        admin = Ed25519PrivateKey.generate()
        cls.agent = Ed25519PrivateKey.generate()
        must("init", "--origin", ORIGIN, "--data", "data", "--admin-key", "first.key", cwd=cwd)
        private = serialization.PrivateFormat.PKCS8
        pem = admin.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
        file = pathlib.Path(cwd, "admin.key")
        file.touch(0o600)
        file.write_bytes(pem)
        must_key = must("key", "show", "admin.key", cwd=cwd).strip()
        assert must_key == did_of(admin.public_key()), must_key
        at = ["--data", "data", "--key"]
        roles = [word for role in ("admin", "publisher", "feeder", "auditor") for word in ("--role", role)]
        must("operator", "new", "py-admin", *roles, "--public-key", must_key, *at, "first.key", cwd=cwd)
        agent = ["agent", "new", "py-1", "--org", "acme", "--role", "refunder", "--trust", "700"]
        must(*agent, "--public-key", did_of(cls.agent.public_key()), *at, "admin.key", cwd=cwd)
        must("pact", "publish", str(ROOT / "examples/billing.toml"), *at, "admin.key", cwd=cwd)
        account = '{"status":"active","balance":900000,"owner":"ada"}'
        must("fact", "put", "Account", "42", account, *at, "admin.key", cwd=cwd)
        cls.admin = admin
        words = [BINARY, "serve", "--data", "data", "--listen", "127.0.0.1:0"]
        cls.server = subprocess.Popen(words, cwd=cwd, stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end)
        for line in cls.server.stderr:
            if line.startswith("Listening on "):
                cls.url = line.removeprefix("Listening on ").strip()
                break
        threading.Thread(target=cls.server.stderr.read, daemon=True).start()

    @classmethod
    def end(cls):
        cls.server.send_signal(signal.SIGTERM)
        cls.server.wait()
        cls.server.stderr.close()

    def request(self, key, method, path, body=None, if_match=None, **more):
        """A request that the library signed."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        headers |= {"If-Match": if_match} if if_match is not None else {}
        data = None if body is None else json.dumps(body).encode()
        request = requests.Request(method, self.url + path, headers=headers, data=data).prepare()
        covered = ["@method", "@authority", "@path"]
        if "?" in path:
            covered.append("@query")
        if data:
            request.headers["Content-Digest"] = digest_of(data)
            covered.append("content-digest")
        if if_match is not None:
            covered.append("if-match")
        settings = {"nonce": secrets.token_urlsafe(18), "tag": f"countersign:{ORIGIN}", **more}
        signer = HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=Keys(key))
        settings.setdefault("covered_component_ids", covered)
        signer.sign(request, key_id=did_of(key.public_key()), **settings)
        return request

    def send(self, request):
        with requests.Session() as session:
            session.trust_env = False
            return session.send(request)

    def refused(self, request, status, code):
        answer = self.send(request)
        self.assertEqual((answer.status_code, answer.json()["error"]["code"]), (status, code), answer.text)

    def action(self):
        params = {"account": "42", "amount": 100, "currency": "USD", "destination": "acct_treasury_1"}
        seen = self.send(self.request(self.agent, "POST", "/v1/observe", {"facts": ['Account::"42"']}))
        self.assertEqual(seen.status_code, 200, seen.text)
        key, token = secrets.token_hex(16), seen.json()["observation"]
        names = {"pact": "billing", "action": "refund", "idempotency_key": key}
        return {**names, "params": params, "observations": [token]}

    def test_the_gate_takes_what_the_library_signs(self):
        answer = self.send(self.request(self.agent, "POST", "/v1/actions", self.action()))
        self.assertEqual(answer.json()["verdict"], "committed", answer.text)
        for path in ("/v1/ledger/entries?start=0&limit=2", "/v1/facts/Account/42", "/v1/agents"):
            answer = self.send(self.request(self.admin, "GET", path))
            self.assertEqual(answer.status_code, 200, f"{path}: {answer.text}")

    def test_more_components_in_another_order_are_taken(self):
        covered = ["content-digest", "@path", "@query", "@method", "@authority"]
        request = self.request(self.agent, "POST", "/v1/actions/check", self.action(), covered_component_ids=covered)
        self.assertEqual(self.send(request).status_code, 200)

    def test_what_was_altered_after_signing_is_refused(self):
        body = self.action()
        request = self.request(self.agent, "POST", "/v1/actions", body)
        request.body = request.body.replace(b'"amount": 100', b'"amount": 999')
        self.refused(request, 401, "digest_mismatch")
        request.headers["Content-Digest"] = digest_of(request.body)
        self.refused(request, 401, "signature_invalid")
        request = self.request(self.admin, "GET", "/v1/ledger/entries?start=0")
        request.url = request.url.replace("start=0", "start=1")
        self.refused(request, 401, "signature_invalid")

    def test_a_condition_can_neither_be_stripped_nor_exchanged(self):
        path, body = "/v1/facts/Account/43", {"value": {"status": "active", "balance": 1, "owner": "ada"}}
        answer = self.send(self.request(self.admin, "PUT", path, body, if_match='"0"'))
        self.assertEqual(answer.status_code, 200, answer.text)
        request = self.request(self.admin, "PUT", path, body, if_match='"0"')
        del request.headers["If-Match"]
        self.refused(request, 401, "signature_incomplete")
        request = self.request(self.admin, "PUT", path, body, if_match='"0"')
        request.headers["If-Match"] = '"1"'
        self.refused(request, 401, "signature_invalid")
        request = self.request(self.admin, "PUT", path, body)
        request.headers["If-Match"] = '"1"'
        self.refused(request, 401, "signature_incomplete")

    def test_what_is_played_back_old_or_for_another_gate_is_refused(self):
        request = self.request(self.admin, "GET", "/v1/agents")
        self.assertEqual(self.send(request).status_code, 200)
        self.refused(request, 401, "signature_replayed")
        old = datetime.datetime.now() - datetime.timedelta(minutes=5)
        self.refused(self.request(self.admin, "GET", "/v1/agents", created=old), 401, "signature_expired")
        other = self.request(self.admin, "GET", "/v1/agents", tag="countersign:other.example/log")
        self.refused(other, 401, "signature_tag")
        self.refused(self.request(self.agent, "GET", "/v1/agents"), 403, "not_authorised")
        self.refused(self.request(Ed25519PrivateKey.generate(), "GET", "/v1/agents"), 401, "key_unknown")


class Vectors(unittest.TestCase):
    """The vectors say the same to the library as to the gate, as far as the library looks."""

    def test_good_ones_verify_and_forged_ones_do_not(self):
        vectors = json.loads((ROOT / "vectors/signatures.json").read_text())
        self.assertGreater(len(vectors["cases"]), 10)
        for case in vectors["cases"]:
            with self.subTest(case["name"]):
                self.judge(case)

    def judge(self, case):
        query = f"?{case['query']}" if "query" in case else ""
        url = f"http://{case['authority']}{case['path']}{query}"
        body = case.get("body", "").encode()
        request = requests.Request(case["method"], "http://example.com/", headers=case["headers"]).prepare()
        request.url = url
        digest = case["headers"].get("Content-Digest")
        verifier = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=Keys())
        if case["expect"] == "ok":
            if body:
                self.assertEqual(digest, digest_of(body))
            [result] = verifier.verify(request, max_age=None)
            base = "\n".join(f"{name}: {value}" for name, value in result.covered_components.items())
            self.assertEqual(base, case["base"])
        elif case["expect"] == "digest_mismatch":
            self.assertNotEqual(digest, digest_of(body))
        elif case["expect"] in ("signature_invalid", "signature_algorithm"):
            with self.assertRaises(InvalidSignature):
                verifier.verify(request, max_age=None)


if __name__ == "__main__":
    unittest.main()
