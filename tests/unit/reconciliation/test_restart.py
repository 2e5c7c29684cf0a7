"""RESTARTED(k): tables of situations and the one step that each allows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from middlewatch.model.action import ActionKind, Answered
from middlewatch.model.advice import Disposition, Reason
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.attempt import LET_GO, AttemptEnd, Dependent, EndedBy
from middlewatch.model.scheduler import AccountingRecord, ClusterFacts, JobFlag, JobState
from middlewatch.model.signal import Progress
from middlewatch.reconciliation.exclusions import users_own
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.situation import Act, Fact, LogEnd, Need, Report, Situation, Wait
from tests.unit.reconciliation.worlds import (
    FACTS,
    KEY,
    REQUEUED,
    SUBMITTED,
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
NO_RECORDS: Known[tuple[AccountingRecord, ...]] = Known((), T0)


def acts(made: Situation, seconds: float = 10.0) -> Act:
    step = next_step(made, at(seconds))
    assert isinstance(step, Act), step
    return step


def reports(made: Situation, seconds: float = 10.0) -> tuple[Disposition, Reason]:
    step = next_step(made, at(seconds))
    assert isinstance(step, Report), step
    return step.disposition, step.reason


def waits(made: Situation, seconds: float = 10.0) -> Wait:
    step = next_step(made, at(seconds))
    assert isinstance(step, Wait), step
    return step


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY])
def test_an_attempt_that_ended_in_failure_is_requeued(state: JobState) -> None:
    assert acts(situation(target(state))).action.kind is ActionKind.REQUEUE


@pytest.mark.parametrize(
    "state",
    [
        JobState.COMPLETED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.PREEMPTED,
        JobState.DEADLINE,
        JobState.BOOT_FAIL,
    ],
)
def test_an_attempt_that_ended_otherwise_is_left(state: JobState) -> None:
    assert reports(situation(target(state))) == (Disposition.ABANDONED, Reason.TARGET_ENDED)


def test_a_time_limit_is_restarted_where_the_policy_says_so() -> None:
    made = situation(target(JobState.TIMEOUT), advice=advice(may_restart_after=("TIMEOUT",)))
    assert acts(made).action.kind is ActionKind.REQUEUE


def test_a_failed_attempt_is_not_requeued_before_its_end_is_stored() -> None:
    waits(situation(target(), attempt=attempt(end=None)))


def test_a_running_attempt_is_ended_only_where_the_evidence_permits() -> None:
    running = target(JobState.RUNNING)
    waits(situation(running, attempt=attempt(end=None)))
    permitted = situation(running, attempt=attempt(end=None), advice=advice(may_end_running=True))
    assert acts(permitted).action.kind is ActionKind.REQUEUE


def test_a_job_that_trained_on_after_the_decision_is_left_alone() -> None:
    made = situation(
        target(JobState.RUNNING),
        advice=advice(may_end_running=True),
        progress=Progress(KEY.attempt_id(), last_step=9, last_step_at=at(5)),
    )
    assert reports(made) == (Disposition.ABANDONED, Reason.TARGET_RUNNING)


def test_a_running_job_under_an_operators_hold_is_not_restarted() -> None:
    made = situation(target(JobState.RUNNING, priority=0), advice=advice(may_end_running=True))
    assert waits(made).reason is Reason.OPERATOR_HOLD


@pytest.mark.parametrize(
    "view",
    [
        target(JobState.RUNNING, flags=frozenset({JobFlag.COMPLETING})),
        target(JobState.FAILED, flags=frozenset({JobFlag.COMPLETING})),
        target(JobState.SUSPENDED),
        target(JobState.PENDING),
        target(JobState.UNREADABLE),
        target(JobState.RUNNING, restarts=1, flags=frozenset({JobFlag.COMPLETING})),
    ],
)
def test_states_between_are_waited_out(view: object) -> None:
    waits(situation(view, advice=advice(may_end_running=True)))  # type: ignore[arg-type]


def test_a_job_that_forbids_requeueing_is_never_flipped() -> None:
    made = situation(target(), detail=detail(requeueable=False))
    assert reports(made) == (Disposition.ABANDONED, Reason.NOT_PERMITTED)


def test_the_requeue_flag_is_asked_for_when_the_listing_does_not_show_it() -> None:
    assert next_step(situation(target(), detail=None), at(10)) == Need(Fact.DETAIL)


@pytest.mark.parametrize("kind", ["afterany", "afternotok", "singleton", LET_GO])
def test_a_dependent_that_the_end_let_go_is_the_successor(kind: str) -> None:
    made = situation(target(), attempt=attempt(dependents=(Dependent("124", kind),)))
    assert reports(made) == (Disposition.ABANDONED, Reason.SUCCEEDED_BY_DEPENDENT)


def test_an_afterok_dependent_does_not_take_over() -> None:
    made = situation(target(), attempt=attempt(dependents=(Dependent("124", "afterok"),)))
    assert acts(made).action.kind is ActionKind.REQUEUE


def test_a_hung_job_of_a_chain_is_requeued_while_it_runs() -> None:
    made = situation(
        target(JobState.RUNNING),
        advice=advice(may_end_running=True),
        attempt=attempt(end=None, dependents=(Dependent("124", "afterany"),)),
    )
    assert acts(made).action.kind is ActionKind.REQUEUE


def test_a_short_begin_time_window_takes_a_requeue_hold() -> None:
    facts = ClusterFacts("lab", "22.05.8", 11.0, 10.0, 300.0, 30.0)
    assert acts(situation(target(), facts=facts)).action.kind is ActionKind.REQUEUE_HOLD


def test_nothing_is_done_when_the_scheduler_cannot_be_seen() -> None:
    made = situation(target(), look=Unknown("timed out", T0))
    assert waits(made).reason is Reason.UNKNOWN_STATE


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (None, Reason.TARGET_GONE),
        (target(submitted_at=SUBMITTED - timedelta(hours=2)), Reason.TARGET_GONE),
        (target(submitted_at=SUBMITTED + timedelta(hours=2)), Reason.TARGET_REPLACED),
        (successor(restarts=2), Reason.STALE_ATTEMPT),
    ],
)
def test_a_target_that_is_elsewhere_is_abandoned(view: object, reason: Reason) -> None:
    assert reports(situation(view)) == (Disposition.ABANDONED, reason)  # type: ignore[arg-type]


def test_an_absent_answer_means_the_job_is_forgotten() -> None:
    made = situation(None, look=Absent(T0))
    assert reports(made) == (Disposition.ABANDONED, Reason.TARGET_GONE)


# ------------------------------------------------------------------ the successor, held back


def held_back(seconds_pending: float = 5.0, **changes: object) -> Situation:
    values: dict[str, object] = {
        "actions": (OUR_REQUEUE,),
        "pending_since": at(10.0 - seconds_pending),
        "accounting": accounting(),
    }
    return situation(successor(), **{**values, **changes})


def test_one_update_excludes_and_lets_go() -> None:
    action = acts(held_back(detail=detail(excluded_nodes=("gpu-009",)))).action
    assert action.kind is ActionKind.UPDATE
    assert action.exclusions == ("gpu-001", "gpu-009")
    assert action.start_now
    assert action.requeueable is None


def test_the_start_waits_for_a_full_second_after_pending() -> None:
    assert waits(held_back(0.5)).until is not None


def test_the_start_waits_until_the_log_is_read_but_not_for_ever() -> None:
    unread = Progress(KEY.attempt_id())
    waits(held_back(1.5, progress=unread))
    assert acts(held_back(2.5, progress=unread)).action.start_now


def test_a_node_the_user_asks_for_by_name_is_not_excluded() -> None:
    action = acts(held_back(detail=detail(required_nodes=("gpu-001",)))).action
    assert action.exclusions is None
    assert action.start_now


def test_an_operators_hold_stays_while_the_exclusions_are_set() -> None:
    operator = successor(priority=0, reason="JobHeldAdmin")
    made = situation(operator, actions=(OUR_REQUEUE,), pending_since=at(0), accounting=accounting())
    assert acts(made).action.kind is ActionKind.UPDATE
    let_go = record(ActionKind.UPDATE, 3, exclusions=("gpu-001",), start_now=True)
    after = situation(
        successor(priority=0, reason="JobHeldAdmin", eligible_at=at(3)),
        actions=(OUR_REQUEUE, let_go),
        pending_since=at(0),
        detail=detail(excluded_nodes=("gpu-001",)),
    )
    assert waits(after).reason is Reason.OPERATOR_HOLD


def test_a_lost_requeue_answer_is_waited_out_behind_slurms_begin_time() -> None:
    lost = record(ActionKind.REQUEUE, 0.5, Answered.NO_ANSWER)
    action = acts(held_back(actions=(lost,))).action
    assert action.exclusions == ("gpu-001",)
    assert not action.start_now
    assert action.requeueable is None
    carried = held_back(actions=(lost,), detail=detail(excluded_nodes=("gpu-001",)))
    assert waits(carried).until is not None
    action = acts(carried, 20).action
    assert action.start_now
    assert action.requeueable is None


def test_a_lost_requeue_answer_fences_the_start_where_the_window_is_too_short() -> None:
    lost = record(ActionKind.REQUEUE, 0.5, Answered.NO_ANSWER)
    made = situation(
        successor(eligible_at=REQUEUED + timedelta(seconds=17)),
        actions=(lost,),
        pending_since=at(5),
        accounting=accounting(),
    )
    action = acts(made).action
    assert action.start_now
    assert action.requeueable is False


def test_the_fence_is_lifted_before_the_outcome() -> None:
    lost = record(ActionKind.REQUEUE, 0.5, Answered.NO_ANSWER)
    fenced = record(
        ActionKind.UPDATE, 4, exclusions=("gpu-001",), start_now=True, requeueable=False
    )
    made = situation(
        successor(JobState.RUNNING),
        actions=(lost, fenced),
        detail=detail(excluded_nodes=("gpu-001",)),
        accounting=accounting(),
    )
    waits(made, 10)
    lifted = acts(made, 40).action
    assert lifted.requeueable is True
    assert not lifted.start_now


def test_a_lost_requeue_is_neither_repeated_nor_presumed_undone() -> None:
    lost = record(ActionKind.REQUEUE, 0.5, Answered.NO_ANSWER)
    made = situation(target(), actions=(lost,))
    waits(made, 10)
    assert acts(made, 20).action.kind is ActionKind.REQUEUE


def test_a_lost_requeue_may_still_come_after_a_hung_scheduler_is_back() -> None:
    lost = record(ActionKind.REQUEUE, 0.5, Answered.NO_ANSWER)
    made = situation(target(), actions=(lost,), silence=(at(0.5), at(600)))
    assert isinstance(next_step(made, at(601)), Wait)
    assert acts(made, 616).action.kind is ActionKind.REQUEUE
    later = replace(made, silence=(at(100), at(600)))
    assert acts(later, 601).action.kind is ActionKind.REQUEUE


def test_a_command_of_a_killed_controller_counts_as_in_flight() -> None:
    killed = record(ActionKind.REQUEUE, 0.5, Answered.IN_FLIGHT)
    made = situation(target(), actions=(killed,))
    waits(made, 25)
    assert acts(made, 31).action.kind is ActionKind.REQUEUE


def test_a_refused_requeue_rests_before_it_is_tried_again() -> None:
    refused = record(ActionKind.REQUEUE, 0.5, Answered.REFUSED)
    made = situation(target(), actions=(refused,))
    assert waits(made, 1).until is not None
    assert acts(made, 3).action.kind is ActionKind.REQUEUE


def test_an_interactive_job_is_given_up_with_a_reason_that_its_user_can_read() -> None:
    text = "Only batch jobs are accepted or processed for job 123"
    refused = replace(record(ActionKind.REQUEUE, 0.5, Answered.REFUSED), text=text)
    step = next_step(situation(target(), actions=(refused,)), at(1))
    assert isinstance(step, Report)
    assert step.reason is Reason.NOT_PERMITTED
    assert "salloc" in step.detail


# ------------------------------------------------------------------ outcomes


def test_a_running_successor_with_the_exclusions_converges() -> None:
    made = situation(
        successor(JobState.RUNNING),
        actions=(OUR_REQUEUE,),
        detail=detail(excluded_nodes=("gpu-001", "gpu-007")),
    )
    assert reports(made) == (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)


def test_what_was_so_before_any_action_is_already_satisfied() -> None:
    made = situation(
        successor(JobState.RUNNING),
        detail=detail(excluded_nodes=("gpu-001",)),
        accounting=NO_RECORDS,
    )
    assert reports(made) == (Disposition.CONVERGED, Reason.ALREADY_SATISFIED)


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING])
def test_a_restarted_job_that_got_the_number_later_is_not_taken_for_the_successor(
    state: JobState,
) -> None:
    answer = accounting()
    assert isinstance(answer, Known)
    (known,) = answer.value
    first = replace(known, submitted_at=SUBMITTED + timedelta(minutes=30))
    made = situation(successor(state), pending_since=at(0), accounting=None)
    assert next_step(made, at(10)) == Need(Fact.ACCOUNTING)
    told = situation(successor(state), pending_since=at(0), accounting=Known((known, first), T0))
    assert reports(told) == (Disposition.ABANDONED, Reason.TARGET_REPLACED)


def test_accounting_that_is_off_or_late_makes_nobody_another_job() -> None:
    answers: tuple[Answer[tuple[AccountingRecord, ...]], ...] = (
        Absent(T0),
        Unknown("slurmdbd is down", T0),
        NO_RECORDS,
    )
    for answer in answers:
        made = situation(successor(), pending_since=at(0), accounting=answer)
        assert acts(made).action.exclusions == ("gpu-001",)


def test_a_successor_that_started_unconstrained_is_not_killed() -> None:
    made = situation(successor(JobState.RUNNING), actions=(OUR_REQUEUE,))
    assert reports(made) == (Disposition.ABANDONED, Reason.TARGET_RUNNING)


@pytest.mark.parametrize(("slurm_says", "converged"), [("Resources", True), ("None", False)])
def test_a_waiting_successor_converges_once_slurm_has_considered_it(
    slurm_says: str, converged: bool
) -> None:
    let_go = record(ActionKind.UPDATE, 3, exclusions=("gpu-001",), start_now=True)
    made = situation(
        successor(reason=slurm_says, eligible_at=at(3)),
        actions=(OUR_REQUEUE, let_go),
        pending_since=at(0),
        detail=detail(excluded_nodes=("gpu-001",)),
    )
    step = next_step(made, at(10))
    assert isinstance(step, Report if converged else Wait)


def test_a_successor_that_somebody_cancelled_is_the_end() -> None:
    made = situation(successor(JobState.CANCELLED, started_at=None), actions=(OUR_REQUEUE,))
    assert reports(made) == (Disposition.ABANDONED, Reason.TARGET_ENDED)


def test_a_successor_that_ran_with_the_exclusions_counts_though_it_failed() -> None:
    made = situation(
        successor(JobState.FAILED),
        actions=(OUR_REQUEUE,),
        detail=detail(excluded_nodes=("gpu-001",)),
    )
    assert reports(made) == (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)


def test_node_failure_is_constrained_without_touching_slurms_begin_time() -> None:
    made = situation(successor(), pending_since=at(0), accounting=NO_RECORDS)
    action = acts(made).action
    assert action.exclusions == ("gpu-001",)
    assert not action.start_now
    carried = situation(
        successor(),
        pending_since=at(0),
        detail=detail(excluded_nodes=("gpu-001",)),
        accounting=NO_RECORDS,
    )
    waits(carried)


# ------------------------------------------------------------------ impossible exclusions


def test_exclusions_of_ours_that_make_the_job_impossible_are_shortened() -> None:
    put = record(ActionKind.UPDATE, 3, exclusions=("gpu-001", "gpu-009"), start_now=True)
    stuck = successor(priority=0, reason="BadConstraints", eligible_at=at(3))
    made = situation(
        stuck,
        actions=(OUR_REQUEUE, put),
        detail=detail(excluded_nodes=("gpu-001", "gpu-009")),
        our_exclusions=("gpu-001",),
    )
    action = acts(made).action
    assert action.exclusions == ("gpu-009",)
    shorter = record(ActionKind.UPDATE, 5, exclusions=action.exclusions, why=action.why)
    after = situation(
        successor(JobState.RUNNING),
        actions=(OUR_REQUEUE, put, shorter),
        detail=detail(excluded_nodes=("gpu-009",)),
    )
    assert reports(after) == (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)


def test_what_the_user_excluded_after_us_is_the_users() -> None:
    put = record(ActionKind.UPDATE, 3, exclusions=("gpu-001",), start_now=True)
    made = situation(
        successor(priority=0, reason="BadConstraints", eligible_at=at(3)),
        actions=(OUR_REQUEUE, put),
        detail=detail(excluded_nodes=("gpu-001", "gpu-004")),
        our_exclusions=("gpu-001",),
    )
    assert acts(made).action.exclusions == ("gpu-004",)


def test_a_node_that_its_user_had_excluded_before_us_stays_the_users_though_we_name_it_too() -> (
    None
):
    known = detail(excluded_nodes=("gpu-001",))
    made = situation(successor(), advice=advice(exclusions=("gpu-001", "gpu-002")), detail=known)
    assert isinstance(known, Known)
    assert users_own(made, known.value) == ("gpu-001",)
    after = replace(made, our_exclusions=("gpu-002",))
    both = replace(known.value, excluded_nodes=("gpu-001", "gpu-002"))
    assert users_own(after, both) == ("gpu-001",)


def test_impossible_constraints_of_the_user_alone_are_left() -> None:
    stuck = successor(priority=0, reason="BadConstraints")
    made = situation(
        stuck,
        actions=(OUR_REQUEUE,),
        detail=detail(excluded_nodes=("gpu-009",)),
        our_exclusions=("gpu-001",),
    )
    waits(made)


# ------------------------------------------------------------------ revival


RUNNING_WHEN_SEEN = attempt(end=None)


@pytest.mark.parametrize(
    "changes",
    [
        {"accounting": accounting(batch_completed=True)},
        {"accounting": accounting(cancelled_by="2001")},
        {"accounting": accounting(state=JobState.COMPLETED, requeued=False)},
        {"log_end": LogEnd.CANCELLED},
        {
            "attempt": attempt(
                end=AttemptEnd(JobState.COMPLETED, EndedBy.COMPLETION, 0, 0, T0, at(2))
            )
        },
        {"attempt": attempt(end=AttemptEnd(JobState.CANCELLED, EndedBy.OWNER, 0, 15, T0, at(2)))},
    ],
)
def test_a_revived_successor_is_cancelled_before_it_runs(changes: dict[str, object]) -> None:
    made = held_back(**{"attempt": RUNNING_WHEN_SEEN, **changes})
    assert acts(made).action.kind is ActionKind.CANCEL


def test_what_was_revived_is_reported_once_it_is_gone() -> None:
    cancel = record(ActionKind.CANCEL, 5, why="revived in error: accounting: completed")
    made = situation(successor(JobState.CANCELLED, started_at=None), actions=(OUR_REQUEUE, cancel))
    assert reports(made) == (Disposition.ABANDONED, Reason.REVIVED_IN_ERROR)


def test_a_script_that_exits_0_when_our_requeue_kills_it_is_not_revived() -> None:
    late = accounting(batch_completed=True, batch_ended_at=at(4))
    assert acts(held_back(attempt=RUNNING_WHEN_SEEN, accounting=late)).action.start_now


def test_slurms_requeue_line_proves_that_the_attempt_was_alive() -> None:
    made = held_back(
        attempt=RUNNING_WHEN_SEEN,
        log_end=LogEnd.REQUEUED,
        accounting=accounting(batch_completed=True),
    )
    assert acts(made).action.start_now


def test_accounting_is_asked_before_a_running_attempts_successor_is_let_go() -> None:
    made = held_back(attempt=RUNNING_WHEN_SEEN, accounting=None)
    assert next_step(made, at(10)) == Need(Fact.ACCOUNTING)


def test_accounting_that_does_not_answer_constrains_without_letting_go() -> None:
    made = held_back(attempt=RUNNING_WHEN_SEEN, accounting=Unknown("slurmdbd is down", T0))
    action = acts(made).action
    assert action.exclusions == ("gpu-001",)
    assert not action.start_now


def test_a_failure_seen_before_the_requeue_needs_no_accounting() -> None:
    assert acts(held_back(accounting=None)).action.start_now


# ------------------------------------------------------------------ requeue-hold


def test_our_requeue_hold_is_released_after_the_update() -> None:
    ours = record(ActionKind.REQUEUE_HOLD, 0.5)
    put = record(ActionKind.UPDATE, 3, exclusions=("gpu-001",), start_now=True)
    view = successor(
        flags=frozenset({JobFlag.SPECIAL_EXIT}),
        priority=0,
        reason="job_requeued_in_held_state",
        eligible_at=at(3),
    )
    made = situation(
        view,
        actions=(ours, put),
        pending_since=REQUEUED,
        detail=detail(excluded_nodes=("gpu-001",)),
    )
    assert acts(made).action.kind is ActionKind.RELEASE


def test_an_operators_hold_on_top_of_ours_is_left() -> None:
    ours = record(ActionKind.REQUEUE_HOLD, 0.5)
    put = record(ActionKind.UPDATE, 3, exclusions=("gpu-001",), start_now=True)
    view = successor(flags=frozenset({JobFlag.SPECIAL_EXIT}), priority=0, eligible_at=at(3))
    made = situation(
        view,
        actions=(ours, put),
        pending_since=REQUEUED,
        detail=detail(excluded_nodes=("gpu-001",), held_by_operator=True),
    )
    assert waits(made).reason is Reason.OPERATOR_HOLD


def test_our_requeue_hold_outlasts_a_requeue_without_an_answer() -> None:
    lost = record(ActionKind.REQUEUE_HOLD, 0.5, Answered.NO_ANSWER)
    view = successor(flags=frozenset({JobFlag.SPECIAL_EXIT}), priority=0, eligible_at=at(3))
    made = situation(
        view,
        facts=replace(FACTS, begin_delay_s=3),
        actions=(lost,),
        pending_since=REQUEUED,
        detail=detail(excluded_nodes=("gpu-001",)),
        accounting=Known((), at(9)),
    )
    assert isinstance(next_step(made, at(10)), Wait)
    step = next_step(made, at(40))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.RELEASE


def test_our_requeue_hold_stays_while_it_cannot_be_told_whether_an_operators_lies_on_it() -> None:
    ours = record(ActionKind.REQUEUE_HOLD, 0.5)
    put = record(ActionKind.UPDATE, 3, exclusions=("gpu-001",), start_now=True)
    view = successor(flags=frozenset({JobFlag.SPECIAL_EXIT}), priority=0, eligible_at=at(3))
    made = situation(
        view,
        actions=(ours, put),
        pending_since=REQUEUED,
        detail=detail(excluded_nodes=("gpu-001",), held_by_operator=None),
    )
    assert waits(made).reason is Reason.UNKNOWN_STATE


def test_a_failed_attempt_that_an_operator_held_while_it_ran_waits_for_the_operator() -> None:
    assert waits(situation(target(priority=0))).reason is Reason.OPERATOR_HOLD
    step = next_step(situation(target()), at(1))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.REQUEUE
