"""A gate that is killed at random while clients act: what they say about their calls is compared with the ledger.

`COUNTERSIGN_LONG=1` makes it ten times as long; `COUNTERSIGN_SEED=N` repeats the moments of a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from countersign import (
    AsyncClient,
    Client,
    Committed,
    GateError,
    OutcomeUnknownError,
    Retries,
    TransportError,
    Verdict,
    new_idempotency_key,
)
from tests.gate import ORIGIN, Gate

LASTS_S = 100.0 if "COUNTERSIGN_LONG" in os.environ else 10.0
WORKERS = 8
# Impatient on purpose: many calls must fail for what is said about them to be put to the test.
IMPATIENT = Retries(attempts=2, first_delay_s=0.01, longest_delay_s=0.02, patience_s=0.3)

PACT = """
pact = "counting"
version = 1

[facts.Counter]
attributes = { count = "Long" }

[action.add]
resource = 'Counter::"{counter}"'
allow = 'true'
set = { count = "resource.count + 1" }

[action.add.params]
type = "object"
additionalProperties = false
required = ["counter"]
properties.counter = { type = "string", maxLength = 64 }

[[action.add.require]]
id = "not-negative"
that = 'resource.count >= 0'
"""


class Told:
    """What clients said about their calls, by idempotency key."""

    def __init__(self) -> None:
        self.committed: dict[str, int | None] = {}
        self.not_done: dict[str, str] = {}
        self.unknown: list[OutcomeUnknownError] = []

    def answered(self, key: str, verdict: Verdict) -> None:
        assert isinstance(verdict, Committed), verdict
        self.committed[key] = verdict.entry

    def failed(self, key: str, error: Exception) -> None:
        if isinstance(error, OutcomeUnknownError):
            assert error.idempotency_key == key
            self.unknown.append(error)
        else:
            assert isinstance(error, GateError | TransportError), error
            self.not_done[key] = str(error)


@pytest.fixture
def killed(tmp_path: Path) -> Gate:
    gate = Gate(tmp_path)
    (tmp_path / "counting.toml").write_text(PACT)
    gate.admin("pact", "publish", "counting.toml")
    for worker in range(WORKERS):
        gate.put("Counter", f"w{worker}", {"count": 0})
    gate.start()
    return gate


def kill_at_random(gate: Gate, stop: threading.Event, kills: list[float]) -> None:
    """Kills and starts the gate until the time is up."""
    moments = random.Random(int(os.environ.get("COUNTERSIGN_SEED", "0")) or time.time_ns())
    ends = time.monotonic() + LASTS_S
    try:
        # On a busy machine a start takes seconds; what is asserted takes some kills.
        while time.monotonic() < ends or len(kills) < 4:
            time.sleep(moments.uniform(0.05, 1.5))
            gate.kill()
            kills.append(time.monotonic())
            gate.start()
    finally:
        stop.set()


def agree(gate: Gate, told: Told, again: dict[str, int | None]) -> None:
    """Compares what was said with what the ledger has."""
    lines = gate.admin("ledger", "list", "--json", "--from", "0", "--limit", "1000000").splitlines()
    entered: Counter[str] = Counter()
    at: dict[str, int | None] = {}
    for line in lines:
        entry = json.loads(line)
        if entry["leaf"]["kind"] == "action":
            key = json.loads(entry["payload"]["body"])["idempotency_key"]
            entered[key] += 1
            at[key] = entry["index"]
    twice = [key for key, count in entered.items() if count > 1]
    assert not twice, f"acted twice: {twice}"
    assert {key: at.get(key) for key in told.committed} == told.committed, (
        "what was said to be committed is there, as told"
    )
    lies = {key: why for key, why in told.not_done.items() if key in entered}
    assert not lies, f"said not to be done, and in the ledger: {lies}"
    assert {key: at.get(key) for key in again} == again, "asking again tells the entry"
    assert set(entered) == set(told.committed) | set(again), "nothing else acted"
    counted = sum(
        json.loads(gate.admin("fact", "get", "Counter", f"w{n}", "--json"))["value"]["count"] for n in range(WORKERS)
    )
    assert counted == len(entered)


@pytest.mark.timeout(LASTS_S + 120)
def test_no_call_that_committed_is_said_not_to_have_whenever_the_gate_is_killed(killed: Gate) -> None:
    told, stop = Told(), threading.Event()
    kills: list[float] = []

    def work(worker: int) -> None:
        with Client(killed.url, key=killed.key("refund-1"), origin=ORIGIN, retries=IMPATIENT, timeout_s=5) as client:
            while not stop.is_set():
                key = new_idempotency_key()
                try:
                    told.answered(key, client.act("counting", "add", {"counter": f"w{worker}"}, idempotency_key=key))
                except (GateError, TransportError, OutcomeUnknownError) as error:
                    told.failed(key, error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    try:
        kill_at_random(killed, stop, kills)
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
        with Client(killed.url, key=killed.key("refund-1"), origin=ORIGIN) as client:
            again: dict[str, int | None] = {}
            for error in told.unknown:
                verdict = client.find_out(error)
                assert isinstance(verdict, Committed)
                again[error.call.idempotency_key or ""] = verdict.entry
        agree(killed, told, again)
    finally:
        stop.set()
        killed.stop()
    print(
        f"{len(kills)} kills: {len(told.committed)} committed, {len(told.unknown)} unknown, {len(told.not_done)} not done"
    )
    assert len(kills) > 3
    assert told.committed


@pytest.mark.timeout(LASTS_S + 120)
def test_the_async_client_does_not_either(killed: Gate) -> None:
    told, stop = Told(), threading.Event()
    kills: list[float] = []

    async def work(client: AsyncClient, worker: int) -> None:
        while not stop.is_set():
            key = new_idempotency_key()
            try:
                told.answered(key, await client.act("counting", "add", {"counter": f"w{worker}"}, idempotency_key=key))
            except (GateError, TransportError, OutcomeUnknownError) as error:
                told.failed(key, error)

    async def story() -> None:
        key = killed.key("refund-1")
        async with AsyncClient(killed.url, key=key, origin=ORIGIN, retries=IMPATIENT, timeout_s=5) as client:
            await asyncio.wait_for(
                asyncio.gather(
                    asyncio.to_thread(kill_at_random, killed, stop, kills),
                    *[work(client, worker) for worker in range(WORKERS)],
                ),
                timeout=LASTS_S + 60,
            )

    async def ask_again() -> dict[str, int | None]:
        again: dict[str, int | None] = {}
        async with AsyncClient(killed.url, key=killed.key("refund-1"), origin=ORIGIN) as client:
            for error in told.unknown:
                verdict = await client.find_out(error)
                assert isinstance(verdict, Committed)
                again[error.call.idempotency_key or ""] = verdict.entry
        return again

    try:
        asyncio.run(story())
        agree(killed, told, asyncio.run(ask_again()))
    finally:
        stop.set()
        killed.stop()
    print(
        f"{len(kills)} kills: {len(told.committed)} committed, {len(told.unknown)} unknown, {len(told.not_done)} not done"
    )
    assert len(kills) > 3
    assert told.committed
