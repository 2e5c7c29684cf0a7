"""Finding the lines that matter in raw bytes, and where those bytes come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RawHit:
    """One line that one pattern matched. ``offset`` is the byte offset of the line's start in
    the scanned stream; ``line`` its text without the line end (bad UTF-8 replaced, at most
    4,096 characters); ``groups`` the pattern's named groups that took part."""

    pattern_id: str
    offset: int
    line: str
    groups: tuple[tuple[str, str], ...]


class Scanner(Protocol):
    def scan(self, block: bytes, base_offset: int) -> Sequence[RawHit]:
        """Hits in a block of whole lines, in order. Never raises for any bytes."""


OWN_PROGRESS = "job.progress"
"""The id of the progress pattern that somebody gave for one job."""


class OwnPatterns(Protocol):
    """Progress patterns that people give for single jobs: by their text, within limits."""

    def refused(self, regex: str) -> str:
        """Why this one will not do and how to mend it; empty where it will."""

    def scan(self, regex: str, block: bytes, base_offset: int) -> Sequence[RawHit]:
        """Its hits, as `Scanner.scan` gives them, under the id `OWN_PROGRESS`; none where it will
        not do. Never raises for any bytes."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far one file has been read. ``device``/``inode`` tell a rotated file from the same
    one; ``head`` is a digest of its first bytes, which tells a truncated and rewritten one."""

    path: str
    device: int
    inode: int
    offset: int
    head: str
    head_length: int = 0
    skipping: bool = False
    """Inside an over-long line whose rest is skipped."""
    token: str = ""
    """The place in a log store, as its adapter writes it; empty for files."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines read from a file, and the cursor after them. ``restarted`` says that the file
    was truncated or replaced, so that ``base_offset`` counts in a new stream: ``stream`` names
    it. ``at_end`` says that nothing more was there to read."""

    data: bytes
    base_offset: int
    stream: str
    cursor: Cursor
    restarted: bool
    at_end: bool
    skipped_bytes: int = 0
    modified_at: float = 0.0
    """The file's modification time, or the newest line's, seconds since the epoch."""
    times: tuple[tuple[int, float], ...] = ()
    """Where the source itself knows when lines were written: (offset of a line's start, seconds
    since the epoch), ascending by offset; a line without an entry has the one before it."""
    node: str = ""
    """The node that wrote these lines, where the source itself knows it."""
    nodes: tuple[tuple[int, str], ...] = ()
    """The same where lines of several nodes stand in one block: (offset of a line's start, node),
    ascending by offset; a line without an entry has the one before it."""
    lost: int = 0
    """Lines that the source was found to have and that can no more be told from those given."""
    size: int = 0
    """How long the file was at this look, read or not; 0 where the source has no such length."""


@dataclass(frozen=True, slots=True)
class CannotRead:
    """Why a file must not or cannot be read: a sentence for its user, and a stable word.
    ``away``: whoever keeps the lines does not answer now; what is there stays unknown."""

    path: str
    reason: str
    word: str
    away: bool = False


class Neighbours(Protocol):
    """What others than a job write where its lines are kept: a collector or a store that stands
    still silences them all."""

    def others(
        self, path: str, since: datetime, until: datetime, enough: int, *, near: bool
    ) -> int | None:
        """How many lines, ``enough`` at most, others than the place's job wrote in [``since``,
        ``until``), whole seconds: on the nodes that wrote its own lines (``near``), or anywhere. None
        where that cannot be told. Never raises."""


class LogSource(Protocol):
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
        """The next block behind ``cursor`` of a file that the user with ``uid`` owns; None where
        it does not exist (yet). With ``final`` an unfinished last line is given too. With
        ``up_to`` a file is read as if it ended at that offset; other sources pass over it."""

    def end(self, path: str, uid: int) -> Cursor | CannotRead | None:
        """A cursor behind the last whole line that the file has now: where the next attempt's
        output begins when a file is appended to."""
