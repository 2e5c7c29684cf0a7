"""Watching: one listing for all jobs, then each job's files in turn, each job's news in one write.

Signals, progress, the detection state and the file cursors of one attempt go into the store
together or not at all. Whatever goes wrong with one job is a sentence in the report and another
try at the next tick; it never keeps the others from being watched. A scheduler that cannot be seen
changes nothing: files are read on, and nothing is concluded from silence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from middlewatch.detection.batch import Batch, Hit, Unreadable
from middlewatch.detection.observe import Observation, observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.advice import DesiredState
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Change, WatchState
from middlewatch.model.limits import NOTE, from_text, with_limits
from middlewatch.model.milestone import Milestone
from middlewatch.model.pattern import Pattern
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Severity, SignalKind
from middlewatch.ports import errors
from middlewatch.ports.clock import Clock
from middlewatch.ports.scanner import Block, Cursor, LogSource, Scanner
from middlewatch.ports.scheduler import Scheduler
from middlewatch.ports.store import Store
from middlewatch.services.watcher.memory import Codec, Kept, Tail, Watch
from middlewatch.services.watcher.report import WatcherReport
from middlewatch.services.watcher.roster import Roster, paths_of, watched
from middlewatch.services.watcher.settings import WatcherSettings
from middlewatch.services.watcher.tails import (
    Circumstances,
    Turn,
    kept_by_store,
    place_left,
    turn,
)
from middlewatch.services.watcher.trail import audit_of, audit_of_signals, resumed

_ALARMS = frozenset({SignalKind.SILENCE, SignalKind.NO_PROGRESS_AFTER_FAILURE})


@dataclass(frozen=True, slots=True)
class _Round:
    """What one turn over the files of one attempt brought."""

    tails: tuple[Tail, ...]
    batch: Batch
    bytes_read: int
    behind: bool
    away: tuple[str, ...] = ()
    """Why those who keep the lines could not be asked."""


class Watcher:
    """Watches the jobs of one cluster. One thread calls `tick`."""

    def __init__(
        self,
        *,
        store: Store,
        scheduler: Scheduler,
        logs: LogSource,
        scanner: Scanner,
        patterns: Mapping[str, Pattern],
        codec: Codec,
        policy: Policy | None = None,
        settings: WatcherSettings | None = None,
        clock: Clock | None = None,
        places: Callable[[Attempt], tuple[str, ...]] = paths_of,
    ) -> None:
        """``patterns`` are those that ``scanner`` was made from, by id. ``clock`` measures what
        reading costs; without one only bytes and hits are counted. ``places`` says where ``logs``
        has an attempt's output; what it says must not change while the attempt runs."""
        self._store = store
        self._scheduler = scheduler
        self._logs = logs
        self._scanner = scanner
        self._patterns = patterns
        self._codec = codec
        self._places_of = places
        self._policy = self._site = policy or Policy()
        self._settings = settings or WatcherSettings()
        self._roster = Roster(store, scheduler, self._settings)
        self._appends: bool | None = None
        self._looked_at: dict[str, datetime] = {}
        """When each attempt's files were last read to their end: younger bytes are younger."""
        self._turn_of = 0
        self._unread: str | None = None
        """The first job that the last tick had no time for."""
        self._clock = clock
        self._took_s = 0.0

    def tick(self, now: datetime) -> WatcherReport:
        """One listing and a bounded amount of reading. Never raises for one job's sake; raises
        `Unreachable` or `Unreadable` where the store itself cannot be read at all."""
        report = WatcherReport()
        self._follow_limits(report)
        self._roster.load(now)
        if self._appends is None:
            facts = self._scheduler.facts()
            self._appends = facts.value.file_append if isinstance(facts, Known) else None
        answer = self._scheduler.listing()
        seen = isinstance(answer, Known)
        if isinstance(answer, Known):
            self._roster.take(answer.value, now, report)
            self._roster.confirm_ends(now, report)
        else:
            report.listing_unknown = answer.why if isinstance(answer, Unknown) else "no listing"
        self._read_all(now, report, seen=seen)
        if isinstance(answer, Known):
            self._roster.retire(answer.value)
        return report

    def _follow_limits(self, report: WatcherReport) -> None:
        """Somebody may have changed the limits over the API since the last tick."""
        try:
            limits = from_text(self._store.note(NOTE))
        except ValueError as error:
            report.errors.append(f"{error}; those before stay in force")
            return
        self._policy = with_limits(self._site, limits)

    # -- one round over all jobs -----------------------------------------------------------------

    def _read_all(self, now: datetime, report: WatcherReport, *, seen: bool) -> None:
        """Each job in turn until the budget is spent: first the one that had to wait last time,
        otherwise another one each tick."""
        waiting = list(self._roster.all())
        if waiting:
            self._turn_of = (self._turn_of + 1) % len(waiting)
        # Attempts of one job stay in their order: the later one begins where the earlier one ends.
        jobs = {kept.attempt.job_id: None for kept in waiting}
        order = deque(jobs)
        first = list(order).index(self._unread) if self._unread in jobs else self._turn_of
        order.rotate(-first)
        rank = {job: place for place, job in enumerate(order)}
        queue = deque(
            sorted(waiting, key=lambda k: (rank[k.attempt.job_id], k.attempt.submitted_at))
        )
        settings = self._settings
        left = settings.bytes_per_tick
        self._took_s, self._unread = 0.0, None
        while queue:
            kept = queue.popleft()
            spent = left <= 0 or self._took_s >= settings.seconds_per_tick
            if spent and self._unread is None:
                self._unread = kept.attempt.job_id
            hits = report.hits
            try:
                read, behind = self._one(kept, now, report, seen=seen, files=not spent)
            except errors.Conflict:
                report.conflicts += 1
                self._later(kept, queue)
                continue
            except Exception as error:  # noqa: BLE001 - a job's log is anybody's text: what it breaks, it breaks alone
                report.errors.append(f"job {kept.attempt.reference}: {_said(error)}")
                self._later(kept, queue)
                continue
            left -= max(read, (report.hits - hits) * settings.bytes_per_hit)
            if behind and not spent:
                queue.append(kept)
            elif behind:
                report.behind += 1

    def _later(self, kept: Kept, queue: deque[Kept]) -> None:
        """Leave this job alone for this tick, and read it anew from the store at the next."""
        job = kept.attempt.job_id
        self._roster.forget(job)
        for other in [other for other in queue if other.attempt.job_id == job]:
            queue.remove(other)

    def _one(
        self, kept: Kept, now: datetime, report: WatcherReport, *, seen: bool, files: bool
    ) -> tuple[int, bool]:
        """One turn of one attempt: (bytes read, whether more is there)."""
        attempt = kept.attempt
        if not watched(attempt):
            self._write(kept, None, (), now, report)
            return 0, False
        watch = self._watch_of(kept)
        if watch.closed and kept.stored == attempt:
            return 0, False
        report.watched += 1
        began = self._seconds()
        done = self._read(kept, watch, now, files=files and not watch.closed, seen=seen)
        state = self._aiming(kept, watch)
        batch = done.batch if seen else replace(done.batch, caught_up=False)
        found = observe(state, batch, now, self._policy)
        took = self._seconds() - began
        self._took_s += took
        report.bytes_read += done.bytes_read
        # One store that is away is one sentence, however many jobs it keeps the lines of.
        report.errors.extend(why for why in done.away if why not in report.errors)
        report.hits += len(batch.hits)
        if done.bytes_read:
            kept.block = self._next_block(kept, len(batch.hits), took)
        closed = watch.closed or self._closes(kept, done, now)
        self._write(kept, Watch(found.state, done.tails, closed), (found,), now, report)
        if not done.behind and not done.away:
            self._looked_at[attempt.id] = now
        if closed:
            self._looked_at.pop(attempt.id, None)
        return done.bytes_read, done.behind

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

    # -- reading ---------------------------------------------------------------------------------

    def _watch_of(self, kept: Kept) -> Watch:
        """The attempt's watch: from memory, from the store, or begun."""
        if kept.watch is None:
            stored = self._store.watch_state(kept.attempt.id)
            if stored is None:
                kept.watch = Watch(fresh(kept.attempt.id))
            else:
                kept.watch_version = stored.version
                try:
                    kept.watch = self._codec.decode(stored.state)
                except errors.Unreadable:
                    # Another version's: reading from the start gives the same signals again, by
                    # the same keys.
                    kept.watch = Watch(fresh(kept.attempt.id))
        watch = kept.watch
        known = {tail.path for tail in watch.tails}
        paths = self._places_of(kept.attempt)
        new = [path for path in paths if path not in known]
        before = self._roster.before(kept)
        # Where its files begin is known when the attempt before needs them no more.
        blocked = before is not None and not self._left(before)
        if not new or not _has_run(kept.attempt) or blocked:
            return watch
        tails = [tail for tail in watch.tails if tail.cursor is not None or tail.path in paths]
        left = {} if before is None else _places(self._watch_of(before))
        tails.extend(Tail(path, guard=left.get(path)) for path in new)
        return replace(watch, tails=tuple(tails))

    def _read(self, kept: Kept, watch: Watch, now: datetime, *, files: bool, seen: bool) -> _Round:
        attempt = kept.attempt
        before = self._roster.before(kept)
        blocked = before is not None and not self._left(before)
        if not files or not watch.tails or not _has_run(attempt) or blocked:
            drained = files and not blocked and not attempt.live and not watch.tails
            quiet = Batch(attempt, drained=drained, caught_up=False)
            return _Round(watch.tails, quiet, 0, behind=not files and not watch.closed)
        followed = self._followed(kept)
        over = not attempt.live or self._roster.after(kept) is not None
        turns: list[Turn] = []
        settings = replace(self._settings, block=kept.block or self._settings.first_block)
        for tail in watch.tails:
            if followed and tail.at_end and not kept_by_store(tail.path):
                # What is written there from now on is the next attempt's.
                turns.append(Turn(tail))
                continue
            around = Circumstances(
                over=over,
                followed=followed,
                may_begin_anew=self._began_anew_twice(kept, tail.path, now),
                append=self._append(attempt),
                reach=_reach(kept, tail, now, news=seen and not followed) if over else None,
                until=self._until(kept) if followed else None,
            )
            got = turn(self._logs, attempt, tail, around, settings=settings, now=now)
            if got.block is not None and got.block.size:
                kept.sizes[tail.path] = (now, got.block.size)
            if not got.began_anew:
                kept.began_anew.pop(tail.path, None)
            turns.append(got)
        return self._round(kept, turns, over=over, now=now)

    def _began_anew_twice(self, kept: Kept, path: str, now: datetime) -> bool:
        """A file that begins anew under a live attempt is believed at the second look, when a
        newer listing still shows no next attempt."""
        first = kept.began_anew.setdefault(path, now)
        return first < now

    def _append(self, attempt: Attempt) -> bool:
        if attempt.append_output is not None:
            return attempt.append_output
        return bool(self._appends)

    def _round(self, kept: Kept, turns: list[Turn], *, over: bool, now: datetime) -> _Round:
        hits: list[Hit] = []
        unreadable: list[Unreadable] = []
        read = 0
        written: datetime | None = None
        for got in turns:
            if got.unreadable is not None:
                unreadable.append(got.unreadable)
            if got.block is None:
                continue
            read += len(got.block.data) + got.block.skipped_bytes
            if got.block.data:
                moment = datetime.fromtimestamp(got.block.modified_at, UTC)
                written = moment if written is None else max(written, moment)
                hits.extend(self._hits(got, kept.attempt))
        looked = self._looked_at.get(kept.attempt.id)
        if written is not None and looked is not None and now - looked < timedelta(seconds=60):
            # It was not there at the last look: whatever the file server's clock says.
            written = max(written, looked)
        at_end = all(got.tail.at_end for got in turns)
        batch = Batch(
            attempt=kept.attempt,
            hits=tuple(hits),
            output_at=None if written is None else min(written, now),
            unreadable=tuple(unreadable),
            drained=over and at_end,
            caught_up=at_end,
            readable=any(got.tail.cursor is not None and got.away is None for got in turns),
        )
        behind = not at_end and read > 0
        away = tuple(got.away for got in turns if got.away is not None)
        return _Round(tuple(got.tail for got in turns), batch, read, behind, away)

    def _hits(self, got: Turn, attempt: Attempt) -> list[Hit]:
        block = got.block
        if block is None:
            return []
        stream = got.stream
        allocation = frozenset(attempt.nodes)
        return [
            Hit(
                self._patterns[raw.pattern_id],
                stream,
                raw.offset,
                raw.line,
                raw.groups,
                got.tail.path,
                _written_at(block, raw.offset),
                _node_at(block, raw.offset, allocation),
            )
            for raw in self._scanner.scan(block.data, block.base_offset)
        ]

    def _aiming(self, kept: Kept, watch: Watch) -> DetectionState:
        """The state, with the step that the attempt before reached as far as known now."""
        state = watch.detection
        before = self._roster.before(kept)
        if before is None or state.resumed_step is not None:
            return state
        earlier = self._watch_of(before).detection
        reached = earlier.progress.last_step
        above = reached if reached is not None else earlier.resume_above
        return state if above == state.resume_above else replace(state, resume_above=above)

    def _left(self, kept: Kept) -> bool:
        """Whether an earlier attempt needs its files no more."""
        if not watched(kept.attempt):
            return True
        watch = self._watch_of(kept)
        return watch.closed or watch.detection.progress.log_drained_at is not None

    def _followed(self, kept: Kept) -> bool:
        """Whether the next attempt has begun, so that the files may be its files now."""
        follower = self._roster.after(kept)
        return kept.followed or (follower is not None and _has_run(follower.attempt))

    def _until(self, kept: Kept) -> datetime | None:
        """When the next attempt started, as far as its record tells."""
        follower = self._roster.after(kept)
        return None if follower is None else follower.attempt.started_at

    def _closes(self, kept: Kept, done: _Round, now: datetime) -> bool:
        """Whether nothing more will be read: over, read to the end, and no late line to wait for."""
        attempt = kept.attempt
        if attempt.live and self._roster.after(kept) is None:
            return False
        if not done.batch.drained and done.tails:
            return False
        if self._followed(kept):
            return True
        end = attempt.end
        waited = self._settings.late_lines_s
        return end is None or (now - end.learned_at).total_seconds() > waited

    # -- writing ---------------------------------------------------------------------------------

    def _write(
        self,
        kept: Kept,
        watch: Watch | None,
        found: tuple[Observation, ...],
        now: datetime,
        report: WatcherReport,
    ) -> None:
        """Everything that is new about one attempt, in one transaction."""
        attempt = kept.attempt
        signals = tuple(signal for one in found for signal in one.signals)
        changed = self._attempt_changed(kept)
        moved = watch is not None and (watch != kept.watch or kept.watch_version == 0)
        if not changed and not moved and not signals:
            return
        milestones = tuple(m for one in found for m in self._milestones(kept, one, now))
        states: tuple[WatchState, ...] = ()
        if watch is not None and moved:
            states = (WatchState(attempt.id, self._codec.encode(watch), kept.watch_version),)
        change = Change(
            now=now,
            attempts=(attempt,) if changed else (),
            watch=states,
            progress=tuple(one.progress for one in found) if moved else (),
            signals=signals,
            signal_cap=self._policy.signal_cap,
            milestones=milestones,
            audit=audit_of(attempt, kept.stored, now),
            about_signals=audit_of_signals(attempt, signals),
        )
        applied = self._store.apply(change)
        if changed:
            report.attempts_written += 1
            kept.attempt = kept.stored = replace(attempt, version=attempt.version + 1)
        if watch is not None and moved:
            kept.watch = watch
            kept.watch_version += 1
        report.signals_stored += len(applied.new_signals)
        report.signals_capped += applied.capped_signals
        report.resumed += len(milestones)
        fresh_keys = set(applied.new_signals)
        report.alarms += sum(
            signal.kind in _ALARMS or signal.severity is Severity.FATAL
            for signal in signals
            if signal.key in fresh_keys
        )

    def _attempt_changed(self, kept: Kept) -> bool:
        """Whether more than the time of the last sighting is new, or that is old."""
        stored, attempt = kept.stored, kept.attempt
        if stored is None:
            return True
        if replace(attempt, last_seen_at=stored.last_seen_at) != stored:
            return True
        age = (attempt.last_seen_at - stored.last_seen_at).total_seconds()
        return attempt.live and age >= self._settings.seen_every_s

    def _milestones(self, kept: Kept, found: Observation, now: datetime) -> tuple[Milestone, ...]:
        """That training went on beyond the fault, where a restart of ours was recorded."""
        before = self._roster.before(kept)
        if found.resumed is None or before is None:
            return ()
        advice = self._store.advice(before.attempt.id)
        if advice is None or advice.desired is not DesiredState.RESTARTED:
            return ()
        step, at = found.resumed
        return (resumed(advice.sequence_id, kept.attempt, step, at, now),)


