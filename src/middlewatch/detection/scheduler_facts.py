"""What the scheduler's word about an attempt's end means.

The end is the strongest evidence there is that nothing runs any more, and it is told twice: at
once by the listing, more exactly (who cancelled, what failed) by accounting, seconds later.
"""

from __future__ import annotations

from datetime import datetime

from middlewatch.detection.state import DetectionState
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.copies import replace
from middlewatch.model.scheduler import ENDED, AccountingRecord, JobState
from middlewatch.model.signal import (
    Domain,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
)

_MEANING: dict[EndedBy, tuple[str, Domain, Severity]] = {
    EndedBy.COMPLETION: ("", Domain.UNKNOWN, Severity.INFO),
    EndedBy.FAILURE: ("killed_unknown", Domain.UNKNOWN, Severity.ERROR),
    EndedBy.NODE_FAILURE: ("node_failure", Domain.HARDWARE, Severity.FATAL),
    EndedBy.OUT_OF_MEMORY: ("host_oom", Domain.SYSTEM_SOFTWARE, Severity.ERROR),
    EndedBy.TIME_LIMIT: ("time_limit", Domain.SCHEDULER, Severity.WARNING),
    EndedBy.DEADLINE: ("time_limit", Domain.SCHEDULER, Severity.WARNING),
    EndedBy.OWNER: ("user_cancel", Domain.USER, Severity.INFO),
    EndedBy.OPERATOR: ("user_cancel", Domain.USER, Severity.INFO),
    EndedBy.SOMEBODY: ("user_cancel", Domain.USER, Severity.INFO),
    EndedBy.PREEMPTION: ("preemption", Domain.SCHEDULER, Severity.WARNING),
    EndedBy.REQUEUE: ("preemption", Domain.SCHEDULER, Severity.INFO),
    EndedBy.LAUNCH: ("container_start", Domain.SYSTEM_SOFTWARE, Severity.ERROR),
    EndedBy.UNKNOWN: ("", Domain.UNKNOWN, Severity.WARNING),
}
_NATIVE = frozenset({4, 6, 7, 8, 11})
"""Signals by which a program ends itself: illegal instruction, abort, bus error, FPE, segfault."""

_BY_STATE = {
    JobState.COMPLETED: EndedBy.COMPLETION,
    JobState.FAILED: EndedBy.FAILURE,
    JobState.NODE_FAIL: EndedBy.NODE_FAILURE,
    JobState.OUT_OF_MEMORY: EndedBy.OUT_OF_MEMORY,
    JobState.TIMEOUT: EndedBy.TIME_LIMIT,
    JobState.DEADLINE: EndedBy.DEADLINE,
    JobState.PREEMPTED: EndedBy.PREEMPTION,
    JobState.BOOT_FAIL: EndedBy.LAUNCH,
}
_COULD_NOT_START = 53
"""The signal number that slurmd reports when it could not set the job up (real-time signal 19)."""


def end_signal(
    state: DetectionState, attempt: Attempt, now: datetime
) -> tuple[DetectionState, Signal | None]:
    """The scheduler's word about the end: once, and again where accounting knows better."""
    end = attempt.end
    if end is None:
        return state, None
    said = f"{end.state.value}/{end.by.value}"
    if state.end_reported == said:
        return state, None
    failure_class, domain, severity = _meaning(end)
    source = Source(SourceKind.SCHEDULER, _scheduler(attempt), said)
    signal = Signal(
        key=signal_key(state.attempt_id, source, "scheduler.end"),
        attempt_id=state.attempt_id,
        kind=SignalKind.SCHEDULER_END,
        source=source,
        happened_at=min(end.at or end.learned_at, now),
        learned_at=now,
        pattern_id="scheduler.end",
        failure_class=failure_class,
        domain=domain,
        severity=severity,
        step=state.progress.last_step,
        detail=_sentence(end),
    )
    return replace(state, end_reported=said), signal


