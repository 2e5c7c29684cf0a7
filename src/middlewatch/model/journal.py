"""What must be known of a command that could leave a job waiting for ever, before it is sent.

Slurm does not record who held a job, whose exclusions are whose, or who switched requeueing off.
If the one who did it dies, only a line written beforehand can tell somebody else what to undo.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class JournalKind(StrEnum):
    HOLD = "hold"
    """A requeue-hold is about to be taken; ``release_by`` is its deadline."""
    WINDOW = "window"
    """A requeue is about to be sent; Slurm's begin time holds the successor."""
    EXCLUDE = "exclude"
    """Exclusions are about to be added: ``user_exclusions`` are not ours, ``ours`` are."""
    FENCE = "fence"
    """Requeue=0 is about to be set for a while; ``owner_requeue`` is to be put back."""
    SETTLED = "settled"
    """Nothing of ours that was written down up to ``at`` stands on that attempt any more."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """``restarts_expected`` is the restart count of the attempt that carries the hold, the
    exclusions or the fence; ``submitted_at`` that of the attempt we acted on."""

    kind: JournalKind
    at: datetime
    cluster_name: str
    job_id: str
    submitted_at: datetime
    restarts_expected: int
    release_by: datetime | None = None
    user_exclusions: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    owner_requeue: bool | None = None
