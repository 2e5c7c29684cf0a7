"""Reading files whose paths strangers chose, and never twice, and never not at all.

A job's output path is written by its user, and we may run as root. So a path is opened without
following a last symbolic link, without waiting for a writer (a FIFO), without becoming anybody's
terminal, and is then judged by what was opened, not by what its name was a moment ago: a regular
file, with one name, that belongs to the job's user (or to us, where we are not root). As root we
open it with that user's rights, which is also what works on a file system that maps root to nobody.
A directory on the way may still be a link that its user swaps: what it leads to is opened with the
same rights and judged by the same rule, so nothing but a file of that same user can be reached.

A file is truncated, rotated, appended to by the next attempt, or holds one line of ten megabytes:
the cursor says where we were, in which file, and how its bytes began and ended, so that the same
place is recognised and another one is not taken for it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from dataclasses import replace

from middlewatch.adapters.logs.as_user import open_as
from middlewatch.adapters.logs.held import HEAD, TAIL, Held, Holder, digest
from middlewatch.ports.scanner import Block, CannotRead, Cursor

LONGEST_LINE = 1 << 20
"""Bytes of an unfinished line that are waited for; the rest of a longer one is skipped."""
LEAST_LIMIT = 1 << 16
MOST_LIMIT = 4 << 20
LATEST = 4_102_444_800.0
"""The year 2100: anybody may set any time on a file of their own."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY

_SENTENCES = {
    "symlink": "is a symbolic link; give the path of the file itself",
    "fifo": "is a FIFO; a job's output must be a regular file to be watched",
    "device": "is a device; a job's output must be a regular file to be watched",
    "socket": "is a socket; a job's output must be a regular file to be watched",
    "directory": "is a directory; a job's output must be a regular file to be watched",
    "hard_link": "has more than one name (hard links); a copy of its own can be watched",
    "not_owner": "belongs neither to the job's user nor to whoever may speak for them",
    "permission": "cannot be opened: permission denied",
    "not_absolute": "is not an absolute path; the scheduler did not say in which directory it is",
    "unreadable": "cannot be opened or read",
}


