"""What kind of thing happened to an attempt, in the one word that people would use first.

The class says what broke; the kind says what became of the job. A job that stood still for ten
minutes and was then ended by its own communication watchdog has hung, whatever its exit code says;
one whose process died is a crash, even if its peers noticed only by waiting.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum

from middlewatch.attribution.collectives import waits_for_others
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.issue import Issue, IssueState
from middlewatch.model.signal import SILENT, Signal, SignalKind


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
        "ib_adapter_fatal",
        "storage_io_error",
        "killed_unknown",
    }
)
"""Classes whose fault need not end a process: where none died by itself and the job stood still,
it was a hang."""

_DIED = re.compile(
    r"^\W*(?:\[?rank ?\d+\]?:?\s*)?(?:[A-Za-z_][\w.]*)?(?:Error|Exception)\b:|SIGSEGV|SIGBUS|Signal: |core dumped"
)
"""The words with which a process ends: an exception, a signal of its own making."""

_OF_A_THREAD = frozenset({"data_error", "user_exception"})
"""Classes of exceptions that may end a thread and not its process."""
_LIVED_ON = timedelta(minutes=2)
"""A launcher ends the others of a process that has died sooner than this."""

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


def kind_of(issue: Issue | None, own: Sequence[Signal], attempt: Attempt) -> CaseKind:
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
    if named in STANDING_STILL:
        return CaseKind.HANG
    if named == "gpu_firmware_hang" and end is None:
        return CaseKind.HANG
    if named in _MAY_STAND_STILL and _stood_still(own, attempt):
        return CaseKind.HANG
    if named in _OF_A_THREAD and _lived_on(issue, own):
        return CaseKind.HANG
    return CaseKind.CRASH


def _lived_on(issue: Issue, own: Sequence[Signal]) -> bool:
    """Whether what failed ended no process: the others waited for it until a watchdog ended them."""
    return any(
        signal.kind is SignalKind.WATCHDOG_LINE
        and waits_for_others(signal)
        and signal.happened_at - issue.happened_at >= _LIVED_ON
        for signal in own
    )


def _stood_still(own: Sequence[Signal], attempt: Attempt) -> bool:
    """Whether the job lived on without progress, and no process of it died by itself."""
    still = False
    for signal in own:
        if signal.kind is SignalKind.FAILURE_LINE and _DIED.search(signal.excerpt):
            return False
        waits = signal.kind is SignalKind.WATCHDOG_LINE and waits_for_others(signal)
        still = still or waits or signal.kind in SILENT
        if attempt.end is None:
            still = still or signal.kind is SignalKind.NO_PROGRESS_AFTER_FAILURE
    return still
