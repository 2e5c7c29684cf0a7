"""Read the journal: what of ours may still stand on which attempt.

The journal is written before each command, by whoever sends it, and is read by somebody who may
know nothing else. So an entry means "this may stand", never "this stands": only a fresh look can
tell, and what an entry may be applied to is decided here, in one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from middlewatch.model.identity import utc
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.scheduler import JobView


@dataclass(frozen=True, slots=True)
class Obligation:
    """What we may owe to one attempt. Of each kind the newest entry counts."""

    cluster_name: str
    job_id: str
    restarts: int
    hold: JournalEntry | None = None
    window: JournalEntry | None = None
    exclude: JournalEntry | None = None
    fence: JournalEntry | None = None

    @property
    def parts(self) -> tuple[JournalEntry, ...]:
        """Its entries, never empty for an obligation that `standing` gives."""
        return tuple(
            part for part in (self.hold, self.window, self.exclude, self.fence) if part is not None
        )

    @property
    def written_until(self) -> datetime:
        """When the newest of its entries was written."""
        return max(part.at for part in self.parts)


_Key = tuple[str, str, int]


def _key(entry: JournalEntry) -> _Key:
    return entry.cluster_name, entry.job_id, entry.restarts_expected


def standing(entries: Iterable[JournalEntry]) -> tuple[Obligation, ...]:
    """Fold the journal, oldest entry first, into what may still stand.

    A later entry replaces the earlier one of its kind for the same attempt. SETTLED clears what
    was written before it and is not newer than its own time: an entry that another process wrote
    between a look and the SETTLED that came of it stays.
    """
    found: dict[_Key, Obligation] = {}
    for entry in entries:
        key = _key(entry)
        old = found.get(key) or Obligation(*key)
        new = _with(old, entry)
        if new.parts:
            found[key] = new
        else:
            found.pop(key, None)
    return tuple(found.values())


def _with(old: Obligation, entry: JournalEntry) -> Obligation:
    match entry.kind:
        case JournalKind.HOLD:
            return replace(old, hold=entry)
        case JournalKind.WINDOW:
            return replace(old, window=entry)
        case JournalKind.EXCLUDE:
            return replace(old, exclude=entry)
        case JournalKind.FENCE:
            return replace(old, fence=entry)
        case JournalKind.SETTLED:
            return Obligation(
                old.cluster_name,
                old.job_id,
                old.restarts,
                hold=_newer(old.hold, entry.at),
                window=_newer(old.window, entry.at),
                exclude=_newer(old.exclude, entry.at),
                fence=_newer(old.fence, entry.at),
            )
        case _:
            assert_never(entry.kind)


def _newer(part: JournalEntry | None, settled_at: datetime) -> JournalEntry | None:
    return part if part is not None and part.at > settled_at else None


def worth_keeping(
    entries: Iterable[JournalEntry], since: datetime | None = None
) -> tuple[JournalEntry, ...]:
    """The entries without which the journal would say something else, in an order that says the
    same: `standing` of the answer equals `standing` of the whole.

    With ``since`` also, settled, the last exclusions of each job that were written since then:
    exclusions stay on the job, and only the journal tells the user's own among them.
    """
    whole = tuple(entries)
    kept = [part for obligation in standing(whole) for part in obligation.parts]
    known = frozenset(kept)
    last = {
        (entry.cluster_name, entry.job_id): entry
        for entry in whole
        if entry.kind is JournalKind.EXCLUDE
    }
    remembered: list[JournalEntry] = []
    for entry in last.values():
        if since is not None and entry.at >= since and entry not in known:
            closing = replace(
                entry, kind=JournalKind.SETTLED, release_by=None, user_exclusions=(), ours=()
            )
            remembered += (entry, closing)
    return (*remembered, *kept)


def our_exclusions(
    entries: Iterable[JournalEntry],
    cluster_name: str,
    job_id: str,
    submitted_at: datetime,
    attempt_index: int,
) -> tuple[str, ...] | None:
    """Every node that we ever added to the list of the job with that attempt, settled or not; None
    where the journal knows of none. What else stands in the list is the user's, also what was added
    since, and also what we had added to another job that had the number before."""
    lines = [
        entry
        for entry in entries
        if entry.kind is JournalKind.EXCLUDE
        and (entry.cluster_name, entry.job_id) == (cluster_name, job_id)
        and _same_job(entry, submitted_at, attempt_index)
    ]
    if not lines:
        return None
    return tuple(sorted({node for entry in lines for node in entry.ours}))


def _same_job(entry: JournalEntry, submitted_at: datetime, attempt_index: int) -> bool:
    """Whether the entry can be of the job that has this attempt: submit times and restart counts
    of one job grow together. (The entry acted on the attempt that carries it, or on the one before.)
    """
    acted_on, this = _seconds(entry.submitted_at), _seconds(submitted_at)
    if acted_on < this:
        return entry.restarts_expected <= attempt_index
    if acted_on > this:
        return entry.restarts_expected > attempt_index
    return True


def settled(obligation: Obligation) -> JournalEntry:
    """The line that closes ``obligation`` as it was read, and nothing written since."""
    newest = max(obligation.parts, key=lambda part: part.at)
    return JournalEntry(
        JournalKind.SETTLED,
        newest.at,
        obligation.cluster_name,
        obligation.job_id,
        newest.submitted_at,
        obligation.restarts,
    )


def hurried(obligations: Iterable[Obligation], now: datetime) -> tuple[Obligation, ...]:
    """The same with the deadlines of holds and exclusions at ``now``, for a watchdog that must
    leave. Windows end by themselves, and a fence has to outlast a late command."""

    def due_now(part: JournalEntry | None) -> JournalEntry | None:
        if part is None or (part.release_by is not None and part.release_by <= now):
            return part
        return replace(part, release_by=now)

    return tuple(
        replace(one, hold=due_now(one.hold), exclude=due_now(one.exclude)) for one in obligations
    )


class Relation(StrEnum):
    """Where the scheduler's row for the job number stands beside a journal entry."""

    GONE = "gone"
    """The scheduler has no such job."""
    BEFORE = "before"
    """The job has not come as far as the attempt that the entry speaks of."""
    CARRIER = "carrier"
    """The very attempt that may carry the hold, the exclusions or the fence."""
    LATER = "later"
    """A later attempt of the same job: Slurm lets exclusions outlive a requeue."""
    OTHER = "other"
    """Another job that came by the same number."""


def relation(entry: JournalEntry, view: JobView | None) -> Relation:
    """Compare by restart count and submit time (whole seconds, as Slurm keeps them).

    A newer submit time without a greater restart count is another job; an older one with a
    smaller count is a scheduler that came back from an older state.
    """
    if view is None or view.job_id != entry.job_id:
        return Relation.GONE
    seen, acted_on = _seconds(view.submitted_at), _seconds(entry.submitted_at)
    if view.restarts < entry.restarts_expected:
        return Relation.BEFORE if seen <= acted_on else Relation.OTHER
    if view.restarts > entry.restarts_expected:
        return Relation.LATER if seen > acted_on else Relation.OTHER
    if seen == acted_on or (seen > acted_on and entry.restarts_expected > 0):
        return Relation.CARRIER
    return Relation.OTHER


def _seconds(moment: datetime) -> int:
    return int(utc(moment).timestamp())
