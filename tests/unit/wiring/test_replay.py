"""A stored decision, decided again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from middlewatch.model.attempt import EndedBy
from middlewatch.remediation import decide
from middlewatch.services.manager import frozen
from middlewatch.wiring.replay import replay
from tests.unit.attribution.made import ecc, end_signal, ended
from tests.unit.remediation.made import inputs


def stored() -> dict[str, Any]:
    """A decision to restart, as the API shows it."""
    made = inputs(ended(EndedBy.FAILURE), ecc(), end_signal())
    outcome = decide(made)
    return {
        "id": "d1",
        "attemptId": made.attempt.id,
        "result": frozen.result_of(outcome),
        "policyVersion": made.policy.version,
        "inputs": frozen.frozen_inputs(made),
        "outcome": frozen.frozen_outcome(outcome),
    }


def test_the_same_inputs_give_the_same_decision() -> None:
    found = replay(stored())
    assert found.same, found.why
    assert json.loads(found.outcome)["intent"]["desired"] == "RESTARTED"


def test_a_record_that_was_changed_is_found_out_and_named() -> None:
    decision = stored()
    outcome = json.loads(decision["outcome"])
    outcome["intent"]["exclusions"] = ["n4"]
    found = replay(decision | {"outcome": json.dumps(outcome)})
    assert not found.same
    assert "intent" in found.why


@pytest.mark.parametrize(
    "broken", [{"inputs": "{"}, {"inputs": "{}"}, {"outcome": "[]"}, {"inputs": ""}]
)
def test_a_record_that_cannot_be_read_is_said_to_be_so(broken: dict[str, str]) -> None:
    found = replay(stored() | broken)
    assert not found.same
    assert "cannot be decided again" in found.why
