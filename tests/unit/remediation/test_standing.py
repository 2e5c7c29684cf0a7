"""A decision where advice stands already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.advice import DecisionBasis, DesiredState, Disposition, Reason, revised
from middlewatch.model.attempt import EndedBy
from middlewatch.model.gates import Mode
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import SignalKind
from middlewatch.remediation import RefrainBasis, Successor, decide
from tests.unit.attribution.made import at, attempt, ecc, end_signal, ended, exception, signal
from tests.unit.remediation.made import advice, advised, gates, ground, inputs, status

FAILED = ended(EndedBy.FAILURE)
GRACE = signal(SignalKind.NO_PROGRESS_AFTER_FAILURE, 20)
NOT_PERMITTED = status(Disposition.ABANDONED, Reason.NOT_PERMITTED)


def test_the_same_decision_again_changes_nothing() -> None:
    standing = advice(FAILED)
    made = inputs(FAILED, exception(0), existing=standing)
    outcome = advised(decide(made))
    assert not outcome.decided_anew
    after = revised(standing, outcome.intent, at(61))
    assert (after.generation, after.desired_state_changed_at) == (1, at(35))
    assert revised(after, outcome.intent, at(62)) == after


def test_a_new_node_makes_a_new_generation() -> None:
    standing = advice(FAILED)
    outcome = advised(decide(inputs(FAILED, ecc(0, nodes=("n1",)), existing=standing)))
    after = revised(standing, outcome.intent, at(61))
    assert (after.generation, after.exclusions) == (2, ("n1",))


def test_late_evidence_adds_a_node_to_a_restart_under_way() -> None:
    requeued = ended(EndedBy.REQUEUE)
    standing = advice(requeued, may_end_running=True)
    made = inputs(
        requeued,
        exception(0),
        ecc(5, nodes=("n1",)),
        existing=standing,
        successor=Successor(1, JobState.PENDING),
    )
    outcome = advised(decide(made))
    assert outcome.intent.exclusions == ("n1",)
    assert outcome.intent.may_end_running
    assert "Late evidence adds n1" in outcome.intent.explanation


def test_a_persons_decision_is_not_overridden() -> None:
    made = inputs(FAILED, exception(0), existing=advice(FAILED, basis=DecisionBasis.PERSON))
    assert ground(made) is RefrainBasis.ANOTHER_DECISION_STANDS


def test_a_job_that_was_let_go_and_failed_is_decided_about_like_any_other() -> None:
    release = advice(FAILED, basis=DecisionBasis.DAG, desired=DesiredState.RELEASED)
    made = inputs(FAILED, exception(0), existing=release)
    assert ground(made) is RefrainBasis.WAITING_FOR_OUTCOME
    done = status(Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)
    outcome = advised(decide(replace(made, existing=replace(release, status=done))))
    assert outcome.intent.desired is DesiredState.RESTARTED
    assert outcome.decided_anew


@pytest.mark.parametrize(
    ("disposition", "reason"),
    [
        (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED),
        (Disposition.CONVERGED, Reason.ALREADY_SATISFIED),
        (Disposition.ABANDONED, Reason.STALE_ATTEMPT),
        (Disposition.ABANDONED, Reason.TARGET_ENDED),
        (Disposition.ABANDONED, Reason.TARGET_GONE),
        (Disposition.ABANDONED, Reason.REVIVED_IN_ERROR),
        (Disposition.ABANDONED, Reason.SUCCEEDED_BY_DEPENDENT),
    ],
)
def test_what_ended_is_not_decided_again(disposition: Disposition, reason: Reason) -> None:
    standing = advice(FAILED, status(disposition, reason))
    made = inputs(FAILED, exception(0), exception(100), existing=standing)
    assert ground(made) is RefrainBasis.DECIDED_ALREADY


def test_a_restart_that_the_scheduler_forgot_is_decided_anew() -> None:
    standing = advice(FAILED, status(Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED))
    made = inputs(FAILED, exception(0), existing=standing, successor_lost=True)
    assert advised(decide(made)).decided_anew


def test_opening_the_gates_does_not_revive_what_was_not_permitted() -> None:
    standing = advice(FAILED, NOT_PERMITTED, gates=gates(FAILED, mode=Mode.MONITOR))
    made = inputs(FAILED, exception(0), end_signal(30), existing=standing)
    assert made.gates.open
    assert ground(made) is RefrainBasis.DECIDED_ALREADY


def test_nor_does_a_line_that_arrives_late_about_an_attempt_that_had_ended() -> None:
    standing = advice(FAILED, NOT_PERMITTED)
    late = exception(100, learned_at=at(200))
    assert ground(inputs(FAILED, exception(0), late, existing=standing)) is (
        RefrainBasis.DECIDED_ALREADY
    )


def test_nor_does_a_fact_that_is_older_and_only_learnt_later() -> None:
    standing = advice(attempt(), NOT_PERMITTED)
    made = inputs(
        attempt(),
        exception(0),
        GRACE,
        signal(SignalKind.SECOND_WITNESS, 30, learned_at=at(90)),
        existing=standing,
    )
    assert ground(made) is RefrainBasis.DECIDED_ALREADY


def test_new_trouble_of_an_attempt_that_still_runs_is_decided_anew() -> None:
    standing = advice(attempt(), NOT_PERMITTED)
    made = inputs(attempt(), exception(0), GRACE, exception(50), existing=standing)
    outcome = advised(decide(made))
    assert outcome.decided_anew
    after = revised(standing, outcome.intent, at(60), decided_anew=outcome.decided_anew)
    assert (after.generation, after.status) == (2, None)


def test_an_end_in_failure_after_it_is_new_trouble() -> None:
    target = ended(EndedBy.FAILURE, at(70))
    standing = advice(target, NOT_PERMITTED)
    made = inputs(target, exception(0), GRACE, end_signal(70), existing=standing)
    assert advised(decide(made)).decided_anew


@pytest.mark.parametrize("reason", [Reason.ADVICE_EXPIRED, Reason.TARGET_RUNNING])
def test_what_left_the_attempt_alone_is_decided_anew_only_for_new_trouble(reason: Reason) -> None:
    standing = advice(attempt(), status(Disposition.ABANDONED, reason))
    old = inputs(attempt(), exception(0), GRACE, existing=standing)
    assert ground(old) is RefrainBasis.DECIDED_ALREADY
    new = inputs(attempt(), exception(0), GRACE, exception(50), existing=standing)
    assert advised(decide(new)).decided_anew


def test_new_trouble_of_a_running_attempt_still_needs_its_witness() -> None:
    standing = advice(attempt(), NOT_PERMITTED)
    made = inputs(attempt(), exception(0), exception(50), existing=standing)
    assert ground(made) is RefrainBasis.WAITING_FOR_WITNESS
