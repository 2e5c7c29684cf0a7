"""Progress lines one after the other, without a new record for each.

A file can be full of them, and nearly all are the plain next step of the counter that is followed.
Those are counted here, in a working copy of the few fields that they change; whatever is not so
plain is left to `middlewatch.detection.progress`, which counts its steps here as well. So there is
one way of counting, and it costs a few microseconds a line.
"""

from __future__ import annotations

from math import inf, isfinite
from statistics import median

from middlewatch.detection.advance import Advance
from middlewatch.detection.batch import Hit, figure, real
from middlewatch.detection.habits import pause_beyond
from middlewatch.detection.names import writer_of
from middlewatch.detection.stamps import Times, when
from middlewatch.detection.state import (
    RECENT_INTERVALS,
    RECENT_PAUSES,
    RECENT_STEP_TIMES,
    Counter,
    DetectionState,
)
from middlewatch.model.copies import replace
from middlewatch.model.pattern import PatternKind, ProgressForm
from middlewatch.model.signal import Phase
from middlewatch.model.steps import StepCounter

LONGEST_STEP_S = 86_400.0
"""A line that tells of a longer step is not believed."""
MOST_DIGITS = 15


def plain(state: DetectionState) -> bool:
    """Whether a step forward changes nothing but the counts."""
    return (
        state.progress.phase is Phase.TRAINING
        and state.phase_at is None
        and state.suspicion is None
        and state.counter.lower is None
        and state.progress.last_step is not None
        and state.advanced_at is not None
        and (state.resume_above is None or state.resumed_step is not None or _another(state))
        and not (
            state.silence_reported or state.saving_unconfirmed or state.ended or state.interrupted
        )
    )


def _another(state: DetectionState) -> bool:
    """Whether steps are followed that pass nothing, because another counter's were lost."""
    return state.resume_of is not None and state.resume_of.name != state.counter.pattern