class FileLogs:
    """The log source port, for one thread. ``our_uid`` is whom we run as (0: root reads what its
    users own); ``hold`` how many files may be kept open between two looks."""

    def __init__(self, our_uid: int | None = None, *, hold: int = 256) -> None:
        self._our_uid = os.geteuid() if our_uid is None else our_uid
        self._holder = Holder(hold)

    def read(
        self,
        path: str,
        uid: int,
        cursor: Cursor | None,
        limit: int,
        *,
        final: bool = False,
        up_to: int | None = None,
    ) -> Block | CannotRead | None:
        """The next block of at most ``limit`` bytes (64 KiB to 4 MiB). Never blocks, never raises.

        With ``final`` an unfinished last line is given too; nothing from ``up_to`` on is given.
        """
        size = max(LEAST_LIMIT, min(limit, MOST_LIMIT))
        held = None if final or up_to is not None else self._holder.take(path, uid, cursor)
        if held is not None:
            with suppress(OSError):
                block = self._more(held, path, size)
                if block is not None:
                    return block
            self._holder.drop(path)
        opened = self._open(path, uid)
        if not isinstance(opened, int):
            return opened
        keep = False
        try:
            if cursor is not None and os.fstat(opened).st_ino != cursor.inode:
                rest = self._rotated_rest(path, uid, cursor, size)
                if rest is not None:
                    return rest
            block = _next_block(opened, path, cursor, size, final=final, up_to=up_to)
            keep = not final
            if keep:
                self._hold(opened, path, uid, block)
        except OSError as error:
            return _cannot(path, "unreadable", error)
        finally:
            if not keep:
                os.close(opened)
        return block

    def _hold(self, opened: int, path: str, uid: int, block: Block) -> None:
        before = min(TAIL, block.cursor.offset)
        tail = os.pread(opened, before, block.cursor.offset - before)
        status = os.fstat(opened)
        self._holder.keep(path, Held(opened, uid, block.stream, block.cursor, tail, status))

    def _more(self, held: Held, path: str, limit: int) -> Block | None:
        """What a file that is held has more by now; None where it has to be opened anew."""
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - pathlib's costs as much as the rest
        was, cursor = held.status, held.cursor
        if (
            (status.st_ino, status.st_dev, status.st_mode, status.st_uid, status.st_nlink)
            != (was.st_ino, was.st_dev, was.st_mode, was.st_uid, was.st_nlink)
            or status.st_size < cursor.offset
            or (status.st_size == was.st_size and status.st_mtime_ns != was.st_mtime_ns)
        ):
            return None
        held.status = status
        # Nobody can set the time at which an inode was changed: then nothing was written either.
        unchanged = (status.st_size, status.st_ctime_ns) == (was.st_size, was.st_ctime_ns)
        if unchanged and held.at_end:
            return _no_more(held)
        raw = held.read(min(limit, status.st_size - cursor.offset))
        if raw is None:
            return None
        at = cursor.offset
        at_end = held.at_end = at + len(raw) >= status.st_size or not raw
        data, at, skipping, skipped = _whole_lines(
            raw, at, cursor.skipping, at_end=at_end, final=False
        )
        after = at + len(data)
        if after != cursor.offset or skipping != cursor.skipping:
            cursor = held.move(raw, after, skipping=skipping)
        return Block(
            data=data,
            base_offset=at,
            stream=held.stream,
            cursor=cursor,
            restarted=False,
            at_end=at_end,
            skipped_bytes=skipped,
            modified_at=min(max(status.st_mtime, 0.0), LATEST),
            size=status.st_size,
        )

    def _rotated_rest(self, path: str, uid: int, cursor: Cursor, size: int) -> Block | None:
        """What was not read yet of a file that was renamed to ``path.1``, as log rotation does."""
        opened = self._open(f"{path}.1", uid)
        if not isinstance(opened, int):
            return None
        try:
            if not _same(opened, os.fstat(opened), cursor):
                return None
            block = _next_block(opened, path, cursor, size, final=True)
            return replace(block, at_end=False) if block.data or block.skipped_bytes else None
        finally:
            os.close(opened)

    def end(self, path: str, uid: int) -> Cursor | CannotRead | None:
        """A cursor behind the last whole line that the file has now."""
        opened = self._open(path, uid)
        if not isinstance(opened, int):
            return opened
        try:
            size = os.fstat(opened).st_size
            back = os.pread(opened, min(size, LEAST_LIMIT), max(0, size - LEAST_LIMIT))
            whole = max(back.rfind(b"\n"), back.rfind(b"\r")) + 1
            offset = size - len(back) + whole if whole else size
            return _cursor(opened, path, offset, skipping=not whole and size > 0)
        except OSError as error:
            return _cannot(path, "unreadable", error)
        finally:
            os.close(opened)

    def _open(self, path: str, uid: int) -> int | CannotRead | None:
        """A descriptor of a file that may be read for that user, or why not."""
        if not path.startswith("/") or "\0" in path:
            return _cannot(path, "not_absolute")
        try:
            if self._our_uid == 0 and uid > 0:
                opened = open_as(uid, path, _FLAGS)
            else:
                opened = os.open(path, _FLAGS)
        except OSError as error:
            return _refused(path, error)
        word = self._fault(os.fstat(opened), uid)
        if word is not None:
            os.close(opened)
            return _cannot(path, word)
        return opened

    def _fault(self, status: os.stat_result, uid: int) -> str | None:
        kind = _kind(status.st_mode)
        if kind is not None:
            return kind
        if status.st_nlink != 1:
            # Zero names: it was deleted while we opened it; the next look says so.
            return "hard_link" if status.st_nlink > 1 else "unreadable"
        if status.st_uid == uid or (self._our_uid != 0 and status.st_uid == self._our_uid):
            return None
        return "not_owner"


def _no_more(held: Held) -> Block:
    """What a file brings that is as it was when it had been read to its end."""
    return Block(
        data=b"",
        base_offset=held.cursor.offset,
        stream=held.stream,
        cursor=held.cursor,
        restarted=False,
        at_end=True,
        modified_at=min(max(held.status.st_mtime, 0.0), LATEST),
        size=held.status.st_size,
    )


