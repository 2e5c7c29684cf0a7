"""The log source port over a log store: whole lines, each once, in bounded pieces.

A read is a walk through a place by time, page by page. When nothing is left of it, what came late
is looked for: the store counts the lines of each writer, and a writer of whom it has more than was
delivered is read again from where order is certain. A store that does not answer is away: then
nothing is said about what it has, least of all that there is nothing.

All that must outlive the process is in the cursor's token. What is kept here besides only saves
questions, and is dropped where the token that comes back is not the one that was given out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from middlewatch.adapters.logstores.lines import LineStore, Page, Writer
from middlewatch.adapters.logstores.place import SECOND, Place, path_of, place_of
from middlewatch.adapters.logstores.position import AT_ONCE, HOUR, Fresh, Position
from middlewatch.adapters.logstores.together import MOST_JOBS, Together, Wish
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError, Unreachable, Unreadable
from middlewatch.ports.scanner import Block, CannotRead, Cursor

LEAST_LIMIT = 1 << 16
MOST_LIMIT = 4 << 20
LONGEST_LINE = 1 << 20
"""Bytes of one entry; the rest of a longer one is skipped."""
LEAST_PAGE = 500
USUAL_PAGE = 20_000
USUAL_LINE = 200
PAGES = 8
"""Pages that one read asks for at most."""
COUNT_EVERY_S = 15.0
SETTLED = 10 * SECOND
"""Of several places together only lines are counted that are older: of younger ones, some that the
store has were not read yet, and nothing would be seen."""
SOON_S = 5.0
LEFT_S = 60.0
"""A place that was not read for so long is perhaps read no more."""
MOST_TRIED = 2000
MOST_NODES = 8
MOST_UNFINDABLE = 1000
REMEMBERED = 20_000
"""Places whose state is kept in memory."""


@dataclass(slots=True)
class _Walk:
    """Reading on from a time, ``since``, that it has reached; of all writers, or of one who had
    ``count`` lines."""

    began: int
    since: int
    writer: Writer | None = None
    count: int = 0
    found: bool = False


@dataclass(slots=True)
class _Reader:
    position: Position
    token: str
    least: int = LEAST_PAGE
    """Lines that a page must have at least: more than there are of one moment."""
    line_bytes: float = USUAL_LINE
    walk: _Walk | None = None
    again: deque[_Walk] = field(default_factory=deque)
    unfindable: set[Writer] = field(default_factory=set)
    """Writers of whom the store has lines, and finds none when it is asked for their labels."""
    counted_from: int = 0
    counted_at: float = float("-inf")
    counted_alone: bool = False
    """Counted together with others it seemed to lack something."""
    final_at: float | None = None
    nodes: dict[str, None] = field(default_factory=dict)
    """Some of those that wrote its lines."""
    place: Place | None = None
    """As it was asked for last, at ``read_at``."""
    read_at: float = float("-inf")
    lost: int = 0
    """Lines that were found to be lost and not told of yet."""


@dataclass(slots=True)
class _Taken:
    """The lines of one read, and how many more bytes it may have."""

    room: int
    lines: list[Fresh] = field(default_factory=list)
    skipped: int = 0


class StoreLogs:
    """The log source port. Not to be shared between threads.

    ``delay_s``: how long after an attempt's end its last lines may take to arrive; until then its
    log does not count as read to the end. ``together``: of how many jobs new lines are asked for in
    one question, at most. A block's ``lost`` counts lines that came later, or more
    out of order, than could be told from those that were delivered (after a restart, or when an hour
    is over, the same ones may be found again).
    """

    def __init__(
        self, store: LineStore, clock: Clock, delay_s: float = 3.0, together: int = MOST_JOBS
    ) -> None:
        self._store = store
        self._clock = clock
        self._delay_s = delay_s
        self._together = Together(store, clock, together)
        self._readers: OrderedDict[str, _Reader] = OrderedDict()
        """Those that were read longest ago first: their turn comes next."""

    def close(self) -> None:
        """Close the connections to the store; the next read opens them again."""
        self._store.close()

    def path(self, job: str, since_s: float) -> str:
        """The place of a job's lines from ``since_s`` on (seconds since the epoch)."""
        return path_of(self._store.name, job, since_s)

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
        """The next lines, about ``limit`` bytes of them (64 KiB to 4 MiB; one line always fits).
        Never raises."""
        place = place_of(path)
        if place is None or place.store != self._store.name:
            return CannotRead(path, f"{path[:200]} is no place in {self._store.name}", "no_place")
        taken = _Taken(max(LEAST_LIMIT, min(limit, MOST_LIMIT)))
        reader: _Reader | None = None
        try:
            reader = self._reader(place, cursor)
            at_end = self._fill(place, reader, taken, final=final)
        except PortError as error:
            if not taken.lines or reader is None:
                return _cannot(place, error)
            at_end = False
        return self._block(place, reader, cursor, taken, at_end=at_end)

    def others(
        self, path: str, since: datetime, until: datetime, enough: int, *, near: bool
    ) -> int | None:
        """See `Neighbours`. The nodes are those of whom a line was read in this process."""
        place = place_of(path)
        reader = None if place is None else self._readers.get(place.name)
        nodes = tuple(reader.nodes) if near and reader is not None else None
        if place is None or (near and not nodes):
            return None
        first, last = int(since.timestamp()) * SECOND, int(until.timestamp()) * SECOND
        try:
            return self._store.others(place.job, nodes, first, last, enough)
        except PortError:
            return None

    def end(self, path: str, uid: int) -> Cursor | CannotRead | None:
        """The beginning of the place: a place has no lines but its own attempt's."""
        place = place_of(path)
        if place is None or place.store != self._store.name:
            return CannotRead(path, f"{path[:200]} is no place in {self._store.name}", "no_place")
        return _cursor(place, 0, "")

    # -- one read --------------------------------------------------------------------------------

    def _reader(self, place: Place, cursor: Cursor | None) -> _Reader:
        token = cursor.token if cursor is not None else ""
        reader = self._readers.pop(place.name, None)
        if reader is None or reader.token != token:
            final_at = None if reader is None else reader.final_at
            position = Position.of_token(token, place.since)
            reader = _Reader(position, token, final_at=final_at)
        reader.place, reader.read_at = place, self._clock.monotonic()
        self._readers[place.name] = reader
        if len(self._readers) > REMEMBERED:
            self._readers.popitem(last=False)
        return reader

    def _fill(self, place: Place, reader: _Reader, taken: _Taken, *, final: bool) -> bool:
        """Read pages until there is enough, or no more; whether there is no more."""
        for _ in range(PAGES):
            walk = reader.walk or self._next_walk(reader)
            reader.walk = walk
            usual = min(USUAL_PAGE, int(taken.room / reader.line_bytes))
            limit = min(max(reader.least, usual), self._store.most)
            page = None if final else self._shared(place, walk)
            page = page or self._store.page(place, walk.since, limit, walk.writer)
            if page.lines and len(reader.nodes) < MOST_NODES:
                reader.nodes[page.lines[-1].writer.node] = None
            fresh = self._in_turn(reader, walk, reader.position.unseen(page.lines))
            some = self._take(reader, walk, fresh, taken)
            if some < len(fresh):
                walk.since = fresh[some].line.at
                return False
            if page.full:
                self._go_on(reader, walk, page.lines[-1].at, limit)
            else:
                self._walked(reader, walk)
                if self._nothing_more(place, reader, final=final):
                    return self._late_enough(reader, final=final)
            if taken.room <= 0:
                return False
        return False

    def _shared(self, place: Place, walk: _Walk) -> Page | None:
        """The page that begins a walk, asked for with those of others."""
        if walk.writer is not None or walk.since != walk.began:
            return None
        now = self._now()
        wishes = (
            Wish(where, reader.position.start(now)) for where, reader in self._at_rest(place.name)
        )
        return self._together.page(Wish(place, walk.since), wishes)

    def _at_rest(self, but: str) -> Iterator[tuple[Place, _Reader]]:
        """Others that will be asked for new lines when their turn comes, the next one first."""
        now = self._clock.monotonic()
        for tried, (name, reader) in enumerate(self._readers.items()):
            if tried > MOST_TRIED:
                return
            place = reader.place
            rests = reader.walk is None and not reader.again and reader.final_at is None
            if place is not None and name != but and rests and now - reader.read_at < LEFT_S:
                yield place, reader

    def _next_walk(self, reader: _Reader) -> _Walk:
        if reader.again:
            return reader.again.popleft()
        start = reader.position.start(self._now())
        return _Walk(start, start)

    def _in_turn(self, reader: _Reader, walk: _Walk, fresh: list[Fresh]) -> list[Fresh]:
        """The new lines without those of writers who lag behind: they are read by themselves,
        each from where he was left, as soon as this walk is done."""
        if walk.writer is not None:
            return fresh
        position, again = reader.position, reader.again
        lagging = {
            writer
            for writer in {one.line.writer for one in fresh}
            if writer not in reader.unfindable and position.behind(writer, walk.began)
        }
        if not lagging:
            return fresh
        waiting = {other.writer for other in again}
        for writer in sorted(lagging - waiting)[: max(0, AT_ONCE - len(again))]:
            start = position.reread_from(writer)
            again.append(_Walk(start, start, writer))
        return [one for one in fresh if one.line.writer not in lagging]

    def _take(self, reader: _Reader, walk: _Walk, fresh: list[Fresh], taken: _Taken) -> int:
        """Deliver of the new lines what there is room for: how many."""
        some = 0
        for one in fresh:
            size = min(len(one.line.text), LONGEST_LINE) + 1
            if size > taken.room and taken.lines:
                taken.room = 0
                break
            taken.room -= size
            taken.lines.append(one)
            some += 1
        reader.position.record(fresh[:some], self._now())
        walk.found = walk.found or some > 0
        return some

    def _go_on(self, reader: _Reader, walk: _Walk, last: int, limit: int) -> None:
        """To the next page. It begins with the moment that this one ended in, for that may not
        have been whole; a moment that fills a page needs a larger one."""
        if last > walk.since:
            walk.since = last
        elif limit < self._store.most:
            reader.least = min(limit * 4, self._store.most)
        else:
            walk.since = last + 1

    def _walked(self, reader: _Reader, walk: _Walk) -> None:
        reader.walk = None
        reader.least = LEAST_PAGE
        if walk.writer is not None and not walk.found:
            if walk.count == 0 and len(reader.unfindable) < MOST_UNFINDABLE:
                reader.unfindable.add(walk.writer)
            reader.lost += reader.position.give_up(walk.writer, walk.count, reader.counted_from)

    def _nothing_more(self, place: Place, reader: _Reader, *, final: bool) -> bool:
        """After a walk to the end: whether the store has nothing that was not delivered."""
        if reader.again:
            return False
        now = self._clock.monotonic()
        if not final and now - reader.counted_at < COUNT_EVERY_S:
            return True
        if not final and not reader.counted_alone and self._counted_together(place, reader, now):
            return True
        reader.counted_at, reader.counted_alone = now, False
        since = reader.counted_from = reader.position.counted_from(self._now())
        counts = self._store.counts(place, since)
        for writer, count in reader.position.lacking(counts, since):
            start = reader.position.reread_from(writer)
            reader.again.append(_Walk(start, start, writer, count))
        return not reader.again

    def _counted_together(self, place: Place, reader: _Reader, now: float) -> bool:
        """Count the lines of this place and of others whose time comes soon; whether of this one
        nothing is missing. Of whom that could not be seen is counted alone."""
        moment = self._now()
        hour = reader.position.counted_from(moment) // HOUR
        wanted = {place.name: reader}
        wishes = [Wish(place, reader.position.counted_from(moment))]
        for where, other in self._at_rest(place.name):
            if len(wishes) >= MOST_JOBS:
                break
            since = other.position.counted_from(moment)
            soon = now - other.counted_at >= COUNT_EVERY_S - SOON_S
            if soon and not other.counted_alone and since // HOUR == hour:
                wanted[where.name] = other
                wishes.append(Wish(where, since))
        until = moment // SECOND * SECOND - SETTLED
        counts = None
        if until > max(wish.since for wish in wishes):
            counts = self._together.counts(wishes, until)
        for name, found in (counts or {}).items():
            one = wanted[name]
            since = one.position.counted_from(moment)
            if one.position.surely_has(found, since, until):
                one.counted_at = now
            else:
                one.counted_alone = True
        return reader.counted_at == now

    def _late_enough(self, reader: _Reader, *, final: bool) -> bool:
        if not final:
            reader.final_at = None
            return True
        now = self._clock.monotonic()
        if reader.final_at is None:
            reader.final_at = now
        return now - reader.final_at >= self._delay_s

    def _now(self) -> int:
        return int(self._clock.now().timestamp() * SECOND)

    # -- what it is to the watcher ---------------------------------------------------------------

    def _block(
        self, place: Place, reader: _Reader, cursor: Cursor | None, taken: _Taken, *, at_end: bool
    ) -> Block:
        base = 0 if cursor is None else cursor.offset
        pieces: list[bytes] = []
        times: list[tuple[int, float]] = []
        nodes: list[tuple[int, str]] = []
        offset, skipped, newest = base, 0, place.since
        for (at, writer, text), _ in taken.lines:
            if len(text) > LONGEST_LINE:
                skipped += len(text) - LONGEST_LINE
                text = text[:LONGEST_LINE]  # noqa: PLW2901
            seconds = at / SECOND
            if not times or times[-1][1] != seconds:
                times.append((offset, seconds))
            if not nodes or nodes[-1][1] != writer.node:
                nodes.append((offset, writer.node))
            newest = max(newest, at)
            pieces += (text, b"\n")
            offset += len(text) + 1
        if taken.lines:
            mean = (offset - base) / len(taken.lines)
            reader.line_bytes = max(20.0, (reader.line_bytes + mean) / 2)
            reader.token = reader.position.token()
        lost, reader.lost = reader.lost, 0
        return Block(
            data=b"".join(pieces),
            base_offset=base,
            stream=place.name,
            cursor=_cursor(place, offset, reader.token),
            restarted=False,
            at_end=at_end,
            skipped_bytes=skipped,
            modified_at=newest / SECOND,
            times=tuple(times),
            nodes=tuple(nodes),
            lost=lost,
        )


def _cursor(place: Place, offset: int, token: str) -> Cursor:
    return Cursor(path=place.name, device=0, inode=0, offset=offset, head="", token=token)


def _cannot(place: Place, error: PortError) -> CannotRead:
    if isinstance(error, Unreachable):
        word = "store_away"
    elif isinstance(error, Unreadable):
        word = "store_not_understood"
    else:
        word = "store_refused"
    # Whatever it is, the lines are still there: nothing may be concluded from not seeing them.
    return CannotRead(place.name, str(error), word, away=True)
