"""The HTTP document, judged by a fuzzer that is not ours: what the gate answers is what /openapi.json says, and never a 5xx.

Schemathesis makes requests from the document, good ones and bad ones, and sends them to an open gate. A run is bounded and has
a fixed seed, so a failure here is a failure on every machine; `OPENAPI_SEED` and `OPENAPI_EXAMPLES` make another or longer one.
Run by `cargo xtask test`, which gives the binary's path in COUNTERSIGN.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("COUNTERSIGN", str(ROOT / "target/debug/countersign"))
SEED = os.environ.get("OPENAPI_SEED", "20261116")
EXAMPLES = os.environ.get("OPENAPI_EXAMPLES", "30")
WITHIN_S = 300

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    # What the document forbids is refused.
    "negative_data_rejection",
    "unsupported_method",
)

# The tool knows JSON by itself; pacts are TOML, and tiles are bytes.
HOOKS = '''
import schemathesis

@schemathesis.serializer("application/toml")
def toml(ctx, value):
    return str(value).encode()

@schemathesis.deserializer("application/octet-stream")
def tile(ctx, response):
    return list(response.content)
'''


class Document(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_ok("init", "--open", "--data", "data", "--origin", "fuzz.example/log")
        words = [BINARY, "serve", "--data", "data", "--listen", "127.0.0.1:0"]
        environment = {"PATH": os.environ["PATH"], "RUST_LOG": "error"}
        gate = subprocess.Popen(words, cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(gate.communicate)
        self.addCleanup(gate.terminate)
        self.url = self.listens(gate)
        # Something to be found, so that not every request ends with "there is none".
        self.run_ok("pact", "publish", str(ROOT / "examples/billing.toml"), "--server", self.url)
        account = {"status": "active", "balance": 900_000, "owner": "ada"}
        self.run_ok("fact", "put", "Account", "42", json.dumps(account), "--server", self.url)

    def run_ok(self, *words):
        environment = {"PATH": os.environ["PATH"]}
        ran = subprocess.run([BINARY, *words], cwd=self.folder, env=environment, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, f"{words}: {ran.stdout}{ran.stderr}")

    def listens(self, gate):
        # It says little after that, which fits into the pipe.
        for line in gate.stderr:
            if line.startswith("Listening on "):
                return line.removeprefix("Listening on ").split()[0]
        self.fail("the gate ended before it listened")

    def test_the_gate_answers_as_its_document_says(self):
        (self.folder / "hooks.py").write_text(HOOKS)
        words = [str(pathlib.Path(sys.executable).parent / "st"), "run", f"{self.url}/openapi.json"]
        words += ["--seed", SEED, "--max-examples", EXAMPLES, "--phases", "examples,coverage,fuzzing"]
        words += ["--checks", ",".join(CHECKS), "--continue-on-failure", "--no-shrink", "--no-color"]
        words += ["--suppress-health-check", "all", "--generation-database", "none", "--request-timeout", "60"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.folder), "SCHEMATHESIS_HOOKS": "hooks"}
        fuzzed = subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=WITHIN_S
        )
        self.assertEqual(fuzzed.returncode, 0, fuzzed.stdout + fuzzed.stderr)
        # It did something: a tool that selects nothing passes too.
        made = re.search(r"(\d+) generated", fuzzed.stdout)
        self.assertIsNotNone(made, fuzzed.stdout)
        self.assertGreater(int(made[1]), 1000, fuzzed.stdout)
        # And the gate is as well as before.
        with urllib.request.urlopen(f"{self.url}/readyz", timeout=60) as answer:
            self.assertEqual(answer.status, 200)


if __name__ == "__main__":
    unittest.main()
