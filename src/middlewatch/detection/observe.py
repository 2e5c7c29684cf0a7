"""The fold: what was known of an attempt, and one round of looking, give what is known now.

Everything that decides what a line, a silence or the scheduler's word means is behind this one
function. It reads no clock and no file; the same state and the same batch always give the same
signals with the same keys, so that a round that is repeated after a crash changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.coverage import coverage
from middlewatch.detection.hang import no_progress, recovery, silence, silence_limit_s
from middlewatch.detection.hits import SIGNALS, by_line, with_failure, with_traceback
from middlewatch.detection.progress import (
    after_checkpoint_line,
    after_progress_line,
    alive,
    in_phase,
    recovered,
)
from middlewatch.detection.scheduler_facts import end_signal, vanished_signal
from middlewatch.detection.stamps import Moment, happened, learnt_zone, stamp_of
from middlewatch.detection.state import DetectionState
from middlewatch.model.pattern import PatternKind
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import (
    Domain,
    Phase,
    Progress,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
)

_CHECKPOINTS = frozenset(
    {
        PatternKind.CHECKPOINT_SAVING,
        PatternKind.CHECKPOINT_SAVED,
        PatternKind.CHECKPOINT_LOADED,
    }
)


@dataclass(frozen=True, slots=True)
class Observation:
    """``resumed`` is set once: the first step beyond the attempt before, and when it happened."""

    state: DetectionState
    signals: tuple[Signal, ...]
    progress: Progress
    resumed: tuple[int, datetime] | None = None


def observe(
    state: DetectionState, batch: Batch, now: datetime, policy: Policy | None = None
) -> Observation:
    """One round. ``state`` and ``batch`` must be of the same attempt."""
    limits = policy or Policy()
    signals: list[Signal] = []
    resumed: tuple[int, datetime] | None = None
    seen = min(batch.output_at or now, now)
    state = _looked(state, batch, seen)
    state = _with_zone(state, batch, seen)
    for line in by_line(batch.hits):
        for hit in line:
            state, found = _after_hit(state, hit, seen, now)
            signals.extend(found)
            state, first = _resumed(state)
            resumed = resumed or first
    for unreadable in batch.unreadable:
        said = f"{unreadable.word}:{unreadable.path}"
        if said not in state.unreadable_reported:
            told = (*state.unreadable_reported, said)[-32:]
            state = replace(state, unreadable_reported=told)
            signals.append(_cannot_read(state, said, unreadable.path, unreadable.reason, now))
    if _runs(batch) and batch.caught_up and batch.readable:
        for judge in (no_progress, silence):
            state, signal = judge(state, now, limits)
            if signal is not None:
                signals.append(signal)
    state, blind = coverage(state, batch, now, limits)
    signals.extend(blind)
    for fact in (end_signal, vanished_signal):
        state, signal = fact(state, batch.attempt, now)
        if signal is not None:
            signals.append(signal)
    state = _summed_up(state, batch, now, limits)
    return Observation(state, tuple(signals), state.progress, resumed)


def _runs(batch: Batch) -> bool:
    attempt = batch.attempt
    return attempt.live and attempt.state is JobState.RUNNING and not attempt.completing


def _looked(state: DetectionState, batch: Batch, seen: datetime) -> DetectionState:
    if state.started_at is None and batch.attempt.started_at is not None:
        state = replace(state, started_at=batch.attempt.started_at)
    if batch.output_at is not None:
        state = replace(state, output_at=seen)
    runs = _runs(batch)
    if state.paused and runs:
        # A job that stood still by somebody's will has not been silent by its own.
        state = replace(state, paused=False, alive_at=seen if state.alive_at else None)
    elif not runs and batch.attempt.live and not state.paused:
        state = replace(state, paused=True)
    return state


def _with_zone(state: DetectionState, batch: Batch, seen: datetime) -> DetectionState:
    if batch.output_at is None or not batch.caught_up:
        return state
    for hit in reversed(batch.hits[-50:]):
        stamp = stamp_of(hit.line)
        if stamp is not None:
            zone = learnt_zone(stamp, seen)
            return state if zone is None else replace(state, zone_s=zone)
    return state


def _after_hit(
    state: DetectionState, hit: Hit, seen: datetime, now: datetime
) -> tuple[DetectionState, list[Signal]]:
    stamp = stamp_of(hit.line)
    at = min(hit.written_at, seen) if hit.written_at else happened(stamp, state.zone_s, seen)
    kind = hit.pattern.kind
    if kind in SIGNALS:
        state, signal = with_failure(state, hit, at, now)
        return state, [] if signal is None else [signal]
    if kind is PatternKind.PROGRESS:
        before = state.advanced_at, state.progress.last_step
        state = after_progress_line(state, hit, Moment(seen, at, stamp))
        moved = (state.advanced_at, state.progress.last_step) != before
        if recovered(state) or (state.silence_reported and moved and state.suspicion is None):
            state, signal = recovery(state, seen, now)
            return state, [] if signal is None else [signal]
        return state, []
    if kind in _CHECKPOINTS:
        return after_checkpoint_line(state, hit, Moment(seen, at, stamp)), []
    return _after_remark(state, hit, seen), []


def _after_remark(state: DetectionState, hit: Hit, seen: datetime) -> DetectionState:
    """Lines that are neither failures nor progress, but change how others are read."""
    match hit.pattern.kind:
        case PatternKind.TRACEBACK:
            return with_traceback(state, hit)
        case PatternKind.HARMLESS:
            return with_traceback(state, hit) if hit.pattern.opens else state
        case PatternKind.RESTARTING:
            state = alive(state, seen)
            if state.suspicion is None:
                return state
            return replace(state, suspicion=replace(state.suspicion, restarting=True))
        case (
            PatternKind.METRIC | PatternKind.PLACEMENT | PatternKind.STACK | PatternKind.ATTEMPT
        ):
            return state
        case PatternKind.EVALUATION:
            return in_phase(state, Phase.EVALUATION, seen)
        case PatternKind.TOTAL:
            total, step = hit.number("total"), hit.number("step")
            progress = state.progress
            if total is not None:
                progress = replace(progress, total_steps=total)
            if step is not None:
                progress = replace(progress, loaded_step=step)
            return replace(state, progress=progress)
        case _:
            phase = hit.pattern.phase
            return alive(state, seen) if phase is None else in_phase(state, phase, seen)


def _resumed(state: DetectionState) -> tuple[DetectionState, tuple[int, datetime] | None]:
    last, at = state.progress.last_step, state.progress.last_step_at
    if state.resume_above is None or state.resumed_step is not None or last is None or at is None:
        return state, None
    if last <= state.resume_above:
        return state, None
    return replace(state, resumed_step=last), (last, at)


def _cannot_read(state: DetectionState, said: str, path: str, reason: str, now: datetime) -> Signal:
    source = Source(SourceKind.LOG, path, said, path)
    return Signal(
        key=signal_key(state.attempt_id, source, "log.cannot_read"),
        attempt_id=state.attempt_id,
        kind=SignalKind.CANNOT_READ,
        source=source,
        happened_at=now,
        learned_at=now,
        pattern_id="log.cannot_read",
        domain=Domain.USER,
        severity=Severity.WARNING,
        detail=reason,
    )


def _summed_up(
    state: DetectionState, batch: Batch, now: datetime, policy: Policy
) -> DetectionState:
    """The progress record with its derived fields; ``updated_at`` moves only with the rest."""
    before = state.progress
    limit = silence_limit_s(state, policy)
    drained = before.log_drained_at
    if batch.drained and drained is None:
        drained = now
    progress = replace(
        before,
        silence_limit_s=limit,
        last_output_at=state.output_at,
        log_drained_at=drained,
    )
    if progress == before:
        return state
    return replace(state, progress=replace(progress, updated_at=now))
