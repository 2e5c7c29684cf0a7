"""Gates, age, and letting go before a terminal outcome; and the exact desired states."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from middlewatch.model.action import ActionKind, Answered
from middlewatch.model.advice import DesiredState, Disposition, Reason
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.scheduler import JobFlag, JobState, JobView, Snapshot
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.situation import Act, Report, Situation, Wait
from tests.unit.reconciliation.worlds import (
    CLOSED,
    T0,
    accounting,
    advice,
    at,
    attempt,
    detail,
    record,
    situation,
    successor,
    target,
)

OUR_REQUEUE = record(ActionKind.REQUEUE, 0.5)
OLD = T0 - timedelta(hours=2)


def outcome(made: Situation, seconds: float = 10.0) -> tuple[Disposition, Reason]:
    step = next_step(made, at(seconds))
    assert isinstance(step, Report), step
    return step.disposition, step.reason


def action(made: Situation, seconds: float = 10.0) -> ActionKind:
    step = next_step(made, at(seconds))
    assert isinstance(step, Act), step
    return step.action.kind


@pytest.mark.parametrize("desired", list(DesiredState))
def test_what_was_not_permitted_never_becomes_permitted(desired: DesiredState) -> None:
    made = situation(target(), advice=advice(desired, gates=CLOSED))
    step = next_step(made, at(10))
    assert isinstance(step, Report)
    assert step.reason is Reason.NOT_PERMITTED
    assert "partition_allowlist" in step.detail


def test_a_gate_that_closes_before_anything_was_done_ends_the_advice() -> None:
    assert outcome(situation(target(), gates=CLOSED)) == (
        Disposition.ABANDONED,
        Reason.NOT_PERMITTED,
    )


def test_a_gate_that_closes_midway_still_lets_go_what_we_hold() -> None:
    made = situation(successor(), gates=CLOSED, actions=(OUR_REQUEUE,), pending_since=at(0))
    step = next_step(made, at(10))
    assert isinstance(step, Act)
    assert step.action.start_now
    assert step.action.exclusions is None
    let_go = situation(
        successor(eligible_at=at(9), reason="Resources"),
        gates=CLOSED,
        actions=(OUR_REQUEUE,),
        pending_since=at(0),
    )
    assert outcome(let_go) == (Disposition.ABANDONED, Reason.NOT_PERMITTED)


def test_a_gate_that_closes_while_the_requeue_turns_waits_for_the_hold() -> None:
    turning = target(JobState.RUNNING, restarts=1, flags=frozenset({JobFlag.COMPLETING}))
    made = situation(turning, gates=CLOSED, actions=(OUR_REQUEUE,))
    assert isinstance(next_step(made, at(10)), Wait)


def test_old_advice_expires() -> None:
    made = situation(target(), advice=advice(desired_state_changed_at=OLD))
    assert outcome(made) == (Disposition.ABANDONED, Reason.ADVICE_EXPIRED)


def test_old_advice_lets_go_before_it_expires() -> None:
    made = situation(
        successor(),
        advice=advice(desired_state_changed_at=OLD),
        actions=(OUR_REQUEUE,),
        pending_since=at(0),
    )
    step = next_step(made, at(10))
    assert isinstance(step, Act)
    assert step.action.start_now


@pytest.mark.parametrize("desired", [DesiredState.TERMINATED, DesiredState.RELEASED])
def test_durable_advice_never_expires(desired: DesiredState) -> None:
    held = target(JobState.PENDING, priority=0, reason="JobHeldUser")
    made = situation(held, advice=advice(desired, desired_state_changed_at=OLD))
    assert isinstance(next_step(made, at(10)), Act)


def test_a_hold_of_an_earlier_generation_is_let_go_before_stale_is_reported() -> None:
    made = situation(
        successor(),
        advice=replace(advice(DesiredState.TERMINATED), generation=2),
        actions=(OUR_REQUEUE,),
        pending_since=at(0),
    )
    assert action(made) is ActionKind.UPDATE


@pytest.mark.parametrize(
    "changes", [{"gates": CLOSED}, {"advice": advice(desired_state_changed_at=OLD)}]
)
def test_a_restart_that_has_come_about_is_reported_as_such_though_it_is_late(
    changes: dict[str, Any],
) -> None:
    made = situation(
        successor(JobState.RUNNING),
        actions=(OUR_REQUEUE,),
        pending_since=at(0),
        detail=detail(excluded_nodes=("gpu-001",)),
        **changes,
    )
    assert outcome(made) == (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)


def test_a_generation_that_was_never_permitted_does_not_close_over_a_hold_of_an_earlier_one() -> (
    None
):
    late = replace(advice(gates=CLOSED, exclusions=("gpu-001", "gpu-002")), generation=2)
    made = situation(successor(), advice=late, actions=(OUR_REQUEUE,), pending_since=at(0))
    step = next_step(made, at(10))
    assert isinstance(step, Act)
    assert step.action.start_now
    assert step.action.exclusions is None
    let_go = situation(
        successor(eligible_at=at(9), reason="Resources"),
        advice=late,
        actions=(OUR_REQUEUE,),
        pending_since=at(0),
    )
    assert outcome(let_go) == (Disposition.ABANDONED, Reason.NOT_PERMITTED)
    unseen = replace(made, look=Unknown("no answer", T0))
    assert isinstance(next_step(unseen, at(10)), Wait)


def test_an_operators_hold_in_place_of_ours_does_not_keep_advice_open_for_ever() -> None:
    ours = record(ActionKind.REQUEUE_HOLD, 0.5)
    view = successor(flags=frozenset({JobFlag.SPECIAL_EXIT}), priority=0, eligible_at=at(3))
    made = situation(
        view,
        advice=advice(desired_state_changed_at=OLD),
        actions=(ours,),
        pending_since=at(0),
        detail=detail(held_by_operator=True),
    )
    assert outcome(made) == (Disposition.ABANDONED, Reason.ADVICE_EXPIRED)


# ------------------------------------------------------------------ TERMINATED


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.PENDING, JobState.SUSPENDED])
def test_terminated_cancels_exactly_the_attempt(state: JobState) -> None:
    made = situation(target(state), advice=advice(DesiredState.TERMINATED))
    assert action(made) is ActionKind.CANCEL


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (target(JobState.CANCELLED), (Disposition.CONVERGED, Reason.ALREADY_SATISFIED)),
        (target(JobState.FAILED), (Disposition.CONVERGED, Reason.ALREADY_SATISFIED)),
        (None, (Disposition.CONVERGED, Reason.ALREADY_SATISFIED)),
        (successor(), (Disposition.ABANDONED, Reason.STALE_ATTEMPT)),
        (successor(JobState.RUNNING), (Disposition.ABANDONED, Reason.STALE_ATTEMPT)),
        (
            target(submitted_at=T0 + timedelta(hours=1)),
            (Disposition.ABANDONED, Reason.TARGET_REPLACED),
        ),
    ],
)
def test_terminated_never_reaches_a_successor(
    view: JobView | None, expected: tuple[Disposition, Reason]
) -> None:
    assert outcome(situation(view, advice=advice(DesiredState.TERMINATED))) == expected


def test_a_cancel_without_an_answer_is_not_repeated_at_once() -> None:
    lost = record(ActionKind.CANCEL, 1, Answered.NO_ANSWER)
    made = situation(
        target(JobState.RUNNING), advice=advice(DesiredState.TERMINATED), actions=(lost,)
    )
    assert isinstance(next_step(made, at(10)), Wait)
    assert action(made, 20) is ActionKind.CANCEL


# ------------------------------------------------------------------ RELEASED


def test_released_lets_a_users_hold_go() -> None:
    held = target(JobState.PENDING, priority=0, reason="JobHeldUser")
    assert action(situation(held, advice=advice(DesiredState.RELEASED))) is ActionKind.RELEASE


@pytest.mark.parametrize(
    ("reason", "held_by_operator"), [("JobHeldAdmin", None), ("JobHeldUser", True)]
)
def test_released_leaves_an_operators_hold(reason: str, held_by_operator: bool | None) -> None:
    made = situation(
        target(JobState.PENDING, priority=0, reason=reason),
        advice=advice(DesiredState.RELEASED),
        detail=detail(held_by_operator=held_by_operator),
    )
    assert outcome(made) == (Disposition.ABANDONED, Reason.OPERATOR_HOLD)


def test_released_waits_while_it_cannot_be_told_whether_an_operator_holds_the_job() -> None:
    held = target(JobState.PENDING, priority=0, reason="job_requeued_in_held_state")
    made = situation(
        held, advice=advice(DesiredState.RELEASED), detail=detail(held_by_operator=None)
    )
    assert isinstance(next_step(made, at(10)), Wait)


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING, JobState.COMPLETED])
def test_released_is_satisfied_where_nothing_is_held(state: JobState) -> None:
    made = situation(target(state), advice=advice(DesiredState.RELEASED))
    assert outcome(made) == (Disposition.CONVERGED, Reason.ALREADY_SATISFIED)


# ------------------------------------------------------------------ constraint-only


def test_constraints_are_set_on_a_pending_attempt_without_starting_it() -> None:
    made = situation(
        target(JobState.PENDING),
        advice=advice(DesiredState.CONSTRAINED),
        detail=detail(excluded_nodes=("gpu-005",)),
    )
    step = next_step(made, at(10))
    assert isinstance(step, Act)
    assert step.action.exclusions == ("gpu-001", "gpu-005")
    assert not step.action.start_now


@pytest.mark.parametrize(
    ("state", "reason"),
    [(JobState.RUNNING, Reason.TARGET_RUNNING), (JobState.FAILED, Reason.TARGET_ENDED)],
)
def test_constraints_never_touch_what_runs_or_has_ended(state: JobState, reason: Reason) -> None:
    made = situation(target(state), advice=advice(DesiredState.CONSTRAINED))
    assert outcome(made) == (Disposition.ABANDONED, reason)


def test_constraints_that_the_user_already_has_are_satisfied() -> None:
    made = situation(
        target(JobState.PENDING),
        advice=advice(DesiredState.CONSTRAINED),
        detail=detail(excluded_nodes=("gpu-001", "gpu-002")),
    )
    assert outcome(made) == (Disposition.CONVERGED, Reason.ALREADY_SATISFIED)


def test_a_whole_recovery_is_two_commands() -> None:
    """The ordinary course, step by step, each from a fresh look."""
    assert action(situation(target())) is ActionKind.REQUEUE
    between = situation(
        successor(), actions=(OUR_REQUEUE,), pending_since=at(2), accounting=accounting()
    )
    assert action(between) is ActionKind.UPDATE
    put = record(ActionKind.UPDATE, 10, exclusions=("gpu-001",), start_now=True)
    after = situation(
        successor(JobState.RUNNING),
        actions=(OUR_REQUEUE, put),
        detail=detail(excluded_nodes=("gpu-001",)),
    )
    assert outcome(after, 12) == (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)


@pytest.mark.parametrize(("uid", "gone"), [(1000, True), (1001, False), (-1, False)])
def test_what_a_listing_for_one_user_does_not_show_is_gone_only_if_it_was_his(
    uid: int, gone: bool
) -> None:
    look = Known(Snapshot("lab", T0, (), 1000), T0)
    step = next_step(situation(None, look=look, attempt=attempt(uid=uid)), at(10))
    if gone:
        assert isinstance(step, Report)
        assert step.reason is Reason.TARGET_GONE
    else:
        assert isinstance(step, Wait)
        assert step.reason is Reason.UNKNOWN_STATE
