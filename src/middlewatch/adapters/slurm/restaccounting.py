"""Accounting as slurmrestd's JSON shows it: sacct's records, quoted, with whole exit codes.

Read in the same way as sacct's text (`accounting`). That ends which a requeue has overwritten are
told from their exit codes holds here, too: before 26.05 it is slurmdbd that overwrites them.
"""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from middlewatch.adapters.slurm.accounting import ended_as
from middlewatch.adapters.slurm.detail import number
from middlewatch.adapters.slurm.restjob import exit_of
from middlewatch.adapters.slurm.words import NOTHING, from_epoch, job_states
from middlewatch.model.scheduler import AccountingRecord, JobState
from middlewatch.ports.errors import Unreadable

_NO_STATE = frozenset({"REQUEUED", "RESIZING"})


def records_of(jobs: list[dict[str, Any]], job_id: str) -> tuple[AccountingRecord, ...]:
    """The records of that job, oldest first. Raises `Unreadable` for one of another shape."""
    found: list[AccountingRecord] = []
    since: datetime | None = None
    own = [job for job in jobs if _named(job) == job_id]
    for job in sorted(own, key=lambda job: number(_part(job, "time").get("submission")) or 0):
        if "RESIZING" in _words(_part(job, "state").get("current")):
            # No attempt of its own: the next row goes on with it, and has the moment of the resizing
            # for a submit time.
            since = since or _moment(_part(job, "time").get("submission"))
            continue
        record = _record(job, job_id)
        found.append(replace(record, submitted_at=since or record.submitted_at))
        since = None
    return tuple(sorted(found, key=lambda record: record.submitted_at))


def _named(job: Mapping[str, Any]) -> str:
    het, array = _part(job, "het"), _part(job, "array")
    leader = number(het.get("job_id"))
    if leader:
        offset = number(het.get("job_offset")) or 0
        return str(leader) if offset == 0 else f"{leader}+{offset}"
    first, task = number(array.get("job_id")), number(array.get("task_id"))
    if first:
        return str(first) if task is None else f"{first}_{task}"
    return str(number(job.get("job_id")))


def _record(job: Mapping[str, Any], job_id: str) -> AccountingRecord:
    times = _part(job, "time")
    submitted = _moment(times.get("submission"))
    if submitted is None:
        raise Unreadable(f"slurmrestd's accounting has no submit time for job {job_id}")
    words = _words(_part(job, "state").get("current"))
    requeued = "REQUEUED" in words
    code, signal = exit_of(job.get("exit_code"))
    base = [word for word in words if word not in _NO_STATE]
    state = ended_as(code, signal) if requeued else job_states(tuple(base))[0]
    by = job.get("kill_request_user")
    started, ended = _moment(times.get("start")), _moment(times.get("end"))
    batch = _batch(job)
    completed: bool | None = None
    never_ran, batch_ended = False, None
    if batch is not None:
        batch_code, batch_signal = exit_of(batch.get("exit_code"))
        batch_words = _words(batch.get("state"))
        completed = batch_words == ["COMPLETED"] and not batch_code and not batch_signal
        if completed and requeued:
            state, code = JobState.COMPLETED, 0
        batch_times = _part(batch, "time")
        batch_ended = _moment(batch_times.get("end"))
        never_ran = (
            batch_words == ["CANCELLED"]
            and not _ended(batch.get("exit_code"))
            and _moment(batch_times.get("start")) == batch_ended
        )
    nodes, failed = job.get("nodes"), job.get("failed_node")
    return AccountingRecord(
        job_id=job_id,
        submitted_at=submitted,
        state=state,
        requeued=requeued,
        exit_code=code,
        exit_signal=signal,
        started_at=started,
        ended_at=ended,
        node_list=nodes if isinstance(nodes, str) and nodes not in NOTHING else "",
        cancelled_by=_uid(by)
        if state is JobState.CANCELLED and isinstance(by, str) and by
        else None,
        batch_completed=completed,
        batch_ended_at=batch_ended,
        failed_node=failed if isinstance(failed, str) else "",
        user=str(_part(job, "association").get("user") or job.get("user") or ""),
        never_ran=never_ran,
    )


def _batch(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict) and _part(step, "step").get("name") == "batch":
            return step
    return None


def _ended(exit_code: object) -> bool:
    """Whether there is an exit code or a signal at all."""
    part = exit_code if isinstance(exit_code, dict) else {}
    signal = _part(part, "signal").get("id")
    return number(part.get("return_code")) is not None or number(signal) is not None


def _uid(user: str) -> str:
    """As sacct tells it, by number; the name where this machine does not know it."""
    try:
        return str(pwd.getpwnam(user).pw_uid)
    except KeyError:
        return user


def _part(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def _words(state: object) -> list[str]:
    return [str(word) for word in state] if isinstance(state, list) else [str(state)]


def _moment(value: object) -> datetime | None:
    seconds = number(value)
    return from_epoch(seconds) if seconds else None
