"""What follows from how an attempt ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from middlewatch.model.advice import DecisionBasis, DesiredState
from middlewatch.model.attempt import Dependent, EndedBy
from middlewatch.model.gates import Mode
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Domain, SignalKind
from middlewatch.remediation import Refrain, RefrainBasis, Successor, decide
from tests.unit.attribution.made import CLUSTER, ecc, end_signal, ended, exception, signal
from tests.unit.remediation.made import advised, gates, ground, inputs, refrained

PENDING = Successor(1, JobState.PENDING)


@pytest.mark.parametrize(
    ("by", "basis"),
    [
        (EndedBy.FAILURE, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE),
        (EndedBy.OUT_OF_MEMORY, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE),
        (EndedBy.NODE_FAILURE, DecisionBasis.NODE_FAILURE),
        (EndedBy.LAUNCH, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE),
        (EndedBy.COMPLETION, RefrainBasis.COMPLETED),
        (EndedBy.OWNER, RefrainBasis.CANCELLED_BY_PERSON),
        (EndedBy.OPERATOR, RefrainBasis.CANCELLED_BY_PERSON),
        (EndedBy.SOMEBODY, RefrainBasis.CANCELLED_BY_PERSON),
        (EndedBy.PREEMPTION, RefrainBasis.PREEMPTED),
        (EndedBy.TIME_LIMIT, RefrainBasis.TIME_LIMIT),
        (EndedBy.DEADLINE, RefrainBasis.DEADLINE),
        (EndedBy.REQUEUE, RefrainBasis.REQUEUED_ALREADY),
        (EndedBy.UNKNOWN, RefrainBasis.END_UNKNOWN),
    ],
)
def test_only_failures_are_restarted(by: EndedBy, basis: DecisionBasis | RefrainBasis) -> None:
    assert ground(inputs(ended(by), exception(0), end_signal(30))) is basis


@pytest.mark.parametrize(
    ("by", "policy", "state"),
    [
        (EndedBy.TIME_LIMIT, Policy(restart_on_time_limit=True), "TIMEOUT"),
        (EndedBy.PREEMPTION, Policy(restart_on_preemption=True), "PREEMPTED"),
        (EndedBy.OWNER, Policy(restart_after_person_cancelled=True), "CANCELLED"),
        (EndedBy.SOMEBODY, Policy(restart_after_person_cancelled=True), "CANCELLED"),
    ],
)
def test_the_policy_can_widen_what_is_restarted_and_names_the_state(
    by: EndedBy, policy: Policy, state: str
) -> None:
    outcome = advised(decide(inputs(ended(by), exception(0), end_signal(30), policy=policy)))
    assert outcome.intent.may_restart_after == (state,)
    assert not outcome.intent.may_end_running


def test_a_plain_failure_needs_no_further_state() -> None:
    outcome = advised(decide(inputs(ended(EndedBy.FAILURE), exception(0))))
    assert outcome.intent.may_restart_after == ()
    assert outcome.intent.desired is DesiredState.RESTARTED
    assert outcome.intent.owner == CLUSTER
    assert outcome.intent.policy_version == "default"


def test_a_start_that_the_scheduler_left_in_another_state_is_its_own_to_repeat() -> None:
    target = ended(EndedBy.LAUNCH, state=JobState.BOOT_FAIL)
    assert ground(inputs(target, end_signal(30))) is RefrainBasis.NOT_RESTARTABLE_STATE


def test_a_job_that_the_scheduler_holds_after_a_broken_start_is_for_a_person_who_is_told_how() -> (
    None
):
    target = ended(EndedBy.LAUNCH, state=JobState.CANCELLED)
    outcome = decide(inputs(target, end_signal(30), successor=PENDING))
    assert refrained(outcome) is RefrainBasis.HELD_AFTER_BROKEN_START
    assert isinstance(outcome, Refrain)
    assert f"scontrol release {target.job_id}" in outcome.explanation


@pytest.mark.parametrize("kind", ["afterany", "afternotok", "singleton"])
def test_a_dependent_that_the_end_let_go_is_the_successor(kind: str) -> None:
    target = ended(EndedBy.FAILURE, dependents=(Dependent("43", kind),))
    outcome = decide(inputs(target, exception(0)))
    assert refrained(outcome) is RefrainBasis.SUCCEEDED_BY_DEPENDENT
    assert "43" in outcome.explanation  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["afterok", "after"])
def test_a_dependent_that_the_end_did_not_let_go_changes_nothing(kind: str) -> None:
    target = ended(EndedBy.FAILURE, dependents=(Dependent("43", kind),))
    assert ground(inputs(target, exception(0))) is DecisionBasis.ATTEMPT_ENDED_IN_FAILURE


@pytest.mark.parametrize(
    ("seen_after_s", "expected"),
    [
        (10, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE),
        (61, RefrainBasis.ENDED_BEFORE_SEEN),
        (3600, RefrainBasis.ENDED_BEFORE_SEEN),
    ],
)
def test_what_failed_before_our_time_is_left_alone(
    seen_after_s: float, expected: DecisionBasis | RefrainBasis
) -> None:
    target = ended(EndedBy.FAILURE)
    assert target.end is not None
    assert target.end.at is not None
    late = replace(target, first_seen_at=target.end.at + timedelta(seconds=seen_after_s))
    assert ground(inputs(late, exception(0))) is expected


def test_a_job_that_may_not_be_requeued_is_not() -> None:
    target = ended(EndedBy.FAILURE, requeueable=False)
    assert ground(inputs(target, exception(0))) is RefrainBasis.NOT_REQUEUEABLE


def test_a_job_of_which_it_is_not_known_may_be_tried() -> None:
    target = ended(EndedBy.FAILURE, requeueable=None)
    assert ground(inputs(target, exception(0))) is DecisionBasis.ATTEMPT_ENDED_IN_FAILURE


def test_failures_of_the_program_can_be_left_to_its_owner() -> None:
    policy = Policy(restart_on_application_failure=False)
    target = ended(EndedBy.FAILURE)
    assert ground(inputs(target, exception(0), policy=policy)) is RefrainBasis.APPLICATION_FAILURE
    hardware = inputs(target, ecc(0, nodes=("n1",)), policy=policy)
    assert ground(hardware) is DecisionBasis.ATTEMPT_ENDED_IN_FAILURE


def test_a_node_failure_that_slurm_requeued_excludes_the_node_on_the_pending_successor() -> None:
    fact = end_signal(30, "node_failure", nodes=("n2",), domain=Domain.HARDWARE)
    for by in (EndedBy.REQUEUE, EndedBy.NODE_FAILURE):
        outcome = advised(decide(inputs(ended(by), exception(0), fact, successor=PENDING)))
        assert outcome.intent.basis is DecisionBasis.NODE_FAILURE
        assert outcome.intent.exclusions == ("n2",)
        assert not outcome.intent.may_end_running


def test_a_requeue_by_somebody_else_only_gets_the_bad_node_excluded() -> None:
    requeued = ended(EndedBy.REQUEUE)
    blamed = inputs(requeued, ecc(0, nodes=("n1",)), successor=PENDING)
    assert advised(decide(blamed)).intent.exclusions == ("n1",)
    blameless = inputs(requeued, exception(0), successor=PENDING)
    assert ground(blameless) is RefrainBasis.REQUEUED_ALREADY


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.FAILED, JobState.COMPLETED])
def test_a_successor_that_has_started_is_not_disturbed(state: JobState) -> None:
    made = inputs(ended(EndedBy.FAILURE), ecc(0, nodes=("n1",)), successor=Successor(1, state))
    assert ground(made) is RefrainBasis.REQUEUED_ALREADY


def test_a_successor_that_vanished_does_not_count() -> None:
    made = inputs(
        ended(EndedBy.FAILURE),
        exception(0),
        successor=Successor(1, JobState.PENDING, vanished=True),
    )
    assert ground(made) is DecisionBasis.ATTEMPT_ENDED_IN_FAILURE


def test_a_requeue_where_the_bad_node_cannot_be_excluded_is_left_alone() -> None:
    target = ended(EndedBy.REQUEUE, required_nodes=("n1",))
    outcome = decide(inputs(target, ecc(0, nodes=("n1",)), successor=PENDING))
    assert refrained(outcome) is RefrainBasis.REQUEUED_ALREADY
    assert "required_by_job" in outcome.explanation  # type: ignore[union-attr]


def test_without_opt_in_nothing_is_decided() -> None:
    made = inputs(ended(EndedBy.FAILURE), exception(0), mode=JobMode.OFF)
    assert ground(made) is RefrainBasis.NOT_OPTED_IN


def test_closed_gates_do_not_change_the_decision_and_are_frozen_into_it() -> None:
    target = ended(EndedBy.FAILURE)
    closed = gates(target, mode=Mode.MONITOR)
    would = advised(decide(inputs(target, exception(0), gates=closed)))
    real = advised(decide(inputs(target, exception(0))))
    assert would.intent.desired is real.intent.desired
    assert would.intent.exclusions == real.intent.exclusions
    assert would.intent.gates == closed
    assert "Would have" in would.intent.explanation
    assert "Would have" not in real.intent.explanation


def test_a_lone_end_in_failure_is_restarted() -> None:
    assert ground(inputs(ended(EndedBy.FAILURE), end_signal(30))) is (
        DecisionBasis.ATTEMPT_ENDED_IN_FAILURE
    )


def test_a_failure_after_a_recovery_is_still_restarted_when_the_attempt_ends() -> None:
    signals = (exception(0), signal(SignalKind.RECOVERED, 10), end_signal(30))
    assert ground(inputs(ended(EndedBy.FAILURE), *signals)) is (
        DecisionBasis.ATTEMPT_ENDED_IN_FAILURE
    )


@pytest.mark.parametrize(("seconds", "restarted"), [(30.0, False), (8000.0, True)])
def test_word_about_being_stopped_counts_only_shortly_before_the_end(
    seconds: float, restarted: bool
) -> None:
    word = signal(SignalKind.CASCADE_LINE, 0, failure_class="preemption")
    made = inputs(ended(EndedBy.FAILURE), word, end_signal(10, "killed_unknown"))
    end = made.attempt.end
    assert end is not None
    told = (end.at or end.learned_at) - timedelta(seconds=seconds)
    made = replace(made, issue=replace(made.issue, failure_class="preemption", happened_at=told))
    basis = DecisionBasis.ATTEMPT_ENDED_IN_FAILURE if restarted else RefrainBasis.PREEMPTED
    assert ground(made) is basis
