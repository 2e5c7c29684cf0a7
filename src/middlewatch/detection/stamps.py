"""When a line was written, where the line itself says so.

Log stamps carry a date at best and a zone almost never, so the zone is learnt: the newest stamped
line of a file that has just been written differs from the present by the zone, which is a whole
number of half hours. Anything that does not fit is not used; the time of learning stands instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone


@dataclass(frozen=True, slots=True)
class Moment:
    """When a line was written: ``seen`` by our clock, ``happened`` by the log's own as far as it
    can be placed, ``stamp`` as the line prints it."""

    seen: datetime
    happened: datetime
    stamp: datetime | None = None


_FULL = re.compile(
    r"(20\d\d)-(\d\d)-(\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?"
)
_HEAD = 96
_HALF_HOUR = 1800
_FIT_S = 60.0


def stamp_of(line: str) -> datetime | None:
    """The line's own date and time: naive where it names no zone, None where it has none.

    Looked for at the head of the line, and behind ``AT``, where Slurm puts it.
    """
    found = _FULL.search(line, 0, _HEAD)
    if found is None:
        where = line.find(" AT ")
        found = _FULL.match(line, where + 4) if where >= 0 else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found.group(i)) for i in range(1, 7))
    micro = int(((found.group(7) or "") + "000000")[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, micro)  # noqa: DTZ001 - zone follows
    except ValueError:
        return None
    zone = found.group(8)
    if zone is None:
        return moment
    if zone == "Z":
        return moment.replace(tzinfo=UTC)
    shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    if shift >= timedelta(hours=24):
        return None
    return moment.replace(tzinfo=timezone(-shift if zone[0] == "-" else shift)).astimezone(UTC)


def learnt_zone(stamp: datetime, written_at: datetime) -> int | None:
    """Seconds to add to naive stamps, if ``stamp`` is that of a line written at ``written_at``."""
    if stamp.tzinfo is not None:
        return None
    apart = (written_at - stamp.replace(tzinfo=UTC)).total_seconds()
    zone = round(apart / _HALF_HOUR) * _HALF_HOUR
    return zone if abs(apart - zone) <= _FIT_S and abs(zone) <= 14 * 3600 else None


def happened(stamp: datetime | None, zone_s: int | None, learned_at: datetime) -> datetime:
    """When a line was written, UTC: its own stamp where that can be placed, else the learnt time.
    Never later than ``learned_at``."""
    if stamp is None:
        return learned_at
    if stamp.tzinfo is None:
        if zone_s is None:
            return learned_at
        stamp = stamp.replace(tzinfo=UTC) + timedelta(seconds=zone_s)
    return min(stamp, learned_at)
