"""How long this job may be silent where it stands now, learnt from the job itself.

One job steps ten times a second, another once in five minutes, a third pauses for half an hour to
save. A fixed limit is wrong for two of them. The limit follows the job's own intervals; each phase
has one of its own, which the policy gives until the job has shown its habit.
"""

from __future__ import annotations

from dataclasses import dataclass

from middlewatch.detection.habits import (
    ENOUGH,
    familiar,
    pause_allowance,
    quantile,
    usual_interval,
)
from middlewatch.detection.phases import ANNOUNCED, BEFORE_STEPS, habit_of
from middlewatch.detection.state import DetectionState
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Phase

TYPICAL_TIMES = 2.5
"""Below three, so that an alarm that comes with the next look is not later than that."""
UNFAMILIAR_TIMES = 5.0
"""At the first round step the floor is this many times higher: first saves come there."""
PHASE_TIMES = 4.0
ONCE_TIMES = 8.0
"""The same for a phase that was seen to end only once or twice."""
OFTEN = 3
GRACE_TIMES = 3.0
STARTUP_TIMES = 1.5
LONGEST_GRACE_S = 600.0
GRACE_UNLEARNT_S = 300.0


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit in ``seconds``: the policy's field ``name`` ``times`` a factor, or what was
    ``learnt_s`` from the job, whichever is longer."""

    name: str
    times: float
    learnt_s: float
    seconds: float


def settled(state: DetectionState) -> bool:
    """Whether the job steps at a pace of its own: it has begun, and has not come to its end.

    A total that was reached is an end too: of the training, or of a bar that was none.
    """
    phase = state.progress.phase
    return not (starting(state) or phase is Phase.SHUTDOWN or _at_its_total(state))


def starting(state: DetectionState) -> bool:
    """Whether no step of this run was seen yet."""
    if state.advanced_at is None:
        return True
    return state.progress.last_step is None and state.progress.phase in BEFORE_STEPS


def _at_its_total(state: DetectionState) -> bool:
    progress = state.progress
    return progress.last_step is not None and progress.last_step == progress.total_steps


def silence_limit(state: DetectionState, policy: Policy) -> Limit:
    """How long this job may be silent before that is worth an alarm."""
    phase = state.progress.phase
    if starting(state):
        if state.output_at is None:
            return _given("launch_limit_s", policy)
        return _given("compile_limit_s" if phase is Phase.COMPILE else "first_step_limit_s", policy)
    if phase is Phase.SHUTDOWN or _at_its_total(state):
        return _given("shutdown_limit_s", policy, learnt_s=_longest_phase_s(state))
    if len(state.intervals) < ENOUGH:
        return _given("first_step_limit_s", policy)
    usual = usual_interval(state.intervals) or 0.0
    learnt = max(TYPICAL_TIMES * usual, pause_allowance(state))
    if state.phase_at is None or phase not in ANNOUNCED:
        times = 1.0 if familiar(state) else UNFAMILIAR_TIMES
        return _given("silence_floor_s", policy, times, learnt)
    longest, seen = habit_of(state, phase)
    if not seen:
        name = {
            Phase.EVALUATION: "evaluation_limit_s",
            Phase.CHECKPOINT: "checkpoint_limit_s",
        }.get(phase, "compile_limit_s")
        return _given(name, policy, learnt_s=learnt)
    times = PHASE_TIMES if seen >= OFTEN else ONCE_TIMES
    return _given("silence_floor_s", policy, learnt_s=max(learnt, times * longest))


def _given(name: str, policy: Policy, times: float = 1.0, learnt_s: float = 0.0) -> Limit:
    given: float = getattr(policy, name)
    return Limit(name, times, learnt_s, max(given * times, learnt_s))


def _longest_phase_s(state: DetectionState) -> float:
    """The last save and the last evaluation are longer than those before, but not without bound."""
    return PHASE_TIMES * max((seconds for _, seconds, _ in state.phase_habits), default=0.0)


def silence_limit_s(state: DetectionState, policy: Policy) -> float:
    """`silence_limit` in seconds."""
    return silence_limit(state, policy).seconds


def grace_s(state: DetectionState, policy: Policy) -> float:
    """How long after a failure line the program may take to show that it goes on, seconds.

    A program that starts its work again inside the job needs its start-up time for it, and one
    that evaluates or saves is given the time of that.
    """
    if not settled(state) or len(state.intervals) < ENOUGH:
        return max(policy.grace_floor_s, GRACE_UNLEARNT_S)
    usual = max(quantile(state.intervals, 0.9), max(state.step_times, default=0.0))
    again = STARTUP_TIMES * (state.startup_s or 0.0)
    if state.suspicion is not None and state.suspicion.restarting:
        again = max(again, GRACE_UNLEARNT_S)
    learnt = min(LONGEST_GRACE_S, max(GRACE_TIMES * usual, again))
    if state.phase_at is not None and state.progress.phase in ANNOUNCED:
        learnt = max(learnt, silence_limit_s(state, policy))
    return max(policy.grace_floor_s, learnt)
