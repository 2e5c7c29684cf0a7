"""Several attempts in one file: the last one counts.

A job that is requeued and appends, a script that starts its program again, a launcher that starts
its workers again: behind the last words of one run comes the first of the next. What ended the one
before explains nothing about this one, and its step and its pace are not this one's.
"""

from __future__ import annotations

from middlewatch.detection.batch import Hit
from middlewatch.detection.stamps import Moment
from middlewatch.detection.state import RECENT_BOUNDARIES, Boundary, Counter, DetectionState
from middlewatch.model.copies import replace
from middlewatch.model.pattern import PatternKind
from middlewatch.model.signal import Phase

LAST_WORDS = frozenset({PatternKind.LAUNCHER_END, PatternKind.CASCADE, PatternKind.RESTARTING})
"""A launcher or the scheduler says that this run is over."""
_NOT_FIRST = LAST_WORDS | {
    PatternKind.FAILURE,
    PatternKind.EXCEPTION,
    PatternKind.TRACEBACK,
    PatternKind.WATCHDOG,
    PatternKind.HINT,
    PatternKind.HARMLESS,
    PatternKind.STACK,
}
STREAM = 256


def noted(state: DetectionState, hit: Hit) -> DetectionState:
    """Remember the end of a run, and the first line behind it."""
    kind = hit.pattern.kind
    if kind in LAST_WORDS:
        if state.ended and state.after_end is None:
            return state
        return replace(state, ended=True, after_end=None)
    if state.ended and state.after_end is None and kind not in _NOT_FIRST:
        return replace(state, after_end=Boundary(hit.stream[:STREAM], hit.offset, ""))
    return state


def began(state: DetectionState) -> bool:
    """Whether anything was seen of a run that another one can follow."""
    return state.ended or state.progress.last_step is not None


def another(state: DetectionState, hit: Hit, at: Moment, how: str) -> DetectionState:
    """Another attempt begins in the same file. Limits and pace are learnt anew."""
    place = state.after_end or Boundary(hit.stream[:STREAM], hit.offset, "")
    progress = replace(
        state.progress,
        phase=Phase.STARTING,
        first_step=None,
        first_step_at=None,
        last_step=None,
        last_step_at=None,
        loaded_step=None,
        step_time_s=None,
        throughput=None,
        loss=None,
        grad_norm=None,
    )
    last = state.progress.last_step
    suspicion = state.suspicion
    return replace(
        state,
        progress=progress,
        reached=state.reached if last is None else last,
        counter=Counter(),
        intervals=(),
        step_times=(),
        pauses=(),
        phase_at=None,
        phase_gap_s=0.0,
        interrupted=True,
        phase_habits=(),
        step_s=None,
        step_of="",
        saving_step=None,
        saving_unconfirmed=False,
        tracebacks=(),
        suspicion=None if suspicion is None else replace(suspicion, restarting=True, step=None),
        alive_at=at.seen,
        stamp_s=at.own_s,
        stamp_of=at.own_of,
        ended=False,
        after_end=None,
        boundaries=(*state.boundaries, replace(place, how=how))[-RECENT_BOUNDARIES:],
    )
