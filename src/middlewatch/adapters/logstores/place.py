"""Naming an attempt's lines in a log store, where all attempts of a job lie in one heap.

A place is a path like ``victorialogs://job/4711?since=1764475200``: the scheduler's job id, which
the collector writes to a label, and the second from which the attempt's own lines count. Behind it
may stand ``&until=…``, the second at which the next attempt began. The job id is data: it is quoted
here, and again in each store's own language.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

SECOND = 1_000_000_000
_SHAPE = re.compile(
    r"(?P<store>[a-z]{1,32})://job/(?P<job>[^/?#&]{1,400})\?since=(?P<since>\d{1,11})"
    r"(?:&until=(?P<until>\d{1,11}))?\Z"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of ``job`` written in [``since``, ``until``), nanoseconds since the epoch."""

    store: str
    job: str
    since: int
    until: int | None = None

    @property
    def name(self) -> str:
        """The path without its end: the same for as long as the attempt is known."""
        return path_of(self.store, self.job, self.since / SECOND)


def path_of(store: str, job: str, since_s: float) -> str:
    """The path of the lines of ``job`` from ``since_s`` (seconds since the epoch) on."""
    return f"{store}://job/{quote(job, safe='')}?since={max(0, math.floor(since_s))}"


def place_of(path: str) -> Place | None:
    """The place that a path names; None where it is none of ours."""
    found = _SHAPE.match(path)
    if found is None:
        return None
    until = found["until"]
    return Place(
        store=found["store"],
        job=unquote(found["job"]),
        since=int(found["since"]) * SECOND,
        until=None if until is None else int(until) * SECOND,
    )
