"""What a program says that it does now: starting, compiling, evaluating, saving, ending.

In an announced phase silence is expected, of a length that the job shows. Lines that only a living
program prints bound the silence, whatever they are.
"""

from __future__ import annotations

from middlewatch.detection.habits import pause_beyond
from middlewatch.detection.stamps import Moment
from middlewatch.detection.state import RECENT_PAUSES, DetectionState
from middlewatch.model.copies import replace
from middlewatch.model.signal import Phase

ANNOUNCED = frozenset({Phase.EVALUATION, Phase.CHECKPOINT, Phase.COMPILE})
"""Phases between steps, whose usual silence is learnt."""
MOST_TIMES = 1000
BEFORE_STEPS = frozenset({Phase.STARTING, Phase.COMPILE, Phase.FIRST_STEP})


def silent_s(state: DetectionState, at: Moment) -> float:
    """Seconds between the last line that showed life and this one: by the lines' own clock where
    both have the same, else by ours. 0 where nothing is known."""
    if at.own_s is not None and at.own_of == state.stamp_of and state.stamp_s is not None:
        own = at.own_s - state.stamp_s
        if own >= 0:
            return own
    if state.alive_at is None or at.seen <= state.alive_at:
        return 0.0
    return (at.seen - state.alive_at).total_seconds()


def alive(state: DetectionState, at: Moment) -> DetectionState:
    """Only a living program prints this, but it is no step."""
    gap = silent_s(state, at)
    pauses, longest = state.pauses, state.phase_gap_s
    step = state.progress.last_step
    if state.phase_at is not None:
        longest = max(longest, gap)
    elif step is not None and state.advanced_at is not None and gap > pause_beyond(state.intervals):
        pauses = (*pauses, (step, round(gap, 3)))[-RECENT_PAUSES:]
    return replace(
        state,
        pauses=pauses,
        phase_gap_s=longest,
        alive_at=at.seen,
        stamp_s=at.own_s,
        stamp_of=at.own_of,
    )


def in_phase(state: DetectionState, phase: Phase, at: Moment) -> DetectionState:
    """The program says what it does now: the usual silence of that phase is not a hang."""
    state = alive(state, at)
    if state.progress.phase is phase and state.phase_at is not None:
        return state
    state = phase_over(state)
    progress = replace(state.progress, phase=phase)
    return replace(state, progress=progress, phase_at=at.seen, phase_gap_s=0.0, interrupted=True)


def phase_over(state: DetectionState, gap: float = 0.0) -> DetectionState:
    """The phase has ended, after a last silence of ``gap`` seconds: its longest one is learnt."""
    if state.phase_at is None:
        return state
    phase = state.progress.phase
    longest = max(state.phase_gap_s, gap)
    habits = state.phase_habits
    if phase in ANNOUNCED and state.advanced_at is not None:
        known = {name: (seconds, times) for name, seconds, times in habits}
        seconds, times = known.get(phase.value, (0.0, 0))
        known[phase.value] = (max(seconds, round(longest, 3)), min(times + 1, MOST_TIMES))
        habits = tuple((name, *habit) for name, habit in known.items())
    return replace(state, phase_at=None, phase_gap_s=0.0, phase_habits=habits)


def habit_of(state: DetectionState, phase: Phase) -> tuple[float, int]:
    """The longest silence seen in an announced phase, seconds, and how often it was seen."""
    for name, seconds, times in state.phase_habits:
        if name == phase.value:
            return seconds, times
    return 0.0, 0
