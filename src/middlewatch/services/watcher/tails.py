"""Which bytes of a file are an attempt's own.

The next attempt of a job writes to the same path. By default it truncates the file, some moments
after the scheduler calls it running; with append mode it goes on where the one before ended; and
processes of the one before may still be writing. So an attempt's stream begins where the file
proves to be new, or behind the place at which the attempt before was left, and it ends when that
attempt is over and read, or when the next one has begun.

That the next one has not begun is known of the past only: it may have begun to write since the
listing that did not show it. The look that follows upon an attempt's end takes what is there, for
nothing is started again within a tick; what comes later is late, and belongs to the ended attempt
only as far as the file reached before a listing that still shows no other. Between that place and
the first line of the next attempt nobody can tell the two apart: it goes to the next one. Where
nobody watched while one attempt ended and the next began, an appended file does not say where.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from middlewatch.detection.batch import Unreadable
from middlewatch.model.attempt import Attempt
from middlewatch.model.copies import replace
from middlewatch.ports.scanner import Block, CannotRead, Cursor, LogSource
from middlewatch.services.watcher.memory import Tail
from middlewatch.services.watcher.settings import WatcherSettings


class Turn(NamedTuple):
    """What one look at one file brought. ``block`` is None where nothing of it is the attempt's."""

    tail: Tail
    block: Block | None = None
    unreadable: Unreadable | None = None
    began_anew: bool = False
    away: str | None = None
    """Why whoever keeps the lines could not be asked."""

    @property
    def stream(self) -> str:
        """The name of the byte stream: the file, and how often it began anew."""
        name = self.block.stream if self.block is not None else self.tail.path
        return f"{name}#{self.tail.streams}"


class Circumstances(NamedTuple):
    """``over``: the attempt has ended or was followed. ``followed``: the next one has started, so
    that the file may be its file now. ``may_begin_anew``: a file that begins anew can only be
    this attempt's doing. ``append``: the next attempt's output goes behind this one's.
    ``block``: bytes to read. ``reach``: where the file ends for an attempt that is over; None:
    where it ends now."""

    over: bool
    followed: bool
    may_begin_anew: bool
    append: bool
    block: int
    until: datetime | None = None
    """When the next attempt started, where it has."""
    reach: int | None = None


def turn(
    logs: LogSource,
    attempt: Attempt,
    tail: Tail,
    around: Circumstances,
    *,
    settings: WatcherSettings,
    now: datetime,
) -> Turn:
    """Read the next block of one file, if it is this attempt's to read."""
    if kept_by_store(tail.path):
        return _stored(logs, attempt, tail, around)
    if tail.cursor is None:
        return _first(logs, attempt, tail, around, settings=settings, now=now)
    got = _read(logs, attempt, tail, around)
    if not isinstance(got, Block):
        return _nothing(tail, got)
    if got.restarted:
        if around.over:
            # Our last lines were overwritten before we came: what stands there is the next one's.
            return Turn(replace(tail, at_end=True, overwritten=True))
        if not around.may_begin_anew:
            return Turn(tail, began_anew=True)
        tail = replace(tail, streams=tail.streams + 1)
    return _taken(tail, got, around)


def _read(
    logs: LogSource,
    attempt: Attempt,
    tail: Tail,
    around: Circumstances,
) -> Block | CannotRead | None:
    return logs.read(
        tail.path,
        attempt.uid,
        tail.cursor or tail.guard,
        around.block,
        final=around.over,
        up_to=around.reach,
    )


def kept_by_store(path: str) -> bool:
    """Whether a place is one in a log store: ``victorialogs://…``; a file's begins with ``/``."""
    return "://" in path


def _stored(
    logs: LogSource,
    attempt: Attempt,
    tail: Tail,
    around: Circumstances,
) -> Turn:
    """A store keeps the lines of all attempts: they are told apart by their times alone."""
    path = tail.path
    if around.until is not None:
        path = f"{path}&until={around.until.timestamp():.0f}"
    got = logs.read(path, attempt.uid, tail.cursor, around.block, final=around.over)
    if isinstance(got, Block):
        return _taken(tail, got, around)
    if isinstance(got, CannotRead) and got.away:
        unreadable = Unreadable(tail.path, got.word, got.reason, away=True)
        return Turn(replace(tail, at_end=False), unreadable=unreadable, away=got.reason)
    return _nothing(tail, got)


