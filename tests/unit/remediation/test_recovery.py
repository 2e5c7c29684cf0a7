"""What became of a fault, and where the time went."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.advice import Disposition, Reason, Status
from middlewatch.model.attempt import EndedBy
from middlewatch.model.gates import Mode
from middlewatch.model.milestone import MilestoneKind, MilestoneSource
from middlewatch.model.policy import Policy
from middlewatch.model.recovery import Mark, Part, PartName, Recovery, RecoveryState
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Unseen
from middlewatch.model.steps import Reached
from middlewatch.remediation import AttemptStory, line_from, missing_milestones, recovery_of
from tests.unit.attribution.made import at, attempt
from tests.unit.remediation.made import gates
from tests.unit.remediation.recovering import (
    S,
    advised_otherwise,
    failed,
    failed_again,
    first,
    marks,
    milestone,
    passing,
    steps,
    successor,
    told,
    usual,
    verified,
)

P = PartName


def parts(recovery: Recovery) -> dict[PartName, float]:
    return {part.name: part.seconds for part in recovery.parts}


# -- a whole one ------------------------------------------------------------------------------


def test_each_part_of_a_verified_recovery_is_told() -> None:
    made = told(*verified())
    assert made.state is RecoveryState.VERIFIED
    assert made.settled
    assert parts(made) == {
        P.DETECT: 0.5, P.DECIDE: 0.25, P.HOLD: 1.25, P.RELEASE: 1.0, P.QUEUE: 2.0,
        P.START: 3.0, P.RECOMPUTE: 7.0,
    }  # fmt: skip
    assert (made.total_s, made.unsplit_s, made.clock_off_s) == (15.0, 0.0, 0.0)
    assert made.largest == Part(P.RECOMPUTE, 7.0)
    steps_told = (made.lost_step, made.checkpoint_step, made.loaded_step, made.resumed_step)
    assert steps_told == (37, 30, 30, 38)
    assert made.attempts == (1,)
    assert made.why == "attempt 1 came to step 38, past step 37"


def test_every_mark_has_its_source_and_both_times() -> None:
    made = told(*verified())
    assert {moment.mark for moment in made.moments} == set(Mark) - {Mark.ENDED}
    by_mark = {moment.mark: moment for moment in made.moments}
    fault, running = by_mark[Mark.FAULT], by_mark[Mark.RUNNING]
    assert (fault.at, fault.learned_at, fault.source) == (at(0), at(0.5), S.LOG)
    assert (running.at, running.learned_at, running.source) == (at(5), at(5.25), S.SCHEDULER)
    assert (fault.attempt_index, running.attempt_index) == (0, 1)


def test_successor_that_fails_again_makes_the_first_recovery_longer() -> None:
    again = failed_again()
    third = successor(2, attempt=attempt(attempt_index=2, started_at=at(17)))
    third = replace(third, progress=steps(third.attempt, 31, 40, at(20)))
    begun = first(milestones=(*usual(), passing(third.attempt, 27.0)))
    made = told(begun, again, third)
    assert made.state is RecoveryState.VERIFIED
    assert made.attempts == (1, 2)
    assert made.total_s == 27.0
    assert parts(made) == {
        P.DETECT: 1.0, P.DECIDE: 0.5, P.HOLD: 2.5, P.RELEASE: 2.0, P.QUEUE: 4.0,
        # 8 to 12: computed in vain; 20 to 27: until it was past.
        P.START: 6.0, P.RECOMPUTE: 11.0,
    }  # fmt: skip
    assert marks(made).count(Mark.FAULT) == 2


def test_recovery_goes_on_while_a_failed_successor_is_restarted() -> None:
    made = told(
        first(), replace(failed_again(), advice=advised_otherwise(failed_again(), status=None))
    )
    assert (made.state, made.settled) == (RecoveryState.UNDER_WAY, False)
    assert "attempt 1 is to be restarted" in made.why


# -- which began none -------------------------------------------------------------------------


def test_what_was_not_permitted_began_no_recovery() -> None:
    closed = gates(first().attempt, mode=Mode.MONITOR)
    story = first(advice=advised_otherwise(first(), gates=closed))
    assert recovery_of((story, successor()), at(60), Policy()) is None
    assert missing_milestones((story, successor()), at(60)) == ()


@pytest.mark.parametrize("story", [first(advice=None), first(milestones=())])
def test_without_advice_or_fault_there_is_no_recovery(story: AttemptStory) -> None:
    assert recovery_of((story,), at(60), Policy()) is None
    assert recovery_of((), at(60), Policy()) is None


# -- restarted, not recovered -----------------------------------------------------------------


def ended_in_vain(by: EndedBy = EndedBy.FAILURE, stopped: str = "") -> AttemptStory:
    broken = failed(1, 12.0, started_at=at(5))
    assert broken.end is not None
    broken = replace(broken, end=replace(broken.end, by=by))
    return AttemptStory(broken, steps(broken, 31, 35, at(8)), stopped=stopped)


def test_successor_that_ended_before_the_lost_step_was_restarted_not_recovered() -> None:
    made = told(first(), ended_in_vain(stopped="budget_spent"))
    assert made.state is RecoveryState.NOT_RECOVERED
    assert made.why == (
        "attempt 1 ended (failure) at step 35, not past step 37; not restarted again (budget_spent)"
    )
    assert made.resumed_step is None
    assert parts(made)[P.RECOMPUTE] == 4.0
    assert made.total_s == 12.0


def test_end_that_was_not_decided_about_yet_is_not_the_end_of_it() -> None:
    made = told(first(), ended_in_vain(), now=20.0)
    assert (made.state, made.settled) == (RecoveryState.UNDER_WAY, False)
    assert made.why == "attempt 1 ended (failure); what comes of that is not decided yet"
    made = told(first(), ended_in_vain(stopped="completed"), now=20.0)
    assert (made.state, made.settled) == (RecoveryState.NOT_RECOVERED, False)


def test_it_is_settled_only_when_nothing_more_is_to_come() -> None:
    assert not told(first(), ended_in_vain(), now=20.0).settled
    assert told(first(), ended_in_vain(), now=60.0).settled


def test_completion_before_the_lost_step_is_no_recovery() -> None:
    assert told(first(), ended_in_vain(EndedBy.COMPLETION)).state is RecoveryState.NOT_RECOVERED


def test_last_step_of_a_successor_that_is_over_proves_that_it_passed() -> None:
    over = ended_in_vain(EndedBy.COMPLETION)
    over = replace(over, progress=steps(over.attempt, 31, 90, at(8), last_step_at=at(11)))
    made = told(first(), over)
    assert (made.state, made.resumed_step, made.total_s) == (RecoveryState.VERIFIED, 90, 11.0)


def test_step_that_was_lost_earlier_and_never_passed_is_lost_still() -> None:
    made = told(first(), ended_in_vain(), reached_before=Reached(50))
    assert made.lost_step == 50
    over = replace(ended_in_vain(), progress=steps(successor().attempt, 31, 45, at(8)))
    assert told(first(), over, reached_before=Reached(50)).state is RecoveryState.NOT_RECOVERED


def test_successor_has_a_time_by_which_it_should_have_passed() -> None:
    # Seven steps of one second, twice, and five minutes from its first step on (second 8).
    line = (first(), successor())
    assert told(*line, now=8 + 14 + 300).state is RecoveryState.UNDER_WAY
    late = told(*line, now=8 + 14 + 301)
    assert (late.state, late.settled) == (RecoveryState.NOT_RECOVERED, False)
    assert "in the time that it should need" in late.why


def test_before_its_first_step_a_successor_has_the_limit_of_first_steps() -> None:
    silent = replace(successor(), progress=None)
    policy = Policy(first_step_limit_s=500.0)
    assert told(first(), silent, now=504.0, policy=policy).state is RecoveryState.UNDER_WAY
    late = told(first(), silent, now=506.0, policy=policy)
    assert late.state is RecoveryState.NOT_RECOVERED
    # Its predecessor had needed 100 seconds: a shorter limit does not count.
    policy = Policy(first_step_limit_s=1.0)
    assert told(first(), silent, now=504.0, policy=policy).state is RecoveryState.UNDER_WAY


# -- nobody can tell --------------------------------------------------------------------------


def without_steps(story: AttemptStory, *unseen: str) -> AttemptStory:
    progress = steps(
        story.attempt, None, None, unseen=tuple(Unseen(what, at(0), "") for what in unseen)
    )
    bare = tuple(replace(m, step=None) for m in story.milestones)
    return replace(story, progress=progress, milestones=bare)


def test_job_that_prints_no_steps_is_unverified_and_never_verified() -> None:
    line = (without_steps(first()), without_steps(successor()))
    made = told(*line, now=100_000.0)
    assert (made.state, made.settled) == (RecoveryState.UNVERIFIED, False)
    assert made.why == "attempt 1 runs, and this job prints no steps"
    over = without_steps(ended_in_vain(EndedBy.COMPLETION))
    made = told(without_steps(first()), over)
    assert (made.state, made.settled) == (RecoveryState.UNVERIFIED, True)
    assert P.RECOMPUTE not in parts(made)


def test_where_no_step_was_lost_the_first_one_is_beyond_it() -> None:
    line = (without_steps(first()), successor())
    made = told(*line)
    assert (made.state, made.lost_step, made.resumed_step) == (RecoveryState.VERIFIED, None, 31)
    assert parts(made)[P.START] == 3.0
    assert parts(made)[P.RECOMPUTE] == 0.0


@pytest.mark.parametrize("what", ["log", "progress", "lines"])
def test_where_lost_steps_could_not_be_seen_nothing_is_proven(what: str) -> None:
    made = told(without_steps(first(), what), successor())
    assert made.state is RecoveryState.UNVERIFIED
    assert "what was lost is not known" in made.why


# -- given up, and still awaited --------------------------------------------------------------


def test_advice_that_was_abandoned_gave_the_recovery_up() -> None:
    status = Status(1, Disposition.ABANDONED, Reason.ADVICE_EXPIRED, at(10), "older than 3600 s")
    story = first(advice=advised_otherwise(first(), status=status))
    made = told(story, now=30.0)
    assert (made.state, made.reason) == (RecoveryState.GIVEN_UP, "ADVICE_EXPIRED")
    assert not made.settled
    assert told(story, now=40.0).settled


def test_successor_that_somebody_brought_about_counts_all_the_same() -> None:
    status = Status(1, Disposition.ABANDONED, Reason.STALE_ATTEMPT, at(10))
    story = first(advice=advised_otherwise(first(), status=status))
    assert told(story, successor()).state is RecoveryState.UNDER_WAY


def test_successor_that_ended_before_it_ran_recovered_nothing() -> None:
    never = replace(ended_in_vain(EndedBy.OWNER), progress=None)
    never = replace(never, attempt=replace(never.attempt, started_at=None))
    made = told(first(milestones=usual()[:6]), never)
    assert made.state is RecoveryState.GIVEN_UP
    assert P.START not in parts(made)


def test_successor_that_nobody_has_seen_is_waited_for_an_hour() -> None:
    assert told(first(), now=3600.0).state is RecoveryState.UNDER_WAY
    assert told(first(), now=3700.0).state is RecoveryState.GIVEN_UP


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.SUSPENDED])
def test_successor_that_does_not_run_is_under_way(state: JobState) -> None:
    waiting = attempt(attempt_index=1, started_at=None, state=state)
    made = told(first(milestones=usual()[:6]), AttemptStory(waiting), now=100_000.0)
    assert (made.state, made.why) == (RecoveryState.UNDER_WAY, f"attempt 1 is {state.value}")


# -- what is not known, and clocks that differ ------------------------------------------------


def without(*kinds: MilestoneKind) -> tuple[AttemptStory, ...]:
    begun, after = verified()
    return (
        replace(begun, milestones=tuple(m for m in begun.milestones if m.kind not in kinds)),
        after,
    )


def test_part_whose_mark_is_unknown_is_unknown_and_not_zero() -> None:
    made = told(*without(MilestoneKind.HELD))
    assert made.seconds(P.HOLD) is None
    assert made.seconds(P.RELEASE) is None
    assert (made.unsplit, made.unsplit_s) == ((P.HOLD, P.RELEASE), 2.25)
    assert made.total_s == 15.0


def test_successors_record_tells_when_it_ran_if_nobody_looked() -> None:
    line = without(MilestoneKind.RUNNING)
    assert told(*line).seconds(P.QUEUE) == 2.0
    (running,) = missing_milestones(line, at(60))
    assert (running.kind, running.at, running.learned_at) == (MilestoneKind.RUNNING, at(5), at(60))
    assert running.source is MilestoneSource.SCHEDULER
    assert missing_milestones(verified(), at(60)) == ()


def test_time_that_lies_before_what_it_followed_is_measured_when_it_was_learnt() -> None:
    begun, after = verified()
    early = milestone(MilestoneKind.RUNNING, -40.0, S.SCHEDULER, 5.25)
    kept = tuple(m for m in begun.milestones if m.kind is not MilestoneKind.RUNNING)
    made = told(replace(begun, milestones=(*kept, early)), after)
    assert made.seconds(P.QUEUE) == 2.25
    assert made.clock_off_s == 43.0
    assert made.total_s == 15.0


def test_first_step_by_a_clock_that_is_behind_divides_nothing() -> None:
    begun, after = verified()
    made = told(begun, replace(after, progress=steps(after.attempt, 31, 40, at(-3000))))
    assert made.seconds(P.START) is None
    assert (made.unsplit, made.unsplit_s) == ((P.START, P.RECOMPUTE), 10.0)
    assert made.clock_off_s == 3005.0


def test_second_that_was_rounded_down_is_no_clock_that_differs() -> None:
    begun, after = verified()
    rounded = milestone(MilestoneKind.RUNNING, 2.25, S.SCHEDULER, 5.25)
    kept = tuple(m for m in begun.milestones if m.kind is not MilestoneKind.RUNNING)
    made = told(replace(begun, milestones=(*kept, rounded)), after)
    assert (made.seconds(P.QUEUE), made.clock_off_s) == (0.0, 0.0)


def test_advice_that_came_when_the_successor_ran_already_is_no_part_of_the_way() -> None:
    begun, after = verified()
    late = tuple(
        replace(m, at=at(7), learned_at=at(7)) if m.kind is MilestoneKind.ADVISED else m
        for m in begun.milestones
    )
    made = told(replace(begun, milestones=late), after)
    assert made.seconds(P.DECIDE) is None
    assert made.total_s == 15.0


# -- the line ---------------------------------------------------------------------------------


def test_line_goes_on_until_the_number_is_another_jobs() -> None:
    zero, one = attempt(attempt_index=0), attempt(attempt_index=1)
    other = attempt(attempt_index=0, submitted_at=at(500))
    ghost = replace(attempt(attempt_index=2), vanished=True)
    assert line_from((other, one, ghost, zero), zero.id) == (zero, one)
    assert line_from((other, one, zero), one.id) == (one,)
    assert line_from((zero,), one.id) == ()


def test_a_restarted_job_that_got_the_number_makes_nothing_good() -> None:
    broken = first()
    later = {"attempt_index": 1, "submitted_at": at(3600)}
    for other in (attempt(numbered_again=True, **later), attempt(uid=8, **later)):
        zero = replace(broken.attempt, uid=7)
        assert line_from((zero, other), zero.id) == (zero,)
        assert line_from((zero, other), other.id) == (other,)
