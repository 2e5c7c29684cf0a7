"""What kind of thing happened to an attempt, in the one word that people would use first.

The class says what broke; the kind says what became of the job. A job that stood still for ten
minutes and was then ended by its own communication watchdog has hung, whatever its exit code says;
one whose process died is a crash, even if its peers noticed only by waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.issue import Issue, IssueState
from middlewatch.model.signal import Signal, SignalKind


class CaseKind(StrEnum):
    CRASH = "crash"
    HANG = "hang"
    SLOW = "slow"
    DIVERGED = "diverged"
    PREEMPTED = "preempted"
    USER_STOP = "user_stop"
    COMPLETED = "completed"
    HEALTHY = "healthy"


STANDING_STILL = frozenset(
    {
        "collective_missing_rank",
        "collective_mismatch",
        "collective_timeout_unattributed",
        "watchdog_stuck",
        "silent_hang",
        "silent_hang_located",
    }
)
"""Classes that are a standstill by their own meaning."""

_MAY_STAND_STILL = frozenset(
    {
        "gpu_firmware_hang",
        "gpu_off_bus",
        "gpu_nvlink_fabric",
        "ib_link_error",
        "ib_adapter_fatal",
        "storage_io_error",
        "storage_full",
        "data_error",
        "killed_unknown",
        "node_failure",
    }
)
"""Classes whose fault need not end the process: with a standstill beside them it was a hang."""

_STOPS = {
    EndedBy.TIME_LIMIT: CaseKind.PREEMPTED,
    EndedBy.DEADLINE: CaseKind.PREEMPTED,
    EndedBy.PREEMPTION: CaseKind.PREEMPTED,
    EndedBy.REQUEUE: CaseKind.PREEMPTED,
    EndedBy.OWNER: CaseKind.USER_STOP,
    EndedBy.OPERATOR: CaseKind.USER_STOP,
    EndedBy.SOMEBODY: CaseKind.USER_STOP,
    EndedBy.COMPLETION: CaseKind.COMPLETED,
    EndedBy.FAILURE: CaseKind.CRASH,
    EndedBy.NODE_FAILURE: CaseKind.CRASH,
    EndedBy.OUT_OF_MEMORY: CaseKind.CRASH,
    EndedBy.LAUNCH: CaseKind.CRASH,
}
_STILL = frozenset({SignalKind.WATCHDOG_LINE, SignalKind.SILENCE})


def kind_of(issue: Issue | None, own: Iterable[Signal], attempt: Attempt) -> CaseKind:
    """The kind of one attempt. ``issue`` is its governing issue or None, ``own`` its signals."""
    end = attempt.end
    if end is not None and end.by is EndedBy.COMPLETION:
        return CaseKind.COMPLETED
    if issue is None or issue.state is not IssueState.OPEN:
        if end is None:
            return CaseKind.HEALTHY
        return _STOPS.get(end.by, CaseKind.CRASH)
    named = issue.failure_class
    if named in {"time_limit", "preemption"}:
        return CaseKind.PREEMPTED
    if named == "user_cancel":
        return CaseKind.USER_STOP
    if named.startswith("slow_"):
        return CaseKind.SLOW
    if named == "numerical_divergence" and end is None:
        return CaseKind.DIVERGED
    kinds = {signal.kind for signal in own}
    if named in STANDING_STILL or (named in _MAY_STAND_STILL and kinds & _STILL):
        return CaseKind.HANG
    return CaseKind.CRASH
