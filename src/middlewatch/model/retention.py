"""How long the store keeps what it saw; what was decided and done it keeps for ever.

Advice with its history and the audit trail never age. What stands around them does, in two steps,
counted from the end of the last attempt of a job (while any attempt of it lives, nothing of it
ages, for budgets and lineage are read from its earlier ones):

1. the evidence: signals, progress and the watcher's memory of an attempt;
2. the attempt itself with its issues, verdicts and decisions, unless there is advice for it: a
   decision that was acted on stays explainable, with the inputs frozen into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Retention:
    """Both in seconds since the end of the job's last attempt."""

    evidence_s: float
    attempts_s: float

    def __post_init__(self) -> None:
        if not 0 < self.evidence_s <= self.attempts_s:
            raise ValueError("evidence is kept for more than no time, and no longer than attempts")


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """What ended before these moments has aged."""

    evidence: datetime
    attempts: datetime


@dataclass(frozen=True, slots=True)
class Aged:
    """What one round let go: attempts that went whole, attempts that went no further than their
    evidence, and rows in all. ``more``: the round ended at its limit, not at the end."""

    attempts: int = 0
    evidence_of: int = 0
    rows: int = 0
    more: bool = False


def cutoffs(retention: Retention, now: datetime) -> Cutoffs:
    return Cutoffs(
        now - timedelta(seconds=retention.evidence_s),
        now - timedelta(seconds=retention.attempts_s),
    )


def together(one: Aged, other: Aged) -> Aged:
    """Two rounds of one sweep, ``other`` the later one."""
    return Aged(
        one.attempts + other.attempts,
        one.evidence_of + other.evidence_of,
        one.rows + other.rows,
        other.more,
    )
