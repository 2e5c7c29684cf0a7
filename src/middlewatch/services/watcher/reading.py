"""One attempt's turn: the watch that is kept of it, its files, and the lines in them that matter.

What was read and what it means are two things: a round says what the files brought, the fold
(`detection`) says what is known now. Nothing here writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from middlewatch.detection.batch import Batch, Hit, Unreadable
from middlewatch.detection.progress import any_loop
from middlewatch.detection.state import DetectionState, aim, came_to, fresh
from middlewatch.model.attempt import Attempt
from middlewatch.model.copies import replace
from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.model.scheduler import JobState
from middlewatch.model.steps import furthest_of
from middlewatch.ports import errors
from middlewatch.ports.scanner import (
    OWN_PROGRESS,
    Block,
    CannotRead,
    Cursor,
    LogSource,
    OwnPatterns,
    RawHit,
    Scanner,
)
from middlewatch.ports.store import Store
from middlewatch.services.watcher.memory import Codec, Kept, Tail, Watch
from middlewatch.services.watcher.roster import Roster, watched
from middlewatch.services.watcher.settings import WatcherSettings
from middlewatch.services.watcher.tails import (
    Circumstances,
    Turn,
    kept_by_store,
    place_left,
    turn,
)

_WAITS = Unreadable(
    "",
    "waits",
    "the log of the attempt before it could not be read to its end yet: until then nothing is read "
    "of this one, for its steps are told by that one's",
    away=True,
)
FRESH = timedelta(seconds=60)
Got = Block | CannotRead | None
"""What a file brought."""
_OWN = Pattern(OWN_PROGRESS, PatternKind.PROGRESS, "", source="the job's comment")


class Round(NamedTuple):
    """What one turn over the files of one attempt brought."""

    tails: tuple[Tail, ...]
    batch: Batch
    bytes_read: int
    behind: bool
    away: tuple[str, ...] = ()
    """Why those who keep the lines could not be asked."""
    lines: int = 0
    errors: int = 0
    """Looks at a file or a place that brought nothing because of an error."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An attempt that is not read to its end: since when, and how many bytes of files are left."""

    since: datetime
    bytes: int


