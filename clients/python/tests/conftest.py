from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from countersign import Client
from tests.gate import ACCOUNT, ORIGIN, Gate


@pytest.fixture(scope="session")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """One gate for all tests; each test has facts of its own."""
    gate = Gate(tmp_path_factory.mktemp("gate"))
    gate.start()
    yield gate
    gate.stop()


@pytest.fixture
def client(gate: Gate) -> Iterator[Client]:
    """`refund-1`, with the key file that the command line made."""
    with Client(gate.url, key=gate.key("refund-1"), origin=ORIGIN) as client:
        yield client


@pytest.fixture
def fraud(gate: Gate) -> Iterator[Client]:
    """`fraud-1`, which may freeze accounts."""
    with Client(gate.url, key=gate.key("fraud-1"), origin=ORIGIN) as client:
        yield client


_numbers = itertools.count(1)


@pytest.fixture
def account(gate: Gate) -> str:
    """The id of an active account that no other test uses."""
    number = f"a{next(_numbers)}"
    gate.put("Account", number, ACCOUNT)
    return number


@pytest.fixture
def payout() -> str:
    """The id of a payout that no other test uses; not fed yet."""
    return f"p{next(_numbers)}"
