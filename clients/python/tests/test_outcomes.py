"""Calls to the outside against the real gate: what a small payment service answers is what the client tells."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from countersign import Client, Failed, InDoubt, InFlight, Settled
from tests.gate import ORIGIN, Gate

PACT = """
pact = "transfers-out"
version = 1

[facts.Wallet]
attributes = { balance = "Long" }

[action.send]
resource = 'Wallet::"{wallet}"'
allow = 'principal.standing == "active"'
set = { balance = "resource.balance - context.amount" }
call = { http = "payments", path = "/payouts/{wallet}", timeout = "2s", after = "AFTER" }

[action.send.params]
type = "object"
additionalProperties = false
required = ["wallet", "amount"]
properties.wallet = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500 }

[[action.send.require]]
id = "covered"
that = 'resource.balance >= context.amount'
"""


class Payments(http.server.BaseHTTPRequestHandler):
    """Pays, refuses, or pays and says nothing of use, by the last part of the path."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        status = {"good": 201, "broke": 422, "odd": 500}[self.path.rpartition("/")[2]]
        body = json.dumps({"status": status}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def service() -> Iterator[int]:
    """The port of the payment service."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Payments)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def paying(folder: Path, port: int, after: str) -> Gate:
    """A gate whose calls go to the service."""
    gate = Gate(folder)
    settings = (
        f'[adapters.payments]\nkind = "http"\nbase = "http://127.0.0.1:{port}"\nallow_private = ["127.0.0.1/32"]\n'
    )
    (folder / "countersign.toml").write_text(settings)
    (folder / "send.toml").write_text(PACT.replace("AFTER", after))
    gate.admin("pact", "publish", "send.toml")
    for wallet in ("good", "broke", "odd"):
        gate.put("Wallet", wallet, {"balance": 100})
    gate.start()
    return gate


def test_what_the_service_did_is_what_the_client_tells(tmp_path: Path, service: int) -> None:
    gate = paying(tmp_path, service, "0s")
    try:
        with Client(gate.url, key=gate.key("refund-1"), origin=ORIGIN) as client:

            def send(wallet: str) -> object:
                return client.act("transfers-out", "send", {"wallet": wallet, "amount": 5}, wait_ms=10_000)

            paid = send("good")
            assert isinstance(paid, Settled)
            assert paid.evidence is not None
            assert paid.evidence.status == 201
            refused = send("broke")
            assert isinstance(refused, Failed)
            odd = send("odd")
            assert isinstance(odd, InDoubt)
            asked_again = client.verdict(odd)
            assert isinstance(asked_again, InDoubt)
            assert asked_again.entry == odd.entry
            # Nobody else may touch what a doubt rests on, until somebody has found out.
            gate.admin("effect", "resolve", odd.effect, "settled", "--reason", "the bank's statement shows it")
            assert isinstance(client.verdict(odd), Settled)
            assert isinstance(client.effect(odd.effect), Settled)
        balance = json.loads(gate.admin("fact", "get", "Wallet", "odd", "--json"))["value"]["balance"]
        assert balance == 95
    finally:
        gate.stop()


def test_a_call_that_cools_is_followed_until_it_is_over(tmp_path: Path, service: int) -> None:
    gate = paying(tmp_path, service, "1s")
    try:
        with Client(gate.url, key=gate.key("refund-1"), origin=ORIGIN) as client:
            asked = client.act("transfers-out", "send", {"wallet": "good", "amount": 5})
            assert isinstance(asked, InFlight)
            assert asked.state == "cooling"
            over = client.wait(asked, timeout_s=30)
            assert isinstance(over, Settled)
            assert isinstance(client.verdict(asked), Settled)
        wallet = json.loads(gate.admin("fact", "get", "Wallet", "good", "--json"))
        assert wallet["value"]["balance"] == 95
    finally:
        gate.stop()
