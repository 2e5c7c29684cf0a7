"""Letting go of what has aged, a few attempts at a time: nobody waits long for the write lock.

Which attempts: see `model.retention`. They are looked for by a reader, which keeps nobody waiting;
the writer then takes those that still fit. The search for evidence goes on from the place up to
which it was swept (a note), because an attempt does not show that it has none any more. One that
was passed over there, because its job still lived, loses its evidence later with its row, or stays
with its advice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    true,
)

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import broken, micros
from middlewatch.adapters.sql.rows import in_parts
from middlewatch.adapters.sql.small import note, put_notes
from middlewatch.model.retention import Aged, Cutoffs

SWEPT = "retention/evidence_swept"
"""The end (microseconds) and the row number of the last attempt whose evidence was let go."""
EVIDENCE = (t.signals, t.signal_counts, t.watch, t.progress)
BELIEFS = (t.issues, t.verdicts, t.decisions)
_c = t.attempts.c


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader found to have aged. ``place`` is what the sweep of evidence comes to."""

    attempts: tuple[str, ...]
    evidence: tuple[str, ...]
    place: tuple[int, int]
    more: bool


def aged(connection: Connection, before: Cutoffs, limit: int) -> Found:
    """At most ``limit`` attempts of each kind; changes nothing."""
    cut = micros(before.attempts)
    query = select(_c.id).where(_ended_before(cut), *_may_go(cut), ~_advised()).limit(limit)
    whole = tuple(row.id for row in connection.execute(query))

    cut = micros(before.evidence)
    swept_us, swept_number = place = _swept(connection)
    behind = or_(_c.ended_us > swept_us, and_(_c.ended_us == swept_us, _c.number > swept_number))
    rows = connection.execute(
        select(_c.id, _c.ended_us, _c.number, and_(*_may_go(cut)).label("may"))
        .where(_c.ended_us >= swept_us, _c.ended_us < cut, behind)
        .order_by(_c.ended_us, _c.number)
        .limit(limit)
    ).all()
    if rows:
        place = (rows[-1].ended_us, rows[-1].number)
    evidence = tuple(row.id for row in rows if row.may)
    return Found(whole, evidence, place, len(whole) == limit or len(rows) == limit)


def let_go(connection: Connection, found: Found, before: Cutoffs) -> Aged:
    """Take what was found and still fits, and say where the sweep has come to."""
    whole = _still(connection, found.attempts, micros(before.attempts), whole=True)
    evidence = _still(connection, found.evidence, micros(before.evidence), whole=False)
    rows = sum(_without(connection, table, "attempt_id", evidence) for table in EVIDENCE)
    rows += sum(_without(connection, table, "attempt_id", whole) for table in EVIDENCE + BELIEFS)
    rows += _without(connection, t.attempts, "id", whole)
    if found.place != _swept(connection):
        put_notes(connection, ((SWEPT, f"{found.place[0]} {found.place[1]}"),))
    return Aged(len(whole), len(evidence), rows, found.more)


def _ended_before(cut: int) -> ColumnElement[bool]:
    # One that vanished may have no end; it counts from when it was first seen.
    endless = and_(_c.ended_us.is_(None), _c.final == true(), _c.first_seen_us < cut)
    return or_(_c.ended_us < cut, endless)


def _may_go(cut: int) -> tuple[ColumnElement[bool], ...]:
    """Nothing of its job lives or ended later, and nobody works on advice for it."""
    other = t.attempts.alias("other")
    since = func.coalesce(other.c.ended_us, other.c.first_seen_us)
    lives = exists().where(
        other.c.job_id == _c.job_id,
        other.c.scheduler == _c.scheduler,
        other.c.environment == _c.environment,
        or_(other.c.final == false(), since >= cut),
    )
    active = exists().where(t.advice.c.attempt_id == _c.id, t.advice.c.active == true())
    return (~lives, ~active)


def _advised() -> ColumnElement[bool]:
    return exists().where(t.advice.c.attempt_id == _c.id)


def _still(
    connection: Connection, ids: Collection[str], cut: int, *, whole: bool
) -> tuple[str, ...]:
    fits = (_ended_before(cut), *_may_go(cut), *((~_advised(),) if whole else ()))
    return tuple(
        row.id
        for part in in_parts(ids)
        for row in connection.execute(select(_c.id).where(_c.id.in_(part), *fits))
    )


def _without(connection: Connection, table: Table, column: str, ids: Collection[str]) -> int:
    return sum(
        connection.execute(delete(table).where(table.c[column].in_(part))).rowcount
        for part in in_parts(ids)
    )


def _swept(connection: Connection) -> tuple[int, int]:
    text = note(connection, SWEPT)
    if text is None:
        return (0, 0)
    words = text.split()
    if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
        raise broken(t.notes, f"name={SWEPT}", f"{text[:40]!r} is no place; remove the note")
    return (int(words[0]), int(words[1]))
