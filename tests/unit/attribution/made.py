"""Attempts and signals as the tests of attribution and remediation want them: short to write."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Domain, Signal, SignalKind, Source, SourceKind, signal_key

CLUSTER = ClusterId("slurm", "prod")
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def attempt(**given: Any) -> Attempt:
    """A running attempt of job 42 on n1 and n2, opted in for action."""
    index = given.pop("attempt_index", 0)
    submitted = given.pop("submitted_at", at(-600 + 60 * index))
    job_id = given.pop("job_id", "42")
    made = Attempt(
        id=AttemptKey(CLUSTER, job_id, submitted).attempt_id(),
        cluster=CLUSTER,
        job_id=job_id,
        attempt_index=index,
        submitted_at=submitted,
        first_seen_at=submitted,
        last_seen_at=at(0),
        state=JobState.RUNNING,
        partitions=("batch",),
        nodes=("n1", "n2"),
        node_count=2,
        requeueable=True,
        opt_in=OptIn(JobMode.ACTION, "prod", "middlewatch"),
        started_at=submitted,
    )
    return replace(made, **given)


_ENDS = {
    EndedBy.COMPLETION: JobState.COMPLETED,
    EndedBy.FAILURE: JobState.FAILED,
    EndedBy.NODE_FAILURE: JobState.NODE_FAIL,
    EndedBy.OUT_OF_MEMORY: JobState.OUT_OF_MEMORY,
    EndedBy.TIME_LIMIT: JobState.TIMEOUT,
    EndedBy.DEADLINE: JobState.DEADLINE,
    EndedBy.OWNER: JobState.CANCELLED,
    EndedBy.OPERATOR: JobState.CANCELLED,
    EndedBy.SOMEBODY: JobState.CANCELLED,
    EndedBy.PREEMPTION: JobState.PREEMPTED,
    EndedBy.REQUEUE: JobState.CANCELLED,
    EndedBy.LAUNCH: JobState.FAILED,
    EndedBy.UNKNOWN: JobState.UNREADABLE,
}


def ended(by: EndedBy, when: datetime | None = None, **given: Any) -> Attempt:
    """An attempt that ended in that way."""
    moment = when or at(30)
    state = given.pop("state", _ENDS[by])
    code = 1 if by is EndedBy.FAILURE else None
    end = AttemptEnd(state, by, code, None, moment, moment)
    return attempt(state=state, end=end, **given)


def signal(kind: SignalKind, seconds: float = 0, failure_class: str = "", **given: Any) -> Signal:
    """A signal of job 42's first attempt; its place in the log follows from its time and kind."""
    owner = given.pop("of", None) or attempt()
    source_kind = given.pop("source", _sources(kind))
    position = given.pop("position", f"{kind.value}@{seconds}/{failure_class}")
    source = Source(source_kind, given.pop("identity", source_kind.value), position)
    made = Signal(
        key=signal_key(owner.id, source, given.get("pattern_id", "")),
        attempt_id=owner.id,
        kind=kind,
        source=source,
        happened_at=at(seconds),
        learned_at=at(seconds + 0.5),
        failure_class=failure_class,
    )
    return replace(made, **given)


def _sources(kind: SignalKind) -> SourceKind:
    match kind:
        case SignalKind.SCHEDULER_END | SignalKind.VANISHED:
            return SourceKind.SCHEDULER
        case SignalKind.SILENCE | SignalKind.NO_PROGRESS_AFTER_FAILURE:
            return SourceKind.CLOCK
        case SignalKind.SECOND_WITNESS | SignalKind.EXTERNAL:
            return SourceKind.API
        case _:
            return SourceKind.LOG


def ecc(seconds: float = 0, **given: Any) -> Signal:
    return signal(
        SignalKind.FAILURE_LINE,
        seconds,
        "gpu_ecc_uncorrectable",
        **{"domain": Domain.HARDWARE, "pattern_id": "xid-48", **given},
    )


def exception(seconds: float = 0, **given: Any) -> Signal:
    return signal(
        SignalKind.FAILURE_LINE,
        seconds,
        "user_exception",
        **{"domain": Domain.APPLICATION, "pattern_id": "python-exception", **given},
    )


def lost_peer(seconds: float = 0, **given: Any) -> Signal:
    return signal(SignalKind.FAILURE_LINE, seconds, "peer_connection_lost", **given)


def watchdog(seconds: float = 0, **given: Any) -> Signal:
    return signal(SignalKind.WATCHDOG_LINE, seconds, "collective_timeout_unattributed", **given)


def end_signal(seconds: float = 30, failure_class: str = "", **given: Any) -> Signal:
    return signal(SignalKind.SCHEDULER_END, seconds, failure_class, **given)
