"""Where the time of a recovery went, told from marks that several clocks have set.

A recovery is a walk from mark to mark, and each part lies between two of them. The clocks of
nodes, of the scheduler and ours need not agree, so a mark of another clock may lie before what it
followed. By a second or less that is rounding, and the mark is moved up. Beyond that its time is
not believed: it is measured at the moment when we learnt of it, or else not at all. A mark that is
not known divides nothing: the time around it is then told undivided, never as a part of length
zero. So no part is negative, and parts and undivided time add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from middlewatch.model.milestone import OUR_CLOCK, Milestone, MilestoneKind, MilestoneSource
from middlewatch.model.recovery import Mark, Moment, Part, PartName
from middlewatch.remediation.story import AttemptStory

ROUNDING = timedelta(seconds=1)
"""Schedulers tell whole seconds."""

_ONE_OF_MANY = frozenset({MilestoneKind.RELEASED, MilestoneKind.CONSTRAINED})
"""Of these the last one counts: it is the one that let the successor go."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The end of one part: its mark, or None where that is not known."""

    part: PartName
    moment: Moment | None


@dataclass(frozen=True, slots=True)
class Times:
    """Where the time went. ``moments`` are those given, with how far off each was."""

    moments: tuple[Moment, ...]
    parts: tuple[Part, ...]
    unsplit_s: float
    unsplit: tuple[PartName, ...]
    total_s: float
    clock_off_s: float


def measured(begin: Moment, stages: Sequence[Stage]) -> Times:
    """Walk from ``begin`` over all stages, in order."""
    seconds: dict[PartName, float] = {}
    undivided: dict[PartName, None] = {}
    unsplit_s = 0.0
    moments = [begin]
    here = begin.at
    waiting: list[PartName] = []
    for stage in stages:
        if stage.part not in waiting:
            waiting.append(stage.part)
        if stage.moment is None:
            continue
        at, moment = _placed(stage.moment, here)
        moments.append(moment)
        if at is None:
            continue
        took = (at - here).total_seconds()
        if len(waiting) == 1:
            seconds[stage.part] = seconds.get(stage.part, 0.0) + took
        else:
            unsplit_s += took
            undivided.update(dict.fromkeys(waiting))
        here, waiting = at, []
    order = list(PartName)
    return Times(
        moments=tuple(moments),
        parts=tuple(Part(name, seconds[name]) for name in order if name in seconds),
        unsplit_s=unsplit_s,
        unsplit=tuple(name for name in order if name in undivided),
        total_s=(here - begin.at).total_seconds(),
        clock_off_s=max(moment.off_s for moment in moments),
    )


def _placed(moment: Moment, here: datetime) -> tuple[datetime | None, Moment]:
    """Where a mark stands behind ``here``, and the mark with how far off it was."""
    learned = moment.learned_at
    at = moment.at if learned is None else min(moment.at, learned)
    if at >= here:
        return at, moment
    if here - at <= ROUNDING or moment.source in OUR_CLOCK:
        return here, moment
    off = replace(moment, off_s=(here - at).total_seconds())
    return (learned if learned is not None and learned >= here else None), off


# -- the marks of one attempt's recovery ------------------------------------------------------


def milestone_moments(story: AttemptStory) -> dict[Mark, Moment]:
    """The milestones of an attempt's own sequence, one of each kind."""
    found: dict[MilestoneKind, Milestone] = {}
    for milestone in sorted(story.milestones, key=lambda m: m.at):
        kind = milestone.kind
        if kind is not None and (kind not in found or kind in _ONE_OF_MANY):
            found[kind] = milestone
    index = story.attempt.attempt_index
    return {
        Mark(kind.value): Moment(
            mark=Mark(kind.value),
            attempt_index=index + (kind in _OF_THE_SUCCESSOR),
            at=milestone.at,
            learned_at=milestone.learned_at,
            source=milestone.source,
            step=milestone.step,
        )
        for kind, milestone in found.items()
    }


_OF_THE_SUCCESSOR = frozenset(
    {
        MilestoneKind.HELD,
        MilestoneKind.CONSTRAINED,
        MilestoneKind.RELEASED,
        MilestoneKind.RUNNING,
        MilestoneKind.RESUMED,
    }
)


def running_of(found: dict[Mark, Moment], successor: AttemptStory) -> Moment | None:
    """When the successor ran: as the controller saw it, or else as its record has it."""
    seen = found.get(Mark.RUNNING)
    started = successor.attempt.started_at
    if seen is not None or started is None:
        return seen
    index = successor.attempt.attempt_index
    return Moment(Mark.RUNNING, index, started, None, MilestoneSource.SCHEDULER)


def first_step_of(successor: AttemptStory) -> Moment | None:
    progress = successor.progress
    if progress is None or progress.first_step_at is None:
        return None
    index = successor.attempt.attempt_index
    return Moment(
        Mark.FIRST_STEP,
        index,
        progress.first_step_at,
        None,
        MilestoneSource.LOG,
        progress.first_step,
    )


def stages_of(
    story: AttemptStory, successor: AttemptStory | None, last: Moment | None
) -> Iterable[Stage]:
    """The stages from an attempt's fault to ``last``: its successor's passing of the lost step,
    or the successor's own fault or end; None while neither is known."""
    found = milestone_moments(story)
    running = None if successor is None else running_of(found, successor)
    told = None if running is None else running.learned_at
    for part, mark in (
        (PartName.DETECT, Mark.DETECTED),
        (PartName.DECIDE, Mark.ADVISED),
        (PartName.HOLD, Mark.HELD),
        (PartName.RELEASE, Mark.RELEASED),
    ):
        moment = found.get(mark)
        # What came after the successor ran did not keep it from running.
        late = moment is not None and told is not None and moment.at > told
        yield Stage(part, None if late else moment)
    yield Stage(PartName.QUEUE, running)
    if successor is None:
        return
    first = first_step_of(successor)
    if first is not None or not silent(successor):
        yield Stage(PartName.START, first)
        yield Stage(PartName.RECOMPUTE, last)
    else:
        # It ended before its first step: nothing was computed again.
        yield Stage(PartName.START, last)


def silent(story: AttemptStory) -> bool:
    """Whether its output was read and shows no step. False where it could not be read."""
    progress = story.progress
    return (
        progress is not None
        and progress.first_step is None
        and progress.last_output_at is not None
        and not any(unseen.what in ("log", "lines", "progress") for unseen in progress.unseen)
    )