class Reader:
    """Reads the attempts of one roster. ``appends``: whether output is appended where nobody says
    otherwise, as the scheduler is set up."""

    def __init__(
        self,
        *,
        store: Store,
        logs: LogSource,
        scanner: Scanner,
        loops: Scanner | None = None,
        patterns: Mapping[str, Pattern],
        codec: Codec,
        roster: Roster,
        settings: WatcherSettings,
        places: Callable[[Attempt], tuple[str, ...]],
        own: OwnPatterns | None = None,
    ) -> None:
        self._store = store
        self._logs = logs
        self._scanner = scanner
        self._loops = loops
        self._patterns = patterns
        self._codec = codec
        self._roster = roster
        self._settings = settings
        self._places_of = places
        self._own = own
        self.appends: bool | None = None
        self._searched: tuple[Block, Attempt, bool, Sequence[RawHit]] | None = None
        """What a block was found to hold just now, for whom, and whether loops were looked for."""

    def watch_of(self, kept: Kept) -> Watch:
        """The attempt's watch: from memory, from the store, or begun."""
        kept.settle()
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
        left = {} if before is None else _places(self.watch_of(before))
        tails.extend(Tail(path, guard=left.get(path)) for path in new)
        return replace(watch, tails=tuple(tails))

    def read(
        self,
        kept: Kept,
        watch: Watch,
        now: datetime,
        *,
        files: bool,
        seen: bool,
        already: Mapping[str, Got] | None = None,
    ) -> Round:
        """``already`` has what was just read of its files, by path."""
        attempt, read_already = kept.attempt, already or {}
        before = self._roster.before(kept)
        blocked = before is not None and not self._left(before)
        if not files or not watch.tails or not _has_run(attempt) or blocked:
            drained = files and not blocked and not attempt.live and not watch.tails
            quiet = Batch(attempt, drained=drained, caught_up=False)
            if files and blocked and attempt.live and _has_run(attempt):
                quiet = replace(quiet, caught_up=True, readable=False, unreadable=(_WAITS,))
            return Round(watch.tails, quiet, 0, behind=not files and not watch.closed)
        followed = self._followed(kept)
        over = not attempt.live or self._roster.after(kept) is not None
        turns: list[Turn] = []
        for tail in watch.tails:
            if followed and tail.at_end and not kept_by_store(tail.path):
                # What is written there from now on is the next attempt's.
                turns.append(Turn(tail))
                continue
            around = Circumstances(
                over=over,
                followed=followed,
                may_begin_anew=self._began_anew_twice(kept, tail.path, now) and seen,
                append=self._append(attempt),
                block=kept.block or self._settings.first_block,
                reach=_reach(kept, tail, now, news=seen and not followed) if over else None,
                until=self._until(kept) if followed else None,
            )
            logs = self._logs
            if tail.path in read_already:
                logs = _Already(logs, read_already[tail.path])
            got = turn(logs, attempt, tail, around, settings=self._settings, now=now)
            if got.block is not None and got.block.size:
                kept.sizes[tail.path] = (now, got.block.size)
            if not got.began_anew:
                kept.began_anew.pop(tail.path, None)
            turns.append(got)
        return self._round(kept, turns, watch, over=over, now=now)

    def _began_anew_twice(self, kept: Kept, path: str, now: datetime) -> bool:
        """A file that begins anew under a live attempt is believed at the second look, when a
        newer listing still shows no next attempt."""
        first = kept.began_anew.setdefault(path, now)
        return first < now

    def _append(self, attempt: Attempt) -> bool:
        if attempt.append_output is not None:
            return attempt.append_output
        return bool(self.appends)

    def _round(
        self, kept: Kept, turns: list[Turn], watch: Watch, *, over: bool, now: datetime
    ) -> Round:
        loops = any_loop(watch.detection)
        hits: list[Hit] = []
        unreadable: list[Unreadable] = []
        read = lines = lost = 0
        for got in turns:
            if got.unreadable is not None:
                unreadable.append(got.unreadable)
            if got.block is None:
                continue
            read += len(got.block.data) + got.block.skipped_bytes
            lines += got.block.data.count(b"\n")
            lost += got.block.lost
            if got.block.data:
                hits.extend(self._hits(got, kept.attempt, loops=loops))
        failed = len(unreadable)
        unreadable.extend(self._refused(kept.attempt))
        blocks = (got.block for got in turns if got.block is not None)
        written = written_at_last(blocks, kept.looked_at, now)
        at_end = all(got.tail.at_end for got in turns)
        away = tuple(got.away for got in turns if got.away is not None)
        batch = Batch(
            attempt=kept.attempt,
            hits=tuple(hits),
            output_at=None if written is None else min(written, now),
            unreadable=tuple(unreadable),
            drained=over and at_end,
            # Whoever is away was asked: that nothing is seen is a fact, and says nothing of the job.
            caught_up=all(got.tail.at_end or got.away is not None for got in turns),
            readable=not away and _all_read(turns),
            lost=lost,
        )
        behind = not at_end and read > 0
        tails = tuple(got.tail for got in turns)
        return Round(tails, batch, read, behind, away, lines, failed)

    def has_others(self, kept: Kept) -> bool:
        """Whether other attempts of its job are known, whose files may be the same."""
        return len(self._roster.by_job().get(kept.attempt.job_id, ())) > 1

    def has_its_own(self, kept: Kept, watch: Watch) -> bool:
        """Whether all its files are known and nobody else's, and nothing is wrong with what its
        owner wished for."""
        known = {tail.path for tail in watch.tails}
        if self.has_others(kept) or kept.followed:
            return False
        return known.issuperset(self._places_of(kept.attempt)) and not self._refused(kept.attempt)

    def finds(self, block: Block, attempt: Attempt, *, loops: bool) -> bool:
        """Whether any line of the block matters; what does is kept for the turn that follows."""
        found = self._search(block, attempt, loops=loops)
        self._searched = (block, attempt, loops, found) if found else None
        return bool(found)

    def _hits(self, got: Turn, attempt: Attempt, *, loops: bool) -> list[Hit]:
        block = got.block
        if block is None:
            return []
        found = self._found(block, attempt, loops=loops)
        if not found:
            return []
        stream = got.stream
        allocation = frozenset(attempt.nodes)
        return [
            Hit(
                _OWN if raw.pattern_id == OWN_PROGRESS else self._patterns[raw.pattern_id],
                stream,
                raw.offset,
                raw.line,
                raw.groups,
                got.tail.path,
                _written_at(block, raw.offset),
                _node_at(block, raw.offset, allocation),
            )
            for raw in found
        ]

    def _found(self, block: Block, attempt: Attempt, *, loops: bool) -> Sequence[RawHit]:
        searched, self._searched = self._searched, None
        if searched is not None:
            of, whose, how, found = searched
            if of is block and whose is attempt and how == loops:
                return found
        return self._search(block, attempt, loops=loops)

    def _search(self, block: Block, attempt: Attempt, *, loops: bool) -> Sequence[RawHit]:
        """The hits of our patterns, and of the one that the job's owner gave; of those for loops of
        any kind where no better one has found steps."""
        found = self._scanner.scan(block.data, block.base_offset)
        given = attempt.opt_in.progress
        more: list[RawHit] = []
        if given and self._own is not None:
            more.extend(self._own.scan(given, block.data, block.base_offset))
        elif loops and self._loops is not None:
            more.extend(self._loops.scan(block.data, block.base_offset))
        return sorted((*found, *more), key=lambda raw: raw.offset) if more else found

    def _refused(self, attempt: Attempt) -> tuple[Unreadable, ...]:
        """What is wrong with the pattern that the job's owner gave: said, and no more."""
        given = attempt.opt_in.progress
        why = self._own.refused(given) if given and self._own is not None else ""
        return (Unreadable("comment", "progress_pattern", why),) if why else ()

    def aiming(self, kept: Kept, watch: Watch) -> DetectionState:
        """The state, with the step that the attempt before reached as far as known now."""
        state = watch.detection
        before = self._roster.before(kept)
        if before is None or state.resumed_step is not None:
            return state
        earlier = self.watch_of(before).detection
        # What was lost before and not passed since is lost still.
        lost = furthest_of(aim(earlier), came_to(earlier))
        by, epochs_from = earlier.resume_by, earlier.epochs_from
        if came_to(earlier).step is not None:
            by = earlier.counter.rank if by is None else max(by, earlier.counter.rank)
        if earlier.counter.per_epoch is not None:
            epochs_from = earlier.counter.first_epoch
        if (lost, by, epochs_from) == (aim(state), state.resume_by, state.epochs_from):
            return state
        return replace(
            state,
            resume_above=lost.step,
            resume_of=lost.of,
            resume_by=by,
            epochs_from=epochs_from,
        )

    def _left(self, kept: Kept) -> bool:
        """Whether an earlier attempt needs its files no more."""
        if not watched(kept.attempt):
            return True
        watch = self.watch_of(kept)
        return watch.closed or watch.detection.progress.log_drained_at is not None

    def _followed(self, kept: Kept) -> bool:
        """Whether the next attempt has begun, so that the files may be its files now."""
        follower = self._roster.after(kept)
        return kept.followed or (follower is not None and _has_run(follower.attempt))

    def _until(self, kept: Kept) -> datetime | None:
        """When the next attempt started, as far as its record tells."""
        follower = self._roster.after(kept)
        return None if follower is None else follower.attempt.started_at

    def closes(self, kept: Kept, done: Round, now: datetime) -> bool:
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


