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

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import columns, encode
from middlewatch.adapters.sql.rows import existing, take
from middlewatch.model.identity import AttemptId
from middlewatch.model.signal import Signal

_Group = tuple[AttemptId, str, str]


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
    chosen: set[str] = set()
    capped = 0
    for group, members in groups.items():
        stored = _stored(connection, group)
        room = max(0, cap - (stored or 0))
        chosen.update(signal.key for signal in members[:room])
        beyond = len(members[room:])
        capped += beyond
        _count(connection, group, len(members[:room]), beyond, new=stored is None)
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


def _stored(connection: Connection, group: _Group) -> int | None:
    counts = t.signal_counts
    row = connection.execute(select(counts.c.stored).where(_is(group))).first()
    return None if row is None else int(row.stored)


def _is(group: _Group) -> Any:
    counts = t.signal_counts.c
    return (
        (counts.attempt_id == group[0]) & (counts.pattern == group[1]) & (counts.source == group[2])
    )


def _count(connection: Connection, group: _Group, stored: int, capped: int, *, new: bool) -> None:
    counts = t.signal_counts
    if new:
        values = {
            "attempt_id": group[0],
            "pattern": group[1],
            "source": group[2],
            "stored": stored,
            "capped": capped,
        }
        connection.execute(insert(counts).values(columns(counts, values)))
        return
    connection.execute(
        update(counts)
        .where(_is(group))
        .values(stored=counts.c.stored + stored, capped=counts.c.capped + capped)
    )


def capped_counts(connection: Connection, attempt_id: AttemptId) -> dict[str, int]:
    """Per pattern id (or kind, where there is none), what was only counted."""
    counts = t.signal_counts.c
    query = (
        select(counts.pattern, func.sum(counts.capped).label("capped"))
        .where((counts.attempt_id == attempt_id) & (counts.capped > 0))
        .group_by(counts.pattern)
    )
    return {str(row.pattern): int(row.capped) for row in connection.execute(query)}
