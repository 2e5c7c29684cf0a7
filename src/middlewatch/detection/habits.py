"""What is usual for a job, from its own past: the distance of its step lines, its pauses.

A job that evaluates without saying so pauses at every five-hundredth step. Its pauses are its
habit, but not a reason to wait as long at any other step.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil, gcd, inf

from middlewatch.detection.state import DetectionState

ENOUGH = 3
"""Fewer intervals than this are no habit yet."""
USUAL = 0.75
"""Of this share of the intervals the longest is the usual one: pauses are rarer than lines."""
PAUSE_TIMES = 2.0
PAUSE_FLOOR_S = 15.0
LONGEST_TIMES = 2.0
PERIODIC = 3
"""So many pauses show at which steps a job pauses."""
ROUND = 100
OFTEN = 20


def quantile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed; 0 for none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def usual_interval(intervals: tuple[float, ...]) -> float | None:
    """The usual distance of two step lines, seconds; None where there is no habit yet."""
    return quantile(intervals, USUAL) if len(intervals) >= ENOUGH else None


def pause_beyond(intervals: tuple[float, ...]) -> float:
    """The gap between two step lines beyond which it is remembered as a pause."""
    usual = usual_interval(intervals)
    return inf if usual is None else max(PAUSE_FLOOR_S, PAUSE_TIMES * usual)


def pause_allowance(state: DetectionState) -> float:
    """How long the job may pause where it stands now, by the pauses that it has shown, seconds."""
    if not state.pauses:
        return 0.0
    last = state.progress.last_step
    steps = sorted({step for step, _ in state.pauses})
    if last is not None and len(steps) >= PERIODIC:
        period = 0
        for step, following in pairwise(steps):
            period = gcd(period, following - step)
        often = period < 2 * max(1, state.counter.taken)
        if not often and (last - steps[-1]) % period:
            return 0.0
    return LONGEST_TIMES * max(length for _, length in state.pauses)


def familiar(state: DetectionState) -> bool:
    """Whether the job has shown what it does between its steps, or stands at none of the steps at
    which that mostly happens for the first time: the round ones."""
    if state.pauses or state.phase_habits or state.progress.checkpoint_step is not None:
        return True
    last = state.progress.last_step
    return last is None or last % ROUND != 0 or state.counter.taken > OFTEN
