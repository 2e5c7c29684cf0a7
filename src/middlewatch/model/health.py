"""How a watcher is, told by itself, for whoever must notice that it is stuck or dead.

A watcher and whoever is asked about it may be two processes, so it leaves its account in the store
under a name of its own, every few seconds. An account that grows old is the news: then the watcher
completes no round any more. Totals count from the start of its process.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from math import isfinite

PREFIX = "health/watcher/"
"""Accounts stand in the store under this and the watcher's name."""

BOUNDS_S: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the classes of rounds, seconds; one more class is open above."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What was done since ``WatcherHealth.started_at``. ``lines_lost``: lines that a log store
    has and that came too late to be told from those that were read. ``read_errors``: looks at a
    log that brought nothing because of an error; ``job_errors``: rounds in which a job could not
    be worked on; ``unlisted_rounds``: rounds in which the scheduler could not be seen."""

    rounds: int = 0
    bytes_read: int = 0
    lines_read: int = 0
    lines_lost: int = 0
    read_errors: int = 0
    job_errors: int = 0
    conflicts: int = 0
    signals_stored: int = 0
    signals_capped: int = 0
    details_read: int = 0
    accounting_read: int = 0
    unlisted_rounds: int = 0


@dataclass(frozen=True, slots=True)
class Present:
    """The last round: jobs of the listing, attempts whose logs are read, those of them that were
    not read to their end, the bytes of files that were left, and how long ago the attempt that
    waits longest had last been read to its end."""

    jobs_listed: int = 0
    watched: int = 0
    behind: int = 0
    bytes_behind: int = 0
    oldest_unread_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WatcherHealth:
    """``classes``: rounds by their duration, one number for each of ``BOUNDS_S`` and one above;
    ``seconds`` is the sum of all durations."""

    started_at: datetime
    at: datetime
    totals: Totals = Totals()
    present: Present = Present()
    seconds: float = 0.0
    classes: tuple[int, ...] = field(default=(0,) * (len(BOUNDS_S) + 1))


def as_text(health: WatcherHealth) -> str:
    """For the store; `from_text` reads it."""
    told = asdict(health)
    told["started_at"] = health.started_at.isoformat()
    told["at"] = health.at.isoformat()
    return json.dumps(told, separators=(",", ":"))


def from_text(text: str) -> WatcherHealth:
    """What `as_text` wrote, by this version or another: a number that is not there is 0, one that
    is not known is passed over. Raises ValueError."""
    try:
        told = json.loads(text)
        started_at, at = (datetime.fromisoformat(told[name]) for name in ("started_at", "at"))
        classes = tuple(int(number) for number in told["classes"])
        seconds, oldest = float(told["seconds"]), float(told["present"]["oldest_unread_s"])
        present = {name: int(told["present"].get(name, 0)) for name in _COUNTS_OF_PRESENT}
        totals = {name: int(told["totals"].get(name, 0)) for name in Totals.__slots__}
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"a watcher's account of itself cannot be read: {error!r}") from error
    naive = started_at.tzinfo is None or at.tzinfo is None
    if naive or len(classes) != len(BOUNDS_S) + 1 or not isfinite(seconds + oldest):
        raise ValueError("a watcher's account of itself cannot be read: it is of another shape")
    return WatcherHealth(
        started_at=started_at,
        at=at,
        totals=Totals(**totals),
        present=Present(**present, oldest_unread_s=oldest),
        seconds=seconds,
        classes=classes,
    )


_COUNTS_OF_PRESENT = ("jobs_listed", "watched", "behind", "bytes_behind")
