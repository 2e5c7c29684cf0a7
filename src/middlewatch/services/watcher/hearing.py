"""Whether the silence of a log in a store is the job's, or of whoever ships and keeps it.

A collector that stands still makes all jobs of its node look stuck at once, a store that takes nothing
all jobs of the site. So before such a silence may count, it is asked whether others still come
through. The questions of one round are few: a job that there was none left for is not judged in it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from middlewatch.detection.batch import Batch, Unreadable
from middlewatch.detection.coverage import ENOUGH, MUTE, Others, mute, spans
from middlewatch.detection.hang import due, silent_since
from middlewatch.detection.state import DetectionState
from middlewatch.model.copies import replace
from middlewatch.model.identity import AttemptId
from middlewatch.model.policy import Policy
from middlewatch.ports.scanner import Neighbours
from middlewatch.services.watcher.memory import Tail
from middlewatch.services.watcher.tails import kept_by_store

EVERY = timedelta(seconds=15)
"""How long an answer stands."""
PER_ROUND = 4
AHEAD = timedelta(seconds=2)


class Hearing:
    """Asks on behalf of one watcher. ``neighbours`` is None where logs are files."""

    def __init__(self, neighbours: Neighbours | None) -> None:
        self._neighbours = neighbours
        self._said: dict[AttemptId, tuple[datetime, str]] = {}
        self._still: tuple[datetime, datetime, str] | None = None
        """The whole store fell silent: since when at least, when that was asked, and the sentence."""
        self._left = PER_ROUND

    def begin(self, now: datetime) -> None:
        """A new round."""
        self._left = PER_ROUND
        for key in [key for key, (at, _) in self._said.items() if now - at > 4 * EVERY]:
            del self._said[key]

    def onto(
        self,
        batch: Batch,
        tails: tuple[Tail, ...],
        state: DetectionState,
        now: datetime,
        policy: Policy,
    ) -> Batch:
        """The batch, unreadable where the silence that it brings says nothing of the job; not caught
        up where that could not be asked any more in this round."""
        if self._neighbours is None or batch.hits or not (batch.caught_up and batch.readable):
            return batch
        path = next((tail.path for tail in tails if kept_by_store(tail.path)), None)
        since, moment = silent_since(state), due(state, policy)
        near_its_end = moment is not None and moment - now <= AHEAD
        if path is None or since is None or not near_its_end or batch.output_at is not None:
            return batch
        why = self._why(batch.attempt.id, path, since, now)
        if why is None:
            return replace(batch, caught_up=False)
        if not why:
            return batch
        unreadable = Unreadable(path, MUTE, why, away=True)
        return replace(batch, readable=False, unreadable=(*batch.unreadable, unreadable))

    def _why(self, attempt: AttemptId, path: str, since: datetime, now: datetime) -> str | None:
        if self._still is not None:
            begun, asked, sentence = self._still
            if now - asked <= EVERY and spans(since, now)[1] >= begun:
                return sentence
        said = self._said.get(attempt)
        if said is not None and now - said[0] <= EVERY:
            return said[1]
        if self._left <= 0:
            return None
        self._left -= 1
        near = self._others(path, since, now, near=True)
        anywhere = Others(0, 1) if near.lately else self._others(path, since, now, near=False)
        why = mute(near, anywhere)
        self._said[attempt] = now, why
        if anywhere.fell_silent:
            # What nobody wrote since then nobody wrote since a later moment, either.
            self._still = spans(since, now)[1], now, why
        return why

    def _others(self, path: str, since: datetime, now: datetime, *, near: bool) -> Others:
        """What cannot be told counts as a silence that was there before: it is no ground."""
        if self._neighbours is None:
            return Others(0, 0)
        first, middle, last = spans(since, now)
        lately = self._neighbours.others(path, middle, last, 1, near=near)
        if lately is None or lately:
            return Others(0, lately or 0)
        return Others(self._neighbours.others(path, first, middle, ENOUGH, near=near) or 0, 0)