def _said(error: Exception) -> str:
    """What went wrong, for people: a port says it itself, of anything else the kind is told."""
    return str(error) if isinstance(error, errors.PortError) else f"{type(error).__name__}: {error}"


def _written_at(block: Block, offset: int) -> datetime | None:
    """When the line at ``offset`` was written, where the block's source knows it."""
    at = bisect_right(block.times, offset, key=lambda entry: entry[0])
    return datetime.fromtimestamp(block.times[at - 1][1], UTC) if at else None


def _node_at(block: Block, offset: int, allocation: frozenset[str]) -> str:
    """The node that wrote the line at ``offset``, where the block's source knows it and it is one
    of the attempt's: a label is written by whoever ships lines, perhaps with the domain behind."""
    at = bisect_right(block.nodes, offset, key=lambda entry: entry[0])
    name = block.nodes[at - 1][1] if at else block.node
    if name in allocation:
        return name
    short = name.partition(".")[0]
    return short if short in allocation else ""


def _has_run(attempt: Attempt) -> bool:
    """Whether the attempt has started: before that nothing in its files can be its own."""
    return attempt.started_at is not None or attempt.state is JobState.RUNNING


def _reach(kept: Kept, tail: Tail, now: datetime, *, news: bool) -> int | None:
    """Where a file ends for an attempt that is over; ``news``: a listing of this tick shows no
    attempt after it that has begun. None at the first look after the end."""
    at, size = kept.sizes.get(tail.path, (now, 0))
    return size if news and at < now and tail.reach is not None else tail.reach


def _places(watch: Watch) -> dict[str, Cursor | None]:
    return {tail.path: place_left(tail) for tail in watch.tails}
