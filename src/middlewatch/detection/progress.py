"""How far a program has come, as its lines tell, and the pace that is normal for it.

Programs count steps in many ways: printed steps, tqdm bars that are repainted when their process
dies, dictionaries without a step, several of these at once, and after a restart inside the job the
count goes back. One of the counters is followed, the most explicit one; the others only show that
the program lives.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from middlewatch.detection.batch import Hit
from middlewatch.detection.stamps import Moment
from middlewatch.detection.state import RECENT_INTERVALS, RECENT_STEP_TIMES, DetectionState
from middlewatch.model.pattern import PatternKind, ProgressForm
from middlewatch.model.signal import Phase, Progress

RECOVERED_AFTER = 2
"""Different steps after a failure line that prove that the program goes on: one is also printed
by a rank that was ahead, and by a bar that is repainted while its process dies."""

LONGEST_STEP_S = 86_400.0
"""A line that tells of a longer step is not believed."""

_OWN = "middlewatch."


def after_progress_line(state: DetectionState, hit: Hit, at: Moment) -> DetectionState:
    """The state after a progress line."""
    if hit.pattern.form is ProgressForm.TICK:
        return _ticked(state, at)
    step, total = hit.number("step"), hit.number("total")
    if step is None:
        return alive(state, at.seen)
    if hit.pattern.form is ProgressForm.BAR:
        known = state.progress.total_steps
        if total is None or step == 0:
            return alive(state, at.seen)
        if known is not None and total < known and hit.group("epoch") is None:
            # A shorter bar inside the training bar: an evaluation loop.
            return in_phase(state, Phase.EVALUATION, at.seen)
    if state.counting not in {"", hit.pattern.id}:
        if _explicitness(hit) <= state.counting_rank:
            return alive(state, at.seen)
        state = replace(state, intervals=(), step_times=(), stamp_s=None)
    state = replace(state, counting=hit.pattern.id, counting_rank=_explicitness(hit))
    if hit.pattern.form is ProgressForm.BAR and hit.group("epoch") is not None and total:
        epoch = hit.number("epoch") or 0
        step, total = epoch * total + step, None
    return _stepped(state, hit, step, total, at)


def _explicitness(hit: Hit) -> int:
    """Our own line is meant for us; a printed step beats a bar, of which there may be several."""
    if hit.pattern.id.startswith(_OWN):
        return 2
    return 0 if hit.pattern.form is ProgressForm.BAR else 1


def _stepped(
    state: DetectionState, hit: Hit, step: int, total: int | None, at: Moment
) -> DetectionState:
    before = state.progress
    last = before.last_step
    if state.suspicion is not None:
        state = _suspected_step(state, step)
        # A repainted bar is not believed until a second step shows that the program goes on.
        if hit.pattern.form is ProgressForm.BAR and not recovered(state):
            return state
    if step == last:
        return state
    back = last is not None and step < last
    state = _timed(state, hit, step, at, restarted=back)
    saved, saved_at = before.checkpoint_step, before.checkpoint_at
    if state.saving_unconfirmed and state.saving_step is not None and not back:
        saved, saved_at = state.saving_step, at.happened
    progress = replace(
        before,
        phase=Phase.TRAINING,
        first_step=step if before.first_step is None else before.first_step,
        first_step_at=at.happened if before.first_step_at is None else before.first_step_at,
        last_step=step,
        last_step_at=at.happened,
        total_steps=total if total is not None else before.total_steps,
        checkpoint_step=saved,
        checkpoint_at=saved_at,
        step_time_s=median(state.step_times) if state.step_times else before.step_time_s,
    )
    unconfirmed = state.saving_unconfirmed and back
    saving = state.saving_step if not state.saving_unconfirmed or back else None
    return replace(
        _phase_over(state, at.seen),
        progress=progress,
        saving_step=saving,
        saving_unconfirmed=unconfirmed,
        advanced_at=at.seen,
        alive_at=at.seen,
        silence_reported=state.silence_reported,
    )


def _suspected_step(state: DetectionState, step: int) -> DetectionState:
    suspicion = state.suspicion
    if suspicion is None or step == suspicion.step:
        return state
    if suspicion.step is None and step == state.progress.last_step:
        return state
    advances = suspicion.advances + 1
    return replace(state, suspicion=replace(suspicion, advances=advances, step=step))


def recovered(state: DetectionState) -> bool:
    """Whether the steps since the failure line show that the program goes on."""
    return state.suspicion is not None and state.suspicion.advances >= RECOVERED_AFTER


def _ticked(state: DetectionState, at: Moment) -> DetectionState:
    """A line that is printed per logging interval but names no step."""
    if state.counting:
        return alive(state, at.seen)
    if state.suspicion is not None:
        suspicion = replace(state.suspicion, advances=state.suspicion.advances + 1)
        state = replace(state, suspicion=suspicion)
    state = _interval(state, at, None)
    progress = replace(state.progress, phase=Phase.TRAINING)
    return replace(
        _phase_over(state, at.seen), progress=progress, advanced_at=at.seen, alive_at=at.seen
    )


def _timed(
    state: DetectionState, hit: Hit, step: int, at: Moment, *, restarted: bool
) -> DetectionState:
    """The pace after a step forward. A gap that held a restart is a start-up, not an interval."""
    if restarted or state.advanced_at is None:
        began = state.advanced_at or state.started_at
        if began is not None and at.seen > began:
            state = replace(state, startup_s=(at.seen - began).total_seconds())
        return replace(state, stamp_s=_seconds(at.stamp))
    own = _own_step_time(hit)
    taken = step - (state.progress.last_step or 0)
    estimate = own * taken if own is not None and 0 < taken <= 100_000 else None
    state = _interval(state, at, estimate)
    if own is None and state.intervals and taken > 0:
        gap = _gap(state, at)
        own = state.intervals[-1] / taken if gap is None else gap / taken
    if own is not None and own > 0:
        state = replace(state, step_times=(*state.step_times, own)[-RECENT_STEP_TIMES:])
    return state


def _own_step_time(hit: Hit) -> float | None:
    """Seconds per step as the line itself gives them, in any of the known units."""
    told = _told_step_time(hit)
    return told if told is not None and told <= LONGEST_STEP_S else None


def _told_step_time(hit: Hit) -> float | None:
    milliseconds = hit.real("step_ms")
    if milliseconds is not None:
        return milliseconds / 1000
    seconds = hit.real("step_s")
    if seconds is not None:
        return seconds
    rate = hit.real("step_rate")
    return 1 / rate if rate else None


def _gap(state: DetectionState, at: Moment) -> float | None:
    now_s = _seconds(at.stamp)
    if now_s is not None and state.stamp_s is not None and now_s > state.stamp_s:
        return now_s - state.stamp_s
    if state.advanced_at is not None and at.seen > state.advanced_at:
        return (at.seen - state.advanced_at).total_seconds()
    return None


def _interval(state: DetectionState, at: Moment, estimate: float | None) -> DetectionState:
    gap = _gap(state, at)
    # Lines that were read in one piece share one moment: their own account is all there is.
    length = gap if gap is not None else estimate
    state = replace(state, stamp_s=_seconds(at.stamp))
    if length is None or length <= 0:
        return state
    return replace(
        state,
        intervals=(*state.intervals, length)[-RECENT_INTERVALS:],
        longest_interval_s=max(state.longest_interval_s, length),
    )


def _seconds(stamp: datetime | None) -> float | None:
    if stamp is None:
        return None
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


def alive(state: DetectionState, seen: datetime) -> DetectionState:
    """Only a living program prints this, but it is no step."""
    return replace(state, alive_at=seen)


def in_phase(state: DetectionState, phase: Phase, seen: datetime) -> DetectionState:
    """The program says what it does now: the usual silence of that phase is not a hang."""
    since = state.phase_at if state.progress.phase is phase and state.phase_at else seen
    progress = replace(state.progress, phase=phase)
    return replace(state, progress=progress, phase_at=since, alive_at=seen)


def _phase_over(state: DetectionState, seen: datetime) -> DetectionState:
    if state.phase_at is None:
        return state
    if state.progress.phase not in {Phase.EVALUATION, Phase.CHECKPOINT}:
        return replace(state, phase_at=None)
    name = state.progress.phase.value
    lengths = dict(state.phase_lengths)
    lengths[name] = max(lengths.get(name, 0.0), (seen - state.phase_at).total_seconds())
    return replace(state, phase_at=None, phase_lengths=tuple(lengths.items()))


def after_checkpoint_line(state: DetectionState, hit: Hit, at: Moment) -> DetectionState:
    """A save is announced, complete, or a checkpoint was loaded. Announced is not complete."""
    step = hit.number("step")
    progress = state.progress
    match hit.pattern.kind:
        case PatternKind.CHECKPOINT_SAVING:
            if step is None:
                step = progress.last_step
            state = in_phase(state, Phase.CHECKPOINT, at.seen)
            unconfirmed = hit.pattern.confirmed_by_progress
            return replace(state, saving_step=step, saving_unconfirmed=unconfirmed)
        case PatternKind.CHECKPOINT_SAVED:
            if step is None:
                step = state.saving_step if state.saving_step is not None else progress.last_step
            state = alive(_phase_over(state, at.seen), at.seen)
            if step is None:
                return state
            progress = replace(
                progress,
                phase=_after_phase(progress),
                checkpoint_step=step,
                checkpoint_at=at.happened,
            )
            return replace(state, progress=progress, saving_step=None, saving_unconfirmed=False)
        case _:
            state = alive(state, at.seen)
            if step is None:
                return state
            return replace(state, progress=replace(progress, loaded_step=step))


def _after_phase(progress: Progress) -> Phase:
    return Phase.STARTING if progress.last_step is None else Phase.TRAINING