def _first(
    logs: LogSource,
    attempt: Attempt,
    tail: Tail,
    around: Circumstances,
    *,
    settings: WatcherSettings,
    now: datetime,
) -> Turn:
    guard = tail.guard
    if around.followed:
        # Never read while it was ours; what stands there now is the next attempt's.
        return Turn(replace(tail, at_end=True, overwritten=True))
    if guard is None and around.append and not _named_after(tail.path, attempt):
        # Whose lines stand there nobody can tell; ours come behind them.
        end = logs.end(tail.path, attempt.uid)
        if isinstance(end, Cursor):
            return Turn(replace(tail, cursor=end))
        return _nothing(tail, end)
    got = _read(logs, attempt, tail, around)
    if not isinstance(got, Block):
        return _nothing(tail, got)
    started = attempt.started_at
    if guard is not None and not got.restarted:
        waited = around.over or (
            started is not None and (now - started).total_seconds() >= settings.append_proof_s
        )
        appended = around.append or (waited and _proves_append(got, started, settings))
        if not appended and waited and _written_again(got, started):
            tail = replace(tail, guard=None)
            again = _read(logs, attempt, tail, around)
            return (
                _taken(tail, again, around) if isinstance(again, Block) else _nothing(tail, again)
            )
        if not appended and not around.over:
            return Turn(tail)
        if not appended:
            return Turn(replace(tail, at_end=True))
    elif guard is None and started is not None and not around.over:
        written = datetime.fromtimestamp(got.modified_at, UTC)
        older = (started - written).total_seconds() > settings.clock_skew_s
        if older and (now - started).total_seconds() < settings.stale_file_s:
            # The file of somebody before: Slurm has not truncated it yet.
            return Turn(tail)
    return _taken(replace(tail, guard=None), got, around)


def _proves_append(block: Block, started: datetime | None, settings: WatcherSettings) -> bool:
    """Something stands behind the place at which the attempt before was left, was written after
    this one started, and the file was not truncated: it is being appended to."""
    if started is None or not block.data:
        return False
    written = datetime.fromtimestamp(block.modified_at, UTC)
    return (started - written).total_seconds() <= settings.clock_skew_s


def _written_again(block: Block, started: datetime | None) -> bool:
    """The file is to the byte what the attempt before left, and was written after this one started:
    a program that fails in the same words each time, and prints no time."""
    if started is None or block.data or not block.at_end:
        return False
    return datetime.fromtimestamp(block.modified_at, UTC) >= started


def _named_after(path: str, attempt: Attempt) -> bool:
    """Whether the file can hold nothing but this attempt's output: the job's number is in its
    name, and it is the job's first attempt."""
    if attempt.attempt_index > 0:
        return False
    number = attempt.job_id.partition("_")[0]
    digits = "".join(c if c.isdigit() else " " for c in PurePosixPath(path).name).split()
    return number in digits


def _taken(tail: Tail, block: Block, around: Circumstances) -> Turn:
    reach = around.reach if around.reach is not None else block.size or None
    # Every file of every job comes through here in every round: `replace` costs five times this.
    tail = Tail(
        path=tail.path,
        cursor=block.cursor,
        guard=tail.guard,
        streams=tail.streams,
        at_end=block.at_end,
        overwritten=tail.overwritten,
        reach=reach if around.over else None,
    )
    return Turn(tail, block)


def _nothing(tail: Tail, got: CannotRead | None) -> Turn:
    """No file, or none that may be read: nothing more can come of it now."""
    tail = replace(tail, at_end=True)
    if got is None:
        return Turn(tail)
    return Turn(tail, unreadable=Unreadable(got.path, got.word, got.reason))


def place_left(tail: Tail) -> Cursor | None:
    """Where the next attempt's reader has to begin looking; None where nothing was read."""
    cursor = tail.cursor or tail.guard
    return cursor if cursor is not None and cursor.offset > 0 else None
