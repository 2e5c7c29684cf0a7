"""One `Change` becomes rows, all of them or none.

Everything here runs inside one transaction that holds the write lock. The first thing found to
have moved ends it with `Conflict`; the caller reads again and decides again. Nothing here judges a
record's meaning beyond what keeps history true: a target stays the target, and a generation
follows its predecessor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import (
    broken,
    columns,
    decode,
    digest,
    encode,
    micros,
    micros_or_none,
)
from middlewatch.adapters.sql.recoveries import write_recoveries
from middlewatch.adapters.sql.rows import Swap, existing, put, put_all, swap, take
from middlewatch.adapters.sql.sharing import check_held
from middlewatch.adapters.sql.signals import write_signals
from middlewatch.adapters.sql.small import replace_note
from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.audit import AuditEvent
from middlewatch.model.change import Applied, Change, Decision, Lease, WatchState
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.milestone import Milestone
from middlewatch.model.milestone import Sequence as Recovery
from middlewatch.model.scheduler import ENDED, JobState
from middlewatch.model.signal import Progress
from middlewatch.ports.errors import Conflict, Refused

FAILURE_LIKE = ENDED - {JobState.COMPLETED, JobState.CANCELLED}
"""Ends that a restart could follow. Requeued attempts are left out whatever their state was."""
REQUEUED = "REQUEUED"
"""The word under which an attempt is found that ended by a requeue."""


def write(connection: Connection, change: Change) -> Applied:
    """Write all of ``change``. Raises `Conflict` or `Refused`: then nothing may be committed."""
    if change.lease is not None:
        _check_lease(connection, change.lease, change)
    check_held(connection, change.shards)
    for attempt_id, version in change.expected:
        _check_unmoved(connection, attempt_id, version)
    swap(connection, t.attempts, "id", [_attempt(attempt) for attempt in change.attempts])
    swap(connection, t.watch, "attempt_id", [_watch(state) for state in change.watch])
    _write_progress(connection, change.progress)
    new, capped = write_signals(connection, change.signals, change.signal_cap)
    swap(connection, t.issues, "id", [_issue(issue) for issue in change.issues])
    _write_verdicts(connection, change.verdicts)
    for decision in change.decisions:
        _write_decision(connection, decision)
    for sequence in change.sequences:
        _write_sequence(connection, sequence)
    for advice in change.advice:
        _write_advice(connection, advice)
    for action in change.actions:
        if change.lease is not None:
            _check_generation(connection, action)
        _write_action(connection, action)
    for milestone in change.milestones:
        _write_milestone(connection, milestone)
    write_recoveries(connection, change.recoveries)
    for noted in change.notes:
        replace_note(connection, noted)
    stored = frozenset(new)
    told = (event for key, event in change.about_signals if key in stored)
    last = write_audit(connection, (*change.audit, *told))
    return Applied(new_signals=new, capped_signals=capped, last_audit_number=last)


def _check_lease(connection: Connection, lease: Lease, change: Change) -> None:
    if change.now is None:
        raise Refused(f"a change under lease {lease.name!r} must say at which moment (now)")
    query = select(t.leases.c.holder, t.leases.c.token, t.leases.c.expires_us)
    row = connection.execute(query.where(t.leases.c.name == lease.name)).first()
    if row is None or (row.holder, row.token) != (lease.holder, lease.token):
        raise Conflict(
            f"lease {lease.name!r} is no longer held by {lease.holder!r} with token {lease.token}"
            + ("" if row is None else f": {row.holder or 'nobody'!r} has token {row.token}")
        )
    if row.expires_us <= micros(change.now):
        raise Conflict(f"lease {lease.name!r} of {lease.holder!r} has expired")


def _check_unmoved(connection: Connection, attempt_id: str, version: int) -> None:
    query = select(t.attempts.c.version).where(t.attempts.c.id == attempt_id)
    stored = connection.execute(query).scalar()
    if stored != version:
        raise Conflict(f"attempt {attempt_id} is at version {stored}, not {version}: look again")


def _attempt(attempt: Attempt) -> Swap:
    end = attempt.end
    state = attempt.state if end is None else end.state
    eligible = not attempt.vanished and (
        end is None or (state in FAILURE_LIKE and end.by is not EndedBy.REQUEUE)
    )
    ended = None if end is None else (end.at or end.learned_at)
    body = encode(replace(attempt, version=attempt.version + 1))
    values: dict[str, Any] = {
        "scheduler": attempt.cluster.scheduler,
        "environment": attempt.cluster.environment,
        "job_id": attempt.job_id,
        "attempt_index": attempt.attempt_index,
        "submitted_us": micros(attempt.submitted_at),
        "first_seen_us": micros(attempt.first_seen_at),
        "workflow_id": attempt.workflow_id,
        "job_name": attempt.job_name,
        "state": REQUEUED if end is not None and end.by is EndedBy.REQUEUE else state.value,
        "final": not attempt.live,
        "eligible": eligible,
        "started_us": micros_or_none(attempt.started_at),
        "ended_us": micros_or_none(ended),
        "body": body,
    }
    return Swap(attempt.id, attempt.version, values)


def _watch(state: WatchState) -> Swap:
    return Swap(state.attempt_id, state.version, {"state": state.state})


def _write_progress(connection: Connection, progress: Sequence[Progress]) -> None:
    rows: dict[str, dict[str, Any]] = {one.attempt_id: {"body": encode(one)} for one in progress}
    put_all(connection, t.progress, "attempt_id", rows)


def _issue(issue: Issue) -> Swap:
    body = encode(replace(issue, version=issue.version + 1))
    return Swap(issue.id, issue.version, {"attempt_id": issue.attempt_id, "body": body})


def _write_verdicts(connection: Connection, verdicts: Sequence[Verdict]) -> None:
    if not verdicts:
        return
    first = take(connection, "verdicts", len(verdicts))
    connection.execute(
        insert(t.verdicts),
        [
            columns(t.verdicts, {"number": n, "attempt_id": v.attempt_id, "body": encode(v)})
            for n, v in enumerate(verdicts, first)
        ],
    )


def _write_decision(connection: Connection, decision: Decision) -> None:
    values = {"attempt_id": decision.attempt_id, "body": encode(decision)}
    _write_once(connection, t.decisions, "id", decision.id, values, must_equal=True)


def _write_sequence(connection: Connection, sequence: Recovery) -> None:
    values = {
        "scheduler": sequence.scheduler,
        "environment": sequence.environment,
        "job_id": sequence.job_id,
        "attempt_index": sequence.source_attempt_index,
        "operation": sequence.operation.value,
        "body": encode(sequence),
    }
    _write_once(connection, t.sequences, "id", sequence.id, values)


def _write_once(
    connection: Connection,
    table: Table,
    key: str,
    value: str,
    values: dict[str, Any],
    *,
    must_equal: bool = False,
) -> None:
    """Insert a row that never changes; the same id again is the same row.

    With ``must_equal`` another body under a known id is a `Conflict`, else the first stays.
    """
    stored = connection.execute(select(table.c.body).where(table.c[key] == value)).first()
    if stored is None:
        number = take(connection, table.name, 1)
        row = columns(table, {"number": number, key: value, **values})
        connection.execute(insert(table).values(row))
    elif must_equal and stored.body != values["body"]:
        raise Conflict(f"{table.name} {value}: another record with this id is already stored")


def _write_advice(connection: Connection, advice: Advice) -> None:
    table = t.advice
    query = select(table.c.version, table.c.generation, table.c.body)
    row = connection.execute(query.where(table.c.attempt_id == advice.attempt_id)).first()
    before: Advice | None = None
    if row is not None and row.version == advice.version:
        before = decode(row.body, Advice, table, f"attempt_id={advice.attempt_id}")
        _check_follows(before, advice)
    elif row is None and advice.version == 0 and advice.generation != 1:
        raise Refused(
            f"advice for {advice.attempt_id} begins with generation 1, not {advice.generation}"
        )
    body = encode(replace(advice, version=advice.version + 1))
    values: dict[str, Any] = {
        "scheduler": advice.owner.scheduler,
        "environment": advice.owner.environment,
        "job_id": advice.job_id,
        "submitted_us": micros(advice.submitted_at),
        "active": advice.active,
        "generation": advice.generation,
        "body": body,
    }
    swap(connection, table, "attempt_id", [Swap(advice.attempt_id, advice.version, values)])
    if row is not None and before is not None and before.generation != advice.generation:
        connection.execute(
            insert(t.advice_generations).values(
                attempt_id=advice.attempt_id, generation=before.generation, body=row.body
            )
        )
    if advice.status is not None and (before is None or before.status != advice.status):
        connection.execute(
            insert(t.statuses).values(
                attempt_id=advice.attempt_id,
                version=advice.version + 1,
                body=encode(advice.status),
            )
        )


def _check_follows(before: Advice, after: Advice) -> None:
    target = (before.job_id, before.attempt_index, before.submitted_at)
    if target != (after.job_id, after.attempt_index, after.submitted_at):
        raise Refused(
            f"advice for {before.attempt_id} is about {before.job_id}-{before.attempt_index} and "
            f"cannot become about {after.job_id}-{after.attempt_index}"
        )
    if after.generation not in {before.generation, before.generation + 1}:
        raise Refused(
            f"advice for {before.attempt_id}: generation {after.generation} does not follow "
            f"{before.generation}"
        )


def _check_generation(connection: Connection, action: ActionRecord) -> None:
    """A command that is about to be sent serves the present generation, or is not sent. (What a
    command came to is written without a lease, whatever was decided meanwhile.)"""
    query = select(t.advice.c.generation).where(t.advice.c.attempt_id == action.attempt_id)
    present = connection.execute(query).scalar()
    if present is not None and present != action.generation:
        raise Conflict(
            f"action {action.id} serves generation {action.generation} of advice that is at "
            f"generation {present}: decide again"
        )


def _write_action(connection: Connection, action: ActionRecord) -> None:
    values = {"attempt_id": action.attempt_id, "body": encode(action)}
    put(connection, t.actions, "id", action.id, values, numbered=True)


def _write_milestone(connection: Connection, milestone: Milestone) -> None:
    table = t.milestones
    key = digest(milestone.idempotency_key)
    same = (table.c.sequence_id == milestone.sequence_id) & (table.c.key_digest == key)
    if connection.execute(select(table.c.number).where(same)).first() is not None:
        return
    values = {
        "number": take(connection, "milestones", 1),
        "sequence_id": milestone.sequence_id,
        "key_digest": key,
        "body": encode(milestone),
    }
    connection.execute(insert(table).values(columns(table, values)))


def write_audit(connection: Connection, events: Iterable[AuditEvent]) -> int:
    """Append to the trail and return its last number. Numbers come from a row that is part of the
    transaction: what is rolled back takes its numbers back with it."""
    keyed: list[tuple[str | None, AuditEvent]] = []
    seen: set[str] = set()
    for event in events:
        key = digest(event.idempotency_key) if event.idempotency_key else None
        if key is None or key not in seen:
            keyed.append((key, event))
        if key is not None:
            seen.add(key)
    known = existing(connection, t.audit, "key_digest", seen)
    fresh = [(key, event) for key, event in keyed if key is None or key not in known]
    if not fresh:
        return last_number(connection)
    first = take(connection, "audit", len(fresh))
    rows = [_audit_row(number, key, event) for number, (key, event) in enumerate(fresh, first)]
    connection.execute(insert(t.audit), rows)
    return first + len(fresh) - 1


def last_number(connection: Connection) -> int:
    """The number of the newest line of the trail, 0 for none."""
    value = connection.execute(
        select(t.counters.c.value).where(t.counters.c.name == "audit")
    ).scalar()
    if not isinstance(value, int):
        raise broken(t.counters, "name=audit", "the counter is missing or no number")
    return value


def _audit_row(number: int, key: str | None, event: AuditEvent) -> dict[str, Any]:
    body = encode(replace(event, number=number))
    values = {
        "number": number,
        "key_digest": key,
        "attempt_id": event.attempt_id,
        "job_id": event.job_id,
        "attempt_index": event.attempt_index,
        "type": event.type,
        "level": event.level.value,
        "producer": event.producer,
        "happened_us": micros(event.happened_at),
        "body": body,
    }
    return columns(t.audit, values)
