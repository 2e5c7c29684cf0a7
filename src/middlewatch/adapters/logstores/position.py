"""Neither losing nor repeating a line of a store that numbers none of them.

A log store sorts by the time that the writer gave. What arrives late is filed under its old time,
behind the reader's back; of one nanosecond there can be many lines; and two equal lines are two
lines. So a place in a store is more than a time:

* for each writer (a node and a file there) the newest time that was delivered: a collector ships
  one file in its order, so whatever is newer is new, however late the whole file comes (and a
  writer who lags behind the others is read by himself, from where he was left);
* for the last while, the marks (40-bit digests) of the lines themselves: order within a writer may
  be disturbed as far back as they reach (``floor``); behind it nobody can tell a line that was
  delivered from one that was not, and it counts as delivered;
* how many lines of each writer were delivered in the last two hours: a store that has more of them
  has something that we have not seen.

The marks are bounded: by age, by number in memory, and by a smaller number in the token that
outlives the process. Whatever has the newest time of its writer keeps its mark in any case.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from middlewatch.adapters.logstores.lines import Line, Writer
from middlewatch.adapters.logstores.place import SECOND
from middlewatch.ports.errors import Unreadable

SETTLE = 2 * SECOND
"""How far back every round reads again: stores make lines visible out of order by about this."""
NEAR = 10 * SECOND
"""How far back a round reads again for writers that lag behind the others."""
ACTIVE = 60 * SECOND
WINDOW = 600 * SECOND
"""How old marks become, beside the newest line of their writer. They are few: what bounds them is
their number, but for writers who say little."""
RECENT = 5 * SECOND
HOUR = 3600 * SECOND
KEPT = 600
"""Marks in a token."""
HELD = 20_000
"""Marks in memory, while they are younger than ``RECENT``; of older ones ``KEPT``."""
WRITERS = 1000
"""Writers of one place that are told apart; further ones share sixty-four entries."""
AT_ONCE = 32
"""Writers that are looked after at one time."""
_MARK = 5
_VERSION = 1


class Fresh(NamedTuple):
    """A line that was not delivered before; ``copy`` counts equal ones of the same moment."""

    line: Line
    copy: int


@dataclass(slots=True)
class _Stream:
    newest: int
    floor: int
    order: list[tuple[int, int]] = field(default_factory=list)
    """(time, mark) of delivered lines, ascending: all of those at or after ``floor``."""
    seen: set[int] = field(default_factory=set)
    hours: dict[int, int] = field(default_factory=dict)


class Position:
    """What of one place has been delivered. Not for several threads."""

    def __init__(self, since: int) -> None:
        self._since = since
        self._streams: dict[int, _Stream] = {}
        self._keys: dict[Writer, int] = {}
        self._newest = -1
        self._given_up: dict[int, int] = {}
        self._given_up_from = -1

    @property
    def newest(self) -> int:
        """The newest time that was delivered; -1 where nothing was."""
        return self._newest

    def start(self, now: int) -> int:
        """Where a round over all writers has to begin."""
        if self._newest < 0:
            return self._since
        newest = min(self._newest, now)
        active = [s.newest for s in self._streams.values() if newest - ACTIVE <= s.newest]
        slowest = max(min(active, default=newest), newest - NEAR)
        return max(self._since, min(slowest, newest - SETTLE))

    def counted_from(self, now: int) -> int:
        """From which time on delivered lines are counted: a whole hour, or the place's own start."""
        newest = min(max(self._newest, self._since), now)
        return max(self._since, (newest // HOUR - 1) * HOUR)

    def unseen(self, lines: Sequence[Line]) -> list[Fresh]:
        """Those of ``lines`` that were not delivered, in their order. ``lines`` must hold every
        line of each moment that they hold one of, but for the last moment."""
        found: list[Fresh] = []
        copies: dict[tuple[int, bytes], int] = {}
        moment = -1
        for line in lines:
            at, writer, text = line
            if at != moment:
                moment = at
                copies.clear()
            key = self._key(writer)
            copy = copies.get((key, text), 0)
            copies[key, text] = copy + 1
            stream = self._streams.get(key)
            if stream is None:
                known = at < self._since
            elif at > stream.newest:
                known = False
            else:
                known = at < stream.floor or _mark(at, text, copy) in stream.seen
            if not known:
                found.append(Fresh(line, copy))
        return found

    def behind(self, writer: Writer, began: int) -> bool:
        """Whether a walk that began at that time passed over lines that this writer may have
        written before it. Its newer ones must wait for those, or they would hide them."""
        stream = self._streams.get(self._key(writer))
        return (self._since if stream is None else stream.newest) < began

    def record(self, delivered: Iterable[Fresh], now: int) -> None:
        """These lines have been delivered."""
        touched: dict[int, list[Fresh]] = {}
        for fresh in delivered:
            touched.setdefault(self._key(fresh.line.writer), []).append(fresh)
        for key, news in touched.items():
            stream = self._streams.get(key)
            if stream is None:
                stream = self._streams[key] = _Stream(-1, self._since)
            _grow(stream, news, now)
            self._newest = max(self._newest, stream.newest)
        if touched:
            self._forget(now)

    def lacking(self, counts: Mapping[Writer, int], since: int) -> list[tuple[Writer, int]]:
        """Writers of whom a store has more lines from ``since`` on than were delivered, with the
        number that it has; a few at a time."""
        found = [(w, n) for w, n in counts.items() if n > self._have(self._key(w), since)]
        return found[:AT_ONCE]

    def surely_has(self, counts: Mapping[Writer, int], since: int, until: int) -> bool:
        """Whether of the lines in [``since``, ``until``) as many were delivered as a store has.
        False also where that cannot be told, because the marks do not reach back to ``until``."""
        for writer, number in counts.items():
            key = self._key(writer)
            stream = self._streams.get(key)
            if stream is not None and stream.floor > until:
                return False
            later = (
                0 if stream is None else len(stream.order) - bisect_left(stream.order, (until, 0))
            )
            if number > self._have(key, since) - later:
                return False
        return True

    def reread_from(self, writer: Writer) -> int:
        """Where to begin reading a writer of whom something is lacking."""
        stream = self._streams.get(self._key(writer))
        return self._since if stream is None else max(self._since, min(stream.floor, stream.newest))

    def give_up(self, writer: Writer, count: int, since: int) -> int:
        """Of ``writer`` no more can be told from delivered lines than was: how many of the
        ``count`` that the store had are lost to us. They are not looked for again."""
        key = self._key(writer)
        lost = max(0, count - self._have(key, since))
        if lost and (key in self._given_up or len(self._given_up) < WRITERS):
            self._given_up[key] = self._given_up.get(key, 0) + lost
        return lost

    def _have(self, key: int, since: int) -> int:
        if self._given_up_from != since:
            self._given_up.clear()
            self._given_up_from = since
        stream = self._streams.get(key)
        first = since // HOUR
        delivered = 0 if stream is None else sum(n for h, n in stream.hours.items() if h >= first)
        return delivered + self._given_up.get(key, 0)

    def _key(self, writer: Writer) -> int:
        key = self._keys.get(writer)
        if key is None:
            if len(self._keys) > 4 * WRITERS:
                self._keys.clear()
            key = self._keys[writer] = self._new_key(writer)
        return key

    def _new_key(self, writer: Writer) -> int:
        digest = blake2b(f"{writer.node}\0{writer.file}".encode("utf-8", "replace"), digest_size=6)
        key = int.from_bytes(digest.digest())
        if key in self._streams or len(self._streams) < WRITERS:
            return key
        return key % 64

    def _forget(self, now: int) -> None:
        """Marks that are too old or too many, and writers that were silent for hours."""
        counted = self.counted_from(now)
        for key, stream in list(self._streams.items()):
            if stream.newest < counted:
                del self._streams[key]
                continue
            for hour in [hour for hour in stream.hours if hour < counted // HOUR]:
                del stream.hours[hour]
        streams = list(self._streams.values())
        recent = min(self._newest, now) - RECENT
        for stream, floor in zip(streams, _floors(streams, KEPT, recent), strict=True):
            _raise_floor(stream, floor)

    # -- outliving the process -------------------------------------------------------------------

    def token(self) -> str:
        """All of this as text, with the marks that a token may have."""
        floors = _floors(list(self._streams.values()), KEPT)
        rows = []
        for (key, stream), floor in zip(self._streams.items(), floors, strict=True):
            order = [entry for entry in stream.order if entry[0] >= floor]
            times, before = [], floor
            for at, _ in order:
                times.append(at - before)
                before = at
            marks = b"".join(mark.to_bytes(_MARK) for _, mark in order)
            hours = sorted(stream.hours.items())
            rows.append((key, stream.newest, floor, hours, times, marks))
        if not rows:
            return ""
        packed = msgspec.msgpack.encode((_VERSION, self._newest, rows))
        return base64.urlsafe_b64encode(packed).decode("ascii")

    @classmethod
    def of_token(cls, token: str, since: int) -> Position:
        """The position that a token holds. Raises `Unreadable` where it is none of ours."""
        self = cls(since)
        if not token:
            return self
        try:
            packed = base64.urlsafe_b64decode(token.encode("ascii"))
            version, newest, rows = msgspec.msgpack.decode(packed, type=_TOKEN)
        except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
            raise Unreadable(
                "a log store's cursor that this version does not understand"
            ) from error
        if version != _VERSION:
            raise Unreadable(f"a log store's cursor of version {version}; ours is {_VERSION}")
        self._newest = newest
        for key, youngest, floor, hours, times, marks in rows:
            stream = self._streams[key] = _Stream(youngest, floor, hours=dict(hours))
            at = floor
            for number, step in enumerate(times):
                at += step
                mark = int.from_bytes(marks[number * _MARK : (number + 1) * _MARK])
                stream.order.append((at, mark))
                stream.seen.add(mark)
        return self


_ROW = tuple[int, int, int, list[tuple[int, int]], list[int], bytes]
_TOKEN = tuple[int, int, list[_ROW]]


def _mark(at: int, text: bytes, copy: int) -> int:
    digest = blake2b(text, digest_size=_MARK, salt=at.to_bytes(8), person=copy.to_bytes(4))
    return int.from_bytes(digest.digest())


def _grow(stream: _Stream, news: Sequence[Fresh], now: int) -> None:
    stream.newest = max(stream.newest, *(fresh.line.at for fresh in news))
    floor = max(stream.floor, min(stream.newest, now) - WINDOW)
    if len(news) > KEPT:
        # Of a flood only the end will be kept in any case.
        floor = max(floor, min(news[-KEPT].line.at, min(stream.newest, now) - RECENT))
    for (at, _, text), copy in news:
        stream.hours[at // HOUR] = stream.hours.get(at // HOUR, 0) + 1
        if at < floor:
            continue
        mark = _mark(at, text, copy)
        stream.seen.add(mark)
        if not stream.order or stream.order[-1][0] <= at:
            stream.order.append((at, mark))
        else:
            insort(stream.order, (at, mark))
    _raise_floor(stream, floor)


def _raise_floor(stream: _Stream, floor: int) -> None:
    """Forget the marks before ``floor``."""
    if floor <= stream.floor:
        return
    stream.floor = floor
    gone = bisect_left(stream.order, (floor, 0))
    stream.seen.difference_update(mark for _, mark in stream.order[:gone])
    del stream.order[:gone]


def _floors(streams: Sequence[_Stream], kept: int, recent: int | None = None) -> list[int]:
    """For each stream a floor, so that no more than ``kept`` marks lie on or above them, besides
    those of each one's newest moment and, up to ``HELD``, those from ``recent`` on."""
    if sum(len(stream.order) for stream in streams) <= kept:
        return [stream.floor for stream in streams]
    times = [at for stream in streams for at, _ in stream.order if at < stream.newest]
    if len(times) <= kept:
        return [stream.floor for stream in streams]
    times.sort(reverse=True)
    cut = times[kept] + 1
    if recent is not None:
        cut = min(cut, max(recent, times[HELD] + 1 if len(times) > HELD else recent))
    return [max(stream.floor, min(cut, stream.newest)) for stream in streams]
