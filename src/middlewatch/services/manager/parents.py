"""Everything that is known of the jobs that a held job waits for, fetched before deciding.

Of a job that opted in the store knows all attempts, for longer than the scheduler does. Of one that
did not, the scheduler is asked, and accounting where the scheduler has forgotten it: nothing of ours
restarts such a job, so that its end is simply its end. Answers are kept for a while, because a job
may wait for days. A job number alone names nothing: the parent is the job that had the number when
the one that waits was submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from middlewatch.model.advice import Advice, Reason
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.dependency import Dependency
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import (
    AccountingRecord,
    JobState,
    JobView,
    Snapshot,
)
from middlewatch.model.signal import SignalKind
from middlewatch.ports.scheduler import Scheduler
from middlewatch.ports.store import Store
from middlewatch.remediation import successor_lost
from middlewatch.remediation.parents import ParentFacts, Seen, job_at, lines_of
from middlewatch.services.manager.gather import signals_of_attempt

LOOKS_FOR = timedelta(seconds=5)
RECORDS_FOR = timedelta(seconds=30)
SILENT_FOR = timedelta(seconds=10)
"""How long accounting that does not answer is left alone: each question may take its whole deadline,
and every decision about other jobs waits behind it."""
DECLARED_FOR = timedelta(seconds=10)
MOST_DECLARED = 20_000
MOST_LOOKED_AT = 200
"""Jobs of one circle of declarations that are followed."""

Asked = Callable[[Attempt, datetime], str]
"""The word of the decision about an attempt, made now; empty where there is no issue."""


class Parents:
    """Gathers `ParentFacts`. Not for use from several threads at once."""

    def __init__(self, store: Store, scheduler: Scheduler, cluster: ClusterId) -> None:
        self._store = store
        self._scheduler = scheduler
        self._cluster = cluster
        self._look: tuple[frozenset[str], Answer[Snapshot], datetime] | None = None
        self._wanted: dict[str, datetime] = {}
        """Jobs that are not watched, with the time at which somebody last waited for them."""
        self._records: dict[str, tuple[Answer[tuple[AccountingRecord, ...]], datetime]] = {}
        self._declared: dict[str, tuple[tuple[str, ...], datetime]] = {}
        self._silent: tuple[Unknown, datetime] | None = None
        """That accounting did not answer, and when it was asked."""

    def of(self, child: Attempt, asked: Asked, now: datetime) -> tuple[ParentFacts, ...]:
        """The facts about each declared dependency, in the order of the declaration."""
        # All at once, or the first look at each would be one of its own.
        self._wanted.update((one.job_id, now) for one in child.opt_in.depends_on)
        return tuple(self._of_one(child, one, asked, now) for one in child.opt_in.depends_on)

    def _of_one(
        self, child: Attempt, dependency: Dependency, asked: Asked, now: datetime
    ) -> ParentFacts:
        cycle = self._cycle(child, dependency, now)
        known = self._store.attempts_of_job(self._cluster, dependency.job_id)
        line = job_at(known, child.submitted_at)
        if not line:
            line = self._begun_before(known, child, now)
        if not line:
            facts = self._not_watched(child, dependency, bool(lines_of(known)), now)
            return replace(facts, cycle=cycle)
        newest, advice = self._newest(line)
        progress = self._store.progress(newest.id)
        ended = newest.end is not None and newest.end.state is not JobState.COMPLETED
        return ParentFacts(
            dependency,
            Seen.WATCHED,
            attempt=newest,
            advice=advice,
            asked=asked(newest, now) if ended else "",
            end_told=ended and self._end_told(newest),
            read_at=None if progress is None else progress.log_drained_at,
            cycle=cycle,
            successor_lost=successor_lost(known, newest),
        )

    # -- a job that opted in ------------------------------------------------------------------

    def _newest(self, line: Sequence[Attempt]) -> tuple[Attempt, tuple[Advice, ...]]:
        """The attempt that counts, and what stands for it and the one before it. A successor that
        our own requeue revived in error, and that was cancelled for it, counts for nothing."""
        newest = line[-1]
        before = line[-2] if len(line) > 1 else None
        of_before = None if before is None else self._store.advice(before.id)
        if before is not None and of_before is not None and not of_before.active:
            status = of_before.status
            if status is not None and status.reason is Reason.REVIVED_IN_ERROR:
                return before, (of_before,)
        own = self._store.advice(newest.id)
        return newest, tuple(advice for advice in (of_before, own) if advice is not None)

    def _end_told(self, attempt: Attempt) -> bool:
        signals = signals_of_attempt(self._store, attempt.id)
        return any(signal.kind is SignalKind.SCHEDULER_END for signal in signals)

    def _begun_before(
        self, known: Iterable[Attempt], child: Attempt, now: datetime
    ) -> tuple[Attempt, ...]:
        """The line of a job that was first seen after its first attempts: accounting tells when it
        began, since a restart count says how many records of it came before."""
        lines = lines_of(tuple(known))
        if not lines or lines[0][0].attempt_index == 0:
            return ()
        first = lines[0][0]
        answer = self._accounting(first.job_id, now)
        if not isinstance(answer, Known):
            return ()
        earlier = sorted(
            r.submitted_at for r in answer.value if r.submitted_at < first.submitted_at
        )
        index = first.attempt_index
        if len(earlier) < index or earlier[-index] > child.submitted_at:
            return ()
        return lines[0]

    # -- a job that did not -------------------------------------------------------------------

    def _not_watched(
        self, child: Attempt, dependency: Dependency, others: bool, now: datetime
    ) -> ParentFacts:
        job_id = dependency.job_id
        look = self._looked_at(job_id, now)
        if isinstance(look, Unknown):
            return ParentFacts(
                dependency, Seen.UNKNOWN, f"the scheduler cannot be asked about it ({look.why})"
            )
        view = look.value.job(job_id) if isinstance(look, Known) else None
        if view is not None and view.array_pending:
            return ParentFacts(dependency, Seen.ARRAY)
        if view is not None and view.submitted_at <= child.submitted_at:
            return _shown(dependency, view)
        records = self._accounting(job_id, now)
        if isinstance(records, Unknown):
            return ParentFacts(
                dependency, Seen.UNKNOWN, f"accounting cannot be asked about it ({records.why})"
            )
        chain = _chain(records.value if isinstance(records, Known) else (), child.submitted_at)
        if not chain:
            later = view is not None or others or (isinstance(records, Known) and records.value)
            return ParentFacts(dependency, Seen.LATER if later else Seen.NOWHERE)
        return _recorded(dependency, chain, view, records)

    def _looked_at(self, job_id: str, now: datetime) -> Answer[Snapshot]:
        """One look for all such jobs of all that wait, kept for some seconds."""
        self._wanted[job_id] = now
        if self._look is not None:
            jobs, answer, at = self._look
            if job_id in jobs and now - at < LOOKS_FOR:
                return answer
        for other, when in tuple(self._wanted.items()):
            if now - when > RECORDS_FOR:
                del self._wanted[other]
        # From this one on, so that those who ask next find theirs in the same look.
        wanted = sorted(self._wanted)
        first = wanted.index(job_id)
        jobs = frozenset((wanted[first:] + wanted[:first])[:MOST_LOOKED_AT])
        answer = self._scheduler.look(sorted(jobs))
        self._look = (jobs, answer, now)
        return answer

    def _accounting(self, job_id: str, now: datetime) -> Answer[tuple[AccountingRecord, ...]]:
        kept = self._records.get(job_id)
        if kept is not None and now - kept[1] < RECORDS_FOR:
            return kept[0]
        if self._silent is not None and now - self._silent[1] < SILENT_FOR:
            return self._silent[0]
        for other, (_, when) in tuple(self._records.items()):
            if now - when > RECORDS_FOR * 2:
                del self._records[other]
        answer = self._scheduler.accounting(job_id)
        self._records[job_id] = (answer, now)
        self._silent = (answer, now) if isinstance(answer, Unknown) else None
        return answer

    # -- circles ------------------------------------------------------------------------------

    def _cycle(self, child: Attempt, dependency: Dependency, now: datetime) -> tuple[str, ...]:
        """The way from a dependency back to the job that has it, by what waiting jobs declare."""
        before: dict[str, str] = {dependency.job_id: child.job_id}
        queue = [dependency.job_id]
        while queue and len(before) < MOST_LOOKED_AT:
            job_id = queue.pop(0)
            for further in self._declared_by(job_id, now):
                if further == child.job_id:
                    return _way(before, job_id, child.job_id)
                if further not in before:
                    before[further] = job_id
                    queue.append(further)
        return ()

    def _declared_by(self, job_id: str, now: datetime) -> tuple[str, ...]:
        """The jobs that a waiting job declares. Kept for some seconds: each job of a long chain
        follows it to its end."""
        kept = self._declared.get(job_id)
        if kept is not None and timedelta(0) <= now - kept[1] < DECLARED_FOR:
            return kept[0]
        if len(self._declared) >= MOST_DECLARED:
            self._declared.clear()
        found = tuple(
            further.job_id
            for attempt in self._store.attempts_of_job(self._cluster, job_id)
            if attempt.live and attempt.state is JobState.PENDING
            for further in attempt.opt_in.depends_on
        )
        self._declared[job_id] = (found, now)
        return found


def _way(before: dict[str, str], last: str, child: str) -> tuple[str, ...]:
    way = [child, last]
    while way[-1] != child:
        way.append(before[way[-1]])
    return tuple(reversed(way))


def _shown(dependency: Dependency, view: JobView) -> ParentFacts:
    state = JobState.RUNNING if view.completing else view.state
    return ParentFacts(dependency, Seen.ELSEWHERE, uid=view.uid, user=view.user, state=state)


def _chain(records: Sequence[AccountingRecord], moment: datetime) -> tuple[AccountingRecord, ...]:
    """The records of the job that had the number at that moment, from that attempt on: a record
    that was requeued goes on in the next one."""
    ordered = sorted(records, key=lambda record: record.submitted_at)
    before = [n for n, record in enumerate(ordered) if record.submitted_at <= moment]
    if not before:
        return ()
    at = before[-1]
    chain = [ordered[at]]
    while at + 1 < len(ordered) and _goes_on(ordered[at]):
        at += 1
        chain.append(ordered[at])
    return tuple(chain)


def _goes_on(record: AccountingRecord) -> bool:
    return record.requeued or record.state in {JobState.NODE_FAIL, JobState.PREEMPTED}


def _recorded(
    dependency: Dependency,
    chain: Sequence[AccountingRecord],
    view: JobView | None,
    records: Answer[tuple[AccountingRecord, ...]],
) -> ParentFacts:
    """What accounting says of it, or the scheduler where it still shows that very attempt."""
    last = chain[-1]
    if view is not None and view.submitted_at == last.submitted_at:
        return _shown(dependency, view)
    several = isinstance(records, Known) and records.value[-1].submitted_at > last.submitted_at
    # A job that waits behind its requeue has no record yet: a restart count tells that it is one.
    goes_on = view is not None and view.restarts > 0 and view.submitted_at > last.submitted_at
    if (several or goes_on) and last.state is not JobState.COMPLETED:
        # One release leaves a failed record as it is when the job is requeued: it may have run on.
        who = "accounting has" if several else "the scheduler shows"
        return ParentFacts(
            dependency,
            Seen.UNKNOWN,
            f"{who} a later attempt under that number, and it cannot be told whose it is",
        )
    return ParentFacts(
        dependency,
        Seen.ELSEWHERE,
        user=last.user,
        state=last.state,
        requeued=last.requeued,
    )
