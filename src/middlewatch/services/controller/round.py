"""What all advices of one tick share, what has come of the tick so far, and its report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from middlewatch.model.answer import Answer
from middlewatch.model.change import Lease
from middlewatch.model.journal import JournalEntry
from middlewatch.model.scheduler import ClusterFacts, PartitionView
from middlewatch.reconciliation.holds import Obligation
from middlewatch.services.controller.lead import Term


@dataclass(frozen=True, slots=True)
class ControllerReport:
    """What a tick did. ``again`` asks for the next tick soon: something was set in motion."""

    leader: bool
    active: int = 0
    actions: int = 0
    outcomes: int = 0
    standing: int = 0
    again: bool = False
    problem: str = ""
    keeps_still_s: float = 0.0
    """How long it must not act yet, because it took over from somebody who may not know it."""


@dataclass(slots=True)
class Round:
    """One tick's common ground, and what has come of it so far."""

    term: Term
    facts: ClusterFacts
    now: datetime
    draining: bool
    entries: Mapping[str, tuple[JournalEntry, ...]]
    """The journal's lines by job, oldest first."""
    owed: Mapping[tuple[str, int], Obligation]
    """What the journal says may stand, by job and restart count."""
    partitions: Answer[tuple[PartitionView, ...]] | None = None
    """As they were when the first advice of the tick needed them."""
    sent: str = ""
    """The attempt for which the last command of the tick was sent."""
    actions: int = 0
    outcomes: int = 0
    standing: int = 0
    again: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def lease(self) -> Lease:
        return self.term.lease


def by_job(entries: Iterable[JournalEntry]) -> dict[str, tuple[JournalEntry, ...]]:
    """The journal's lines of each job, in their order."""
    found: dict[str, list[JournalEntry]] = {}
    for entry in entries:
        found.setdefault(entry.job_id, []).append(entry)
    return {job_id: tuple(lines) for job_id, lines in found.items()}
