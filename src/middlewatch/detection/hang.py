"""When silence means something: limits that are learnt from the job itself.

One job steps ten times a second, another once in five minutes, a third pauses for half an hour to
save. A fixed limit is wrong for two of them. The limit follows the job's own intervals, its pauses
included; before the first step (compiling, tokenising, reading data) another one holds. Silence is
an alarm and nothing more; silence behind a failure line is evidence that the program did not
recover.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil

from middlewatch.detection.state import DetectionState
from middlewatch.model.policy import Policy
from middlewatch.model.signal import (
    Domain,
    Phase,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
)

ENOUGH = 3
"""Fewer intervals than this are no habit yet."""
TYPICAL_TIMES = 5.0
LONGEST_TIMES = 2.0
UNFAMILIAR_TIMES = 5.0
"""Until the job has shown one of its long pauses, the floor is this many times higher."""
PHASE_TIMES = 3.0
GRACE_TIMES = 3.0
STARTUP_TIMES = 1.5
LONGEST_GRACE_S = 600.0
GRACE_UNLEARNT_S = 300.0


def quantile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed; 0 for none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def settled(state: DetectionState) -> bool:
    """Whether the job steps at a pace of its own: it has begun, and has not come to its end.

    A total that was reached is an end too: of the training, or of a bar that was none.
    """
    progress = state.progress
    if state.advanced_at is None or progress.phase is Phase.SHUTDOWN:
        return False
    total = progress.total_steps
    return total is None or progress.last_step is None or progress.last_step < total


def silence_limit_s(state: DetectionState, policy: Policy) -> float:
    """How long this job may be silent before that is worth an alarm, seconds."""
    if not settled(state):
        return policy.first_step_limit_s
    if len(state.intervals) < ENOUGH:
        return max(policy.silence_floor_s, policy.first_step_limit_s)
    unfamiliar = not state.phase_lengths and state.progress.checkpoint_step is None
    limit = max(
        policy.silence_floor_s * (UNFAMILIAR_TIMES if unfamiliar else 1.0),
        TYPICAL_TIMES * quantile(state.intervals, 0.9),
        LONGEST_TIMES * state.longest_interval_s,
    )
    if state.phase_at is not None:
        usual = dict(state.phase_lengths).get(state.progress.phase.value)
        limit = max(limit, PHASE_TIMES * usual if usual else policy.first_step_limit_s)
    return limit


def grace_s(state: DetectionState, policy: Policy) -> float:
    """How long after a failure line the program may take to show that it goes on, seconds.

    A program that starts its work again inside the job needs its start-up time for it.
    """
    if not settled(state) or len(state.intervals) < ENOUGH:
        return max(policy.grace_floor_s, GRACE_UNLEARNT_S)
    learnt = GRACE_TIMES * max(quantile(state.intervals, 0.9), max(state.step_times, default=0.0))
    again = STARTUP_TIMES * (state.startup_s or 0.0)
    if state.suspicion is not None and state.suspicion.restarting:
        again = max(again, GRACE_UNLEARNT_S)
    return max(policy.grace_floor_s, min(LONGEST_GRACE_S, max(learnt, again)))


def silence(
    state: DetectionState, now: datetime, policy: Policy
) -> tuple[DetectionState, Signal | None]:
    """An alarm where the job has been silent for longer than its limit; one per silence."""
    since = state.alive_at
    if not settled(state):
        # Before the first step any output shows that the start-up goes on.
        since = max((t for t in (state.output_at, since, state.started_at) if t), default=None)
    if since is None or state.silence_reported or state.suspicion is not None:
        return state, None
    limit = silence_limit_s(state, policy)
    lasted = (now - since).total_seconds()
    if lasted <= limit:
        return state, None
    signal = _derived(
        state,
        SignalKind.SILENCE,
        since.isoformat(),
        since + timedelta(seconds=limit),
        now,
        failure_class="silent_hang",
        detail=f"no step for {lasted:.0f} s, the limit learnt for this job is {limit:.0f} s"
        if settled(state)
        else f"no output for {lasted:.0f} s outside the training steps, the limit is {limit:.0f} s",
        value=lasted,
    )
    return replace(state, silence_reported=True), signal


def no_progress(
    state: DetectionState, now: datetime, policy: Policy
) -> tuple[DetectionState, Signal | None]:
    """The evidence that a program did not recover after a failure line; one per failure."""
    suspicion = state.suspicion
    if suspicion is None or suspicion.reported:
        return state, None
    since = suspicion.since
    if suspicion.advances and state.advanced_at is not None:
        since = max(since, state.advanced_at)
    if not settled(state) and state.output_at is not None:
        # No pace to judge by: a program that still prints has not been proven stuck.
        since = max(since, state.output_at)
    grace = grace_s(state, policy)
    lasted = (now - since).total_seconds()
    if lasted <= grace:
        return state, None
    what = "a communication watchdog's hang message" if suspicion.watchdog else "a failure line"
    signal = _derived(
        state,
        SignalKind.NO_PROGRESS_AFTER_FAILURE,
        suspicion.key,
        since + timedelta(seconds=grace),
        now,
        failure_class=suspicion.failure_class,
        detail=f"no step for {lasted:.0f} s after {what}, the grace learnt for this job is {grace:.0f} s",
        value=lasted,
        severity=Severity.FATAL,
    )
    return replace(state, suspicion=replace(suspicion, reported=True)), signal


def recovery(
    state: DetectionState, seen: datetime, now: datetime
) -> tuple[DetectionState, Signal | None]:
    """The program went on by itself: after a failure line, or out of a silence."""
    if state.suspicion is not None:
        signal = _derived(
            state,
            SignalKind.RECOVERED,
            state.suspicion.key,
            seen,
            now,
            failure_class=state.suspicion.failure_class,
            detail=f"step {state.progress.last_step} was reached after the failure line",
            severity=Severity.INFO,
        )
        return replace(state, suspicion=None, silence_reported=False), signal
    signal = _derived(
        state,
        SignalKind.RECOVERED,
        f"silence/{seen.isoformat()}",
        seen,
        now,
        failure_class="silent_hang",
        detail=f"step {state.progress.last_step} was reached after the silence",
        severity=Severity.INFO,
    )
    return replace(state, silence_reported=False), signal


def _derived(
    state: DetectionState,
    kind: SignalKind,
    position: str,
    happened_at: datetime,
    learned_at: datetime,
    *,
    failure_class: str,
    detail: str,
    value: float | None = None,
    severity: Severity = Severity.WARNING,
) -> Signal:
    pattern = f"derived.{kind.value}"
    source = Source(SourceKind.CLOCK, "watcher", position)
    return Signal(
        key=signal_key(state.attempt_id, source, pattern),
        attempt_id=state.attempt_id,
        kind=kind,
        source=source,
        happened_at=min(happened_at, learned_at),
        learned_at=learned_at,
        pattern_id=pattern,
        failure_class=failure_class,
        domain=Domain.UNKNOWN,
        severity=severity,
        step=state.progress.last_step,
        value=value,
        detail=detail,
    )
