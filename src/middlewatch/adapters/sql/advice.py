"""Reading advice: what stands, what stood, what was reported.

Open work is found by an index on (active, number) alone, so the cost of a look depends on how much
is open and not on how much was ever settled.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from sqlalchemy import Connection, select, true

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import decode
from middlewatch.adapters.sql.read import many, one, several
from middlewatch.model.advice import Advice, Status
from middlewatch.model.identity import AttemptId, ClusterId


def advice(connection: Connection, attempt_id: AttemptId) -> Advice | None:
    return one(connection, t.advice, "attempt_id", attempt_id, Advice)


def advice_of(connection: Connection, attempt_ids: Seq[AttemptId]) -> dict[AttemptId, Advice]:
    found = several(connection, t.advice, "attempt_id", attempt_ids, Advice)
    return {AttemptId(name): record for name, record in found.items()}


def advice_of_job(connection: Connection, cluster: ClusterId, job_id: str) -> tuple[Advice, ...]:
    c = t.advice.c
    query = (
        select(c.number, c.body)
        .where(
            c.job_id == job_id,
            c.environment == cluster.environment,
            c.scheduler == cluster.scheduler,
        )
        .order_by(c.submitted_us, c.number)
    )
    return many(connection, query, t.advice, Advice)


def advice_page(
    connection: Connection, only_active: bool, after: int, limit: int, owner: ClusterId | None
) -> tuple[tuple[int, Advice], ...]:
    c = t.advice.c
    query = select(c.number, c.body).where(c.number > after)
    if only_active:
        query = query.where(c.active == true())
    if owner is not None:
        query = query.where(c.environment == owner.environment, c.scheduler == owner.scheduler)
    rows = connection.execute(query.order_by(c.number).limit(limit)).all()
    return tuple(
        (row.number, decode(row.body, Advice, t.advice, f"number={row.number}")) for row in rows
    )


def generations(connection: Connection, attempt_id: AttemptId) -> tuple[Advice, ...]:
    """Those that were left, and the current one at the end."""
    table = t.advice_generations
    query = (
        select(table.c.generation, table.c.body)
        .where(table.c.attempt_id == attempt_id)
        .order_by(table.c.generation)
    )
    left = tuple(
        decode(row.body, Advice, table, f"attempt_id={attempt_id}, generation={row.generation}")
        for row in connection.execute(query).all()
    )
    current = advice(connection, attempt_id)
    return left if current is None else (*left, current)


def statuses(connection: Connection, attempt_id: AttemptId) -> tuple[Status, ...]:
    table = t.statuses
    query = (
        select(table.c.version, table.c.body)
        .where(table.c.attempt_id == attempt_id)
        .order_by(table.c.version)
    )
    return tuple(
        decode(row.body, Status, table, f"attempt_id={attempt_id}, version={row.version}")
        for row in connection.execute(query).all()
    )
