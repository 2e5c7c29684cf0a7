"""What the watcher must find again after a restart, and what it may forget.

Cursor and detection state are one value, stored in the transaction that stores the signals which
came of moving them: a crash in between repeats the round with the same result, or has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from middlewatch.detection.batch import Batch
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState
from middlewatch.model.attempt import Attempt
from middlewatch.model.milestone import Milestone
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobView
from middlewatch.model.signal import Signal
from middlewatch.ports.scanner import Cursor


@dataclass(frozen=True, slots=True)
class Tail:
    """One output file of one attempt. ``guard`` is where the attempt before left the file: what
    stands there is not this attempt's. ``streams`` counts how often the file began anew."""

    path: str
    cursor: Cursor | None = None
    guard: Cursor | None = None
    streams: int = 0
    at_end: bool = False
    overwritten: bool = False
    """The next attempt began to write before this one's last lines were read."""
    reach: int | None = None
    """Of an attempt that is over: how long the file was when no next attempt had begun, by a
    listing that was asked for afterwards. What stands behind it may be another's."""


@dataclass(frozen=True, slots=True)
class Watch:
    """All that is kept of one attempt. ``closed``: nothing more will be read for it."""

    detection: DetectionState
    tails: tuple[Tail, ...] = ()
    closed: bool = False


class Codec(Protocol):
    """`Watch` to bytes and back. ``decode`` raises `Unreadable` for bytes that are none."""

    def encode(self, record: Watch) -> bytes: ...
    def decode(self, data: bytes) -> Watch: ...


@dataclass(slots=True)
class Calm:
    """That ``until`` then nothing is to be decided of an ``attempt`` that only prints, under this
    ``policy``. ``loops``: its lines are searched for loops of any kind, too."""

    until: datetime
    attempt: Attempt
    policy: Policy
    loops: bool


class Chatter(NamedTuple):
    """What was printed since the watch moved last, and means nothing: when last (``output_at``), by
    which round ``at``, and how far the files were read."""

    tails: tuple[Tail, ...]
    output_at: datetime
    at: datetime
    policy: Policy


@dataclass(slots=True)
class Kept:
    """One attempt in the watcher's own memory, with the versions that the store has of it."""

    attempt: Attempt
    watch: Watch | None = None
    watch_version: int = 0
    stored: Attempt | None = None
    """As the store has it; None where it has not been written yet."""
    unwritten: bool = False
    """The watch has moved since it was written."""
    signals: tuple[Signal, ...] = ()
    """Found and not written yet, as are ``milestones``."""
    milestones: tuple[Milestone, ...] = ()
    view: JobView | None = None
    """As the listing showed it last."""
    seen_at: datetime | None = None
    looked_at: datetime | None = None
    """When its files were last read to their end: younger bytes are younger."""
    node_list: str = ""
    detail_at: datetime | None = None
    detail_state: str = ""
    asked_at: datetime | None = None
    asked: int = 0
    began_anew: dict[str, datetime] = field(default_factory=dict)
    """Files seen to have begun anew, with the listing that was current then."""
    sizes: dict[str, tuple[datetime, int]] = field(default_factory=dict)
    """How long each file was at the last look, with the listing that was current then."""
    followed: bool = False
    """The listing showed a next attempt that has begun, whether or not it has a record yet."""
    missing_since: datetime | None = None
    block: int = 0
    """Bytes to read in the next turn; 0: nothing has been read yet."""
    calm: Calm | None = None
    chatter: Chatter | None = None

    @property
    def tails(self) -> tuple[Tail, ...]:
        """How far its files have been read."""
        if self.chatter is not None:
            return self.chatter.tails
        return () if self.watch is None else self.watch.tails

    def settle(self) -> None:
        """Bring the watch up to what was printed since it moved last."""
        chatter, watch = self.chatter, self.watch
        if chatter is None or watch is None:
            return
        self.chatter = None
        batch = Batch(self.attempt, output_at=chatter.output_at)
        found = observe(watch.detection, batch, chatter.at, chatter.policy)
        # Chatter brings none; whatever came all the same would have to be told.
        self.signals += found.signals
        self.watch = Watch(found.state, chatter.tails, watch.closed)
        self.unwritten = True
