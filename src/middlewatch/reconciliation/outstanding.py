"""What one look says of an obligation: it stands, it rests, or it is over.

The watchdog may leave, and the journal be tidied, only when nothing of ours can keep a job waiting
any more; a command that the journal speaks of may be carried out long after it was sent.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from middlewatch.model.journal import JournalEntry
from middlewatch.model.scheduler import ClusterFacts, JobState, JobView, Snapshot
from middlewatch.reconciliation.deadlines import WatchdogConfig, in_flight_s
from middlewatch.reconciliation.holds import Obligation, Relation, relation
from middlewatch.reconciliation.traces import Part, deadline, held_by_us, own_begin_time


class Standing(StrEnum):
    STANDS = "stands"
    """Something of ours is in force, or may yet come into force."""
    LURKS = "lurks"
    """Only exclusions on an attempt that waits: they may yet make it impossible."""
    RESTS = "rests"
    """Only exclusions on an attempt that runs: they keep nobody waiting, and outlive a requeue."""
    OVER = "over"
    """Nothing of ours stands and nothing can arrive any more, if a second look says so too."""
    UNSEEN = "unseen"
    """It belongs to another cluster than the one that was looked at."""


def standing_of(
    obligation: Obligation,
    snapshot: Snapshot,
    facts: ClusterFacts | None,
    now: datetime,
    config: WatchdogConfig,
) -> Standing:
    """Judge one obligation by one look. OVER is to be believed when two looks, `in_flight_s`
    apart, have said it: a scheduler that was hung still carries out what it has received."""
    if obligation.cluster_name != snapshot.cluster_name:
        return Standing.UNSEEN
    if now < obligation.written_until + timedelta(seconds=in_flight_s(facts)):
        return Standing.STANDS
    view = snapshot.job(obligation.job_id)
    parts = (
        (Part.HOLD, obligation.hold),
        (Part.FENCE, obligation.fence),
        (Part.WINDOW, obligation.window),
    )
    for part, entry in parts:
        if entry is None or _past(part, entry, view, now, config):
            continue
        if view is not None and _in_force(part, entry, view, facts, now):
            return Standing.STANDS
        if relation(entry, view) is Relation.BEFORE:
            return Standing.STANDS
    entry = obligation.exclude
    if entry is None or _past(Part.EXCLUDE, entry, view, now, config):
        return Standing.OVER
    if view is not None and view.state is not JobState.PENDING and not view.completing:
        return Standing.RESTS
    return Standing.LURKS


def _past(
    part: Part, entry: JournalEntry, view: JobView | None, now: datetime, config: WatchdogConfig
) -> bool:
    """Whether the attempt that could carry it is no more, or was never reached in time."""
    match relation(entry, view):
        case Relation.GONE | Relation.OTHER:
            return True
        case Relation.BEFORE:
            return now >= deadline(part, entry, config)
        case Relation.LATER if part is Part.HOLD and view is not None and held_by_us(entry, view):
            return False
        case Relation.LATER if part is not Part.EXCLUDE:
            return True
        case _:
            return view is None or view.ended


def _in_force(
    part: Part, entry: JournalEntry, view: JobView, facts: ClusterFacts | None, now: datetime
) -> bool:
    if part is Part.HOLD and held_by_us(entry, view):
        return True
    if relation(entry, view) is not Relation.CARRIER:
        return False
    if part is Part.FENCE:
        return entry.owner_requeue is True and view.requeueable is not True
    if view.completing:
        return True
    if view.state is not JobState.PENDING:
        return False
    if part is Part.HOLD:
        return held_by_us(entry, view)
    if facts is None:
        return view.eligible_at is not None and view.eligible_at > now
    return not view.held and own_begin_time(view, facts, now)
