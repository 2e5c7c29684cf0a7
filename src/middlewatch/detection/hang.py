"""When silence means something: an alarm, and behind a failure line evidence.

Silence is an alarm and nothing more; silence behind a failure line is evidence that the program did
not recover. Lines that keep coming while the step does not move are the same silence. In a phase
whose length the job has not shown, the alarm comes before the silence can count for anything: it is
told twice then, as overdue and as the silence that a policy may act upon.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

from middlewatch.detection.limits import (
    Limit,
    acting_limit,
    grace_s,
    settled,
    silence_limit,
    starting,
)
from middlewatch.detection.state import DetectionState, Suspicion
from middlewatch.model.copies import replace
from middlewatch.model.policy import Policy
from middlewatch.model.signal import (
    Domain,
    Pause,
    Phase,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
)

MOST_PAUSES = 8
WORTH_TELLING = 0.5
"""A silence of less than this share of its limit is not kept."""
AGAIN_TIMES = 1.25


def silent_since(state: DetectionState) -> datetime | None:
    """Since when the job has shown no life, by the watcher's clock; None before its start."""
    known = [state.alive_at, state.seen_since]
    if not settled(state):
        # Before the first step and behind the last any output shows that it goes on.
        known += [state.output_at, state.started_at]
    return max((moment for moment in known if moment is not None), default=None)


def witnessed_since(state: DetectionState, policy: Policy) -> datetime | None:
    """From when on a witness besides the log may be heard against a job that is suspected or
    reported silent: it has shown no life since then, for longer than it may; None: not now.

    Any line that only a living program prints counts here, though it may be no step: a job that
    evaluates does not draw the power of one that trains, and does not save.
    """
    suspicion = state.suspicion
    if suspicion is not None:
        since = max(_suspicious_since(state, suspicion), state.alive_at or suspicion.since)
        return since + timedelta(seconds=grace_s(state, policy))
    quiet = silent_since(state) if state.silence_reported else None
    if quiet is None:
        return None
    since = max(quiet, state.alive_at or quiet)
    return since + timedelta(seconds=acting_limit(state, policy).seconds)


def silence(
    state: DetectionState, now: datetime, policy: Policy
) -> tuple[DetectionState, Signal | None]:
    """An alarm where the job has been silent for longer than its limit: one per silence, and a
    second signal where the limit from which on that counts lies behind the alarm's."""
    since = silent_since(state)
    if since is None or state.suspicion is not None or _all_told(state):
        return state, None
    limit = silence_limit(state, policy)
    lasted = (now - since).total_seconds()
    if lasted <= limit.seconds:
        return state, None
    kind, acting = SignalKind.OVERDUE, acting_limit(state, policy)
    if lasted > acting.seconds:
        kind, limit = SignalKind.SILENCE, acting
    elif state.overdue:
        return state, None
    signal = _derived(
        state,
        kind,
        since.isoformat(),
        since + timedelta(seconds=limit.seconds),
        now,
        failure_class="silent_hang",
        detail=_words(state, lasted, limit),
        value=lasted,
    )
    return replace(state, silence_reported=True, overdue=kind is SignalKind.OVERDUE), signal


def _all_told(state: DetectionState) -> bool:
    return state.silence_reported and not state.overdue


def _words(state: DetectionState, lasted: float, limit: Limit) -> str:
    known = "learnt for this job"
    if limit.seconds != limit.learnt_s:
        share = "" if limit.times >= 1 else f"{Fraction(limit.times).limit_denominator(12)} of "
        known = f"set by {share}{limit.name}"
    bound = f"the limit is {limit.seconds:.0f} s, {known}"
    if starting(state):
        if state.output_at is None:
            return f"it runs and has printed nothing for {lasted:.0f} s, {bound}"
        return f"no output for {lasted:.0f} s before the first step, {bound}"
    match state.progress.phase:
        case Phase.EVALUATION:
            return f"no line for {lasted:.0f} s in an evaluation, {bound}"
        case Phase.CHECKPOINT:
            return f"no line for {lasted:.0f} s in a save, {bound}"
        case Phase.SHUTDOWN:
            return f"no output for {lasted:.0f} s after the end of the training, {bound}"
        case _:
            if not settled(state):
                return f"no output for {lasted:.0f} s after the last step, {bound}"
            return f"no step for {lasted:.0f} s, {bound}"


