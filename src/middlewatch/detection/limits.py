"""How long this job may be silent where it stands now, learnt from the job itself.

One job steps ten times a second, another once in five minutes, a third pauses for half an hour to
save. A fixed limit is wrong for two of them. The limit follows the job's own intervals; each phase
has one of its own, which the policy gives until the job has shown its habit.

There are two limits. A silence beyond `silence_limit` is worth an alarm: somebody may look, and
nothing is done. Only a silence beyond `acting_limit` may count against the job. Between steps both
are the same. A phase whose length the job has not shown yet may take half an hour, and rarely takes
a tenth of it: who waits for the longest one is told of a stuck one too late, and who acts upon the
usual one ends healthy jobs.
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
ALARM_TIMES = (4.0, 3.0, 2.5)
"""For an alarm: after one, two, and three or more phases of the kind."""
LAUNCH_SHARE = 1 / 3
FIRST_STEP_SHARE = 1 / 3
FIRST_LINE_SHARE = 2 / 3
"""It has said that it steps now: the first line may stand for many long steps."""
COMPILE_SHARE = 1 / 5
SAID_END_SHARE = 1 / 10
UNSAID_END_SHARE = 1 / 4
"""A job that has come to its total without a word, and has never shown a pause, may well save or
evaluate for the first time."""
EVALUATION_STEPS = 100.0
EVALUATION_SHARE = 0.4
"""Of the policy's limit, however long the steps are."""
FEW_TIMES = 4.0
STEPS_OF_A_LINE = 15.0
LOAD_TIMES = 0.5
"""A first save may take this share of what lay before the first step."""
_LIMIT_OF = {
    Phase.EVALUATION: "evaluation_limit_s",
    Phase.CHECKPOINT: "checkpoint_limit_s",
    Phase.COMPILE: "compile_limit_s",
}
_SHARE_OF = {
    Phase.EVALUATION: 1 / 12,
    Phase.CHECKPOINT: 1 / 10,
    Phase.COMPILE: COMPILE_SHARE,
}
"""What share of the policy's limit an alarm waits for in a phase that the job has not shown yet."""
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
    return not (starting(state) or ending(state))


def starting(state: DetectionState) -> bool:
    """Whether no step of this run was seen yet."""
    if state.advanced_at is None:
        return True
    return state.progress.last_step is None and state.progress.phase in BEFORE_STEPS


def ending(state: DetectionState) -> bool:
    """Whether the last step lies behind it."""
    return state.progress.phase is Phase.SHUTDOWN or _at_its_total(state)


def announced(state: DetectionState) -> bool:
    """Whether it does something else than steps, and has said so."""
    return state.phase_at is not None and state.progress.phase in ANNOUNCED


def _at_its_total(state: DetectionState) -> bool:
    progress = state.progress
    return progress.last_step is not None and progress.last_step == progress.total_steps


def silence_limit(state: DetectionState, policy: Policy) -> Limit:
    """How long this job may be silent before that is worth an alarm; never above `acting_limit`."""
    alarm = _alarm_limit(state, policy)
    if alarm.name == "silence_floor_s" and settled(state) and not announced(state):
        return alarm
    acting = acting_limit(state, policy)
    return alarm if alarm.seconds < acting.seconds else acting


def acting_limit(state: DetectionState, policy: Policy) -> Limit:
    """How long it may be silent before that counts against it: what `act_on_silence` acts upon,
    and from when on a witness besides the log is heard."""
    phase = state.progress.phase
    if starting(state):
        if state.output_at is None:
            return _given("launch_limit_s", policy)
        return _given("compile_limit_s" if phase is Phase.COMPILE else "first_step_limit_s", policy)
    if ending(state):
        return _given("shutdown_limit_s", policy, learnt_s=PHASE_TIMES * _longest_phase_s(state))
    if len(state.intervals) < ENOUGH:
        return _given("first_step_limit_s", policy)
    if not announced(state):
        return _between_steps(state, policy)
    learnt = _usual_s(state)
    longest, seen = habit_of(state, phase)
    if not seen:
        return _given(_LIMIT_OF[phase], policy, learnt_s=learnt)
    times = PHASE_TIMES if seen >= OFTEN else ONCE_TIMES
    return _given("silence_floor_s", policy, learnt_s=max(learnt, times * longest))


