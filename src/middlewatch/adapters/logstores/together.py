"""One question for many jobs.

A watcher looks for new lines of each job once a second, and of most there are few or none: what costs
is the question, not its answer. So where a job's new lines are asked for, those of others whose turn
comes next are asked for with them, and kept until then. Nothing is decided here: what a place gets is
what the store had from a time on, some moments ago, as if it had been asked alone; where that cannot
be said (the answer was cut, the reader wants an earlier time, or it took too long) it is asked alone.
A question that nobody answered is asked about half as many the next time: so many may take too long.

Jobs that are asked together must want about the same time: one that was silent for an hour would
otherwise bring an hour of its talkative neighbours' lines along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from middlewatch.adapters.logstores.lines import Line, LineStore, Page, Writer
from middlewatch.adapters.logstores.place import SECOND, Place
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import Refused, Unreachable, Unreadable

MOST_JOBS = 256
FRESH_S = 3.0
"""How old lines that were kept may become; then the store is asked again."""
CAREFUL_S = 60.0
"""How long no larger question is tried than one that was answered in time."""
_PLAIN = re.compile(r"[0-9A-Za-z_]{1,64}\Z")
"""Ids that mean themselves in every store's language, inside a list or a regular expression."""


class Wish(NamedTuple):
    """Lines of ``place`` from ``since`` on."""

    place: Place
    since: int


@dataclass(slots=True)
class _Kept:
    since: int
    asked_at: float
    lines: list[Line]


@dataclass(slots=True)
class _AtOnce:
    """About how many jobs a store answers in time. One that is away says nothing of that: only a
    failure after an answer lowers it, and only for a while."""

    limit: int
    lowered: int = 0
    until: float = float("-inf")
    answered: bool = True

    def too_many(self, number: int, now: float) -> int:
        """No answer came about so many: about how many to ask next."""
        if self.answered:
            self.lowered, self.until, self.answered = max(1, number // 2), now + CAREFUL_S, False
        return number // 2

    def allowed(self, now: float) -> int:
        """An answer came: about how many may be asked at most."""
        self.answered = True
        return self.lowered if now < self.until else self.limit


class Together:
    """Asks ``store`` for up to ``most`` places at once. Raises `Unreachable`; not for several
    threads."""

    def __init__(self, store: LineStore, clock: Clock, most: int = MOST_JOBS) -> None:
        self._store = store
        self._clock = clock
        self._limit = self._most = self._most_counted = most
        self._at_once, self._counted_at_once = _AtOnce(most), _AtOnce(most)
        self._kept: dict[str, _Kept] = {}

    def page(self, wish: Wish, others: Iterable[Wish]) -> Page | None:
        """All lines of a place from a time on. None where it has to be asked alone. ``others`` are
        those that will be wanted soon, looked at only if the store has to be asked."""
        now = self._clock.monotonic()
        kept = self._kept.pop(wish.place.name, None)
        if kept is None or kept.since > wish.since or now - kept.asked_at > FRESH_S:
            kept = self._asked(wish, others, now)
        if kept is None:
            return None
        return Page([line for line in kept.lines if line.at >= wish.since], full=False)

    def _asked(self, wish: Wish, others: Iterable[Wish], now: float) -> _Kept | None:
        if not fit(wish.place) or self._most < 2:
            self._most = min(self._limit, self._most + 1)
            return None
        for name in [n for n, kept in self._kept.items() if now - kept.asked_at > FRESH_S]:
            del self._kept[name]
        group = self._group(wish, others)
        if len(group) < 2:
            return None
        since = min(one.since for one in group)
        jobs = tuple(one.place.job for one in group)
        try:
            answer = self._store.pages(jobs, since, self._store.most)
        except Unreachable:
            self._most = self._at_once.too_many(len(group), now)
            raise
        except (Refused, Unreadable):
            # Whatever is wrong, the question of one alone says it of that one.
            self._most = len(group) // 2
            return None
        if answer.full:
            # Some lines are missing, and it is not known whose.
            self._most = len(group) // 2
            return None
        limit = self._at_once.allowed(now)
        if sum(map(len, answer.lines.values())) < self._store.most // 4:
            self._most = min(limit, self._most * 2)
        for one in group:
            lines = answer.lines.get(one.place.job, [])
            self._kept[one.place.name] = _Kept(since, now, lines)
        return self._kept.pop(wish.place.name)

    def _group(self, wish: Wish, others: Iterable[Wish]) -> list[Wish]:
        now = int(self._clock.now().timestamp()) * SECOND
        group, jobs, age = [wish], {wish.place.job}, _age(wish.since, now)
        for other in others:
            if len(group) >= self._most:
                break
            # Two attempts of one job have the same label.
            apart = other.place.name in self._kept or other.place.job in jobs
            if not apart and fit(other.place) and _age(other.since, now) == age:
                group.append(other)
                jobs.add(other.place.job)
        return group

    def counts(
        self, wishes: Iterable[Wish], until: int
    ) -> Mapping[str, Mapping[Writer, int]] | None:
        """How many lines of each writer the store has of some of the places, by their names: those
        from the place's own time on, or from an earlier one, up to ``until``. None where each has
        to be asked alone."""
        group: dict[str, Wish] = {}
        for one in wishes:
            if len(group) >= self._most_counted:
                break
            if fit(one.place):
                group.setdefault(one.place.job, one)
        if len(group) < 2:
            self._most_counted = max(2, self._most_counted)
            return None
        since = min(one.since for one in group.values())
        try:
            found = self._store.counts_of(tuple(group), since, until)
        except Unreachable:
            now = self._clock.monotonic()
            self._most_counted = self._counted_at_once.too_many(len(group), now)
            raise
        except (Refused, Unreadable):
            found = None
        if found is None:
            self._most_counted = len(group) // 2
            return None
        limit = self._counted_at_once.allowed(self._clock.monotonic())
        self._most_counted = min(limit, self._most_counted + 1 + self._most_counted // 8)
        return {one.place.name: found.get(job, {}) for job, one in group.items()}


def fit(place: Place) -> bool:
    """Whether a place can be asked for with others."""
    return place.until is None and _PLAIN.match(place.job) is not None


def _age(since: int, now: int) -> int:
    """The class of a time by how long ago it was: doubles of sixteen seconds."""
    return (max(0, now - since) // (16 * SECOND)).bit_length()
