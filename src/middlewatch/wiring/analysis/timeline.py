"""When each line of a finished log was written.

A replay needs a clock. The best one is given beside the log; else the log's own stamps are taken,
which are missing on some lines, go back where several processes write, and are sometimes plainly
wrong; a log without any has no clock, and nothing is concluded from time then.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from middlewatch.detection.stamps import stamp_of
from middlewatch.wiring.analysis.facts import Facts

HEAD = 512
"""Bytes of a line in which its stamp is looked for."""
LEAP_S = 30 * 86_400.0
"""A stamp that is further from its neighbours than this is a date of something else."""
NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Timeline:
    """``starts`` are the byte offsets of the lines (split at LF alone), ``seconds`` when each was
    written: ascending, 0 being the start. ``base`` is the moment of second 0. Without a clock
    ``seconds`` are all 0."""

    starts: tuple[int, ...]
    seconds: tuple[float, ...]
    base: datetime
    clock: str
    """``times``, ``stamps`` or ``none``."""

    def line_of(self, offset: int) -> int:
        """The number (from 1) of the line that holds the byte at ``offset``."""
        return max(1, bisect_right(self.starts, offset))

    def moment(self, line: int) -> datetime:
        """When line ``line`` (from 1) was written."""
        return self.base + timedelta(seconds=self.seconds[line - 1])

    def last_line_at(self, moment: datetime) -> int:
        """The number of the last line that had been written by then; 0 before the first."""
        return bisect_right(self.seconds, (moment - self.base).total_seconds() + 1e-6)


def starts_of(data: bytes) -> tuple[int, ...]:
    """Where the lines begin. A line feed at the very end begins no further line."""
    found = [0] if data else []
    at = data.find(b"\n")
    while at >= 0 and at + 1 < len(data):
        found.append(at + 1)
        at = data.find(b"\n", at + 1)
    return tuple(found)


def timeline_of(data: bytes, facts: Facts, times: tuple[float, ...] | None = None) -> Timeline:
    """The clock of a log. ``times`` has a number for each line, if it is given."""
    starts = starts_of(data)
    if times is not None:
        seconds = _ascending(times)
        stamps: list[float | None] = []
        clock = "times"
    else:
        stamps = _plausible([_stamp(data, start) for start in starts])
        seconds = _from_stamps(stamps)
        clock = "stamps" if any(stamp is not None for stamp in stamps) else "none"
    if facts.log_last_write is not None:
        base = facts.log_last_write - timedelta(seconds=seconds[-1] if seconds else 0.0)
    elif clock == "none":
        base = NO_DATE
    else:
        base = _base(data, starts, seconds, stamps)
    return Timeline(starts, seconds, base, clock)


def _ascending(times: tuple[float, ...]) -> tuple[float, ...]:
    found: list[float] = []
    for seconds in times:
        found.append(max(seconds, found[-1]) if found else seconds)
    return tuple(found)


def _stamp(data: bytes, start: int) -> float | None:
    end = data.find(b"\n", start, start + HEAD)
    line = data[start : end if end >= 0 else start + HEAD].decode("latin-1")
    stamp = stamp_of(line)
    if stamp is None:
        return None
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


def _plausible(stamps: list[float | None]) -> list[float | None]:
    """The stamps without those that are far from what stands before and behind them."""
    told = sorted(stamp for stamp in stamps if stamp is not None)
    if not told:
        return stamps
    middle = told[len(told) // 2]
    return [s if s is not None and abs(s - middle) <= LEAP_S else None for s in stamps]


def _from_stamps(stamps: list[float | None]) -> tuple[float, ...]:
    """Seconds from the first stamp. Lines without one are spread between their neighbours: that
    they all came at once would be a silence that nobody saw."""
    known: list[tuple[int, float]] = []
    first = next((stamp for stamp in stamps if stamp is not None), 0.0)
    for number, stamp in enumerate(stamps):
        if stamp is None:
            continue
        ahead = stamp - first
        if not known or (ahead >= known[-1][1] and not _alone_ahead(stamps, number, stamp)):
            known.append((number, ahead))
    found: list[float] = [0.0] * len(stamps)
    for (low, since), (high, until) in pairwise(known):
        for number in range(low, high):
            found[number] = since + (until - since) * (number - low) / (high - low)
    if known:
        last, until = known[-1]
        found[last:] = [until] * (len(stamps) - last)
    return tuple(found)


def _alone_ahead(stamps: list[float | None], number: int, stamp: float) -> bool:
    """Whether the next two stamps both lie well before this one: it is no time of writing."""
    behind = [s for s in stamps[number + 1 : number + 12] if s is not None][:2]
    return len(behind) == 2 and all(s < stamp - 60 for s in behind)


def _base(
    data: bytes, starts: tuple[int, ...], seconds: tuple[float, ...], stamps: list[float | None]
) -> datetime:
    """The moment of second 0 by the first stamp that the log has."""
    for number, start in enumerate(starts):
        stamp = stamps[number] if stamps else _stamp(data, start)
        if stamp is not None:
            return datetime.fromtimestamp(stamp, UTC) - timedelta(seconds=seconds[number])
        if not stamps and number > 500:
            break
    return NO_DATE
