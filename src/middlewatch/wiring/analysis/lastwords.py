"""What a program said before it ended of its own will, where nobody knows its words.

A trainer of one's own may find out by itself that it must not go on, say so at level error, and
leave with a code of its own. No pattern knows the words; that they are an error, that they are the
last ones, and whom they name, can be read all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from middlewatch.attribution import Places
from middlewatch.attribution.culprit import Culprit
from middlewatch.wiring.analysis.timeline import Timeline

ABOVE = 400
"""Lines above the launcher's report that are looked at."""
WITHIN_S = 120.0
APART = 2
"""Lines between two that belong together."""
_HEAD = 160
_ERROR = re.compile(
    rb"(?:^|[\s\[<|(\"'=])(?:ERR|ERROR|FATAL|CRIT|CRITICAL|PANIC)(?:[\s\]>|):\"']|$)"
    rb"|\b(?:level|lvl|severity)\"?[=:] ?\"?(?i:error|err|fatal|critical|panic)\b"
)
_ACCUSED = re.compile(
    rb"\b(?i:odd one out|culprit|offender|offending|faulty|guilty|bad|missing|dead|lagging|slowest|straggler|unresponsive|out of sync|corrupt(?:ed)?)\b"
    rb"[^\n]{0,24}?(?:\b(?i:rank|worker|process|replica|task)[ #:=]{0,2}|\br)(\d{1,6})\b"
)


@dataclass(frozen=True, slots=True)
class LastWords:
    """The lines, numbered from 1, and whom they name."""

    first: int
    last: int
    culprit: Culprit


def last_words(
    lines: Sequence[bytes], timeline: Timeline, at: int, first_line: int, places: Places
) -> LastWords | None:
    """The errors that were told shortly before line ``at``, the launcher's first word of the end;
    None where there are none."""
    if not 1 < at <= len(lines):
        return None
    end = timeline.moment(at)
    told: list[int] = []
    for number in range(at - 1, max(first_line, at - ABOVE) - 1, -1):
        if (end - timeline.moment(number)).total_seconds() > WITHIN_S:
            break
        if _ERROR.search(lines[number - 1], 0, _HEAD) is not None:
            told.insert(0, number)
    if not told:
        return None
    last = told[0]
    for number in told[1:]:
        if number - last > APART + 1:
            break
        last = number
    ranks = {int(m) for n in told for m in _ACCUSED.findall(lines[n - 1])}
    culprit = Culprit()
    if len(ranks) == 1:
        rank = ranks.pop()
        culprit = Culprit(rank, places.local_of(rank), places.node_of(rank))
    return LastWords(told[0], last, culprit)