def _alarm_limit(state: DetectionState, policy: Policy) -> Limit:
    phase = state.progress.phase
    if starting(state):
        if state.output_at is None:
            return _given("launch_limit_s", policy, LAUNCH_SHARE)
        if phase is Phase.COMPILE:
            return _given("compile_limit_s", policy, COMPILE_SHARE)
        steps = phase is Phase.FIRST_STEP
        share = FIRST_LINE_SHARE if steps else FIRST_STEP_SHARE
        return _given("first_step_limit_s", policy, share)
    if ending(state):
        return _at_the_end(state, policy)
    if len(state.intervals) < ENOUGH:
        return _given("first_step_limit_s", policy, FIRST_STEP_SHARE, _first_steps_s(state))
    if not announced(state):
        return _between_steps(state, policy)
    learnt = _usual_s(state)
    longest, seen = habit_of(state, phase)
    if seen:
        times = ALARM_TIMES[min(seen, len(ALARM_TIMES)) - 1]
        return _given("silence_floor_s", policy, learnt_s=max(learnt, times * longest))
    if phase is Phase.CHECKPOINT:
        # A large model takes long to load, and to save. A smaller one is not waited for as long.
        learnt = max(learnt, LOAD_TIMES * (state.startup_s or 0.0))
    if phase is Phase.EVALUATION:
        # It takes steps as well, some tens or hundreds, mostly shorter ones.
        some = EVALUATION_STEPS * (state.progress.step_time_s or 0.0)
        learnt = max(learnt, min(some, EVALUATION_SHARE * policy.evaluation_limit_s))
    return _given(_LIMIT_OF[phase], policy, _SHARE_OF[phase], learnt)


def _between_steps(state: DetectionState, policy: Policy) -> Limit:
    times = 1.0 if familiar(state) else UNFAMILIAR_TIMES
    return _given("silence_floor_s", policy, times, _usual_s(state))


def _at_the_end(state: DetectionState, policy: Policy) -> Limit:
    """Behind the last step. The last save and the last evaluation are as long as those before; a
    program that has said that it has finished may still write something, and evaluates no more."""
    said = state.progress.phase is Phase.SHUTDOWN
    longest = max((seconds for _, seconds in state.pauses), default=0.0)
    longest = max(longest, _saves_s(state) if said else _longest_phase_s(state))
    learnt = max(_usual_s(state), TYPICAL_TIMES * longest)
    shown = bool(state.phase_habits or state.pauses)
    if said and shown:
        return _given("silence_floor_s", policy, learnt_s=learnt)
    share = SAID_END_SHARE if said or shown else UNSAID_END_SHARE
    return _given("shutdown_limit_s", policy, share, learnt)


def _first_steps_s(state: DetectionState) -> float:
    """What the first lines promise of the distance of the next ones, seconds: each may stand for
    several steps."""
    step = max(state.step_times, default=0.0)
    return max(STEPS_OF_A_LINE * step, FEW_TIMES * max(state.intervals, default=0.0))


def _usual_s(state: DetectionState) -> float:
    """What the job's own intervals and its unannounced pauses allow where it stands, seconds."""
    usual = usual_interval(state.intervals) or 0.0
    return max(TYPICAL_TIMES * usual, pause_allowance(state))


def _given(name: str, policy: Policy, times: float = 1.0, learnt_s: float = 0.0) -> Limit:
    given: float = getattr(policy, name)
    return Limit(name, times, learnt_s, max(given * times, learnt_s))


def _longest_phase_s(state: DetectionState) -> float:
    """The longest silence in any announced phase so far."""
    return max((seconds for _, seconds, _ in state.phase_habits), default=0.0)


def _saves_s(state: DetectionState) -> float:
    return habit_of(state, Phase.CHECKPOINT)[0]


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
    if announced(state):
        learnt = max(learnt, acting_limit(state, policy).seconds)
    return max(policy.grace_floor_s, learnt)