def vanished_signal(
    state: DetectionState, attempt: Attempt, now: datetime
) -> tuple[DetectionState, Signal | None]:
    """The scheduler came back from an older state: it no longer knows this attempt."""
    if not attempt.vanished or state.vanished_reported:
        return state, None
    source = Source(SourceKind.SCHEDULER, _scheduler(attempt), "vanished")
    signal = Signal(
        key=signal_key(state.attempt_id, source, "scheduler.vanished"),
        attempt_id=state.attempt_id,
        kind=SignalKind.VANISHED,
        source=source,
        happened_at=now,
        learned_at=now,
        pattern_id="scheduler.vanished",
        domain=Domain.SCHEDULER,
        severity=Severity.WARNING,
        step=state.progress.last_step,
        detail=f"the scheduler shows an older attempt of job {attempt.job_id} than this one",
    )
    return replace(state, vanished_reported=True), signal


def _scheduler(attempt: Attempt) -> str:
    return f"{attempt.cluster.scheduler}/{attempt.cluster.environment}"


def _meaning(end: AttemptEnd) -> tuple[str, Domain, Severity]:
    if end.by is EndedBy.FAILURE:
        died_of = end.exit_signal or ((end.exit_code or 0) - 128)
        if died_of in _NATIVE:
            return "native_crash", Domain.APPLICATION, Severity.ERROR
    return _MEANING[end.by]


def _sentence(end: AttemptEnd) -> str:
    code = "" if end.exit_code is None else f", exit code {end.exit_code}"
    signal = f", signal {end.exit_signal}" if end.exit_signal else ""
    return f"{end.state.value}, ended by {end.by.value}{code}{signal}"


def ended_by_record(record: AccountingRecord, attempt: Attempt) -> EndedBy:
    """Who or what ended an attempt, by its accounting record."""
    if record.state is JobState.CANCELLED:
        return _cancelled_by(record, attempt)
    refused = record.exit_signal == _COULD_NOT_START or record.never_ran
    if record.state is JobState.FAILED and refused:
        return EndedBy.LAUNCH
    if record.requeued and record.state not in {JobState.NODE_FAIL, JobState.PREEMPTED}:
        return EndedBy.REQUEUE
    return _BY_STATE.get(record.state, EndedBy.UNKNOWN)


def _cancelled_by(record: AccountingRecord, attempt: Attempt) -> EndedBy:
    who = record.cancelled_by
    if who is None:
        return EndedBy.REQUEUE if record.requeued else EndedBy.SOMEBODY
    if who in {str(attempt.uid), attempt.user} and who:
        return EndedBy.OWNER
    if who in {"0", "root"} and record.batch_completed is None and _no_time(record):
        # A prolog that fails on a job that may not be requeued looks like root's cancel.
        return EndedBy.LAUNCH
    return EndedBy.OPERATOR


def _no_time(record: AccountingRecord) -> bool:
    if record.started_at is None or record.ended_at is None:
        return False
    return (record.ended_at - record.started_at).total_seconds() <= 1


def refined_end(
    end: AttemptEnd | None, record: AccountingRecord, attempt: Attempt, now: datetime
) -> AttemptEnd | None:
    """The end with what accounting knows, marked final; None while it says that nothing ended.

    What the listing saw is kept where accounting knows less: older releases overwrite their
    records at a requeue and cut exit codes to seven bits.
    """
    if record.state not in ENDED and not record.requeued:
        return None
    by = ended_by_record(record, attempt)
    if end is None:
        return AttemptEnd(
            state=record.state if record.state in ENDED else JobState.CANCELLED,
            by=by,
            exit_code=record.exit_code,
            exit_signal=record.exit_signal,
            at=record.ended_at,
            learned_at=now,
            final=True,
        )
    vague = end.by in {EndedBy.SOMEBODY, EndedBy.REQUEUE, EndedBy.UNKNOWN}
    overwritten = record.requeued and not vague and not record.never_ran
    if overwritten or by is EndedBy.UNKNOWN or (by is EndedBy.REQUEUE and not vague):
        return replace(end, final=True)
    if not vague and by not in {EndedBy.NODE_FAILURE, EndedBy.OUT_OF_MEMORY, EndedBy.LAUNCH}:
        return replace(end, final=True)
    state = record.state if record.state in ENDED else end.state
    return replace(end, state=state, by=by, at=end.at or record.ended_at, final=True)
