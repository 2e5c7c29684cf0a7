"""A slow job and one whose numbers are none both run on: told always, acted on by policy only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.advice import DecisionBasis, DesiredState
from middlewatch.model.gates import Deployment, GateName, Mode, gates_for
from middlewatch.model.issue import Confidence
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Domain, Signal, SignalKind
from middlewatch.remediation import DecisionInputs, Refrain, RefrainBasis, decide
from tests.unit.attribution.made import CLUSTER, attempt, exception, signal
from tests.unit.remediation.made import advised, ground, inputs

ACTS = Policy(act_on_slow=True, act_on_numbers=True)
DEPLOYMENT = Deployment(CLUSTER, "cluster", Mode.ACTION, True, ("batch",))
DETAIL = "slower since step 900: 31 % more time per iteration"


def slow(failure_class: str = "slow_node", **given: object) -> Signal:
    found = signal(SignalKind.SLOW, 10, failure_class, domain=Domain.HARDWARE, detail=DETAIL)
    return replace(found, **given)  # type: ignore[arg-type]


DIVERGED = signal(
    SignalKind.NUMERIC, 10, "numerical_divergence", domain=Domain.APPLICATION, detail="loss nan"
)
JUMP = signal(SignalKind.NUMERIC, 12, "", domain=Domain.APPLICATION, detail="the loss jumped")


def with_node(made: DecisionInputs) -> DecisionInputs:
    verdict = replace(made.verdict, nodes=("n2",), confidence=Confidence.MEDIUM)
    return replace(made, verdict=verdict)


@pytest.mark.parametrize("policy", [Policy(), ACTS])
@pytest.mark.parametrize("failure_class", ["slow_node", "slow_input", "slow_fabric", "slow_job"])
def test_a_slow_job_with_no_node_to_blame_is_never_moved(
    failure_class: str, policy: Policy
) -> None:
    outcome = decide(inputs(attempt(), slow(failure_class), policy=policy))
    assert isinstance(outcome, Refrain)
    assert outcome.basis is RefrainBasis.SLOW_WITHOUT_NODE
    assert "31 % more time" in outcome.explanation
    assert "another place would not help" in outcome.explanation


def test_a_slow_node_is_an_alarm_unless_the_policy_acts_on_slowness() -> None:
    assert ground(with_node(inputs(attempt(), slow()))) is RefrainBasis.SLOW_ALONE


def test_with_the_policy_a_slow_job_is_moved_off_the_node() -> None:
    outcome = advised(decide(with_node(inputs(attempt(), slow(), policy=ACTS))))
    assert outcome.intent.basis is DecisionBasis.SLOW_NODE
    assert outcome.intent.desired is DesiredState.RESTARTED
    assert outcome.intent.may_end_running
    assert outcome.intent.exclusions == ("n2",)
    assert DETAIL in outcome.intent.explanation


def test_a_slow_input_moves_nothing_even_where_a_node_is_named() -> None:
    made = with_node(inputs(attempt(), slow("slow_input", domain=Domain.STORAGE), policy=ACTS))
    made = replace(made, verdict=replace(made.verdict, failure_class="slow_input"))
    assert ground(made) is RefrainBasis.SLOW_WITHOUT_NODE


@pytest.mark.parametrize("failure_class", ["slow_node", "slow_input", "slow_fabric", "slow_job"])
def test_every_class_of_slowness_asks_for_the_jobs_own_opt_in(failure_class: str) -> None:
    made = inputs(attempt(), slow(failure_class))
    gates = gates_for(DEPLOYMENT, made.attempt, "cluster", failure_class)
    assert any(g.name is GateName.CLASS_OPT_IN and not g.open for g in gates.gates)


def test_numbers_that_are_none_are_told_and_left_alone() -> None:
    outcome = decide(inputs(attempt(), DIVERGED))
    assert isinstance(outcome, Refrain)
    assert outcome.basis is RefrainBasis.NUMBERS_ALONE
    assert "loss nan" in outcome.explanation


def test_numbers_act_where_the_policy_says_so() -> None:
    outcome = advised(decide(inputs(attempt(), DIVERGED, policy=ACTS)))
    assert outcome.intent.basis is DecisionBasis.NUMBERS
    assert outcome.intent.may_end_running


def test_a_jump_is_a_remark_beside_a_failure() -> None:
    made = inputs(attempt(), JUMP, exception(20), policy=ACTS)
    assert ground(made) is RefrainBasis.WAITING_FOR_WITNESS
