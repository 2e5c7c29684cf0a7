"""Adding up what rounds did, so that it can be told how the watcher is."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime

from middlewatch.model.health import BOUNDS_S, PREFIX, Present, Totals, WatcherHealth, as_text
from middlewatch.ports.store import Store
from middlewatch.services.watcher.report import WatcherReport

EVERY_S = 10.0
"""How often an account is left in the store: each is a transaction of its own."""


class Health:
    """One watcher's account of itself, kept in ``store`` under ``name``. Not for several threads."""

    def __init__(self, store: Store, name: str, every_s: float = EVERY_S) -> None:
        self._store = store
        self._note = PREFIX + name
        self._every_s = every_s
        self._told: WatcherHealth | None = None
        self._told_at: datetime | None = None

    def add(self, report: WatcherReport, took_s: float, now: datetime) -> None:
        """A round is over that took so long; tell of it where the last account has grown old.
        Raises what the store raises."""
        self._told = told = _after(self._told, report, took_s, now)
        due = self._told_at is None or abs((now - self._told_at).total_seconds()) >= self._every_s
        if due:
            self._store.put_notes(((self._note, as_text(told)),))
            self._told_at = now


def _after(
    before: WatcherHealth | None, report: WatcherReport, took_s: float, now: datetime
) -> WatcherHealth:
    before = before or WatcherHealth(started_at=now, at=now)
    had, took_s = before.totals, max(0.0, took_s)
    slot = bisect_left(BOUNDS_S, took_s)
    return WatcherHealth(
        started_at=before.started_at,
        at=now,
        totals=Totals(
            rounds=had.rounds + 1,
            bytes_read=had.bytes_read + report.bytes_read,
            lines_read=had.lines_read + report.lines_read,
            lines_lost=had.lines_lost + report.lines_lost,
            read_errors=had.read_errors + report.read_errors,
            job_errors=had.job_errors + len(report.errors),
            conflicts=had.conflicts + report.conflicts,
            signals_stored=had.signals_stored + report.signals_stored,
            signals_capped=had.signals_capped + report.signals_capped,
            details_read=had.details_read + report.details_read,
            accounting_read=had.accounting_read + report.accounting_read,
            unlisted_rounds=had.unlisted_rounds + (report.listing_unknown is not None),
        ),
        present=Present(
            jobs_listed=report.jobs_listed,
            watched=report.watched,
            behind=report.behind,
            bytes_behind=report.bytes_behind,
            oldest_unread_s=report.oldest_unread_s,
        ),
        seconds=before.seconds + took_s,
        classes=tuple(number + (place == slot) for place, number in enumerate(before.classes)),
    )
