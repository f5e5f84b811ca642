"""Verdicts as they come, as values."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from countersign import Committed, ProtocolError, Rejected, Shadowed
from countersign.verdicts import Verdict, read_verdict
from tests.gate import ROOT

READ: dict[str, Any] = {"attribute": 'Account::"42".owner', "observed": True, "withheld": True, "version": 8}
FAILED: dict[str, Any] = {
    "precondition": "is-hers",
    "that": "resource.owner == …",
    "why": "false",
    "reads": [READ],
    "hint": "h",
}
REJECTED: dict[str, Any] = {
    "verdict": "rejected",
    "action": "00",
    "code": "c",
    "message": "m",
    "hint": "h",
    "failed": [FAILED],
}


def test_what_is_withheld_is_said_to_be_and_not_made_up() -> None:
    verdict = read_verdict(REJECTED)
    assert isinstance(verdict, Rejected)
    [read] = verdict.failed[0].reads
    assert (read.withheld, read.expected, read.actual) == (True, None, None)
    assert "owner: not for this agent to see" in verdict.explain()


def test_a_condition_that_could_not_be_evaluated_says_why() -> None:
    verdict = read_verdict({**REJECTED, "failed": [{**FAILED, "why": "error", "error": "overflow", "reads": []}]})
    assert isinstance(verdict, Rejected)
    assert (verdict.failed[0].why, verdict.failed[0].error) == ("error", "overflow")
    assert "overflow" in verdict.explain()


def test_a_verdict_whose_reasons_were_erased_still_counts() -> None:
    verdict = read_verdict({"verdict": "rejected", "action": "00", "entry": 3, "repeated": True, "erased": True})
    assert isinstance(verdict, Rejected)
    assert (verdict.code, verdict.failed, verdict.repeated, verdict.raw["erased"]) == ("rejected", (), True, True)


def test_shadow_mode_shows_what_would_have_been_said() -> None:
    shadowed = {"code": "precondition_failed", "message": "m", "hint": "h", "failed": [FAILED]}
    verdict = read_verdict({"verdict": "committed", "action": "00", "entry": 3, "shadowed": shadowed})
    assert isinstance(verdict, Committed)
    assert isinstance(verdict.shadowed, Shadowed)
    assert verdict.shadowed.failed[0].precondition == "is-hers"


def test_verdicts_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        read_verdict(REJECTED).entry = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "broken",
    [
        {"entry": "7"},
        {"entry": True},
        {"failed": "none"},
        {"failed": [3]},
        {"failed": [{}]},
        {"pact": {"name": "p"}},
        {"code": 3},
    ],
)
def test_what_is_not_as_the_interface_has_it_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        read_verdict({**REJECTED, **broken})


def test_every_verdict_of_the_interface_is_known() -> None:
    kinds: list[str] = json.loads((ROOT / "openapi.json").read_text())["components"]["schemas"]["VerdictKind"]["enum"]
    everything = {**REJECTED, "review": "rev_1", "effect": "eff_1"}
    verdicts: list[Verdict] = [read_verdict({**everything, "verdict": kind}) for kind in kinds]
    assert len({type(one) for one in verdicts}) == len(kinds) >= 3


def test_every_member_of_a_verdict_of_the_interface_is_read() -> None:
    """A member that the gate adds is a reason to look here again."""
    known = {
        "verdict",
        "erased",
        *_fields(Committed),
        *_fields(Rejected),
        "review",
        "expires_at",
        "effect",
        "dispatch_at",
        "evidence",
    }
    schema = json.loads((ROOT / "openapi.json").read_text())["components"]["schemas"]["Verdict"]
    assert set(schema["properties"]) <= known


def _fields(kind: type) -> set[str]:
    return {one.name for one in dataclasses.fields(kind)}
