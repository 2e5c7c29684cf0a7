"""Files that are read again and again, kept open between two looks.

To open a stranger's file with the stranger's rights and to prove by digests that it is still the
file of the cursor costs many times what reading the few new lines costs. Both were done when the
file was opened; afterwards it is enough that its name still leads to the same file and that its
first bytes and those just before the place where we stopped are still there, the latter of which
come with the new ones in the same read. Now and then a file is opened and proved anew all the same.

A file that somebody deletes keeps its room on the disk for as long as we hold it: its name is looked
at before each read, and what is over is not kept.
"""

from __future__ import annotations

import hashlib
import os
import resource
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from middlewatch.ports.scanner import Cursor

HEAD = 1024
TAIL = 256
ANEW_AFTER = 64
"""Reads after which a file is opened and proved anew."""
_IDLE_ROUNDS = 4
_MOST = 32_768


def room_for_files() -> int:
    """How many files may be kept open: half of what this process may have, which is first raised
    as far as it may raise it by itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MOST if hard == resource.RLIM_INFINITY else min(hard, 2 * _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return _MOST if soft == resource.RLIM_INFINITY else min(soft // 2, _MOST)


@dataclass(slots=True)
class Held:
    """One open file. ``tail`` are the bytes just before the cursor's offset; ``head`` has digested
    the first `HEAD` bytes, where the cursor is behind them."""

    descriptor: int
    uid: int
    stream: str
    cursor: Cursor
    tail: bytes
    status: os.stat_result
    """As it was at the last read."""
    at_end: bool = False
    """Whether that read came to the file's end."""
    head: hashlib._Hash | None = None
    reads: int = 0
    last: int = 0

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.descriptor)

    def read(self, size: int) -> bytes | None:
        """The next ``size`` bytes; None where what stood before them has changed."""
        before = len(self.tail)
        data = os.pread(self.descriptor, size + before, self.cursor.offset - before)
        if not data.startswith(self.tail):
            return None
        # A file written anew may hold the same bytes there, if they are all alike.
        first = hashlib.sha256(os.pread(self.descriptor, self.cursor.head_length, 0))
        return data[before:] if digest(first, self.tail) == self.cursor.head else None

    def move(self, raw: bytes, offset: int, *, skipping: bool) -> Cursor:
        """The cursor at ``offset``, which lies in or just behind ``raw``, the bytes read last."""
        was = self.cursor
        self.tail = (self.tail + raw[: offset - was.offset])[-TAIL:]
        if was.offset < HEAD:
            self.head = None
        self.cursor = Cursor(
            path=was.path,
            device=was.device,
            inode=was.inode,
            offset=offset,
            head=digest(self._first(offset), self.tail),
            head_length=min(HEAD, offset),
            skipping=skipping,
        )
        return self.cursor

    def _first(self, offset: int) -> hashlib._Hash:
        """A digest of the file's first bytes, to be gone on with."""
        if self.head is None:
            self.head = hashlib.sha256(os.pread(self.descriptor, min(HEAD, offset), 0))
        return self.head.copy()


def digest(first: hashlib._Hash, tail: bytes) -> str:
    """What tells the bytes before a place from others, from their first and last ones."""
    first.update(b"\0")
    first.update(tail)
    return first.hexdigest()[:32]


class Holder:
    """At most ``most`` files kept open, by path, until they are no longer read. There is no use in
    closing one for another: all are read in turn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._reads = 0

    def take(self, path: str, uid: int, cursor: Cursor | None) -> Held | None:
        """The file, if it is held just where ``cursor`` is."""
        held = self._held.get(path)
        if held is None:
            return None
        if held.uid != uid or held.cursor != cursor or held.reads >= ANEW_AFTER:
            self.drop(path)
            return None
        held.reads += 1
        self._touch(path, held)
        return held

    def keep(self, path: str, held: Held) -> None:
        if path in self._held or len(self._held) < self._most:
            self._touch(path, held)

    def drop(self, path: str) -> None:
        self._held.pop(path, None)

    def _touch(self, path: str, held: Held) -> None:
        self._reads += 1
        held.last = self._reads
        self._held[path] = held
        self._held.move_to_end(path)
        oldest = next(iter(self._held.values()))
        if self._reads - oldest.last > _IDLE_ROUNDS * max(len(self._held), 64):
            self._held.popitem(last=False)
