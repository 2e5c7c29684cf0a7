"""Signals: each fact once, and not too many of one kind.

A line that is printed a million times is one fact and a number. Per attempt, pattern and kind of
source the first ``cap`` signals are stored; later ones raise a counter. (Source kinds are counted
apart so that nobody who posts over the API can use up the room of what the log or the scheduler
will say. A signal without a pattern counts under its kind.)

What the counter counts: signals past the cap that were handed over, a key twice in one change
once. Keys past the cap are not kept, that being the point of a cap; so a key handed over again in
a later change counts again. The watcher never does that, for its cursor moves in the transaction
that stores its signals; a client that posts twice may. A key that is stored is never new again,
nor counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import columns, encode
from middlewatch.adapters.sql.rows import existing, in_parts, take
from middlewatch.model.identity import AttemptId
from middlewatch.model.signal import Signal

_Group = tuple[AttemptId, str, str]

_counted = t.signal_counts.c
_GROW = (
    update(t.signal_counts)
    .where(
        (_counted.attempt_id == bindparam("this_attempt_id"))
        & (_counted.pattern == bindparam("this_pattern"))
        & (_counted.source == bindparam("this_source"))
    )
    .values(
        stored=_counted.stored + bindparam("this_stored"),
        capped=_counted.capped + bindparam("this_capped"),
    )
)


def _group(signal: Signal) -> _Group:
    return (signal.attempt_id, signal.pattern_id or signal.kind.value, signal.source.kind.value)


def write_signals(
    connection: Connection, signals: Iterable[Signal], cap: int
) -> tuple[tuple[str, ...], int]:
    """Store what is new below the cap. The keys stored, in order, and how many were only counted."""
    by_key: dict[str, Signal] = {}
    for signal in signals:
        by_key.setdefault(signal.key, signal)
    if not by_key:
        return (), 0
    known = existing(connection, t.signals, "key", by_key.keys())
    groups: dict[_Group, list[Signal]] = {}
    for key, signal in by_key.items():
        if key not in known:
            groups.setdefault(_group(signal), []).append(signal)
    counted = _stored(connection, groups)
    chosen: set[str] = set()
    capped = 0
    begun: list[dict[str, Any]] = []
    grown: list[dict[str, Any]] = []
    for group, members in groups.items():
        stored = counted.get(group)
        room = max(0, cap - (stored or 0))
        within, beyond = members[:room], len(members[room:])
        chosen.update(signal.key for signal in within)
        capped += beyond
        (begun if stored is None else grown).append(_counts(group, len(within), beyond))
    if begun:
        rows = [columns(t.signal_counts, row) for row in begun]
        connection.execute(insert(t.signal_counts), rows)
    if grown:
        connection.execute(
            _GROW, [{f"this_{name}": value for name, value in row.items()} for row in grown]
        )
    fresh = [signal for key, signal in by_key.items() if key in chosen]
    if fresh:
        first = take(connection, "signals", len(fresh))
        rows = [_row(number, signal) for number, signal in enumerate(fresh, first)]
        connection.execute(insert(t.signals), rows)
    return tuple(signal.key for signal in fresh), capped


def _row(number: int, signal: Signal) -> dict[str, Any]:
    values = {
        "number": number,
        "key": signal.key,
        "attempt_id": signal.attempt_id,
        "body": encode(signal),
    }
    return columns(t.signals, values)


def _stored(connection: Connection, groups: Collection[_Group]) -> dict[_Group, int]:
    """How many signals of each group are stored; a group without a row is left out."""
    counts = t.signal_counts.c
    found: dict[_Group, int] = {}
    for attempts in in_parts({group[0] for group in groups}):
        query = select(counts.attempt_id, counts.pattern, counts.source, counts.stored)
        for row in connection.execute(query.where(counts.attempt_id.in_(attempts))):
            found[row.attempt_id, row.pattern, row.source] = int(row.stored)
    return found


def _counts(group: _Group, stored: int, capped: int) -> dict[str, Any]:
    attempt_id, pattern, source = group
    return {
        "attempt_id": attempt_id,
        "pattern": pattern,
        "source": source,
        "stored": stored,
        "capped": capped,
    }


def capped_counts(connection: Connection, attempt_id: AttemptId) -> dict[str, int]:
    """Per pattern id (or kind, where there is none), what was only counted."""
    counts = t.signal_counts.c
    query = (
        select(counts.pattern, func.sum(counts.capped).label("capped"))
        .where((counts.attempt_id == attempt_id) & (counts.capped > 0))
        .group_by(counts.pattern)
    )
    return {str(row.pattern): int(row.capped) for row in connection.execute(query)}
