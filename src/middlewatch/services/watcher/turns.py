"""When the cluster is listed next: as often as somebody needs it, as seldom as nobody does.

A listing makes slurmctld copy every job it knows, under a lock that its scheduler wants as well. While
a job runs that is to be restarted, or a restart is under way, seconds count; a cluster without any such
job is looked at ever more rarely. One that takes long to answer is asked less often whatever is live.
A hint that something has happened (a job's epilog, a trigger) makes the next round list at once. Hints
are anybody's: a storm of them makes one listing a second at most, and fewer of a slow scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import IntEnum

from middlewatch.model.attempt import Attempt
from middlewatch.model.scheduler import JobState

WAITING_S = 10.0
"""Between two listings while those who opted in only wait for their first start."""
HINTED_S = 1.0
"""From one listing to the next at least, however many hints there are."""
SHARE = 0.1
"""Of its time a scheduler is to be busy with our listings at most."""
SILENT_S = 10.0
"""Between two listings at most while there is no answer: an outage of minutes may end any moment."""
EARLY = 0.9
"""A round that comes a little before its time is not sent away until the next one."""
ENDED_LATELY_S = 120.0


class Liveliness(IntEnum):
    NOBODY = 0
    WAITING = 1
    LIVE = 2


def liveliness(attempts: Iterable[Attempt], now: datetime) -> Liveliness:
    """What of the attempts whose owners opted in is going on."""
    found = Liveliness.NOBODY
    for attempt in attempts:
        if attempt.live:
            first = attempt.state is JobState.PENDING and attempt.attempt_index == 0
            if not first or attempt.completing:
                return Liveliness.LIVE
            found = Liveliness.WAITING
        elif attempt.end is not None:
            # Its restart may be under way, and is noticed by its successor's row.
            since = (now - attempt.end.learned_at).total_seconds()
            if not attempt.end.final or since < ENDED_LATELY_S:
                return Liveliness.LIVE
    return found


def pause_after(
    before_s: float, alive: Liveliness, took_s: float, shortest_s: float, longest_s: float
) -> float:
    """Seconds from this listing to the next, after a pause of ``before_s`` and an answer that
    took ``took_s``."""
    wanted = shortest_s
    if alive is Liveliness.WAITING:
        wanted = max(shortest_s, min(WAITING_S, longest_s))
    elif alive is Liveliness.NOBODY:
        wanted = max(shortest_s, min(2 * before_s, longest_s))
    return min(max(wanted, took_s / SHARE), max(longest_s, shortest_s))


class Turns:
    """Decides in each round whether the cluster is listed. Seconds; ``shortest_s`` 0: always, or in
    turns with other watchers, so that all of them together ask as often as one would."""

    def __init__(self, shortest_s: float, longest_s: float) -> None:
        self._shortest_s = shortest_s
        self._longest_s = longest_s
        self._pause_s = shortest_s
        self._last: datetime | None = None
        self._took_s = self._took_before_s = 0.0
        self._hinted = False
        self._rounds = 0

    def due(self, now: datetime, *, hinted: bool, came: bool, members: int, rank: int) -> bool:
        """Whether to list in this round. ``hinted``: somebody said that something has happened;
        ``came``: jobs have come to us of which we know nothing."""
        self._rounds += 1
        self._hinted = self._hinted or hinted
        if self._shortest_s <= 0:
            return came or (self._rounds + rank) % members == 0
        if came or self._last is None:
            return True
        since = (now - self._last).total_seconds()
        if since < 0:
            return True  # the clock was set
        pause = self._pause_s * members
        if self._hinted:
            took = min(self._took_s, self._took_before_s)
            pause = min(pause, max(HINTED_S, took / SHARE))
        return since >= EARLY * pause

    def listed(self, now: datetime, took_s: float, alive: Liveliness | None) -> None:
        """A listing was asked for; ``alive`` is what goes on, None where there was no answer."""
        self._last, self._hinted = now, False
        # One slow answer among quick ones is no slow scheduler.
        self._took_before_s, self._took_s = self._took_s, took_s
        took = min(self._took_s, self._took_before_s)
        if alive is None:
            longest = min(SILENT_S, self._longest_s)
            alive = Liveliness.NOBODY
        else:
            longest = self._longest_s
        self._pause_s = pause_after(self._pause_s, alive, took, self._shortest_s, longest)
