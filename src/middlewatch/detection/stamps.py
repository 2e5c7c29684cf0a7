"""When a line was written, where the line itself says so.

Log stamps carry a date at best, often no year, and a zone almost never. The zone is learnt: the
newest stamped line of a file that has just been written differs from the present by the zone,
which is a whole number of half hours. The year is the one that is nearest to the present. Anything
that does not fit is not used; the time of learning stands instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from middlewatch.detection.batch import Hit

_TAIL = r":(\d\d)(?:[.,](\d{1,9}))?"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FULL = re.compile(
    r"(20\d\d[-/]\d\d[-/]\d\d[T _,]\d\d:\d\d)" + _TAIL + r"(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_FORMS = (
    _FULL,
    # glog and PyTorch: the level's letter, the month without a leading zero or with one, the day.
    re.compile(r"(?<!\w)[EWIFD](\d{3,4} \d\d:\d\d)" + _TAIL + "()", re.ASCII),
    re.compile(r"(?<![\d/])(\d\d/\d\d(?:/20\d\d)? \d\d:\d\d)" + _TAIL + "()", re.ASCII),
    # syslog, and the form of the C library with the year behind the time.
    re.compile(
        rf"\b((?:{'|'.join(_MONTHS)}) [ \d]\d \d\d:\d\d){_TAIL}(?: (?:[A-Z]{{2,5}} )?(20\d\d)\b)?",
        re.ASCII,
    ),
)
_CLOCK = re.compile(r"\d:\d\d:\d\d", re.ASCII)
_HEAD = 96
_HALF_HOUR = 1800
_FIT_S = 60.0
_DAY_S = 86_400

WRITTEN = "written"
"""The source of the line knows when it was written."""
ZONED = "zoned"
"""The line says it, with its zone."""
PRINTED = "printed"
"""The line says it, in a zone that it does not name."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a line was written: ``seen`` by our clock; ``happened`` by the line's own as far as it
    can be placed, never later than ``seen``; ``own_s`` is the line's own time in seconds, which
    can be compared with others of the same ``own_of``."""

    seen: datetime
    happened: datetime
    own_s: float | None = None
    own_of: str = ""

    @property
    def stamp(self) -> datetime | None:
        """The line's own time as a moment: as if it were UTC where it names no zone."""
        return None if self.own_s is None else when(self.own_s)


class Stamps:
    """Reads stamps for one round. Lines that follow each other mostly share form and minute, which
    is why both are remembered. ``near`` gives the year to stamps that have none."""

    __slots__ = ("_base", "_form", "_near_s", "_text", "_year")

    def __init__(self, near: datetime | None) -> None:
        self._near_s = near.timestamp() if near else 0.0
        self._year = near.year if near else 0
        self._form = 0
        self._text = ""
        self._base = 0.0

    def read(self, line: str) -> tuple[float, bool] | None:
        """The line's own time, seconds since the epoch as if it were UTC, and whether it names its
        zone (then it is UTC). Looked for at the head of the line, and behind ``AT``, where Slurm
        puts it."""
        found = _FORMS[self._form].search(line, 0, _HEAD)
        if found is None:
            found = self._other(line)
            if found is None:
                return None
        text, second, fraction, last = found.groups()
        if text != self._text or self._form == 3:
            base = self._minute(text, last)
            if base is None:
                return None
            self._text, self._base = text, base
        if second > "60":
            return None
        seconds = self._base + int(second)
        if fraction:
            seconds += int(fraction) / 10.0 ** len(fraction)
        if not last or self._form != 0:
            return seconds, False
        if last == "Z":
            return seconds, True
        shift = int(last[1:3]) * 3600 + int(last[-2:]) * 60
        if shift >= _DAY_S:
            return None
        return (seconds + shift if last[0] == "-" else seconds - shift), True

    def _other(self, line: str) -> re.Match[str] | None:
        if _CLOCK.search(line, 0, _HEAD) is not None:
            for number, form in enumerate(_FORMS):
                found = form.search(line, 0, _HEAD)
                if found is not None:
                    self._form = number
                    return found
        where = line.find(" AT ")
        found = _FULL.match(line, where + 4) if where >= 0 else None
        if found is not None:
            self._form = 0
        return found

    def _minute(self, text: str, last: str | None) -> float | None:
        """The seconds since the epoch of a date with hours and minutes; None for no such date."""
        year = 0
        if self._form == 0:
            year, month, day = int(text[0:4]), int(text[5:7]), int(text[8:10])
        elif self._form == 1:
            month, day = int(text[:-8]), int(text[-8:-6])
        elif self._form == 2:
            month, day = int(text[0:2]), int(text[3:5])
            year = int(text[6:10]) if len(text) > 11 else 0
            if month > 12:
                month, day = day, month
        else:
            month, day = _MONTHS.index(text[:3]) + 1, int(text[4:6])
            year = int(last) if last else 0
        hour, minute = int(text[-5:-3]), int(text[-2:])
        try:
            if year:
                return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()
            return self._nearest(month, day, hour, minute) if self._year else None
        except ValueError:
            return None

    def _nearest(self, month: int, day: int, hour: int, minute: int) -> float | None:
        best: float | None = None
        for year in (self._year - 1, self._year, self._year + 1):
            try:
                made = datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()
            except ValueError:
                continue  # the 29th of February of another year
            if best is None or abs(made - self._near_s) < abs(best - self._near_s):
                best = made
        return best