class _Already:
    """Implements `LogSource` for a file whose next block is there already."""

    def __init__(self, logs: LogSource, got: Got) -> None:
        self._logs = logs
        self._got = got

    def read(
        self,
        path: str,
        uid: int,
        cursor: Cursor | None,
        limit: int,
        *,
        final: bool = False,
        up_to: int | None = None,
    ) -> Got:
        return self._got

    def end(self, path: str, uid: int) -> Cursor | CannotRead | None:
        return self._logs.end(path, uid)


def written_at_last(
    blocks: Iterable[Block], looked: datetime | None, now: datetime
) -> datetime | None:
    """When the newest of what was read was written; None where nothing was read. ``looked`` is when
    the files were read to their end before."""
    latest = max((block.modified_at for block in blocks if block.data), default=None)
    if latest is None:
        return None
    written = datetime.fromtimestamp(latest, UTC)
    if looked is not None and now - looked < FRESH:
        # It was not there at the last look: whatever the file server's clock says.
        return max(written, looked)
    return written


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


def _all_read(turns: Sequence[Turn]) -> bool:
    """Whether what is known of the attempt's output could be looked at: a file that was read before
    and is gone, or refused now, may be the one that tells of steps."""
    looked = [got.block is not None or got.began_anew for got in turns]
    known = [got.tail.cursor is not None for got in turns]
    return any(looked) and all(here or not was for here, was in zip(looked, known, strict=True))


def _reach(kept: Kept, tail: Tail, now: datetime, *, news: bool) -> int | None:
    """Where a file ends for an attempt that is over; ``news``: a listing of this tick shows no
    attempt after it that has begun. None at the first look after the end."""
    at, size = kept.sizes.get(tail.path, (now, 0))
    return size if news and at < now and tail.reach is not None else tail.reach


def waiting(kept: Kept, tails: Sequence[Tail], now: datetime) -> Waiting:
    """How long an attempt has not been read to its end, and how much of its files is left."""
    attempt = kept.attempt
    since = kept.looked_at or attempt.started_at or attempt.first_seen_at
    sizes = (
        (kept.sizes[tail.path][1], tail.cursor.offset if tail.cursor is not None else 0)
        for tail in tails
        if tail.path in kept.sizes
    )
    return Waiting(min(since, now), sum(max(0, size - offset) for size, offset in sizes))


def _places(watch: Watch) -> dict[str, Cursor | None]:
    return {tail.path: place_left(tail) for tail in watch.tails}
