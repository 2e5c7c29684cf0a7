"""Whether a fault was made good, and how long that took: one recovery from frozen records.

A recovery belongs to the first fault until an attempt has passed the step that was lost there.
A successor that fails before it gets so far does not begin a recovery of its own: it makes the
first one longer. What a job's log does not show is not made up for: without steps nobody can
tell whether training goes on, and that is what is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from middlewatch.model.milestone import Milestone, MilestoneKind, MilestoneSource
from middlewatch.model.policy import Policy
from middlewatch.model.recovery import Mark, Moment, Recovery, RecoveryState
from middlewatch.model.steps import Reached, furthest_of
from middlewatch.remediation.recovery_ends import settled, state_of
from middlewatch.remediation.story import AttemptStory
from middlewatch.remediation.timing import Stage, measured, milestone_moments, silent, stages_of

NOTHING = Reached()


def resumed_key(attempt_id: str) -> str:
    """The key of the milestone that tells that this attempt passed the lost step."""
    return f"resumed/{attempt_id}"


@dataclass(frozen=True, slots=True)
class _Passed:
    """The attempt of the line that passed the lost step, and when."""

    at: int
    moment: Moment
    past_step: int | None


def recovery_of(
    line: Sequence[AttemptStory],
    now: datetime,
    policy: Policy,
    *,
    reached_before: Reached = NOTHING,
    version: int = 0,
) -> Recovery | None:
    """The recovery of ``line[0]``'s fault; ``line`` goes on with the attempts of its job after it,
    oldest first. ``reached_before`` is the furthest step of the attempts before it: what was lost
    once and never passed is lost still. None where no recovery was begun: nothing was advised, or
    it was not permitted."""
    if not line:
        return None
    first = line[0]
    advice = first.restart
    marks = milestone_moments(first)
    begin = marks.get(Mark.FAULT)
    if advice is None or begin is None or not advice.gates.open:
        return None
    lost = furthest_of(reached_before, lost_at(first))
    passed = _passed(line, lost)
    reached = line if passed is None else line[: passed.at + 1]
    times = measured(begin, _stages(reached, passed))
    state, why = _became(reached, passed, lost, now, policy)
    newest = reached[-1]
    progress = first.progress
    status = newest.advice.status if newest.advice is not None else None
    constrained = marks.get(Mark.CONSTRAINED)
    moments = times.moments if constrained is None else (*times.moments, constrained)
    return Recovery(
        id=advice.sequence_id,
        cluster=first.attempt.cluster,
        job_id=first.attempt.job_id,
        attempt_id=first.attempt.id,
        attempt_index=first.attempt.attempt_index,
        state=state,
        why=why,
        began_at=begin.at,
        reason=status.reason.value if state is RecoveryState.GIVEN_UP and status else "",
        failure_class=advice.failure_class,
        settled=settled(state, newest, now),
        attempts=tuple(story.attempt.attempt_index for story in reached[1:]),
        lost_step=lost.step if passed is None else passed.past_step,
        lost_of="" if lost.of is None else lost.of.name,
        checkpoint_step=None if progress is None else progress.checkpoint_step,
        loaded_step=_loaded(reached),
        resumed_step=None if passed is None else passed.moment.step,
        moments=tuple(sorted(moments, key=lambda moment: moment.at)),
        parts=times.parts,
        unsplit_s=times.unsplit_s,
        unsplit=times.unsplit,
        total_s=times.total_s,
        clock_off_s=times.clock_off_s,
        version=version,
    )


def lost_at(story: AttemptStory) -> Reached:
    """The last step that was seen of an attempt."""
    faults = [m for m in story.milestones if m.kind is MilestoneKind.FAULT]
    told = [Reached(fault.step, fault.steps_of) for fault in faults]
    return furthest_of(*told, NOTHING if story.progress is None else story.progress.reached)


def missing_milestones(
    line: Sequence[AttemptStory], now: datetime, reached_before: Reached = NOTHING
) -> tuple[Milestone, ...]:
    """Milestones that the records of the line show and nobody has written: that the successor runs,
    where it began after the controller had reported; and *resumed*, where no step was lost."""
    made: list[Milestone] = []
    for story, successor in pairwise(line):
        advice = story.restart
        if advice is None or not advice.gates.open:
            continue
        kinds = {milestone.kind for milestone in story.milestones}
        started = successor.attempt.started_at
        if started is not None and MilestoneKind.RUNNING not in kinds:
            made.append(
                Milestone(
                    advice.sequence_id,
                    f"{advice.attempt_id}:{MilestoneKind.RUNNING.value}",
                    min(started, now),
                    now,
                    MilestoneKind.RUNNING,
                    source=MilestoneSource.SCHEDULER,
                )
            )
    first = line[0]
    lost = furthest_of(reached_before, lost_at(first))
    passed = None if first.restart is None else _passed(line, lost)
    if passed is not None and first.restart is not None and first.restart.gates.open:
        key = resumed_key(line[passed.at].attempt.id)
        if all(milestone.idempotency_key != key for milestone in first.milestones):
            made.append(
                Milestone(
                    first.restart.sequence_id,
                    key,
                    min(passed.moment.at, now),
                    now,
                    MilestoneKind.RESUMED,
                    step=passed.moment.step,
                    detail=f"attempt {passed.moment.attempt_index} came to that step",
                    source=MilestoneSource.LOG,
                    past_step=passed.past_step,
                )
            )
    return tuple(made)


# -- how far it came --------------------------------------------------------------------------


def _passed(line: Sequence[AttemptStory], lost: Reached) -> _Passed | None:
    """Who passed the lost step, by the milestone that the watcher wrote. Where no step was lost,
    it is whoever printed the first one; of an attempt that is over, its last step tells, too, if
    it is of the same counter."""
    first = line[0]
    told = {m.idempotency_key: m for m in first.milestones if m.kind is MilestoneKind.RESUMED}
    nothing_lost = lost.step is None and silent(first)
    for number, story in enumerate(line[1:], 1):
        index, progress = story.attempt.attempt_index, story.progress
        milestone = told.get(resumed_key(story.attempt.id))
        moment = Moment(Mark.RESUMED, index, line[0].attempt.submitted_at)
        if milestone is not None:
            moment = replace(
                moment,
                at=milestone.at,
                learned_at=milestone.learned_at,
                source=milestone.source,
                step=milestone.step,
            )
            past = milestone.past_step
            return _Passed(number, moment, lost.step if past is None else past)
        if progress is None:
            continue
        moment = replace(moment, source=MilestoneSource.LOG)
        if nothing_lost and progress.first_step_at is not None:
            at = progress.first_step_at
            return _Passed(number, replace(moment, at=at, step=progress.first_step), None)
        at_last = progress.last_step_at
        if story.attempt.end is None or at_last is None:
            continue
        if progress.reached.beyond(lost):
            moment = replace(moment, at=at_last, step=progress.last_step)
            return _Passed(number, moment, lost.step)
    return None


def _stages(line: Sequence[AttemptStory], passed: _Passed | None) -> list[Stage]:
    stages: list[Stage] = []
    for number, story in enumerate(line):
        after = line[number + 1] if number + 1 < len(line) else None
        if after is None and number > 0 and (passed is not None or story.restart is None):
            break
        last = None
        if after is not None:
            by_it = passed is not None and passed.at == number + 1
            last = passed.moment if by_it and passed is not None else _fault_or_end(after)
        stages.extend(stages_of(story, after, last))
    return stages


def _fault_or_end(story: AttemptStory) -> Moment | None:
    """Where a successor that passed nothing came to its end."""
    fault = milestone_moments(story).get(Mark.FAULT) if story.restart is not None else None
    if fault is not None:
        return fault
    end = story.attempt.end
    if end is None:
        return None
    index = story.attempt.attempt_index
    at = end.at or end.learned_at
    return Moment(Mark.ENDED, index, at, end.learned_at, MilestoneSource.SCHEDULER)


def _loaded(line: Sequence[AttemptStory]) -> int | None:
    newest = line[-1].progress if len(line) > 1 else None
    return None if newest is None else newest.loaded_step


def _became(
    line: Sequence[AttemptStory],
    passed: _Passed | None,
    lost: Reached,
    now: datetime,
    policy: Policy,
) -> tuple[RecoveryState, str]:
    if passed is None:
        return state_of(line, lost, now, policy)
    index = line[passed.at].attempt.attempt_index
    past = passed.past_step
    beyond = "none was seen before the fault" if past is None else f"past step {past}"
    return RecoveryState.VERIFIED, f"attempt {index} came to step {passed.moment.step}, {beyond}"
