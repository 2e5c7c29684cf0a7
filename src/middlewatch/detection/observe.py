"""The fold: what was known of an attempt, and one round of looking, give what is known now.

Everything that decides what a line, a silence or the scheduler's word means is behind this one
function. It reads no clock and no file; the same state and the same batch always give the same
signals with the same keys, so that a round that is repeated after a crash changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from middlewatch.detection.batch import Batch
from middlewatch.detection.chatter import after_chatter
from middlewatch.detection.checkpoints import finished
from middlewatch.detection.coverage import coverage
from middlewatch.detection.hang import lasting, no_progress, output_goes_on, silence
from middlewatch.detection.limits import silence_limit_s
from middlewatch.detection.lines import Lines
from middlewatch.detection.names import short
from middlewatch.detection.numbers import at_the_end
from middlewatch.detection.scheduler_facts import end_signal, vanished_signal
from middlewatch.detection.stamps import Stamps, zone_between
from middlewatch.detection.state import DetectionState
from middlewatch.detection.testimony import testimony, with_saves
from middlewatch.model.attempt import EndedBy
from middlewatch.model.copies import replace
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import (
    Domain,
    Progress,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
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
    seen = min(batch.output_at or now, now)
    went_on = after_chatter(state, batch, seen, now, limits)
    if went_on is not None:
        return Observation(went_on, (), went_on.progress)
    return weigh(state, batch, seen, now, limits)


def weigh(
    state: DetectionState, batch: Batch, seen: datetime, now: datetime, limits: Policy
) -> Observation:
    """One round by way of every question. ``seen`` is when the output was written."""
    before, state = state, _looked(state, batch, seen)
    state = _with_zone(state, batch, seen)
    lines = Lines(state, seen, now, limits)
    lines.read(batch.hits)
    state, signals = with_saves(state, lines.state, batch.hits), lines.signals
    if batch.output_at is not None and state.silence_reported:
        state, signal = output_goes_on(state, before, now)
        if signal is not None:
            signals.append(signal)
    for unreadable in batch.unreadable:
        said = f"{unreadable.word}:{unreadable.path}"
        if not unreadable.away and short(said) not in state.unreadable_reported:
            told = (*state.unreadable_reported, short(said))[-32:]
            state = replace(state, unreadable_reported=told)
            signals.append(_cannot_read(state, said, unreadable.path, unreadable.reason, now))
    if _runs(batch) and batch.caught_up and batch.readable and batch.sampled:
        for judge in (no_progress, silence):
            state, signal = judge(state, now, limits)
            if signal is not None:
                signals.append(signal)
        state = lasting(state, now, limits)
        state, heard = testimony(state, batch, now, limits)
        signals.extend(heard)
    state, blind = coverage(state, batch, now, limits)
    signals.extend(blind)
    for fact in (end_signal, vanished_signal):
        state, signal = fact(state, batch.attempt, now)
        if signal is not None:
            signals.append(signal)
    if batch.drained and batch.attempt.end is not None:
        if batch.attempt.end.by is EndedBy.COMPLETION:
            state = finished(state, now)
        state, signal = at_the_end(state, now)
        if signal is not None:
            signals.append(signal)
    state = _summed_up(state, batch, now, limits)
    return Observation(state, tuple(signals), state.progress, lines.resumed)


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
        state = replace(
            state, paused=False, alive_at=seen if state.alive_at else None, seen_since=seen
        )
    elif not runs and batch.attempt.live and not state.paused:
        state = replace(state, paused=True)
    if state.unread_since is not None and batch.readable:
        state = replace(state, seen_since=seen)
    return state


def _with_zone(state: DetectionState, batch: Batch, seen: datetime) -> DetectionState:
    if batch.output_at is None or not batch.caught_up:
        return state
    stamps = Stamps(seen)
    for hit in reversed(batch.hits[-50:]):
        read = stamps.read(hit.line)
        if read is not None and not read[1]:
            zone = zone_between(read[0], seen.timestamp())
            return state if zone is None else replace(state, zone_s=zone)
    return state


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
    known = (before.silence_limit_s, before.last_output_at, before.log_drained_at)
    if known == (limit, state.output_at, drained):
        return state
    progress = replace(
        before,
        silence_limit_s=limit,
        last_output_at=state.output_at,
        log_drained_at=drained,
        updated_at=now,
    )
    return replace(state, progress=progress)
