"""Which counter the steps of a recovery are of: only one that was lost can be passed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.attempt import EndedBy
from middlewatch.model.milestone import MilestoneKind
from middlewatch.model.recovery import RecoveryState
from middlewatch.model.steps import Reached, StepCounter
from middlewatch.remediation import AttemptStory, missing_milestones
from tests.unit.attribution.made import at
from tests.unit.remediation.recovering import failed, first, passing, steps, successor, told, usual

TRAINING, ALIKE = StepCounter("megatron.step", 1), StepCounter("plain.step", 1)
LOOP, OWN = StepCounter("loop.step", -2), StepCounter("job.progress", 2)


def by(story: AttemptStory, counter: StepCounter | None) -> AttemptStory:
    """The story with all its steps read by that counter."""
    assert story.progress is not None
    milestones = tuple(
        replace(m, steps_of=counter) if m.kind is MilestoneKind.FAULT else m
        for m in story.milestones
    )
    return replace(story, progress=replace(story.progress, steps_of=counter), milestones=milestones)


def over(last: int, end: EndedBy = EndedBy.FAILURE, begin: int = 1) -> AttemptStory:
    """Attempt 1 ended; its last step was printed in second 11."""
    broken = failed(1, 12.0, started_at=at(5))
    assert broken.end is not None
    broken = replace(broken, end=replace(broken.end, by=end))
    return AttemptStory(
        broken, steps(broken, begin, last, at(8), last_step_at=at(11)), stopped="budget_spent"
    )


def test_start_up_loop_at_2000_is_not_beyond_step_37() -> None:
    made = told(by(first(), TRAINING), by(over(2000), LOOP))
    assert (made.state, made.lost_step, made.lost_of) == (
        RecoveryState.NOT_RECOVERED, 37, "megatron.step",
    )  # fmt: skip
    assert made.resumed_step is None
    assert made.why == (
        "attempt 1 ended (failure) before a step of the counter megatron.step (but 2000 of "
        "loop.step), not past step 37; not restarted again (budget_spent)"
    )
    line = (by(first(), TRAINING), by(over(2000), LOOP))
    assert all(m.kind is not MilestoneKind.RESUMED for m in missing_milestones(line, at(60)))


def test_last_step_of_the_same_counter_proves_that_it_passed() -> None:
    made = told(by(first(), TRAINING), by(over(90), TRAINING))
    assert (made.state, made.resumed_step) == (RecoveryState.VERIFIED, 90)
    assert made.lost_of == "megatron.step"


@pytest.mark.parametrize(
    ("before", "after"), [(None, None), (None, LOOP), (TRAINING, None)], ids=str
)
def test_records_without_a_counter_are_compared_as_they_were(
    before: StepCounter | None, after: StepCounter | None
) -> None:
    made = told(by(first(), before), by(over(2000), after))
    assert (made.state, made.resumed_step) == (RecoveryState.VERIFIED, 2000)


@pytest.mark.parametrize("last", [20, 2000])
@pytest.mark.parametrize("counter", [ALIKE, OWN])
def test_where_only_another_counter_is_printed_nobody_can_tell(
    counter: StepCounter, last: int
) -> None:
    made = told(by(first(), TRAINING), by(over(last), counter))
    assert (made.state, made.resumed_step, made.settled) == (RecoveryState.UNVERIFIED, None, True)
    assert f"but {last} of {counter.name}" in made.why
    assert "nobody can tell whether it passed step 37" in made.why


def test_completion_by_another_counter_is_neither_recovered_nor_held_against_the_job() -> None:
    made = told(by(first(), TRAINING), by(over(2000, EndedBy.COMPLETION), LOOP))
    assert made.state is RecoveryState.UNVERIFIED


def test_successor_in_its_start_up_loop_has_the_time_until_a_first_step() -> None:
    line = (by(first(), TRAINING), by(successor(), LOOP))
    # Before a first step: as long as the first attempt took, twice, and five minutes.
    made = told(*line, now=5 + 500)
    assert made.state is RecoveryState.UNDER_WAY
    assert "no step yet of the counter megatron.step (but 34 of loop.step)" in made.why
    assert told(*line, now=100_000.0).state is RecoveryState.NOT_RECOVERED
    alike = told(line[0], by(successor(), ALIKE), now=100_000.0)
    assert (alike.state, alike.settled) == (RecoveryState.UNVERIFIED, False)


def test_what_the_watcher_saw_pass_is_verified_whatever_is_printed_since() -> None:
    after = by(successor(), ALIKE)
    begun = by(first(milestones=(*usual(), passing(after.attempt, 15.0))), TRAINING)
    made = told(begun, after)
    assert (made.state, made.lost_step, made.resumed_step) == (RecoveryState.VERIFIED, 37, 38)


def test_start_up_loop_that_died_earlier_makes_no_lost_step_of_training() -> None:
    begun = by(first(), TRAINING)
    made = told(begun, by(over(40), TRAINING), reached_before=Reached(2000, LOOP))
    assert (made.state, made.lost_step) == (RecoveryState.VERIFIED, 37)
    made = told(begun, by(over(40), TRAINING), reached_before=Reached(50, TRAINING))
    assert (made.state, made.lost_step) == (RecoveryState.NOT_RECOVERED, 50)
    # The first attempt of this recovery died before its training; what was lost earlier still is.
    made = told(by(first(), LOOP), by(over(49), TRAINING), reached_before=Reached(50, TRAINING))
    assert (made.state, made.lost_step) == (RecoveryState.NOT_RECOVERED, 50)


# -- counts that begin anew in each run -------------------------------------------------------


def counted(story: AttemptStory, begin: int, total: int | None) -> AttemptStory:
    """The story of a job that prints no checkpoints."""
    assert story.progress is not None
    told = replace(
        story.progress,
        first_step=begin,
        total_steps=total,
        checkpoint_step=None,
        loaded_step=None,
    )
    return replace(story, progress=told)


def test_run_that_came_to_the_end_of_its_own_count_may_have_passed_it() -> None:
    begun = counted(first(), 0, 100)
    for total in (30, 31):
        made = told(begun, counted(over(30, EndedBy.COMPLETION), 0, total))
        assert (made.state, made.settled) == (RecoveryState.UNVERIFIED, True)
        assert "at step 30; its own total, counted anew: nobody can tell" in made.why


@pytest.mark.parametrize(
    ("begin", "total", "end"),
    [
        (0, 30, EndedBy.FAILURE),
        (0, 100, EndedBy.COMPLETION),
        (0, None, EndedBy.COMPLETION),
        (28, 30, EndedBy.COMPLETION),
    ],
)
def test_run_that_fell_short_or_went_on_counting_was_restarted_and_not_recovered(
    begin: int, total: int | None, end: EndedBy
) -> None:
    made = told(counted(first(), 0, 100), counted(over(30, end), begin, total))
    assert made.state is RecoveryState.NOT_RECOVERED


def test_job_with_checkpoints_tells_by_them_where_it_went_on() -> None:
    done = counted(over(30, EndedBy.COMPLETION), 0, 30)
    made = told(first(), done)
    assert made.checkpoint_step == 30
    assert made.state is RecoveryState.NOT_RECOVERED
