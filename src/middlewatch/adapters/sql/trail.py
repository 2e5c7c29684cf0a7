"""Reading the audit trail, a page at a time and in both directions.

A page is continued behind the number of a line, never behind a count of lines: what is appended
meanwhile moves nothing.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, select

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import micros
from middlewatch.adapters.sql.read import many
from middlewatch.model.audit import AuditEvent
from middlewatch.ports.store import AuditFilter


def audit(
    connection: Connection,
    where: AuditFilter,
    after: int,
    limit: int,
    *,
    descending: bool,
    backwards: bool,
) -> tuple[AuditEvent, ...]:
    """A page in the order of the listing, also when it was read backwards.

    ``after`` 0 starts at the listing's beginning, or, backwards, at its end. ``from_`` and ``to``
    bound the time at which the events happened, both inclusive.
    """
    c = t.audit.c
    parts = _parts(where)
    rising = descending is backwards
    if after:
        parts.append(c.number > after if rising else c.number < after)
    query = select(c.number, c.body).where(*parts)
    query = query.order_by(c.number if rising else c.number.desc()).limit(limit)
    found = many(connection, query, t.audit, AuditEvent)
    return found[::-1] if backwards else found


def _parts(where: AuditFilter) -> list[ColumnElement[bool]]:
    c = t.audit.c
    parts: list[ColumnElement[bool]] = []
    if where.attempt_id is not None:
        parts.append(c.attempt_id == where.attempt_id)
    if where.job_id is not None:
        parts.append(c.job_id == where.job_id)
    if where.attempt_index is not None:
        parts.append(c.attempt_index == where.attempt_index)
    if where.type is not None:
        parts.append(c.type == where.type)
    if where.level is not None:
        parts.append(c.level == where.level)
    if where.producer is not None:
        parts.append(c.producer == where.producer)
    if where.from_ is not None:
        parts.append(c.happened_us >= micros(where.from_))
    if where.to is not None:
        parts.append(c.happened_us <= micros(where.to))
    return parts
