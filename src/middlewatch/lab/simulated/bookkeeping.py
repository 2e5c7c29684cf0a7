"""What the simulated accounting remembers of attempts, when it shows it, and what it loses.

Releases before 26.05 write REQUEUED over the end of an attempt whose job is requeued afterwards,
and their text keeps no exit code that can be believed; the batch step's own record is never
rewritten. Each record is kept as the sequence of what accounting shows from which moment on.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from middlewatch.lab.simulated.records import Job, Record
from middlewatch.model.scheduler import AccountingRecord, JobState

if TYPE_CHECKING:
    from middlewatch.lab.simulated.slurmctld import SimulatedCluster

_KEEPS_ENDS_SINCE = (26, 5)


def opened(cluster: SimulatedCluster, job: Job) -> None:
    """A new attempt waits."""
    record = Record(job.submitted_at)
    job.records.append(record)
    _show(
        cluster,
        record,
        AccountingRecord(
            job_id=job.job_id,
            submitted_at=job.submitted_at,
            state=JobState.PENDING,
            requeued=False,
            exit_code=None,
            exit_signal=None,
            started_at=None,
            ended_at=None,
            node_list="",
            cancelled_by=None,
            batch_completed=None,
            user=job.user,
        ),
    )


def started(cluster: SimulatedCluster, job: Job) -> None:
    """The attempt runs."""
    record = job.records[-1]
    shown = replace(
        _last(record),
        state=JobState.RUNNING,
        started_at=job.started_at,
        node_list=",".join(job.nodes),
        batch_completed=False,
    )
    _show(cluster, record, shown)


def ended(cluster: SimulatedCluster, job: Job, failed_node: str = "") -> None:
    """The attempt has ended by itself, by a cancel, or with its node."""
    record = job.records[-1]
    before = _last(record)
    completed = job.state is JobState.COMPLETED
    # Accounting has 0:0 for what was cancelled or timed out; the signal is the batch step's.
    plain = job.state in (JobState.CANCELLED, JobState.TIMEOUT, JobState.NODE_FAIL)
    signal = None if plain else job.exit.signal
    known = completed or signal is not None
    shown = replace(
        before,
        state=job.state,
        exit_code=0 if known else _code(cluster, job.exit.code),
        exit_signal=signal,
        ended_at=job.ended_at,
        cancelled_by=job.cancelled_by if job.state is JobState.CANCELLED else None,
        batch_completed=completed if before.started_at is not None else None,
        batch_ended_at=job.ended_at if before.started_at is not None else None,
        failed_node=failed_node if cluster.config.release_number >= (24, 11) else "",
    )
    _show(cluster, record, shown)


def never_ran(cluster: SimulatedCluster, job: Job) -> None:
    """Its node refused to start it: the batch step has no exit code."""
    record = job.records[-1]
    _show(cluster, record, replace(_last(record), never_ran=True))


def requeued_while_running(cluster: SimulatedCluster, job: Job) -> None:
    """A requeue ended the attempt. A cancel that came first is forgotten by most releases."""
    record = job.records[-1]
    shown = replace(
        _last(record),
        state=JobState.CANCELLED,
        requeued=True,
        ended_at=cluster.second,
        exit_code=_code(cluster, 0),
        batch_completed=False,
        batch_ended_at=cluster.second,
    )
    _show(cluster, record, shown)


def requeued_after_end(cluster: SimulatedCluster, job: Job) -> None:
    """An attempt that had already ended was requeued."""
    if cluster.config.release_number >= _KEEPS_ENDS_SINCE:
        return
    record = job.records[-1]
    before = _last(record)
    failed = job.exit.code != 0 or (job.exit.signal is not None and before.exit_signal is not None)
    state = JobState.FAILED if failed else JobState.CANCELLED
    if before.batch_completed:
        state = JobState.COMPLETED
    if before.started_at is None:
        # What was cancelled while it waited gets a start that it never had.
        before = replace(before, started_at=cluster.second)
    shown = replace(before, state=state, requeued=True, ended_at=cluster.second, cancelled_by=None)
    _show(cluster, record, shown)


def records_of(cluster: SimulatedCluster, job_id: str) -> tuple[AccountingRecord, ...]:
    """What accounting shows now, oldest attempt first, earlier jobs of the number included."""
    jobs = [*cluster.forgotten.get(job_id, ()), *filter(None, [cluster.jobs.get(job_id)])]
    found = [_shown(record, cluster.now) for job in jobs for record in job.records]
    return tuple(record for record in found if record is not None)


def _show(cluster: SimulatedCluster, record: Record, shown: AccountingRecord) -> None:
    visible = cluster.now + timedelta(seconds=cluster.config.accounting_lag_s)
    record.shown.append((visible, shown))


def _last(record: Record) -> AccountingRecord:
    return record.shown[-1][1]


def _shown(record: Record, now: datetime) -> AccountingRecord | None:
    visible = [shown for when, shown in record.shown if when <= now]
    return visible[-1] if visible else None


def _code(cluster: SimulatedCluster, code: int) -> int | None:
    return code if cluster.config.release_number >= _KEEPS_ENDS_SINCE else None
