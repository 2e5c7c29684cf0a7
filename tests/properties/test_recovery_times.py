"""Whatever clocks say and whatever is missing: no part is negative, and the parts are the whole."""

from __future__ import annotations

import math
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from middlewatch.model.attempt import EndedBy
from middlewatch.model.milestone import Milestone, MilestoneKind, MilestoneSource
from middlewatch.model.policy import Policy
from middlewatch.model.recovery import Mark, Moment, PartName, Recovery, RecoveryState
from middlewatch.model.signal import Progress
from middlewatch.model.steps import StepCounter
from middlewatch.remediation import AttemptStory, recovery_of
from middlewatch.remediation.recovery import resumed_key
from middlewatch.remediation.timing import Stage, measured
from tests.unit.attribution.made import at, attempt, ended
from tests.unit.remediation.made import advice

SECONDS = st.floats(-5000, 5000, allow_nan=False).map(lambda s: round(s, 3))
SOURCES = st.sampled_from([None, *MilestoneSource])
COUNTERS = st.sampled_from([None, StepCounter("a", 1), StepCounter("b", 1), StepCounter("c", -2)])


@st.composite
def moments(draw: st.DrawFn, mark: Mark = Mark.FAULT) -> Moment:
    when = at(draw(SECONDS))
    learned = draw(st.none() | SECONDS.map(at))
    return Moment(mark, 0, when, learned, draw(SOURCES))


STAGES = st.lists(
    st.builds(Stage, st.sampled_from(list(PartName)), st.none() | moments()), max_size=20
)


@given(moments(), STAGES)
def test_parts_are_never_negative_and_add_up_to_the_whole(
    begin: Moment, stages: list[Stage]
) -> None:
    times = measured(begin, stages)
    seconds = [part.seconds for part in times.parts]
    assert all(s >= 0 for s in seconds)
    assert times.unsplit_s >= 0
    assert math.isclose(sum(seconds) + times.unsplit_s, times.total_s, abs_tol=1e-6)
    assert len({part.name for part in times.parts}) == len(times.parts)


@given(moments(), STAGES)
def test_part_whose_mark_was_never_known_has_no_length(begin: Moment, stages: list[Stage]) -> None:
    times = measured(begin, stages)
    known = {stage.part for stage in stages if stage.moment is not None}
    assert {part.name for part in times.parts} <= known


@st.composite
def lines(draw: st.DrawFn) -> tuple[AttemptStory, ...]:
    """Attempts with any of their milestones, at any times; perhaps one passes what was lost."""
    count = draw(st.integers(1, 4))
    stories = []
    attempts = [attempt(attempt_index=index) for index in range(count)]
    winner = draw(st.none() | st.sampled_from(attempts[1:])) if count > 1 else None
    for number, one in enumerate(attempts):
        kinds = draw(st.sets(st.sampled_from(list(MilestoneKind)))) - {MilestoneKind.RESUMED}
        if number == 0:
            kinds |= {MilestoneKind.FAULT}
        made = [
            Milestone(
                f"s{number}",
                kind.value,
                at(draw(SECONDS)),
                at(draw(SECONDS)),
                kind,
                source=draw(SOURCES),
                step=draw(st.none() | st.integers(0, 50)) if kind is MilestoneKind.FAULT else None,
            )
            for kind in sorted(kinds)
        ]
        if winner is not None and number == 0:
            key = resumed_key(winner.id)
            made.append(
                Milestone(
                    "s0", key, at(draw(SECONDS)), at(draw(SECONDS)), MilestoneKind.RESUMED, step=61
                )
            )
        first_at = draw(st.none() | SECONDS.map(at))
        progress = Progress(
            one.id,
            first_step=None if first_at is None else 1,
            first_step_at=first_at,
            last_step=None if first_at is None else draw(st.sampled_from([20, 60])),
            last_step_at=first_at,
            last_output_at=first_at,
            steps_of=draw(COUNTERS),
        )
        over = ended(EndedBy.FAILURE, attempt_index=number) if draw(st.booleans()) else one
        stories.append(
            AttemptStory(
                over,
                draw(st.none() | st.just(progress)),
                draw(st.just(advice(one)) if number == 0 else st.none() | st.just(advice(one))),
                tuple(made),
            )
        )
    return tuple(stories)


@given(lines(), st.integers(0, 100_000))
def test_every_recovery_adds_up_and_is_verified_only_by_a_step(
    line: tuple[AttemptStory, ...], later: int
) -> None:
    found = recovery_of(line, at(5000) + timedelta(seconds=later), Policy())
    assert found is not None
    seconds = [part.seconds for part in found.parts]
    assert all(s >= 0 for s in seconds)
    assert math.isclose(sum(seconds) + found.unsplit_s, found.total_s, abs_tol=1e-6)
    assert found == again(line, later)
    assert (found.resumed_step is not None) == (found.state is RecoveryState.VERIFIED)
    if found.state is RecoveryState.VERIFIED and found.lost_step is not None:
        assert found.resumed_step is not None
        assert found.resumed_step > found.lost_step
        last = next(s for s in line if s.attempt.attempt_index == found.attempts[-1])
        told = any(m.kind is MilestoneKind.RESUMED for m in line[0].milestones)
        of = None if last.progress is None else last.progress.steps_of
        # By its own last step only where that is of the counter that was lost.
        assert told or of is None or found.lost_of in {"", of.name}
    if found.state is RecoveryState.UNDER_WAY:
        assert not found.settled


def again(line: tuple[AttemptStory, ...], later: int) -> Recovery | None:
    return recovery_of(line, at(5000) + timedelta(seconds=later), Policy())
