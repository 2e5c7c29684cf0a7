"""What decisions read: attempts, signals, issues, actions, sequences.

Each function is given a connection that sees one committed state, and returns records. Lists are
ordered by something that does not change while a client turns pages.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Table,
    case,
    false,
    func,
    select,
    true,
    type_coerce,
)

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import broken, decode, micros, moment_of
from middlewatch.model.action import ActionRecord
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Decision, WatchState
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.milestone import Milestone, Operation, Sequence
from middlewatch.model.signal import Progress, Signal
from middlewatch.ports.store import AttemptFilter, Workflow

R = TypeVar("R")


def many(connection: Connection, query: Select[Any], table: Table, kind: type[R]) -> tuple[R, ...]:
    """The records of a query for (number, body)."""
    rows = connection.execute(query).all()
    return tuple(decode(row.body, kind, table, f"number={row.number}") for row in rows)


def one(connection: Connection, table: Table, key: str, value: str, kind: type[R]) -> R | None:
    """The record under a key, if there is one."""
    row = connection.execute(select(table.c.body).where(table.c[key] == value)).first()
    if row is None:
        return None
    record = decode(row.body, kind, table, f"{key}={value}")
    if getattr(record, key) != value:
        raise broken(table, f"{key}={value}", f"its body is about {getattr(record, key)}")
    return record


IN_ONE_QUESTION = 250
"""Keys in one question; databases bound the number of parameters."""


def several(
    connection: Connection, table: Table, key: str, values: Seq[str], kind: type[R]
) -> dict[str, R]:
    """The records under the keys that there are, by key."""
    found: dict[str, R] = {}
    for start in range(0, len(values), IN_ONE_QUESTION):
        wanted = table.c[key].in_(values[start : start + IN_ONE_QUESTION])
        for row in connection.execute(select(table.c[key], table.c.body).where(wanted)).all():
            found[row[0]] = decode(row.body, kind, table, f"{key}={row[0]}")
    return found


def _bodies(table: Table, *where: ColumnElement[bool]) -> Select[Any]:
    return select(table.c.number, table.c.body).where(*where)


def _of_attempt(
    connection: Connection, table: Table, attempt_id: AttemptId, kind: type[R]
) -> tuple[R, ...]:
    query = _bodies(table, table.c.attempt_id == attempt_id).order_by(table.c.number)
    return many(connection, query, table, kind)


# attempts


def attempt(connection: Connection, attempt_id: AttemptId) -> Attempt | None:
    return one(connection, t.attempts, "id", attempt_id, Attempt)


def _in_cluster(table: Table, cluster: ClusterId) -> ColumnElement[bool]:
    return (table.c.environment == cluster.environment) & (table.c.scheduler == cluster.scheduler)


def attempts_of_job(connection: Connection, cluster: ClusterId, job_id: str) -> tuple[Attempt, ...]:
    c = t.attempts.c
    query = _bodies(t.attempts, c.job_id == job_id, _in_cluster(t.attempts, cluster))
    return many(connection, query.order_by(c.submitted_us, c.number), t.attempts, Attempt)


def attempt_by_index(connection: Connection, job_id: str, index: int) -> Attempt | None:
    """The newest one that has not vanished; a vanished one only where there is no other."""
    c = t.attempts.c
    query = _bodies(t.attempts, c.job_id == job_id, c.attempt_index == index)
    found = many(
        connection, query.order_by(c.submitted_us.desc(), c.number.desc()), t.attempts, Attempt
    )
    return next((a for a in found if not a.vanished), found[0] if found else None)


def live_attempts(connection: Connection, cluster: ClusterId) -> tuple[Attempt, ...]:
    c = t.attempts.c
    query = _bodies(t.attempts, c.final == false(), _in_cluster(t.attempts, cluster))
    return many(connection, query.order_by(c.first_seen_us, c.number), t.attempts, Attempt)


def attempts(
    connection: Connection, where: AttemptFilter, offset: int, limit: int
) -> tuple[Attempt, ...]:
    """``states`` are compared with the state at the end, where there is one; ``ended_from`` and
    ``ended_to`` are inclusive (an end of unknown time counts when it was learnt)."""
    c = t.attempts.c
    parts: list[ColumnElement[bool]] = []
    if where.cluster is not None:
        parts.append(_in_cluster(t.attempts, where.cluster))
    if where.job_ids:
        parts.append(c.job_id.in_(where.job_ids))
    if where.workflow_ids:
        parts.append(c.workflow_id.in_(where.workflow_ids))
    if where.states:
        parts.append(c.state.in_(where.states))
    lately = where.final is True and where.ended_from is not None
    if lately:
        parts.append(type_coerce(c.final, BigInteger) + 0 == 1)
    elif where.final is not None:
        parts.append(c.final == (true() if where.final else false()))
    if where.reconciliation_eligible:
        parts.append(c.eligible == true())
    if where.ended_from is not None:
        parts.append(c.ended_us >= micros(where.ended_from))
    if where.ended_to is not None:
        parts.append(c.ended_us <= micros(where.ended_to))
    seen: ColumnElement[Any] = c.first_seen_us
    if lately:
        # All that ever ended lie in the order in which they were seen: what ended lately is found
        # by its end, and an index that serves filter and order at once would be preferred to that.
        seen = c.first_seen_us + 0
    query = _bodies(t.attempts, *parts).order_by(seen, c.number)
    return many(connection, query.offset(offset).limit(limit), t.attempts, Attempt)


# workflows


def workflows(
    connection: Connection, offset: int, limit: int, workflow_id: str | None = None
) -> tuple[Workflow, ...]:
    """Oldest first attempt first. A workflow has ended when all of its attempts have; it is named
    after its first attempt, whose job number is its id at the scheduler."""
    c = t.attempts.c
    wanted = c.workflow_id != ""
    if workflow_id is not None:
        wanted &= c.workflow_id == workflow_id
    groups = (
        select(
            c.workflow_id,
            func.min(c.number).label("first"),
            func.min(c.started_us).label("started_us"),
            func.max(c.ended_us).label("ended_us"),
            func.min(case((c.final == true(), 1), else_=0)).label("all_final"),
        )
        .where(wanted)
        .group_by(c.workflow_id)
        .order_by(func.min(c.number))
        .offset(offset)
        .limit(limit)
        .subquery()
    )
    query = (
        select(groups, c.job_id, c.job_name)
        .join(t.attempts, c.number == groups.c.first)
        .order_by(groups.c.first)
    )
    return tuple(
        Workflow(
            workflow_id=row.workflow_id,
            scheduler_workflow_id=row.job_id,
            name=row.job_name,
            started_at=None if row.started_us is None else moment_of(row.started_us),
            ended_at=moment_of(row.ended_us)
            if row.all_final and row.ended_us is not None
            else None,
        )
        for row in connection.execute(query)
    )


# watching


def watch_state(connection: Connection, attempt_id: AttemptId) -> WatchState | None:
    c = t.watch.c
    row = connection.execute(select(c.state, c.version).where(c.attempt_id == attempt_id)).first()
    if row is None:
        return None
    if not isinstance(row.state, bytes) or not isinstance(row.version, int):
        raise broken(t.watch, f"attempt_id={attempt_id}", "its state is not bytes")
    return WatchState(attempt_id, row.state, row.version)


def progress(connection: Connection, attempt_id: AttemptId) -> Progress | None:
    return one(connection, t.progress, "attempt_id", attempt_id, Progress)


def progress_of(connection: Connection, attempt_ids: Seq[AttemptId]) -> dict[AttemptId, Progress]:
    found = several(connection, t.progress, "attempt_id", attempt_ids, Progress)
    return {AttemptId(name): record for name, record in found.items()}


def signals(
    connection: Connection, attempt_id: AttemptId | None, after: int, limit: int
) -> tuple[tuple[int, Signal], ...]:
    c = t.signals.c
    query = _bodies(t.signals, c.number > after)
    if attempt_id is not None:
        query = query.where(c.attempt_id == attempt_id)
    rows = connection.execute(query.order_by(c.number).limit(limit)).all()
    return tuple(
        (row.number, decode(row.body, Signal, t.signals, f"number={row.number}")) for row in rows
    )


# decisions


def issues(
    connection: Connection, attempt_id: AttemptId | None, offset: int, limit: int
) -> tuple[Issue, ...]:
    c = t.issues.c
    if attempt_id is None:
        query = _bodies(t.issues).order_by(c.number.desc())
    else:
        query = _bodies(t.issues, c.attempt_id == attempt_id).order_by(c.number)
    return many(connection, query.offset(offset).limit(limit), t.issues, Issue)


def verdicts(connection: Connection, attempt_id: AttemptId) -> tuple[Verdict, ...]:
    return _of_attempt(connection, t.verdicts, attempt_id, Verdict)


def decisions(connection: Connection, attempt_id: AttemptId) -> tuple[Decision, ...]:
    return _of_attempt(connection, t.decisions, attempt_id, Decision)


def actions(connection: Connection, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
    return _of_attempt(connection, t.actions, attempt_id, ActionRecord)


def placed(connection: Connection, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
    """Those that set exclusions, of this attempt and of the earlier ones of the same job."""
    this = attempt(connection, attempt_id)
    ids = [attempt_id]
    if this is not None:
        index = this.attempt_index
        for other in reversed(attempts_of_job(connection, this.cluster, this.job_id)):
            # Attempts are numbered upwards: where they are not, another job had the number.
            if other.submitted_at < this.submitted_at and other.attempt_index < index:
                ids.append(other.id)
                index = other.attempt_index
            elif other.submitted_at < this.submitted_at:
                break
    query = _bodies(t.actions, t.actions.c.attempt_id.in_(ids)).order_by(t.actions.c.number)
    found = many(connection, query, t.actions, ActionRecord)
    return tuple(record for record in found if record.action.exclusions is not None)


# recovery sequences


def sequence(
    connection: Connection, cluster: ClusterId, job_id: str, index: int, operation: Operation
) -> Sequence | None:
    """The newest one of that name: a job number may have come back."""
    c = t.sequences.c
    query = (
        _bodies(
            t.sequences,
            c.job_id == job_id,
            c.attempt_index == index,
            c.operation == operation.value,
            _in_cluster(t.sequences, cluster),
        )
        .order_by(c.number.desc())
        .limit(1)
    )
    return next(iter(many(connection, query, t.sequences, Sequence)), None)


def sequence_by_id(connection: Connection, sequence_id: str) -> Sequence | None:
    return one(connection, t.sequences, "id", sequence_id, Sequence)


def milestones(connection: Connection, sequence_id: str) -> tuple[Milestone, ...]:
    """By the time at which they happened; those of one moment as they were stored."""
    c = t.milestones.c
    query = _bodies(t.milestones, c.sequence_id == sequence_id).order_by(c.number)
    found = many(connection, query, t.milestones, Milestone)
    return tuple(sorted(found, key=lambda milestone: milestone.at))
