"""Watching: one listing for all jobs, then each job's files in turn, each job's news in one write.

Signals, progress, the detection state and the file cursors of one attempt go into the store
together or not at all. Whatever goes wrong with one job is a sentence in the report and another
try at the next tick; it never keeps the others from being watched. A scheduler that cannot be seen
changes nothing: files are read on, and nothing is concluded from silence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime

from middlewatch.detection.observe import Observation, observe
from middlewatch.model.advice import DesiredState
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.copies import replace
from middlewatch.model.identity import AttemptId
from middlewatch.model.limits import NOTE, from_text, with_limits
from middlewatch.model.milestone import Milestone
from middlewatch.model.pattern import Pattern
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import Snapshot
from middlewatch.ports import errors
from middlewatch.ports.clock import Clock
from middlewatch.ports.scanner import LogSource, Neighbours, OwnPatterns, Scanner
from middlewatch.ports.scheduler import Scheduler
from middlewatch.ports.store import Store
from middlewatch.services.watcher.evidence import Evidence
from middlewatch.services.watcher.glance import Glances
from middlewatch.services.watcher.hearing import Hearing
from middlewatch.services.watcher.memory import Codec, Kept, Watch
from middlewatch.services.watcher.outbox import Lost, Outbox
from middlewatch.services.watcher.reading import Reader, Waiting, waiting
from middlewatch.services.watcher.report import WatcherReport
from middlewatch.services.watcher.roster import Roster, paths_of, watched
from middlewatch.services.watcher.settings import WatcherSettings
from middlewatch.services.watcher.share import Share, Whole
from middlewatch.services.watcher.trail import resumed
from middlewatch.services.watcher.turns import Turns, liveliness


class Watcher:
    """Watches the jobs of one cluster. One thread calls `tick`."""

    def __init__(
        self,
        *,
        store: Store,
        scheduler: Scheduler,
        logs: LogSource,
        scanner: Scanner,
        loops: Scanner | None = None,
        patterns: Mapping[str, Pattern],
        codec: Codec,
        policy: Policy | None = None,
        settings: WatcherSettings | None = None,
        clock: Clock | None = None,
        places: Callable[[Attempt], tuple[str, ...]] = paths_of,
        own: OwnPatterns | None = None,
        evidence: Evidence | None = None,
        share: Share | None = None,
        neighbours: Neighbours | None = None,
        hinted: Callable[[], bool] = lambda: False,
    ) -> None:
        """``patterns`` are those that ``scanner`` was made from, by id, and ``loops``, which searches
        the output of jobs in which no other pattern finds steps. ``clock`` measures what
        reading costs; without one only bytes and hits are counted. ``places`` says where ``logs``
        has an attempt's output; what it says must not change while the attempt runs. ``own`` searches with the progress
        patterns that owners give in their jobs' comments; without it those are not used. ``share``
        says which jobs are this watcher's; without one all are. ``neighbours`` tells whether others
        are heard where ``logs`` are kept. ``hinted`` tells whether somebody has said since it was
        last asked that something has happened to a job."""
        self._share = share or Whole()
        self._store = store
        self._scheduler = scheduler
        self._policy = self._site = policy or Policy()
        self._settings = settings or WatcherSettings()
        self._roster = Roster(store, scheduler, self._settings, self._share, clock)
        self._reader = Reader(
            store=store,
            logs=logs,
            scanner=scanner,
            loops=loops,
            patterns=patterns,
            codec=codec,
            roster=self._roster,
            settings=self._settings,
            places=places,
            own=own,
        )
        self._outbox = Outbox(store, codec, self._settings, self._share)
        self._evidence = evidence or Evidence()
        self._glances = Glances(logs, self._reader, self._evidence)
        self._hearing = Hearing(neighbours)
        self._lost: set[str] = set()
        """Jobs that are left alone for the rest of this tick."""
        self._listed = 0
        self._hinted = hinted
        self._turns = Turns(self._settings.listing_shortest_s, self._settings.listing_longest_s)
        self._turn_of = 0
        self._unread: str | None = None
        """The first job that the last tick had no time for."""
        self._waiting: dict[AttemptId, Waiting] = {}
        """Attempts that were not read to their end in this round."""
        self._clock = clock
        self._took_s = 0.0

    def tick(self, now: datetime) -> WatcherReport:
        """One listing and a bounded amount of reading. Never raises for one job's sake; raises
        `Unreachable` or `Unreadable` where the store itself cannot be read at all."""
        report = WatcherReport()
        self._follow_limits(report)
        came = self._divide(now, report)
        self._roster.load(now)
        if self._reader.appends is None:
            facts = self._scheduler.facts()
            self._reader.appends = facts.value.file_append if isinstance(facts, Known) else None
        answer, took_s = self._list() if self._lists(came, now) else (None, 0.0)
        seen = isinstance(answer, Known)
        report.jobs_listed = self._listed
        if isinstance(answer, Known):
            self._roster.take(answer.value, now, report)
            self._roster.confirm_ends(now, report)
            self._listed = report.jobs_listed
        elif answer is not None:
            report.listing_unknown = answer.why if isinstance(answer, Unknown) else "no listing"
        self._evidence.begin(now, report)
        self._hearing.begin(now)
        self._read_all(now, report, seen=seen)
        if isinstance(answer, Known):
            self._roster.retire(answer.value)
        if answer is not None:
            alive = liveliness(self._roster.opted_in(), now) if seen else None
            self._turns.listed(now, took_s, alive)
        return report

    def _follow_limits(self, report: WatcherReport) -> None:
        """Somebody may have changed the limits over the API since the last tick."""
        try:
            limits = from_text(self._store.note(NOTE))
        except ValueError as error:
            report.errors.append(f"{error}; those before stay in force")
            return
        policy = with_limits(self._site, limits)
        if policy != self._policy:
            self._policy = policy

    # -- other watchers --------------------------------------------------------------------------

    def _divide(self, now: datetime, report: WatcherReport) -> bool:
        """Settle with the other watchers which jobs are whose; whether some came to us. Raises
        what the store raises where it cannot be read."""
        look = self._share.look()
        if look.lost:
            self._outbox.drop(self._roster.let_go())
        if look.going:
            jobs = self._roster.by_job()
            going = frozenset(job for job in jobs if self._share.number(job) in look.going)
            self._lose(self._outbox.hand_over(going, now, report), report)
        came = False
        try:
            came = self._share.settle()
        except errors.PortError as error:
            report.errors.append(f"sharing with other watchers: {error}")
        if look.going:
            self._outbox.drop(self._roster.let_go())
        if came:
            self._roster.load_again()
        report.watchers, report.share = self._share.members, self._share.held
        return came

    def _lists(self, came: bool, now: datetime) -> bool:
        """Whether the cluster is listed in this tick."""
        return self._turns.due(
            now,
            hinted=self._hinted(),
            came=came,
            members=self._share.members,
            rank=self._share.rank,
        )

    def _list(self) -> tuple[Answer[Snapshot], float]:
        """A listing, and how many seconds it took."""
        began = self._seconds()
        answer = self._scheduler.listing()
        return answer, self._seconds() - began

    # -- one round over all jobs -----------------------------------------------------------------

    def _read_all(self, now: datetime, report: WatcherReport, *, seen: bool) -> None:
        """Each job in turn until the budget is spent: first the one that had to wait last time,
        otherwise another one each tick."""
        jobs = self._roster.by_job()
        order = deque(jobs)
        if order:
            self._turn_of = (self._turn_of + 1) % len(order)
        first = order.index(self._unread) if self._unread in jobs else self._turn_of
        order.rotate(-first)
        # Attempts of one job stay in their order: the later one begins where the earlier one ends.
        queue = deque(kept for job in order for kept in jobs[job])
        settings = self._settings
        left, round_of = settings.bytes_per_tick, len(queue)
        self._took_s, self._unread = 0.0, None
        self._lost.clear()
        self._waiting.clear()
        self._outbox.signal_cap = self._policy.signal_cap
        flushed = self._took_s
        while queue:
            kept = queue.popleft()
            if kept.attempt.job_id in self._lost or not self._share.owns(kept.attempt.job_id):
                continue
            round_of -= 1
            limit = settings.seconds_per_tick if round_of >= 0 else settings.catch_up_s
            spent = left <= 0 or self._took_s >= limit
            if spent and self._unread is None:
                self._unread = kept.attempt.job_id
            hits = report.hits
            report.watched += round_of >= 0 and self._is_read(kept)
            if spent and self._can_wait(kept, now):
                report.behind += 1
                continue
            try:
                read, behind = self._one(kept, now, report, seen=seen, files=not spent)
            except Exception as error:  # noqa: BLE001 - a job's log is anybody's text: what it breaks, it breaks alone
                self._lose([Lost(kept, error)], report)
                continue
            self._share.keep()
            left -= max(read, (report.hits - hits) * settings.bytes_per_hit)
            if behind and not spent:
                queue.append(kept)
            elif behind:
                report.behind += 1
            waited = self._took_s - flushed
            if self._outbox.full or (self._outbox.pressing and waited >= settings.write_after_s):
                self._lose(self._outbox.flush(now, report), report)
                flushed = self._took_s
        self._lose(self._outbox.settle(now, report), report)
        report.bytes_behind = sum(waiting.bytes for waiting in self._waiting.values())
        since = min((waiting.since for waiting in self._waiting.values()), default=now)
        report.oldest_unread_s = max(0.0, (now - since).total_seconds())

    def _lose(self, lost: list[Lost], report: WatcherReport) -> None:
        """Leave these jobs alone for this tick, and read them anew from the store at the next."""
        for each in lost:
            job = each.kept.attempt.job_id
            if isinstance(each.error, errors.Conflict):
                report.conflicts += 1
            elif (
                why := f"job {each.kept.attempt.reference}: {_said(each.error)}"
            ) not in report.errors:
                report.errors.append(why)
            self._lost.add(job)
            self._roster.forget(job)
        if lost:
            self._outbox.drop(frozenset(each.kept.attempt.job_id for each in lost))

    def _one(
        self, kept: Kept, now: datetime, report: WatcherReport, *, seen: bool, files: bool
    ) -> tuple[int, bool]:
        """One turn of one attempt: (bytes read, whether more is there)."""
        attempt, reader = kept.attempt, self._reader
        if not watched(attempt):
            self._outbox.put_attempt(kept, now)
            return 0, False
        began = self._seconds()
        already = None
        if kept.calm is not None and files:
            glance = self._glances.glance(kept, now, self._policy, report)
            if glance.over:
                self._outbox.put_calm(kept, now)
                self._waiting.pop(attempt.id, None)
                self._took_s += self._seconds() - began
                return glance.bytes, False
            already = glance.read
        watch = reader.watch_of(kept)
        if watch.closed and kept.stored is attempt:
            return 0, False
        files = files and not watch.closed
        done = reader.read(kept, watch, now, files=files, seen=seen, already=already)
        state = reader.aiming(kept, watch)
        batch = done.batch if seen else replace(done.batch, caught_up=False)
        batch = self._hearing.onto(batch, done.tails, state, now, self._policy)
        batch = self._evidence.onto(batch, state, now, report)
        found = observe(state, batch, now, self._policy)
        took = self._seconds() - began
        self._took_s += took
        report.bytes_read += done.bytes_read
        report.lines_read += done.lines
        report.lines_lost += batch.lost
        report.read_errors += done.errors
        # One store that is away is one sentence, however many jobs it keeps the lines of.
        report.errors.extend(why for why in done.away if why not in report.errors)
        report.hits += len(batch.hits)
        if done.bytes_read:
            kept.block = self._next_block(kept, len(batch.hits), took)
        closed = watch.closed or reader.closes(kept, done, now)
        milestones = self._milestones(kept, found, now) if found.resumed is not None else ()
        after = _moved(kept.watch, Watch(found.state, done.tails, closed))
        self._outbox.put(kept, after, found, milestones, now)
        if done.behind or done.away:
            self._waiting[attempt.id] = waiting(kept, done.tails, now)
        else:
            self._waiting.pop(attempt.id, None)
            kept.looked_at = now
        self._glances.prepare(kept, after, self._policy)
        return done.bytes_read, done.behind

    def _can_wait(self, kept: Kept, now: datetime) -> bool:
        """Whether an attempt can have no news but in its files, so that all of its turn may wait."""
        watch = kept.watch
        if watch is None or kept.stored is not kept.attempt or not self._is_read(kept):
            return False
        if self._evidence.has_steps(kept.attempt):
            return False
        self._waiting[kept.attempt.id] = waiting(kept, kept.tails, now)
        return True

    def _is_read(self, kept: Kept) -> bool:
        """Whether this attempt's logs are still read."""
        watch = kept.watch
        return watched(kept.attempt) and not (watch is not None and watch.closed)

    def _seconds(self) -> float:
        return 0.0 if self._clock is None else self._clock.monotonic()

    def _next_block(self, kept: Kept, hits: int, took_s: float) -> int:
        """How much to read of this attempt in its next turn: lines that match cost a hundred
        times what others do, and some text costs as much without matching. A file full of either
        must not keep the other jobs waiting."""
        now = kept.block or self._settings.first_block
        over = max(hits / self._settings.hits_per_turn, took_s / self._settings.seconds_per_turn)
        if over > 1:
            return max(1, int(now / over))
        return min(now * 2, self._settings.block)

    # -- writing ------------------------------------------------------------------------------

    def finish(self, now: datetime) -> None:
        """Write what is known and was not written yet, before this watcher goes."""
        self._outbox.finish(now, WatcherReport())
        self._share.leave()

    def _milestones(self, kept: Kept, found: Observation, now: datetime) -> tuple[Milestone, ...]:
        """That training went on beyond the fault, where restarts of ours were recorded: that of
        the attempt before, and those before it whose successors had not come so far."""
        if found.resumed is None:
            return ()
        told: list[Milestone] = []
        before = self._roster.before(kept)
        while before is not None:
            advice = self._store.advice(before.attempt.id)
            if advice is not None and advice.desired is DesiredState.RESTARTED:
                past = found.state.resume_above
                sequence = advice.sequence_id
                told.append(resumed(sequence, kept.attempt, found.resumed, now, past))
            if self._reader.watch_of(before).detection.resumed_step is not None:
                break
            before = self._roster.before(before)
        return tuple(told)


def _said(error: Exception) -> str:
    """What went wrong, for people: a port says it itself, of anything else the kind is told."""
    return str(error) if isinstance(error, errors.PortError) else f"{type(error).__name__}: {error}"


def _moved(before: Watch | None, after: Watch) -> Watch:
    """The watch after a turn: the very same one where nothing has moved."""
    if before is None:
        return after
    same = before.detection is after.detection or before.detection == after.detection
    if same and before.tails == after.tails and before.closed == after.closed:
        return before
    return after
