"""What the watcher asks the scheduler about single jobs, and how much of it in one tick.

A comment can only be read per job, and a cluster can have thousands. Where the scheduler can be asked
about many with one command, all that a listing makes necessary is asked for together, before the jobs
are gone through. Where it cannot, or where there are so few that it would cost more, each question
counts: so many in one tick, those that matter most first, and more only of a scheduler that answers
quickly. Accounting is asked likewise, about the same attempt at growing distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.scheduler import AccountingRecord, JobDetail, JobView
from middlewatch.ports.clock import Clock
from middlewatch.ports.scheduler import Scheduler, accountings_of, details_of
from middlewatch.services.watcher.memory import Kept
from middlewatch.services.watcher.report import WatcherReport
from middlewatch.services.watcher.settings import WatcherSettings
from middlewatch.services.watcher.share import Share

ALONE_S = 60.0
"""So long each job is asked about alone after a question about many had no answer: a machine that is
too slow for the long answer may still give short ones."""

Records = Answer[tuple[AccountingRecord, ...]]


class Questions:
    """One tick's questions after the other. Not for several threads."""

    def __init__(
        self, scheduler: Scheduler, settings: WatcherSettings, share: Share, clock: Clock | None
    ) -> None:
        """``clock`` measures how quickly the scheduler answers; without one it is asked little."""
        self._scheduler = scheduler
        self._settings = settings
        self._share = share
        self._clock = clock
        self._ahead: dict[str, Answer[JobDetail]] = {}
        self._left = self._quick_left = self._unhurried_left = 0
        self._took_s = 0.0
        self._together_from: datetime | None = None

    def begin(self, wanted: Iterable[str], now: datetime) -> None:
        """A new tick, in which the details of these jobs are wanted, the most urgent first."""
        settings = self._settings
        self._left = settings.details_per_tick
        self._quick_left = settings.quick_per_tick - self._left
        self._unhurried_left = settings.unhurried_per_tick
        self._took_s = 0.0
        self._ahead = {}
        if self._together_from is not None and now < self._together_from:
            return
        some = tuple(dict.fromkeys(wanted))[: settings.ahead_per_tick]
        self._ahead = dict(details_of(self._scheduler, some))
        self._together_from = None
        if self._ahead and all(isinstance(one, Unknown) for one in self._ahead.values()):
            self._ahead = {}
            self._together_from = now + timedelta(seconds=ALONE_S)
        self._share.keep()

    def knows(self, job_id: str) -> bool:
        """Whether this job's detail was asked for together with others'."""
        return job_id in self._ahead

    def spare(self, job_id: str) -> bool:
        """Whether a job that is in no hurry may be asked about; counts it."""
        if not self.knows(job_id):
            self._unhurried_left -= 1
        return self._unhurried_left >= 0

    def detail(self, view: JobView, report: WatcherReport, *, new: bool) -> JobDetail | None:
        """The detail of just the attempt that the listing showed; None where it is not to be had
        now."""
        answer = self._ahead.pop(view.job_id, None)
        if answer is None:
            if self._left > 0:
                self._left -= 1
            elif new and self._answers_quickly():
                self._quick_left -= 1
            else:
                return None
            self._share.keep()
            began = self._seconds()
            answer = self._scheduler.detail(view.job_id)
            self._took_s += self._seconds() - began
        report.details_read += 1
        match answer:
            case Known(detail, _):
                if detail.submitted_at not in {None, view.submitted_at}:
                    return None
                return detail
            case Absent():
                return None
            case Unknown(why, _):
                report.errors.append(f"job {view.job_id}: comment not read: {why}")
                return None

    def name(self, view: JobView) -> str | None:
        """The job's name, where a question is left for it."""
        answer = self._ahead.get(view.job_id)
        if answer is None and self._left > 0:
            self._left -= 1
            answer = self._scheduler.detail(view.job_id)
        return answer.value.name if isinstance(answer, Known) else None

    def _answers_quickly(self) -> bool:
        """Whether a scheduler of which so much was asked in this tick may be asked more."""
        quick = self._took_s < self._settings.details_s
        return self._clock is not None and self._quick_left > 0 and quick

    def _seconds(self) -> float:
        return 0.0 if self._clock is None else self._clock.monotonic()

    # -- accounting ------------------------------------------------------------------------------

    def accounting(
        self, entries: Iterable[Kept], now: datetime, report: WatcherReport
    ) -> Iterator[tuple[Kept, Records]]:
        """What accounting has of those of the attempts that may be asked about now."""
        due = [entry for entry in entries if _due(entry, now)][: self._settings.records_per_tick]
        together = accountings_of(
            self._scheduler, tuple(dict.fromkeys(entry.attempt.job_id for entry in due))
        )
        for entry in due:
            answer = together.get(entry.attempt.job_id)
            if answer is None:
                if report.accounting_read >= self._settings.accounting_per_tick:
                    continue
                answer = self._scheduler.accounting(entry.attempt.job_id)
            self._share.keep()
            entry.asked_at = now
            entry.asked += 1
            report.accounting_read += 1
            yield entry, answer


def _due(entry: Kept, now: datetime) -> bool:
    if entry.asked_at is None:
        return True
    distance = min(60.0, 2.0 ** min(entry.asked, 6))
    return (now - entry.asked_at).total_seconds() >= distance
