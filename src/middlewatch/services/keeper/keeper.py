"""A store that only grows fills its disk, and a full disk stops recoveries.

Each tick lets a few attempts go and asks to be called again while there are more, so that the
services which write beside it wait for milliseconds. What a sweep let go stands in the trail as
one line: that something is not there any more must be explainable too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from middlewatch.model.audit import AuditEvent, AuditKind
from middlewatch.model.change import Change
from middlewatch.model.retention import Aged, Cutoffs, Retention, cutoffs, together
from middlewatch.ports.store import Store

AT_ONCE = 200
"""Attempts of each kind in one transaction."""


@dataclass(frozen=True, slots=True)
class KeeperReport:
    """``swept``: what a whole sweep came to, where this round ended one that let something go."""

    aged: Aged
    swept: Aged | None = None

    @property
    def again(self) -> bool:
        return self.aged.more


class Keeper:
    """Not for several threads. Several processes may sweep one store; each attempt goes once."""

    def __init__(self, store: Store, retention: Retention, at_once: int = AT_ONCE) -> None:
        self._store = store
        self._retention = retention
        self._at_once = at_once
        self._sweep: tuple[Cutoffs, Aged] | None = None

    def tick(self, now: datetime) -> KeeperReport:
        """One round of a sweep. Raises `PortError`; then the sweep goes on at the next tick.

        A sweep keeps its first round's moments: a clock that is set meanwhile moves none of them.
        """
        before, so_far = self._sweep or (cutoffs(self._retention, now), Aged())
        aged = self._store.age_out(before, self._at_once)
        so_far = together(so_far, aged)
        self._sweep = (before, so_far)
        if aged.more:
            return KeeperReport(aged)
        if so_far.rows:
            self._store.apply(Change(audit=(_told(before, so_far, now),)))
        self._sweep = None
        return KeeperReport(aged, so_far if so_far.rows else None)


def _told(before: Cutoffs, aged: Aged, now: datetime) -> AuditEvent:
    return AuditEvent(
        kind=AuditKind.DONE,
        type="records.aged_out",
        producer="keeper",
        happened_at=now,
        learned_at=now,
        payload=json.dumps(
            {
                "attempts": aged.attempts,
                "evidenceOf": aged.evidence_of,
                "rows": aged.rows,
                "attemptsEndedBefore": before.attempts.isoformat(),
                "evidenceEndedBefore": before.evidence.isoformat(),
            }
        ),
    )
