"""What one round of looking at one attempt brought: the input of the fold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from middlewatch.model.activity import Activity, Growth
from middlewatch.model.attempt import Attempt
from middlewatch.model.pattern import Pattern

LARGEST = 1e18
"""No quantity of a training is larger; and what is computed of one stays finite."""
_FACTORS = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that one pattern matched. ``stream`` names the byte stream that ``offset`` counts
    in (it changes when a file is replaced or truncated), ``line`` is at most 4,096 characters."""

    pattern: Pattern
    stream: str
    offset: int
    line: str
    groups: tuple[tuple[str, str], ...] = ()
    path: str = ""
    written_at: datetime | None = None
    """When the line was written, where its source knows that (a log store does)."""
    node: str = ""
    """The node that wrote the line, where its source knows that."""

    def group(self, name: str) -> str | None:
        return next((value for key, value in self.groups if key == name), None)

    def number(self, name: str) -> int | None:
        """A group as a whole number; thousands separators are accepted."""
        return whole(self.group(name) or "")

    def real(self, name: str) -> float | None:
        """A group as a finite number; ``3.32K`` is 3,320, as nanotron and others print."""
        return real(self.group(name) or "")


def whole(text: str) -> int | None:
    """A text as a whole number of at most fifteen digits; thousands separators are accepted."""
    text = text.replace(",", "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def real(text: str) -> float | None:
    """A text as a number of a size that occurs, with thousands separators and with a factor behind it."""
    value = figure(text)
    return value if value is not None and abs(value) <= LARGEST else None


def figure(text: str) -> float | None:
    """As `real`, and what is no finite number is told as such: NaN and the infinities."""
    try:
        return float(text)
    except ValueError:
        text = text.replace(",", "").strip()
        factor = _FACTORS.get(text[-1:], 1.0)
    try:
        return float(text[:-1] if text[-1:] in _FACTORS else text) * factor
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file of the attempt that cannot be read; ``word`` is the stable reason. ``away``: whoever
    keeps the lines does not answer, which is no fault of the job's and may be over in a moment."""

    path: str
    word: str
    reason: str
    away: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """``hits`` in the order of the files' bytes; ``output_at`` is when the bytes just read were
    last written (None: nothing new), never later than ``now``. ``drained`` says that all files
    of the attempt have been read to their end and nothing more will come from it."""

    attempt: Attempt
    hits: tuple[Hit, ...] = ()
    output_at: datetime | None = None
    unreadable: tuple[Unreadable, ...] = ()
    drained: bool = False
    caught_up: bool = True
    """The files were read to their present end: only then does silence mean anything."""
    readable: bool = True
    """At least one file of the attempt can be read: what cannot be seen is not silent."""
    activity: tuple[Activity, ...] = ()
    """What its nodes did, where that was asked for: the kinds of one look together."""
    growth: Growth | None = None
    """Its checkpoint directory, where it was looked at."""
    lost: int = 0
    """Lines that a log store was found to have and that came too late to be told from others."""
    measured: bool | None = None
    """Whether any of its nodes appears in the site's metrics; None where nobody has looked."""
    sampled: bool = True
    """Where its steps are samples of the site's metrics: those of the present were seen just now.
    A counter that nobody has looked at, or that nobody measures any more, is not silent."""
