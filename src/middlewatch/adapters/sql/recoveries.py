"""Recoveries: which go on, which were settled, and in which order they were.

Those who count settled ones go on from the last place that they have counted, so a place is given
once, at the write that settles, and a settled recovery is never written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import decode, encode
from middlewatch.adapters.sql.read import one
from middlewatch.adapters.sql.rows import Swap, swap, take
from middlewatch.model.identity import ClusterId
from middlewatch.model.recovery import Recovery
from middlewatch.ports.errors import Conflict
from middlewatch.ports.store import RecoveryFilter


def write_recoveries(connection: Connection, recoveries: Sequence[Recovery]) -> None:
    """Compare and swap. Raises `Conflict` for one that moved, or that was settled before."""
    swap(connection, t.recoveries, "id", [_row(connection, one) for one in recoveries])


def _row(connection: Connection, recovery: Recovery) -> Swap:
    c = t.recoveries.c
    stored = connection.execute(select(c.settled).where(c.id == recovery.id)).first()
    if stored is not None and stored.settled is not None:
        raise Conflict(f"recovery {recovery.id} was settled before: look again")
    values = {
        "scheduler": recovery.cluster.scheduler,
        "environment": recovery.cluster.environment,
        "job_id": recovery.job_id,
        "state": recovery.state.value,
        "settled": take(connection, "settled", 1) if recovery.settled else None,
        "body": encode(replace(recovery, version=recovery.version + 1)),
    }
    return Swap(recovery.id, recovery.version, values)


def recovery(connection: Connection, recovery_id: str) -> Recovery | None:
    return one(connection, t.recoveries, "id", recovery_id, Recovery)


def recoveries(
    connection: Connection, where: RecoveryFilter, before: int, limit: int
) -> tuple[tuple[int, Recovery], ...]:
    c = t.recoveries.c
    query = select(c.number, c.body)
    if before:
        query = query.where(c.number < before)
    if where.cluster is not None:
        query = query.where(
            c.environment == where.cluster.environment, c.scheduler == where.cluster.scheduler
        )
    if where.job_id is not None:
        query = query.where(c.job_id == where.job_id)
    if where.state is not None:
        query = query.where(c.state == where.state.value)
    if where.settled is not None:
        query = query.where(c.settled.is_not(None) if where.settled else c.settled.is_(None))
    rows = connection.execute(query.order_by(c.number.desc()).limit(limit)).all()
    return tuple(
        (row.number, decode(row.body, Recovery, t.recoveries, f"number={row.number}"))
        for row in rows
    )


def settled_recoveries(
    connection: Connection, after: int, limit: int, cluster: ClusterId | None
) -> tuple[tuple[int, Recovery], ...]:
    c = t.recoveries.c
    query = select(c.settled, c.body).where(c.settled > after)
    if cluster is not None:
        query = query.where(c.environment == cluster.environment, c.scheduler == cluster.scheduler)
    rows = connection.execute(query.order_by(c.settled).limit(limit)).all()
    return tuple(
        (row.settled, decode(row.body, Recovery, t.recoveries, f"settled={row.settled}"))
        for row in rows
    )
