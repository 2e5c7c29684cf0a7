"""The watchdog's rule, case by case: what it lets go, and everything that it leaves alone."""

from __future__ import annotations

from datetime import datetime

import pytest

from middlewatch.model.action import Action, ActionKind
from middlewatch.model.answer import Absent, Answer, Unknown
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.scheduler import ClusterFacts, JobDetail, JobFlag, JobState, JobView
from middlewatch.reconciliation.holds import standing
from middlewatch.reconciliation.watchdog import Plan, due, watchdog_actions
from tests.unit.reconciliation.owed import (
    CONFIG,
    DEADLINE,
    FACTS,
    HELD,
    PAST,
    T0,
    after,
    detail,
    entry,
    exclusion,
    fence,
    held,
    impossible,
    look,
    running,
    waiting,
)


def plan(
    *entries: JournalEntry,
    view: JobView,
    read: Answer[JobDetail] | None = None,
    now: datetime = PAST,
    facts: ClusterFacts | None = FACTS,
) -> Plan:
    found = due(standing(entries), look(view), facts, now, CONFIG)
    details = {view.job_id: read if read is not None else detail(view)}
    return watchdog_actions(found, details, facts, now, CONFIG)


def actions(given: Plan) -> list[Action]:
    return [step.action for step in given.planned]


def test_a_hold_of_ours_past_its_deadline_is_released() -> None:
    given = plan(entry(), view=held())
    assert [(one.kind, one.job_id) for one in actions(given)] == [(ActionKind.RELEASE, "7")]
    assert given.planned[0].not_before <= PAST


def test_a_hold_is_left_until_its_deadline() -> None:
    assert plan(entry(), view=held(), now=after(399.9)) == Plan()
    assert plan(entry(), view=held(), now=DEADLINE).planned


def test_the_begin_time_ends_first_and_the_hold_stands_meanwhile() -> None:
    given = plan(entry(), view=held(submitted_at=after(395), eligible_at=after(516)))
    (action,) = actions(given)
    assert (action.kind, action.start_now) == (ActionKind.UPDATE, True)
    assert not given.planned[0].lets_go


def test_a_begin_time_that_somebody_chose_is_kept_and_the_hold_released() -> None:
    (action,) = actions(plan(entry(), view=held(eligible_at=after(9000))))
    assert action.kind is ActionKind.RELEASE
    assert not action.start_now


def test_without_facts_the_hold_is_released_and_the_begin_time_left() -> None:
    given = plan(entry(), view=held(submitted_at=after(395), eligible_at=after(516)), facts=None)
    assert [one.kind for one in actions(given)] == [ActionKind.RELEASE]


def test_a_late_hold_waits_two_seconds_after_pending() -> None:
    given = plan(entry(), view=held(submitted_at=after(400), eligible_at=after(521)))
    assert given.planned[0].not_before == after(402)


def test_an_operators_hold_on_top_is_left_for_good() -> None:
    view = held()
    given = plan(entry(), view=view, read=detail(view, held_by_operator=True))
    assert given.planned == ()
    assert [(one.job_id, one.for_good) for one in given.left_alone] == [("7", True)]


def test_a_hold_that_may_be_an_operators_is_left_and_said() -> None:
    view = held()
    given = plan(entry(), view=view, read=detail(view, held_by_operator=None))
    assert given.planned == ()
    assert [one.for_good for one in given.left_alone] == [False]


def test_a_late_hold_that_hit_the_attempt_behind_is_let_go_too() -> None:
    (action,) = actions(plan(entry(), view=held(restarts=2, submitted_at=after(140))))
    assert action.kind is ActionKind.RELEASE


NOT_OURS = {
    "somebody else's requeue-hold": held(flags=frozenset()),
    "an earlier attempt": held(restarts=0, submitted_at=T0),
    "a later attempt": held(restarts=3),
    "a later attempt, held when our command could not come any more": held(
        restarts=2, submitted_at=after(450), eligible_at=after(450)
    ),
    "a number that came back": held(submitted_at=after(-5)),
    "a special exit by exit code": held(reason="JobHeldUser"),
    "an operator's hold": held(reason="JobHeldAdmin"),
    "already released": held(priority=1),
    "still completing": held(flags=HELD | {JobFlag.COMPLETING}),
    "running": held(state=JobState.RUNNING),
    "cancelled while held": held(state=JobState.CANCELLED),
    "a state that we do not know": held(state=JobState.UNREADABLE),
    "the row of a whole array": held(array_pending=True),
    "another job": held(job_id="8"),
}


