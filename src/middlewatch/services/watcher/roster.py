"""From one listing to attempts: who is new, who goes on, who was replaced, who is gone.

Only jobs whose comment names us get a record; of the others nothing is kept but that they were
asked. A comment is asked for per job, when the job is new, when its state changed and now and
then, because its owner may change it at any time; how many such questions one tick asks is
bounded, so that ten thousand strangers' jobs delay nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from middlewatch.model.answer import Unknown
from middlewatch.model.attempt import (
    Attempt,
    Dependent,
    Sighting,
    lives_again,
    same_owner,
    seen_again,
    sighting,
    superseded,
)
from middlewatch.model.copies import replace
from middlewatch.model.identity import ClusterId
from middlewatch.model.optin import JobMode, read_comment
from middlewatch.model.scheduler import JobDetail, JobState, JobView, Snapshot
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError
from middlewatch.ports.scheduler import Scheduler
from middlewatch.ports.store import AttemptFilter, Store
from middlewatch.services.watcher.asking import Questions
from middlewatch.services.watcher.declared import declared_signal
from middlewatch.services.watcher.dependents import (
    Awaited,
    by_awaited,
    is_singleton,
    singletons_behind,
    waiting_for,
)
from middlewatch.services.watcher.ends import gone, of_another_job, with_accounting
from middlewatch.services.watcher.memory import Kept
from middlewatch.services.watcher.report import WatcherReport
from middlewatch.services.watcher.settings import WatcherSettings
from middlewatch.services.watcher.share import Share, Whole
from middlewatch.services.watcher.urgency import urgency

_MOST_RECENT = 1000


class Roster:
    """The attempts of one cluster, kept in step with its listings. Not for several threads.

    What it changes in memory is written by the watcher, attempt by attempt, together with what
    their logs brought; whoever is not written yet differs from its ``stored``.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        settings: WatcherSettings,
        share: Share | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``clock`` measures how quickly the scheduler answers; without one it is asked little."""
        self._share = share or Whole()
        self._clock = clock
        self._store = store
        self._scheduler = scheduler
        self._settings = settings
        self._cluster: ClusterId = scheduler.cluster
        self._jobs: dict[str, list[Kept]] = {}
        self._strangers: dict[tuple[str, datetime], datetime] = {}
        """Jobs without an opt-in, with the time at which they were last asked."""
        self._names: dict[tuple[str, datetime], str] = {}
        self._awaited = Awaited()
        self._others: set[tuple[str, datetime]] = set()
        """Jobs that are known to have got a number that another one had before."""
        self._loaded = False
        self._questions = Questions(scheduler, settings, self._share, clock)

    # -- access ----------------------------------------------------------------------------------

    def load(self, now: datetime) -> None:
        """Read from the store what is not over, or only just. Raises what the store raises."""
        if self._loaded:
            return
        since = now - timedelta(seconds=self._settings.accounting_gives_up_s)
        recent = AttemptFilter(cluster=self._cluster, final=True, ended_from=since)
        for attempt in self._store.live_attempts(self._cluster):
            self._load_ours(attempt.job_id)
        for attempt in self._store.attempts(recent, 0, _MOST_RECENT):
            self._load_ours(attempt.job_id)
        self._loaded = True

    def _load_ours(self, job_id: str) -> None:
        if self._share.owns(job_id):
            self._share.keep()
            self._load_job(job_id)

    def all(self) -> Iterable[Kept]:
        """Every kept attempt, each job's oldest first."""
        for kept in list(self._jobs.values()):
            yield from kept

    def opted_in(self) -> Iterator[Attempt]:
        """The attempts whose owners opted in, here, that are not vanished."""
        for entry in self.all():
            if watched(entry.attempt) and not entry.attempt.vanished:
                yield entry.attempt

    def by_job(self) -> dict[str, list[Kept]]:
        """The kept attempts of each job number, oldest first."""
        return self._jobs

    def before(self, kept: Kept) -> Kept | None:
        """The attempt of the same job before this one, if it is known and stands."""
        known = self._jobs.get(kept.attempt.job_id, ())
        if len(known) < 2 or kept.attempt.numbered_again:
            return None
        earlier = [
            other
            for other in known
            if other.attempt.submitted_at < kept.attempt.submitted_at
            and not other.attempt.vanished
            and other.attempt.attempt_index < kept.attempt.attempt_index
            and same_owner(other.attempt.uid, kept.attempt.uid)
        ]
        return earlier[-1] if earlier else None

    def after(self, kept: Kept) -> Kept | None:
        """The attempt of the same number after this one."""
        known = self._jobs.get(kept.attempt.job_id, ())
        if len(known) < 2:
            return None
        later = [
            other
            for other in known
            if other.attempt.submitted_at > kept.attempt.submitted_at and not other.attempt.vanished
        ]
        return later[0] if later else None

    def forget(self, job_id: str) -> None:
        """Somebody else wrote to this job's attempts: read them anew at the next listing."""
        self._jobs.pop(job_id, None)
        self._loaded = False

    def load_again(self) -> None:
        """More jobs are ours than before: read them at the next `load`."""
        self._loaded = False

    def let_go(self) -> frozenset[str]:
        """Drop from memory the jobs that are no longer ours; their numbers."""
        gone = frozenset(job_id for job_id in self._jobs if not self._share.owns(job_id))
        for job_id in gone:
            del self._jobs[job_id]
        for key in [key for key in self._strangers if not self._share.owns(key[0])]:
            del self._strangers[key]
        return gone

    def retire(self, snapshot: Snapshot) -> None:
        """Drop from memory the jobs that are over and no longer listed; the store keeps them."""
        listed = {view.job_id for view in snapshot.jobs}
        for job_id, kept in list(self._jobs.items()):
            if job_id not in listed and all(_over(entry) for entry in kept):
                del self._jobs[job_id]

    def _load_job(self, job_id: str) -> list[Kept]:
        """The attempts that the scheduler has shown under a number; what the API was told of is
        no ground to take a row of the listing for anything."""
        kept = self._jobs.get(job_id)
        if kept is None:
            known = self._store.attempts_of_job(self._cluster, job_id)
            kept = [Kept(attempt, stored=attempt) for attempt in known if not attempt.told]
            if kept:
                self._jobs[job_id] = kept
        return kept

    # -- one listing -----------------------------------------------------------------------------

    def take(self, snapshot: Snapshot, now: datetime, report: WatcherReport) -> None:
        """Bring the attempts in step with a complete listing."""
        report.jobs_listed = len(snapshot.jobs)
        waiting = by_awaited(snapshot.jobs)
        self._awaited.note(snapshot.jobs, waiting)
        listed: dict[str, datetime] = {}
        ours = [view for view in snapshot.jobs if self._share.owns(view.job_id)]
        ours.sort(key=lambda view: urgency(view, now))
        self._questions.begin(self._wanted(ours, now), now)
        for view in ours:
            listed[view.job_id] = view.submitted_at
            if view.array_pending or view.state is JobState.UNREADABLE:
                continue
            try:
                self._take(view, now, report)
            except PortError as error:
                report.errors.append(f"job {view.job_id}: {error}")
        self._note_dependents(snapshot, waiting)
        self._ask_again(snapshot, now, report)
        self._ask_strangers(snapshot, now, report)
        self._take_missing(listed, snapshot.only_uid, now, report)

    def _wanted(self, ours: list[JobView], now: datetime) -> Iterator[str]:
        """Whose details this listing makes necessary: those of new jobs and of changed ones, and
        of those that are to be asked again."""
        for view in ours:
            key = (view.job_id, view.submitted_at)
            if view.array_pending or view.state is JobState.UNREADABLE:
                continue
            if key in self._strangers:
                if not view.ended and self._due_again(key, now):
                    yield view.job_id
            elif self._detail_due(view, now):
                yield view.job_id

    def _detail_due(self, view: JobView, now: datetime) -> bool:
        for entry in self._jobs.get(view.job_id, ()):
            if entry.attempt.submitted_at == view.submitted_at:
                unread = entry.detail_at is None or entry.detail_state != view.state.value
                return unread or self._comment_due(entry, now)
        return True

    def _due_again(self, key: tuple[str, datetime], now: datetime) -> bool:
        return (now - self._strangers[key]).total_seconds() >= self._settings.others_every_s

    def _comment_due(self, entry: Kept, now: datetime) -> bool:
        at = entry.detail_at
        if at is None or not entry.attempt.live:
            return False
        return (now - at).total_seconds() >= self._settings.comment_every_s

    def _take(self, view: JobView, now: datetime, report: WatcherReport) -> None:
        if self._same_as_before(view, now):
            return
        if (view.job_id, view.submitted_at) in self._strangers:
            return
        kept = self._load_job(view.job_id)
        known = tuple(entry.attempt for entry in kept)
        match sighting(known, view):
            case Sighting.SAME:
                entry = next(e for e in kept if e.attempt.submitted_at == view.submitted_at)
                self._go_on(entry, view, now, report)
            case Sighting.SUCCESSOR:
                newest = max(
                    (e for e in kept if not e.attempt.vanished),
                    key=lambda e: e.attempt.submitted_at,
                )
                if self._of_another_job(newest, view, now, report):
                    self._take_another(kept, view, now, report)
                    return
                newest.attempt = superseded(newest.attempt, view, now)
                newest.followed = view.state is not JobState.PENDING
                self._begin(view, now, report, kept)
            case Sighting.OTHER_JOB:
                self._take_another(kept, view, now, report)
            case Sighting.ROLLED_BACK:
                for entry in kept:
                    if entry.attempt.submitted_at > view.submitted_at:
                        entry.attempt = replace(entry.attempt, vanished=True)
                    elif entry.attempt.submitted_at == view.submitted_at:
                        self._live_again(entry, view)
            case Sighting.UNDECIDED:
                self._end_undecided(kept, view, now)

    def _of_another_job(
        self, newest: Kept, view: JobView, now: datetime, report: WatcherReport
    ) -> bool:
        """Whether a restarted job got the number while nobody watched, which only accounting tells
        from a later attempt. What this process has seen in a listing goes on in the next one."""
        key = (view.job_id, view.submitted_at)
        if newest.view is None and key not in self._others:
            for _, answer in self._questions.accounting([newest], now, report):
                if of_another_job(newest.attempt, view, answer):
                    self._others.add(key)
        return key in self._others

    def _same_as_before(self, view: JobView, now: datetime) -> bool:
        """Whether the listing shows of the number's newest attempt what the last one showed: of
        thousands of jobs hardly any has news."""
        known = self._known(view)
        if known:
            self._jobs[view.job_id][-1].seen_at = now
        return known

    def _known(self, view: JobView) -> bool:
        kept = self._jobs.get(view.job_id)
        if not kept:
            return False
        entry = kept[-1]
        return (
            entry.view == view
            and entry.missing_since is None
            and not entry.attempt.vanished
            and entry.detail_state == view.state.value
            and entry.node_list == view.node_list
        )

    def _live_again(self, entry: Kept, view: JobView) -> None:
        """The attempt that the older state still has: watched again, if it had not ended."""
        before = entry.attempt
        entry.attempt = lives_again(before, view)
        if entry.attempt is not before and entry.watch is not None:
            entry.watch = replace(entry.watch, closed=False)

    def _end_undecided(self, kept: list[Kept], view: JobView, now: datetime) -> None:
        """Requeued within the second of its submission: the next attempt has no name of its own
        and is not watched, but this one is over."""
        if view.completing:
            return
        for entry in kept:
            known = entry.attempt
            if known.submitted_at == view.submitted_at and known.attempt_index < view.restarts:
                entry.attempt = superseded(known, view, now)
                entry.followed = view.state is not JobState.PENDING

    def _go_on(self, entry: Kept, view: JobView, now: datetime, report: WatcherReport) -> None:
        entry.missing_since = None
        had_end = entry.attempt.end is not None
        entry.view, entry.seen_at = view, now
        entry.attempt = seen_again(entry.attempt, view, now)
        if entry.attempt.end is not None and not had_end:
            report.attempts_ended += 1
        self._place(entry, view)
        if entry.detail_at is None or entry.detail_state != view.state.value:
            self._read_again(entry, view, now, report)

    def _place(self, entry: Kept, view: JobView) -> None:
        if not view.node_list or view.node_list == entry.node_list:
            return
        nodes = self._scheduler.hostnames(view.node_list)
        if nodes:
            entry.node_list = view.node_list
            entry.attempt = replace(entry.attempt, nodes=nodes)

    def _take_another(
        self, kept: list[Kept], view: JobView, now: datetime, report: WatcherReport
    ) -> None:
        """The number was given to another job: what was live under it has been forgotten, and what
        is written under its name from now on is the other's."""
        forgotten = [entry for entry in kept if entry.attempt.live]
        for entry in forgotten:
            entry.followed = entry.followed or view.state is not JobState.PENDING
        self._miss(forgotten, now, report)
        self._begin(view, now, report, kept, another=True)

    # -- details ---------------------------------------------------------------------------------

    def _begin(
        self,
        view: JobView,
        now: datetime,
        report: WatcherReport,
        kept: list[Kept],
        *,
        another: bool = False,
    ) -> None:
        """Record an attempt beside those ``kept`` under its number, which with ``another`` are a
        job's that had the number before."""
        relatives = bool(kept) and not another
        hurry = relatives or urgency(view, now)[0] <= 1
        if not (hurry or self._questions.spare(view.job_id)):
            return
        new = view.job_id not in self._jobs
        detail = self._questions.detail(view, report, new=new)
        if detail is None:
            return
        opt_in = read_comment(detail.comment, self._cluster.environment)
        if opt_in.mode is None and not relatives:
            self._strangers[view.job_id, view.submitted_at] = now
            return
        attempt = Attempt(
            id=view.key(self._cluster).attempt_id(),
            cluster=self._cluster,
            job_id=view.job_id,
            attempt_index=view.restarts,
            submitted_at=view.submitted_at,
            first_seen_at=now,
            last_seen_at=now,
            user=view.user,
            uid=view.uid,
            dependents=self._awaited.let_go_by(view) if view.ended else (),
            numbered_again=another and bool(kept),
        )
        if any(entry.attempt.id == attempt.id for entry in kept):
            # Vanished with an older state of the scheduler, and here again.
            return
        entry = Kept(seen_again(self._instead_of_told(attempt), view, now))
        self._place(entry, view)
        self._written_by_user(entry, detail, view, now)
        report.attempts_new += 1
        self._jobs.setdefault(view.job_id, kept).append(entry)
        kept.extend(self._told_later(attempt))
        kept.sort(key=lambda e: e.attempt.submitted_at)
        self._strangers.pop((view.job_id, view.submitted_at), None)
        self._others.discard((view.job_id, view.submitted_at))

    def _instead_of_told(self, attempt: Attempt) -> Attempt:
        """The attempt, ready to be written over what the API was told of it. Of that only what
        no scheduler knows is kept."""
        told = self._store.attempt(attempt.id)
        if told is None or not told.told:
            return attempt
        return replace(
            attempt,
            version=told.version,
            workflow_id=told.workflow_id,
            gpus_per_node=told.gpus_per_node,
        )

    def _told_later(self, attempt: Attempt) -> list[Kept]:
        """Attempts told of before this one was seen, and said to be later: marked as vanished, or
        they would pass for the job's present. (Once it is watched the gateway takes none.)"""
        known = self._store.attempts_of_job(attempt.cluster, attempt.job_id)
        return [
            Kept(replace(other, vanished=True), stored=other)
            for other in known
            if other.told and other.submitted_at > attempt.submitted_at and not other.vanished
        ]

    def _read_again(self, entry: Kept, view: JobView, now: datetime, report: WatcherReport) -> None:
        detail = self._questions.detail(view, report, new=False)
        if detail is not None:
            self._written_by_user(entry, detail, view, now)

    def _written_by_user(
        self, entry: Kept, detail: JobDetail, view: JobView, now: datetime
    ) -> None:
        entry.detail_at = now
        entry.detail_state = view.state.value
        opt_in = read_comment(detail.comment, self._cluster.environment)
        # Where nobody names a workflow, a job (with all its tasks and attempts) is its own.
        alone = entry.attempt.workflow_id or view.job_id.partition("_")[0]
        before = entry.attempt.opt_in
        entry.attempt = replace(
            entry.attempt,
            opt_in=opt_in,
            workflow_id=opt_in.workflow or alone,
            job_name=detail.name,
            stdout=detail.stdout,
            stderr=detail.stderr,
            append_output=detail.append_output,
            required_nodes=detail.required_nodes,
            excluded_nodes=detail.excluded_nodes,
        )
        declared = declared_signal(before, entry.attempt, now)
        if declared is not None:
            entry.signals += (declared,)

    def _ask_again(self, snapshot: Snapshot, now: datetime, report: WatcherReport) -> None:
        """Read a few comments of watched jobs again, those read longest ago first."""
        present = {(view.job_id, view.submitted_at): view for view in snapshot.jobs}
        old = [
            (entry.detail_at, entry)
            for entry in self.all()
            if entry.detail_at is not None and self._comment_due(entry, now)
        ]
        old.sort(key=lambda item: item[0])
        alone = self._settings.again_per_tick
        for _, entry in old:
            view = present.get((entry.attempt.job_id, entry.attempt.submitted_at))
            if view is None:
                continue
            if not self._questions.knows(view.job_id):
                if alone <= 0:
                    continue
                alone -= 1
            self._read_again(entry, view, now, report)

    def _ask_strangers(self, snapshot: Snapshot, now: datetime, report: WatcherReport) -> None:
        """Ask a few of those who were not opted in whether they are now."""
        present = {(view.job_id, view.submitted_at): view for view in snapshot.jobs}
        for key in [key for key in self._strangers if key not in present]:
            del self._strangers[key]
            self._names.pop(key, None)
        left = self._settings.others_per_tick
        for key, _ in sorted(self._strangers.items(), key=lambda item: item[1]):
            view = present[key]
            if not self._due_again(key, now):
                return
            if view.ended:
                continue
            if not self._questions.knows(view.job_id):
                if left <= 0:
                    continue
                left -= 1
            self._strangers[key] = now
            kept = self._jobs.get(view.job_id, [])
            self._begin(view, now, report, kept, another=True)

    # -- dependents ------------------------------------------------------------------------------

    def _note_dependents(
        self, snapshot: Snapshot, waiting: dict[str, tuple[Dependent, ...]]
    ) -> None:
        singletons = [
            (view, name)
            for view in snapshot.jobs
            if is_singleton(view) and not view.ended and (name := self._name(view)) is not None
        ]
        shown = {(view.job_id, view.submitted_at) for view in snapshot.jobs if not view.ended}
        for entry in self.all():
            attempt = entry.attempt
            if not (waiting or singletons or attempt.dependents):
                continue
            gone = (attempt.job_id, attempt.submitted_at) not in shown
            if gone or not attempt.live or attempt.completing:
                # From here on the listing has forgotten them: what was noted stands.
                continue
            found = list(waiting_for(attempt.job_id, waiting))
            found.extend(singletons_behind(attempt, singletons))
            dependents = tuple(dict.fromkeys(found))
            if dependents != attempt.dependents:
                entry.attempt = replace(attempt, dependents=dependents)

    def _name(self, view: JobView) -> str | None:
        key = (view.job_id, view.submitted_at)
        if key not in self._names:
            name = self._questions.name(view)
            if name is not None:
                self._names[key] = name
        return self._names.get(key)

    # -- ends ------------------------------------------------------------------------------------

    def _take_missing(
        self,
        listed: dict[str, datetime],
        only_uid: int | None,
        now: datetime,
        report: WatcherReport,
    ) -> None:
        missing = []
        for entry in self.all():
            # A listing of one user's jobs proves nothing about another's.
            shown = only_uid in (None, entry.attempt.uid)
            if shown and entry.attempt.live and _absent(entry, listed):
                missing.append(entry)
        self._miss(missing, now, report)

    def _miss(self, missing: list[Kept], now: datetime, report: WatcherReport) -> None:
        """A complete listing does not show live attempts: accounting tells what became of them."""
        for entry in missing:
            entry.missing_since = entry.missing_since or now
        for entry, answer in self._questions.accounting(missing, now, report):
            entry.attempt = gone(entry.attempt, answer, entry.missing_since or now, now)
            if entry.attempt.end is not None:
                report.attempts_ended += 1

    def confirm_ends(self, now: datetime, report: WatcherReport) -> None:
        """Ask accounting about ends that are not final."""
        open_ends = [
            entry
            for entry in self.all()
            if entry.attempt.end is not None and not entry.attempt.end.final
        ]
        for entry, answer in self._questions.accounting(open_ends, now, report):
            gives_up = self._settings.accounting_gives_up_s
            entry.attempt = with_accounting(entry.attempt, answer, now, gives_up)
            if isinstance(answer, Unknown):
                report.errors.append(f"job {entry.attempt.job_id}: no accounting: {answer.why}")


def _absent(entry: Kept, listed: dict[str, datetime]) -> bool:
    """Whether a listing does not show the attempt's job, or shows another one under its number."""
    submitted = listed.get(entry.attempt.job_id)
    replaced = entry.missing_since is not None
    return submitted is None or (replaced and submitted > entry.attempt.submitted_at)


def _over(entry: Kept) -> bool:
    attempt = entry.attempt
    written = entry.stored == attempt
    closed = entry.watch is None or entry.watch.closed or not watched(attempt)
    return written and closed and not attempt.live and (attempt.end is None or attempt.end.final)


def watched(attempt: Attempt) -> bool:
    """Whether its logs are to be read: its owner opted in, here, and not with ``off``."""
    return attempt.opt_in.effective(attempt.cluster.environment) is not JobMode.OFF


def paths_of(attempt: Attempt) -> tuple[str, ...]:
    """Its output files, each once; what goes nowhere is no file to watch."""
    paths = [path for path in (attempt.stdout, attempt.stderr) if path and path != "/dev/null"]
    return tuple(dict.fromkeys(paths))