class Times:
    """The times of one round's lines. ``seen`` is when the newest of them was written."""

    __slots__ = ("_stamps", "own_of", "own_s", "seen", "seen_s", "zone_s")

    def __init__(self, seen: datetime, zone_s: int | None) -> None:
        self.seen = seen
        self.seen_s = seen.timestamp()
        self.zone_s = zone_s
        self._stamps = Stamps(seen)
        self.own_s: float | None = None
        self.own_of = ""

    def look(self, hit: Hit) -> float:
        """When a line was written, seconds since the epoch, as well as that is known and never
        later than ``seen``. Sets ``own_s`` and ``own_of``."""
        if hit.written_at is not None:
            self.own_s, self.own_of = hit.written_at.timestamp(), WRITTEN
            return min(self.own_s, self.seen_s)
        read = self._stamps.read(hit.line)
        if read is None:
            self.own_s, self.own_of = None, ""
            return self.seen_s
        self.own_s, zoned = read
        self.own_of = ZONED if zoned else PRINTED
        if zoned:
            return min(self.own_s, self.seen_s)
        if self.zone_s is None:
            return self.seen_s
        return min(self.own_s + self.zone_s, self.seen_s)

    def moment(self, hit: Hit) -> Moment:
        at = self.look(hit)
        happened = self.seen if at == self.seen_s else when(at)
        return Moment(self.seen, happened, self.own_s, self.own_of)


def when(seconds: float) -> datetime:
    """Seconds since the epoch as a time, to the microsecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def stamp_of(line: str, near: datetime | None = None) -> datetime | None:
    """The line's own date and time: naive where it names no zone, None where it has none."""
    read = Stamps(near).read(line)
    if read is None:
        return None
    moment = when(read[0])
    return moment if read[1] else moment.replace(tzinfo=None)


def learnt_zone(stamp: datetime, written_at: datetime) -> int | None:
    """Seconds to add to naive stamps, if ``stamp`` is that of a line written at ``written_at``."""
    if stamp.tzinfo is not None:
        return None
    return zone_between(stamp.replace(tzinfo=UTC).timestamp(), written_at.timestamp())


def zone_between(stamp_s: float, written_s: float) -> int | None:
    """Seconds to add to stamps without a zone, if ``stamp_s`` was printed at ``written_s``."""
    apart = written_s - stamp_s
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