def _kind(mode: int) -> str | None:
    """The word for what is no regular file."""
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISFIFO(mode):
        return "fifo"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device"


def _refused(path: str, error: OSError) -> CannotRead | None:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return None
        case errno.ELOOP | errno.EMLINK:
            return _cannot(path, "symlink", error)
        case errno.ENXIO:
            return _cannot(path, "socket", error)
        case errno.EACCES | errno.EPERM:
            return _cannot(path, "permission", error)
        case errno.ENODEV:
            return _cannot(path, "device", error)
        case _:
            return _cannot(path, "unreadable", error)


def _cannot(path: str, word: str, error: OSError | None = None) -> CannotRead:
    why = f" ({error.strerror})" if error is not None and word == "unreadable" else ""
    return CannotRead(path, f"{path} {_SENTENCES[word]}{why}", word)


def _next_block(
    opened: int,
    path: str,
    cursor: Cursor | None,
    limit: int,
    *,
    final: bool,
    up_to: int | None = None,
) -> Block:
    status = os.fstat(opened)
    restarted = cursor is not None and not _same(opened, status, cursor)
    at = 0 if cursor is None or restarted else cursor.offset
    skipping = cursor is not None and not restarted and cursor.skipping
    ends = status.st_size if up_to is None or restarted else min(status.st_size, up_to)
    data = os.pread(opened, min(limit, max(0, ends - at)), at)
    read_to = at + len(data)
    at_end = read_to >= ends or not data
    data, at, skipping, skipped = _whole_lines(data, at, skipping, at_end=at_end, final=final)
    after = at + len(data)
    moved = _cursor(opened, path, after, skipping=skipping)
    return Block(
        data=data,
        base_offset=at,
        stream=f"{status.st_dev:x}:{status.st_ino:x}",
        cursor=moved,
        restarted=restarted,
        at_end=at_end,
        skipped_bytes=skipped,
        modified_at=min(max(status.st_mtime, 0.0), LATEST),
        size=status.st_size,
    )


def _whole_lines(
    data: bytes, at: int, skipping: bool, *, at_end: bool, final: bool
) -> tuple[bytes, int, bool, int]:
    """(whole lines, their offset, whether an over-long line goes on, bytes skipped)."""
    skipped = 0
    if skipping:
        line_end = _first_end(data)
        if line_end < 0:
            return b"", at + len(data), not (final and at_end), len(data)
        skipped = line_end + 1
        data, at = data[skipped:], at + skipped
    last = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    if final and at_end:
        return data, at, False, skipped
    if last == 0 and len(data) >= LEAST_LIMIT and (len(data) >= LONGEST_LINE or not at_end):
        # One line fills the block: its beginning is given (it can be scanned), its rest skipped.
        return data, at, True, skipped
    return data[:last], at, False, skipped


def _first_end(data: bytes) -> int:
    ends = [place for place in (data.find(b"\n"), data.find(b"\r")) if place >= 0]
    return min(ends, default=-1)


def _same(opened: int, status: os.stat_result, cursor: Cursor) -> bool:
    """Whether the file is the one of the cursor, and still holds the bytes read from it."""
    if (status.st_dev, status.st_ino) != (cursor.device, cursor.inode):
        return False
    if status.st_size < cursor.offset:
        return False
    now = _digest(opened, cursor.offset, cursor.head_length)
    return now == cursor.head


def _cursor(opened: int, path: str, offset: int, *, skipping: bool) -> Cursor:
    status = os.fstat(opened)
    length = min(HEAD, offset)
    return Cursor(
        path=path,
        device=status.st_dev,
        inode=status.st_ino,
        offset=offset,
        head=_digest(opened, offset, length),
        head_length=length,
        skipping=skipping,
    )


def _digest(opened: int, offset: int, head_length: int) -> str:
    """What tells the bytes before ``offset`` from others: a digest of their first and last ones."""
    tail = min(TAIL, offset)
    first = hashlib.sha256(os.pread(opened, head_length, 0))
    return digest(first, os.pread(opened, tail, offset - tail))
