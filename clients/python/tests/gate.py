"""A real gate for tests: the binary, in a folder of its own, on a free port of loopback, ended by its process."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("COUNTERSIGN", str(ROOT / "target/debug/countersign"))
ORIGIN = "python.example/log"
STARTS_WITHIN_S = 20.0
COMMAND_WITHIN_S = 30.0
ACCOUNT = {"status": "active", "balance": 900_000, "owner": "ada"}


class Served:
    """A server process: `url` is where it listens."""

    def __init__(self, words: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [BINARY, *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.url = _address(self._process)

    def stop(self) -> None:
        """Ends this process, and no other."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """SIGKILL: it gets to say nothing more."""
        self._process.kill()
        self._process.wait()


class Gate:
    """A gate with the pacts of these tests, the agents `refund-1`, `fraud-1`, `lead` and `helper`, and an admin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.admin_key = folder / "admin.key"
        self.url = ""
        self._server: Served | None = None
        self.must("init", "--origin", ORIGIN, "--data", "data", "--admin-key", "admin.key")
        tests = Path(__file__).parent
        for pact in (ROOT / "examples/billing.toml", tests / "payouts.toml", tests / "office.toml"):
            self.admin("pact", "publish", str(pact))
        for name, role in (("refund-1", "refunder"), ("fraud-1", "fraud"), ("lead", "refunder"), ("helper", "helper")):
            self.admin("agent", "new", name, "--org", "acme", "--role", role, "--trust", "700")

    def key(self, agent: str) -> Path:
        """The key file of an agent, as `agent new` made it."""
        return self.folder / f"{agent}.key"

    @property
    def log_key(self) -> str:
        """The log's public key."""
        return (self.data / "log.vkey").read_text()

    def start(self) -> None:
        """Serves, and waits until the gate says where: where it did before, if it was killed."""
        listen = self.url.removeprefix("http://") or "127.0.0.1:0"
        words = ["serve", "--data", "data", "--listen", listen]
        self._server = Served(words, self.folder, {"PATH": os.environ["PATH"]})
        self.url = self._server.url

    def stop(self) -> None:
        """Ends the process that `start` began."""
        if self._server is not None:
            self._server.stop()
        self._server = None

    def kill(self) -> None:
        """Kills the process that `start` began; the next one listens at the same address."""
        if self._server is not None:
            self._server.kill()
        self._server = None

    def admin(self, *words: str) -> str:
        """A command by the admin: through the server while it runs, else on the folder."""
        at = ["--server", self.url] if self._server else ["--data", "data"]
        return self.must(*words, *at, "--key", "admin.key")

    def put(self, fact_type: str, fact_id: str, value: dict[str, Any]) -> None:
        """Feeds a fact."""
        self.admin("fact", "put", fact_type, fact_id, json.dumps(value))

    def must(self, *words: str) -> str:
        """A command that must succeed."""
        ran = self.run(*words)
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command."""
        environment = {"PATH": os.environ["PATH"], "COLUMNS": "100"}
        return subprocess.run(
            [BINARY, *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_WITHIN_S,
            check=False,
        )


def _address(server: subprocess.Popen[str]) -> str:
    """Reads what the server says on its way up, on a thread, so that waiting has a bound; and goes on reading."""
    lines: queue.Queue[str] = queue.Queue()
    stream = server.stderr
    assert stream is not None

    def read() -> None:
        for line in stream:
            lines.put(line)
        stream.close()

    threading.Thread(target=read, daemon=True).start()
    said, ends = "", time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < ends and (server.poll() is None or not lines.empty()):
        try:
            line = lines.get(timeout=0.1)
        except queue.Empty:
            continue
        said += line
        if line.startswith("Listening on "):
            return line.removeprefix("Listening on ").strip()
    server.kill()
    server.wait()
    raise AssertionError(f"the gate did not say within {STARTS_WITHIN_S} s where it listens:\n{said}")
