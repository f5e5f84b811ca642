"""The race of the project's README through two clients: whoever comes second in the ledger sees what the first has done."""

from __future__ import annotations

import random
import threading
import time

from countersign import Client, Committed, Rejected, Verdict, fact
from tests.gate import ACCOUNT, Gate
from tests.test_client import refund

ROUNDS = 20
SPREAD_S = 0.02


def test_no_refund_commits_behind_a_freeze(gate: Gate, client: Client, fraud: Client) -> None:
    chance = random.Random(4_800)
    for number in range(ROUNDS):
        account = f"race-{number}"
        gate.put("Account", account, ACCOUNT)
        seen = client.observe(fact("Account", account))
        verdicts: dict[str, Verdict] = {}

        def freeze(account: str, after_s: float, verdicts: dict[str, Verdict]) -> None:
            time.sleep(after_s)
            verdicts["freeze"] = fraud.act("billing", "freeze", {"account": account})

        other = threading.Thread(target=freeze, args=(account, chance.uniform(0, SPREAD_S), verdicts))
        other.start()
        time.sleep(chance.uniform(0, SPREAD_S))
        paid = client.act("billing", "refund", refund(account), observations=[seen])
        other.join(timeout=30)
        frozen = verdicts["freeze"].unwrap()
        assert paid.entry is not None
        assert frozen.entry is not None
        if isinstance(paid, Committed):
            assert paid.entry < frozen.entry
        else:
            assert isinstance(paid, Rejected)
            assert paid.entry > frozen.entry
            assert paid.failed[0].reads[0].entry == frozen.entry