@pytest.mark.parametrize("view", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_what_lacks_one_sign_of_our_hold_is_never_touched(view: JobView) -> None:
    assert plan(entry(), view=view) == Plan()


def test_a_first_attempt_with_a_newer_submit_time_is_another_job() -> None:
    owed = entry(restarts_expected=0)
    assert plan(owed, view=held(restarts=0)) == Plan()
    assert plan(owed, view=held(restarts=0, submitted_at=T0, eligible_at=T0)).planned


def test_another_clusters_job_of_the_same_number_is_never_touched() -> None:
    obligations = standing([entry()])
    assert due(obligations, look(held(), cluster="beta"), FACTS, PAST, CONFIG) == ()


@pytest.mark.parametrize("answer", [Unknown("no reply", PAST), Absent(PAST)])
def test_without_a_look_nothing_is_done(answer: Unknown | Absent) -> None:
    assert due(standing([entry()]), answer, FACTS, PAST, CONFIG) == ()


@pytest.mark.parametrize("read", [Unknown("no reply", PAST), Absent(PAST)])
def test_without_the_jobs_detail_nothing_is_done(read: Answer[JobDetail]) -> None:
    assert plan(entry(), view=held(), read=read) == Plan()


def test_a_detail_of_another_submit_time_decides_nothing() -> None:
    view = held()
    assert plan(entry(), view=view, read=detail(view, submitted_at=PAST)) == Plan()


def test_a_hold_without_a_deadline_ends_at_the_sites_maximum() -> None:
    owed = entry(release_by=None)
    assert plan(owed, view=held(), now=after(699)) == Plan()
    assert plan(owed, view=held(), now=after(700)).planned


def test_a_deadline_beyond_the_maximum_is_cut() -> None:
    owed = entry(release_by=after(86_400))
    assert plan(owed, view=held(), now=after(700)).planned


def test_an_impossible_job_loses_our_exclusions_and_keeps_its_users() -> None:
    view = impossible()
    read = detail(view, excluded_nodes=("n3", "n1", "n2"))
    (action,) = actions(plan(exclusion(), view=view, read=read))
    assert (action.kind, action.exclusions) == (ActionKind.UPDATE, ("n1",))
    assert (action.start_now, action.requeueable) == (False, None)


def test_a_user_who_shortened_the_list_does_not_get_it_back() -> None:
    view = impossible()
    read = detail(view, excluded_nodes=("n2",))
    (action,) = actions(plan(exclusion(), view=view, read=read))
    assert action.exclusions == ()


def test_exclusions_of_ours_follow_the_job_into_a_later_attempt() -> None:
    view = impossible(restarts=2, submitted_at=after(300))
    read = detail(view, excluded_nodes=("n1", "n2", "n4"))
    later = exclusion(at=after(300), restarts_expected=2, ours=("n4",))
    (action,) = actions(plan(exclusion(), later, view=view, read=read))
    assert action.exclusions == ("n1",)


def test_a_list_that_somebody_else_wrote_is_left() -> None:
    view = impossible()
    given = plan(exclusion(), view=view, read=detail(view, excluded_nodes=("n2", "n9")))
    assert given.planned == ()
    assert "n9" in given.left_alone[0].why


@pytest.mark.parametrize("excluded", [(), ("n1",)])
def test_a_job_impossible_without_us_is_left(excluded: tuple[str, ...]) -> None:
    view = impossible()
    assert plan(exclusion(), view=view, read=detail(view, excluded_nodes=excluded)) == Plan()


def test_an_impossible_job_under_an_operators_hold_is_left() -> None:
    view = impossible()
    read = detail(view, excluded_nodes=("n1", "n2"), held_by_operator=True)
    assert plan(exclusion(), view=view, read=read).planned == ()


@pytest.mark.parametrize(
    "view",
    [
        impossible(priority=5),
        impossible(state=JobState.RUNNING),
        impossible(restarts=0, submitted_at=T0),
        impossible(submitted_at=after(-1)),
        held(reason="Resources", flags=frozenset()),
    ],
)
def test_exclusions_of_a_job_that_is_not_impossible_stay(view: JobView) -> None:
    assert plan(exclusion(), view=view, read=detail(view, excluded_nodes=("n2",))) == Plan()


@pytest.mark.parametrize("view", [running(requeueable=False), held(requeueable=False)])
def test_a_fence_gives_the_owners_value_back(view: JobView) -> None:
    (action,) = actions(plan(fence(), view=view))
    assert (action.kind, action.requeueable) == (ActionKind.UPDATE, True)
    assert (action.start_now, action.exclusions) == (False, None)


def test_a_fence_is_lifted_even_under_an_operators_hold() -> None:
    view = running(requeueable=False, priority=0)
    given = plan(fence(), view=view, read=detail(view, held_by_operator=True))
    assert [one.requeueable for one in actions(given)] == [True]


@pytest.mark.parametrize("owner", [False, None])
def test_a_job_that_never_asked_for_requeueing_is_never_flipped(owner: bool | None) -> None:
    assert plan(fence(owner_requeue=owner), view=running(requeueable=False)) == Plan()


@pytest.mark.parametrize(
    "view",
    [
        running(requeueable=True),
        running(requeueable=False, restarts=2),
        running(requeueable=False, restarts=0, submitted_at=T0),
        running(requeueable=False, state=JobState.COMPLETED),
        running(requeueable=False, flags=frozenset({JobFlag.COMPLETING})),
    ],
)
def test_a_fence_elsewhere_is_nobodys(view: JobView) -> None:
    assert plan(fence(), view=view) == Plan()


def test_a_fence_that_the_detail_does_not_show_is_left() -> None:
    view = running(requeueable=None)
    assert plan(fence(), view=view, read=detail(view, requeueable=True)) == Plan()


def test_a_fence_without_a_deadline_is_lifted_after_the_longest_fence() -> None:
    owed = fence(release_by=None)
    view = running(requeueable=False)
    assert plan(owed, view=view, now=after(159)) == Plan()
    assert plan(owed, view=view, now=after(160)).planned


def test_a_fence_is_never_lifted_before_its_own_time() -> None:
    view = running(requeueable=False)
    assert plan(fence(), view=view, now=after(399)) == Plan()
    assert plan(fence(), view=view, now=after(400)).planned


def test_a_window_past_its_deadline_is_ended() -> None:
    (action,) = actions(plan(entry(JournalKind.WINDOW), view=waiting()))
    assert (action.kind, action.start_now) == (ActionKind.UPDATE, True)
    assert (action.exclusions, action.requeueable) == (None, None)


@pytest.mark.parametrize(
    "view",
    [
        waiting(priority=0, reason="JobHeldUser"),
        waiting(eligible_at=after(86_400)),
        waiting(eligible_at=after(360)),
        waiting(eligible_at=None),
        waiting(restarts=2),
        running(),
    ],
    ids=["held by others", "chosen by a person", "over", "unknown", "later attempt", "running"],
)
def test_a_window_that_is_not_slurms_own_is_left(view: JobView) -> None:
    assert plan(entry(JournalKind.WINDOW), view=view) == Plan()


def test_without_facts_a_window_is_left() -> None:
    assert plan(entry(JournalKind.WINDOW), view=waiting(), facts=None) == Plan()


def test_one_action_for_a_job_that_we_owe_several() -> None:
    view = held(requeueable=False)
    given = plan(entry(), fence(), exclusion(), view=view)
    assert [one.kind for one in actions(given)] == [ActionKind.RELEASE]


def test_releases_are_spread_in_the_order_of_their_deadlines() -> None:
    jobs = [str(number) for number in range(20, 30)]
    owed = [entry(job_id=job, release_by=after(400 - index)) for index, job in enumerate(jobs)]
    views = [held(job_id=job) for job in jobs]
    found = due(standing(owed), look(*views), FACTS, PAST, CONFIG)
    given = watchdog_actions(
        found, {view.job_id: detail(view) for view in views}, FACTS, PAST, CONFIG
    )
    assert [step.action.job_id for step in given.planned] == jobs[::-1]
    times = [step.not_before for step in given.planned]
    assert len([time for time in times if time <= PAST]) == CONFIG.per_tick
    late = times[CONFIG.per_tick :]
    assert [(time - PAST).total_seconds() for time in late] == [1, 2, 3, 4, 5, 6]


def test_the_spread_counts_from_the_last_one_let_go() -> None:
    view = held()
    found = due(standing([entry()]), look(view), FACTS, PAST, CONFIG)
    given = watchdog_actions(found, {"7": detail(view)}, FACTS, PAST, CONFIG, last_slot=PAST)
    assert given.planned[0].not_before == after(402)
