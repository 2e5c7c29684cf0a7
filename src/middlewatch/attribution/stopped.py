"""Was a program stopped from outside, or did one rank die and take the others along?

Both print the same: every rank that is left says that it was told to stop. A launcher ends the
peers of a rank that died, and reports that rank only when they are gone, so that the order of the
lines says nothing. What does say something is a rank that ended by itself and was not told to: then
the others' words are no pre-emption, unless one of them names it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from middlewatch.attribution.classes import STOPPED_FROM_OUTSIDE, class_of
from middlewatch.attribution.collectives import rank_in
from middlewatch.model.signal import Signal, SignalKind

REPORTED_WITHIN = timedelta(seconds=90)
"""A launcher waits for the peers that it ends, mostly half a minute, before it reports."""
KILLED_WITHIN = timedelta(seconds=15)
"""Whoever stops a program gives it longer than this between the word and the kill."""

_NOTICE = re.compile(
    r"(?i)pre-?empt|requeu?|evict|spot\b|interruption|maintenance|expir|graceful|check-?point|saving"
)
"""Words of a program that was told to make room, or that means to end well."""
_BY_ITSELF = re.compile(
    r"(?i)exit(?:ed with exit)? ?code *:? +0*(?:[1-9]|[1-9]\d|1[01]\d|12[0-7])\b"
)
_KILLED = re.compile(r"(?i)task \d+: killed\b|exit(?:ed with exit)? ?code *:? +(?:-9|137)\b")
_RANK = re.compile(r"(?i)\brank[:= ] ?(\d{1,6})\b")
_REPORTS = frozenset({SignalKind.CASCADE_LINE, SignalKind.LAUNCHER_END})


def silent_death(victims: Sequence[Signal], signals: Sequence[Signal]) -> Signal | None:
    """The report of a rank that died without a word, where the others tell first of being stopped;
    None where they may be believed. Both in the order of time."""
    if not victims or class_of(victims[0]) not in STOPPED_FROM_OUTSIDE:
        return None
    told = [one for one in victims if class_of(one) in STOPPED_FROM_OUTSIDE]
    if any(_NOTICE.search(one.excerpt) for one in told):
        return None
    ranks = {rank for one in told for rank in (*one.ranks, *_ranks(one.excerpt))}
    first = told[0].happened_at
    for one in signals:
        if one.kind not in _REPORTS or len(one.ranks) != 1 or one.ranks[0] in ranks:
            continue
        after = one.happened_at - first
        by_itself = after <= REPORTED_WITHIN and _BY_ITSELF.search(one.excerpt)
        if by_itself or (after <= KILLED_WITHIN and _KILLED.search(one.excerpt)):
            return one
    return None


def _ranks(text: str) -> frozenset[int | None]:
    named = _RANK.search(text)
    return frozenset({rank_in(text), int(named.group(1)) if named else None})
