"""What of ours one look can show: a hold, exclusions that made a job impossible, a fence, a window.

Slurm marks none of these with a name. Each is recognised by the journal entry, the place of the
attempt, and every sign that the scheduler does give; where one sign is missing it is not ours.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from middlewatch.model.journal import JournalEntry
from middlewatch.model.scheduler import ClusterFacts, JobFlag, JobState, JobView
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.reconciliation.holds import Relation, relation

REQUEUE_HELD = "job_requeued_in_held_state"
"""Slurm's reason for a requeue-hold. RequeueExitHold also gives SPECIAL_EXIT, but not this."""
BAD_CONSTRAINTS = "BadConstraints"
LATE_HOLD_S = 300.0
"""How long after it was announced a requeue-hold may still take effect where no deadline is known."""
BEGIN_SLACK_S = 5.0
"""A begin time later than Slurm's own by more than this was chosen by a person."""


class Part(StrEnum):
    """The kinds of things of ours that may stand on an attempt, the most harmful first."""

    HOLD = "hold"
    EXCLUDE = "exclude"
    FENCE = "fence"
    WINDOW = "window"


def deadline(part: Part, entry: JournalEntry, config: WatchdogConfig) -> datetime:
    """When the watchdog may act on it: the entry's own release-by, but never later than the
    site's maximum. Where the entry names none: that maximum, for a fence the longest fence (a
    fence's own release-by is not cut by it: lifted early it would let a late command through).
    """
    latest = entry.at + timedelta(seconds=config.max_hold_s)
    if entry.release_by is not None:
        return min(entry.release_by, latest)
    return entry.at + timedelta(seconds=config.max_fence_s) if part is Part.FENCE else latest


def held_by_us(entry: JournalEntry, view: JobView) -> bool:
    """Whether the requeue-hold of ``entry`` is in force; an operator's or the owner's may lie
    on top of it (only `JobDetail` tells of an operator's, nothing of an owner's).

    A command that was late may have held the attempt behind the one that the entry speaks of,
    where Slurm or somebody else had requeued the job meanwhile: until the entry's own deadline.
    """
    latest = entry.release_by or entry.at + timedelta(seconds=LATE_HOLD_S)
    late = (
        relation(entry, view) is Relation.LATER
        and view.restarts == entry.restarts_expected + 1
        and view.submitted_at <= latest
    )
    return (
        (late or relation(entry, view) is Relation.CARRIER)
        and view.state is JobState.PENDING
        and not view.completing
        and view.held
        and JobFlag.SPECIAL_EXIT in view.flags
        and _reason(view) == REQUEUE_HELD
    )


def made_impossible(entry: JournalEntry, view: JobView) -> bool:
    """Whether no node can satisfy the attempt, which may carry the exclusions of ``entry``."""
    return (
        relation(entry, view) in (Relation.CARRIER, Relation.LATER)
        and view.state is JobState.PENDING
        and not view.completing
        and view.held
        and _reason(view) == BAD_CONSTRAINTS
    )


def fenced(entry: JournalEntry, view: JobView) -> bool:
    """Whether the fence of ``entry`` may be in force and can be taken away now."""
    return (
        entry.owner_requeue is True
        and relation(entry, view) is Relation.CARRIER
        and view.state in (JobState.PENDING, JobState.RUNNING)
        and not view.completing
        and view.requeueable is not True
    )


def window_stands(
    entry: JournalEntry, view: JobView, facts: ClusterFacts | None, now: datetime
) -> bool:
    """Whether the begin time that Slurm set at the requeue of ``entry`` keeps the job waiting."""
    return _waiting(entry, view) and not view.held and own_begin_time(view, facts, now)


def own_begin_time(view: JobView, facts: ClusterFacts | None, now: datetime) -> bool:
    """Whether the begin time that the job waits for is the one that Slurm sets at a requeue,
    and not a later one that somebody chose. False where ``facts`` do not tell."""
    if facts is None or view.eligible_at is None or view.eligible_at <= now:
        return False
    longest = timedelta(seconds=facts.begin_delay_s + BEGIN_SLACK_S)
    return view.eligible_at <= view.submitted_at + longest


def _waiting(entry: JournalEntry, view: JobView) -> bool:
    return (
        relation(entry, view) is Relation.CARRIER
        and view.state is JobState.PENDING
        and not view.completing
    )


def _reason(view: JobView) -> str:
    return view.reason.strip().replace(" ", "_")