def no_progress(
    state: DetectionState, now: datetime, policy: Policy
) -> tuple[DetectionState, Signal | None]:
    """The evidence that a program did not recover after a failure line; one per failure."""
    suspicion = state.suspicion
    if suspicion is None or suspicion.reported:
        return state, None
    since = _suspicious_since(state, suspicion)
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


def _suspicious_since(state: DetectionState, suspicion: Suspicion) -> datetime:
    since = max(suspicion.since, state.seen_since or suspicion.since)
    if suspicion.advances and state.advanced_at is not None:
        since = max(since, state.advanced_at)
    if not settled(state) and state.output_at is not None:
        # No pace to judge by: a program that still prints has not been proven stuck.
        since = max(since, state.output_at)
    return since


def recovered_by(state: DetectionState, suspicion: Suspicion, policy: Policy) -> datetime:
    """Until when the program has to have shown that it goes on after a failure line."""
    return _suspicious_since(state, suspicion) + timedelta(seconds=grace_s(state, policy))


def due(state: DetectionState, policy: Policy) -> datetime | None:
    """When the next silence would be worth a signal if nothing more is printed; None: never.

    A moment later the fold has something to say: who replays a log, or watches thousands of jobs,
    need not ask before.
    """
    moments = []
    since = silent_since(state)
    if since is not None and not _all_told(state) and state.suspicion is None:
        limit = acting_limit if state.overdue else silence_limit
        moments.append(since + timedelta(seconds=limit(state, policy).seconds))
    suspicion = state.suspicion
    if suspicion is not None and not suspicion.reported:
        moments.append(recovered_by(state, suspicion, policy))
    return min(moments, default=None)


def lasting(state: DetectionState, now: datetime, policy: Policy) -> DetectionState:
    """The state with the silence that goes on now in its record, where it is worth that."""
    since = silent_since(state)
    if since is None:
        return state
    return with_pause(
        state, since, (now - since).total_seconds(), silence_limit(state, policy), lasts=True
    )


def with_pause(
    state: DetectionState, since: datetime, lasted: float, limit: Limit, *, lasts: bool
) -> DetectionState:
    """The state with a silence in its record, if it is among those nearest to their limits. One
    that lasts is told anew when it has become a good deal longer."""
    told = tuple(pause for pause in state.progress.pauses if not pause.lasts)
    before = next((pause for pause in state.progress.pauses if pause.lasts), None)
    same = lasts and before is not None and before.since == since
    if same and before is not None and lasted < AGAIN_TIMES * before.length_s:
        return state
    if lasted >= WORTH_TELLING * limit.seconds:
        pause = Pause(
            since=since,
            length_s=round(lasted, 3),
            limit_s=round(limit.seconds, 3),
            phase=state.progress.phase,
            limit=limit.name,
            times=limit.times,
            learnt_s=round(limit.learnt_s, 3),
            lasts=lasts,
        )
        told = _nearest((*told, pause))
    if told == state.progress.pauses:
        return state
    return replace(state, progress=replace(state.progress, pauses=told))


def _nearest(pauses: tuple[Pause, ...]) -> tuple[Pause, ...]:
    """The pauses without the least telling one, where there are too many."""
    if len(pauses) <= MOST_PAUSES:
        return pauses
    least = min(pauses, key=lambda pause: pause.length_s / max(1.0, pause.learnt_s, pause.times))
    return tuple(pause for pause in pauses if pause is not least)


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
        return replace(state, suspicion=None, silence_reported=False, overdue=False), signal
    return _over(state, seen, now, f"step {state.progress.last_step} was reached after the silence")


def output_goes_on(
    state: DetectionState, before: DetectionState, now: datetime
) -> tuple[DetectionState, Signal | None]:
    """Where any output is life, output ends a silence, and the next one is an alarm of its own."""
    seen = state.output_at
    if not (before.silence_reported and state.silence_reported) or seen is None:
        return state, None
    if seen == before.output_at or state.suspicion is not None or settled(state):
        return state, None
    return _over(state, seen, now, "it printed something after the silence")


def _over(
    state: DetectionState, seen: datetime, now: datetime, detail: str
) -> tuple[DetectionState, Signal]:
    signal = _derived(
        state,
        SignalKind.RECOVERED,
        f"silence/{seen.isoformat()}",
        seen,
        now,
        failure_class="silent_hang",
        detail=detail,
        severity=Severity.INFO,
    )
    return replace(state, silence_reported=False, overdue=False), signal


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