class Stride:
    """Steps forward from one state. ``done`` gives the state after them; ``advances`` what those
    who judge speed and numbers are told. A line behind a silence of more than ``patience_s`` is not
    plain: somebody may want to keep that silence."""

    def __init__(self, state: DetectionState, times: Times, patience_s: float = inf) -> None:
        self._patience_s = patience_s
        self._stamp_s, self._stamp_of = state.stamp_s, state.stamp_of
        self._alive_s = state.alive_at.timestamp() if state.alive_at else times.seen_s
        progress, counter = state.progress, state.counter
        self._state = state
        self._times = times
        self._pattern = counter.pattern
        self._writer = counter.writer
        self._per_epoch = counter.per_epoch
        self._first_epoch = counter.first_epoch
        self._last: int = progress.last_step if progress.last_step is not None else -1
        self._total = progress.total_steps
        self._total_text = "" if self._total is None else str(self._total)
        self._epoch_text = ""
        self._epoch_from = 0
        self._intervals = list(state.intervals)
        self._step_times = list(state.step_times)
        self._pauses = state.pauses
        self._limit = pause_beyond(state.intervals)
        self._since_limit = 0
        self._step_own_s, self._step_own_of = state.step_s, state.step_of
        self._step_seen_s = state.advanced_at.timestamp() if state.advanced_at else None
        self._at_s = 0.0
        self._taken = counter.taken
        self.advances: list[Advance] = []

    # -- the plain next step ---------------------------------------------------------------------

    def takes(self, hit: Hit) -> bool:
        """Count the line if it is the plain next step, or has figures of the last one."""
        pattern = hit.pattern
        if pattern.id != self._pattern:
            return False
        if pattern.kind is not PatternKind.PROGRESS or pattern.form is ProgressForm.TICK:
            return False
        groups = dict(hit.groups)
        text = groups.get("step", "")
        if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
            return False
        step = int(text)
        epoch = groups.get("epoch")
        if epoch is not None:
            if self._per_epoch is None or epoch != self._epoch_text:
                return self._other_epoch(groups, epoch, step) and self.takes(hit)
            step += self._epoch_from
        elif groups.get("total", self._total_text) != self._total_text:
            return False
        if step <= self._last:
            return False
        at_s = self._times.look(hit)
        if self._silent_s() > self._patience_s:
            return False
        self._count(hit, groups, step, at_s)
        return True

    def _silent_s(self) -> float:
        """Seconds from the last line that showed life to the one that was looked at."""
        times, before = self._times, self._stamp_s
        if times.own_s is not None and times.own_of == self._stamp_of and before is not None:
            own = times.own_s - before
            if own >= 0:
                return own
        return times.seen_s - self._alive_s

    def _other_epoch(self, groups: dict[str, str], epoch: str, step: int) -> bool:
        """Whether the epoch can be followed: then its first step is known."""
        per_epoch = self._per_epoch
        known = per_epoch is not None and groups.get("total") == str(per_epoch) and step != 0
        if not known or per_epoch is None or not (epoch.isascii() and epoch.isdigit()):
            return False
        if len(epoch) > MOST_DIGITS // 2:
            return False
        self._epoch_text, self._epoch_from = epoch, (int(epoch) - self._first_epoch) * per_epoch
        return True

    # -- counting --------------------------------------------------------------------------------

    def count(
        self, hit: Hit, groups: dict[str, str], step: int, *, interrupted: bool = False
    ) -> None:
        """Count a step forward. ``interrupted``: what lies between it and the one before is no
        interval (a start, an announced phase)."""
        self._count(hit, groups, step, self._times.look(hit), interrupted=interrupted)

    def _count(
        self,
        hit: Hit,
        groups: dict[str, str],
        step: int,
        at_s: float,
        *,
        interrupted: bool = False,
    ) -> None:
        times = self._times
        taken = step - self._last if 0 <= self._last < step else 1
        own = own_step_time(groups)
        gap = None if interrupted else self._gap(own, taken)
        advance = Advance(step, taken, own, gap, at_s=at_s, own_clock=times.own_of, hit=hit)
        if "loss" in groups:
            advance.loss = figure(groups["loss"])
        if "grad_norm" in groups:
            advance.grad_norm = figure(groups["grad_norm"])
        if "throughput" in groups:
            advance.throughput = real(groups["throughput"])
        if "data_s" in groups:
            advance.data_s = real(groups["data_s"])
        elif "data_ms" in groups:
            told = real(groups["data_ms"])
            advance.data_s = None if told is None else told / 1000
        self.advances.append(advance)
        if gap is not None:
            self._interval(gap)
            if own is None and taken > 0:
                own = gap / taken
        if own is not None and own > 0:
            self._step_times.append(own)
        self._last, self._taken, self._at_s = step, taken, at_s
        self._step_own_s, self._step_own_of = times.own_s, times.own_of
        self._stamp_s, self._stamp_of = times.own_s, times.own_of
        self._step_seen_s = self._alive_s = times.seen_s

    def _gap(self, own: float | None, taken: int) -> float | None:
        """Seconds since the step line before: by the lines' own clock, else by ours; of lines that
        were read in one piece and have no clock, their own account is all there is."""
        times = self._times
        if times.own_s is not None and times.own_of == self._step_own_of:
            before = self._step_own_s
            if before is not None and times.own_s >= before:
                return times.own_s - before
        if self._step_seen_s is not None and times.seen_s > self._step_seen_s:
            return times.seen_s - self._step_seen_s
        return own * taken if own is not None and 0 < taken <= 100_000 else None

    def _interval(self, gap: float) -> None:
        if gap <= 0:
            return
        if gap > self._limit:
            self._pauses = (*self._pauses, (self._last, round(gap, 3)))[-RECENT_PAUSES:]
        self._intervals.append(gap)
        self._since_limit += 1
        if self._since_limit >= 16 or len(self._intervals) <= RECENT_STEP_TIMES:
            self._intervals = self._intervals[-RECENT_INTERVALS:]
            self._step_times = self._step_times[-RECENT_STEP_TIMES:]
            self._limit = pause_beyond(tuple(self._intervals))
            self._since_limit = 0

    # -- the state after them --------------------------------------------------------------------

    def done(self) -> DetectionState:
        """The state after the steps that were counted."""
        state = self._state
        if not self.advances:
            return state
        last = self.advances[-1]
        step_times = tuple(self._step_times[-RECENT_STEP_TIMES:])
        at = self._times.seen if self._at_s == self._times.seen_s else when(self._at_s)
        before = state.progress
        progress = replace(
            before,
            phase=Phase.TRAINING,
            first_step=self.advances[0].step if before.first_step is None else before.first_step,
            first_step_at=at if before.first_step_at is None else before.first_step_at,
            last_step=self._last,
            last_step_at=at,
            steps_of=_of(state.counter, before.steps_of),
            step_time_s=median(step_times) if step_times else before.step_time_s,
            throughput=_newest(last.throughput, before.throughput),
            loss=_newest(last.loss, before.loss),
            grad_norm=_newest(last.grad_norm, before.grad_norm),
        )
        writer = writer_of(last.hit) if last.hit is not None else self._writer
        return replace(
            state,
            progress=progress,
            counter=replace(state.counter, writer=writer, taken=self._taken, other_times=0),
            intervals=tuple(self._intervals[-RECENT_INTERVALS:]),
            step_times=step_times,
            pauses=self._pauses,
            stamp_s=self._step_own_s,
            stamp_of=self._step_own_of,
            step_s=self._step_own_s,
            step_of=self._step_own_of,
            advanced_at=self._times.seen,
            alive_at=self._times.seen,
        )


def own_step_time(groups: dict[str, str]) -> float | None:
    """Seconds per step as the line itself gives them, in any of the known units."""
    told: float | None = None
    if "step_ms" in groups:
        told = real(groups["step_ms"])
        told = None if told is None else told / 1000
    elif "step_s" in groups:
        told = real(groups["step_s"])
    elif "step_rate" in groups:
        rate = real(groups["step_rate"])
        told = 1 / rate if rate else None
    return told if told is not None and 0 <= told <= LONGEST_STEP_S else None


def _of(counter: Counter, before: StepCounter | None) -> StepCounter:
    """The counter that is followed, as it is kept beside its steps."""
    if before is not None and before.name == counter.pattern and before.rank == counter.rank:
        return before
    return StepCounter(counter.pattern, counter.rank)


def _newest(told: float | None, before: float | None) -> float | None:
    """What is shown of a figure: the last one, and none where that was no number."""
    if told is None:
        return before
    return told if isfinite(told) else None
