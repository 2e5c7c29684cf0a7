"""Is this job slower than it was? The speed of its steps, line by line.

Logs tell of speed in many ways: the time of a step, the mean over a hundred, a throughput that
stays the same while a growing batch makes every step longer, or nothing but steps and the moments
at which they were printed. The best of what a job prints is followed. Iterations are counted, not
lines. Steps that a pause was announced for are passed over, a silent job gives no lines and so is
never called slow, and a job that starts again inside itself is learnt anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from math import exp, log
from typing import TYPE_CHECKING

from middlewatch.detection.culprit import (
    Culprit,
    culprit,
    with_network_line,
    with_step_parts,
    with_timer_line,
)
from middlewatch.detection.series import Baseline, Held, Speed
from middlewatch.detection.shift import Back, Change, Watch, drop_of, slower_of
from middlewatch.detection.state import DetectionState
from middlewatch.model.copies import replace
from middlewatch.model.pattern import ProgressForm
from middlewatch.model.signal import (
    Domain,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
)

if TYPE_CHECKING:
    from middlewatch.detection.advance import Advance
    from middlewatch.detection.batch import Hit

RESOLUTION_S = 1.0
"""What the clocks behind most intervals can tell apart: whole seconds of stamps, our own looks."""
RESOLUTIONS = 30.0
"""An interval must be this many times what its clock can tell apart."""
FINE_S = 0.001
SAVING_STEPS = 10
"""Steps that are passed over during a save that is not known to print its end."""
SAVING_STEPS_LONG = 200
LONGEST_STEP_S = 86_400.0
PLANNED = 0.34
"""A node that is slower than by 40 % mostly fails."""
_WORK = re.compile(r"(?i)tok(?:en)?s?\b|tok(?:en)?s?[_ /]|flop|mfu")
"""A throughput that counts work stays the same when steps become larger; samples and steps in a
second do not."""
_LENGTH = re.compile(r"\bseq(?:uence)?[ _-]?len(?:gth)?s?[\"']?(?: ?[:=] ?| )(\d{1,9})\b")
STEADY_LINES = 10
"""A batch size that changes sooner than this is a variable, not a plan."""
MOST_REPORTS = 20
MOST_PLANS = 32
"""A program that changes its plans more often than that would never be called slow."""

_THROUGHPUT, _TIME, _CLOCK = 3, 2, 1


def after_steps(
    state: DetectionState, advances: Sequence[Advance], now: datetime
) -> tuple[DetectionState, list[Signal]]:
    """The state after some steps forward, and what they say about the speed."""
    pace = _Pace(state, now)
    for advance in advances:
        pace.step(advance)
    return pace.state(), pace.signals


def network_seen(state: DetectionState, hit: Hit, seen: datetime) -> DetectionState:
    """Any line about the network explains a slowdown that comes with it."""
    if hit.pattern.domain is not Domain.NETWORK:
        return state
    return replace(state, parts=with_network_line(state.parts, seen.timestamp()))


def planned(state: DetectionState) -> DetectionState:
    """The program says that its steps are others from now on: nothing is usual any more."""
    speed = state.speed
    if speed.plans >= MOST_PLANS:
        return state
    anew = replace(
        speed, baseline=Baseline(), step=None, dropped=0, anchor_s=None, plans=speed.plans + 1
    )
    return replace(state, speed=anew)


class _Pace:
    """The work on one round's steps: what is remembered, taken apart for the time of the round."""

    def __init__(self, state: DetectionState, now: datetime) -> None:
        speed = state.speed
        self._state, self._now = state, now
        self._rank, self._stream, self._step = speed.rank, speed.stream, speed.step
        self._batch, self._since_batch = speed.batch, speed.since_batch
        self._dropped = speed.dropped
        self._save, self._saves = speed.save, speed.saves
        if state.saving_step is not None and state.saving_step != speed.save:
            self._save, self._saves = state.saving_step, speed.saves + 1
        self._anchor_s, self._anchor = speed.anchor_s, speed.anchor
        self._at_s, self._clock, self._coarse = speed.at_s, speed.clock, speed.coarse
        self._slow_class, self._reports = speed.slow_class, speed.reports
        self._watch = Watch(speed.baseline)
        self._parts = state.parts
        self.signals: list[Signal] = []

    def state(self) -> DetectionState:
        speed = Speed(
            rank=self._rank,
            stream=self._stream,
            step=self._step,
            batch=self._batch,
            since_batch=self._since_batch,
            dropped=self._dropped,
            save=self._save,
            saves=self._saves,
            anchor_s=self._anchor_s,
            anchor=self._anchor,
            at_s=self._at_s,
            clock=self._clock,
            coarse=self._coarse,
            baseline=self._watch.record(),
            slow_class=self._slow_class,
            reports=self._reports,
            plans=self._state.speed.plans,
        )
        return replace(self._state, speed=speed, parts=self._parts)

    def _anew(self) -> None:
        """Nothing is usual any more."""
        self._watch = Watch(Baseline())
        self._step, self._dropped = None, 0
        self._anchor_s = None

    def step(self, a: Advance) -> None:
        """One step line, or figures behind one."""
        hit = a.hit
        if hit is None:
            return
        if a.taken == 0 and _is_timer(hit):
            took = self._state.progress.step_time_s
            cost_ms = None if took is None else took * 1000
            self._parts = with_timer_line(self._parts, hit, a.step, cost_ms)
            return
        if self._step is not None and a.step < self._step:
            # It starts again inside the job: other caches, another order of things.
            self._anew()
        if a.data_s is not None or self._parts.timers:
            own_ms = None if a.own_s is None else a.own_s * 1000
            data_ms = None if a.data_s is None else a.data_s * 1000
            self._parts = with_step_parts(self._parts, data_ms, own_ms)
        smoothed = hit.pattern.form is ProgressForm.BAR
        if a.throughput is not None and a.throughput > 0:
            self._told(a, hit, _THROUGHPUT, -log(a.throughput))
        elif a.own_s is not None and 0 < a.own_s <= LONGEST_STEP_S and not smoothed:
            if self._rank > _TIME:
                return
            batch = _size_of(hit)
            self._planned(batch)
            self._told(a, hit, _TIME, log(a.own_s) - (log(batch) if batch else 0.0))
        elif self._rank <= _CLOCK and a.taken > 0:
            # A bar smooths its rate, and goes on smoothing a pause long after it.
            self._by_clock(a, hit)

    def _planned(self, batch: float | None) -> None:
        """A batch or a length that grows by plan makes steps longer; each is its own usual speed."""
        self._since_batch += 1
        if batch == self._batch:
            return
        if self._batch is not None and self._since_batch > STEADY_LINES:
            self._anew()
        self._batch, self._since_batch = batch, 0

    def _told(self, a: Advance, hit: Hit, rank: int, cost: float) -> None:
        """A line that tells its own speed."""
        if rank < self._rank:
            return
        if rank > self._rank:
            self._rank = rank
            self._anew()
        taken = 1 if self._step is None else a.step - self._step
        if taken <= 0:
            return
        first, self._step = self._step is None, a.step
        # The first line holds the compilation, the warming of caches, the first read.
        if first or self._in_a_pause(a):
            self._dropped += 0 if first else 1
            return
        self._dropped = 0
        self._judge(a, hit, cost, taken)

    def _in_a_pause(self, a: Advance) -> bool:
        """Whether this line's steps hold a pause that was announced, or a save goes on beside."""
        if a.interval_s is None and a.taken > 0 and not self._dropped:
            return True
        # Where every line follows a pause, pauses are part of this job's pace.
        return self._dropped > 0 and self._saving_beside(a)

    def _saving_beside(self, a: Advance) -> bool:
        """Whether a save goes on that may slow the steps beside it. One that is not known to print
        its end is not waited for long."""
        since = self._state.saving_step
        if since is None:
            return False
        ends = self._saves <= 1 or self._state.progress.checkpoint_step is not None
        return 0 <= a.step - since < (SAVING_STEPS_LONG if ends else SAVING_STEPS)

    def _by_clock(self, a: Advance, hit: Hit) -> None:
        """A line that tells only its step: the moments of the lines are the clock.

        A piece of the log that was read at once has one moment, and stamps often have whole
        seconds: steps are put together until their time is long against that.
        """
        self._rank, self._step = _CLOCK, a.step
        paused = a.interval_s is None and a.at_s > self._at_s
        moved = a.own_clock != self._clock or a.at_s < self._at_s
        self._at_s, self._clock = a.at_s, a.own_clock
        saving = self._saving_beside(a)
        if self._anchor_s is None or moved or paused or saving or a.step <= self._anchor:
            self._anchor_s, self._anchor = a.at_s, a.step
            return
        whole = not a.own_clock or a.at_s % 1.0 == 0
        self._coarse = min(8, self._coarse + 2) if whole else max(0, self._coarse - 1)
        elapsed, taken = a.at_s - self._anchor_s, a.step - self._anchor
        if elapsed < RESOLUTIONS * (RESOLUTION_S if self._coarse > 2 else FINE_S):
            return
        self._anchor_s, self._anchor = a.at_s, a.step
        self._judge(a, hit, log(elapsed / taken), taken)

    def _judge(self, a: Advance, hit: Hit, cost: float, taken: int) -> None:
        if self._stream != hit.stream:
            # Offsets count in another file now: lines of the old one cannot be named with it.
            self._stream = hit.stream
            self._watch.forget_places()
        line = Held(round(cost, 5), a.step, hit.offset, round(a.at_s, 3))
        found = self._watch.add(line, taken)
        if found is None:
            return
        self._reports += isinstance(found, Change)
        if self._reports > MOST_REPORTS:
            return
        if isinstance(found, Change):
            first = found.first.step
            planned = self._maybe_planned(hit, found)
            reason = culprit(
                self._parts, found.excess, first, found.lines, a.at_s, maybe_planned=planned
            )
            self._slow_class = reason.failure_class
            self.signals.append(self._slow(hit, found, reason))
        else:
            self.signals.append(self._back(a, hit, found))

    def _maybe_planned(self, hit: Hit, change: Change) -> bool:
        """Whether the steps may have become larger by plan: nothing that is printed says how much
        work a step is, and the change is larger than what a throttled node makes of it, comes in
        stages, or goes on growing."""
        if self._rank == _THROUGHPUT:
            told = _WORK.search(hit.line) is not None
        else:
            told = self._batch is not None
        if told:
            return False
        stages = change.again and self._slow_class == "slow_job"
        return stages or change.excess >= PLANNED or self._watch.rises

    # -- what is said -------------------------------------------------------------------------

    def _slow(self, hit: Hit, change: Change, reason: Culprit) -> Signal:
        usual = self._watch.level
        was, is_now = self._shown(usual), self._shown(usual + change.excess)
        lines = f"{change.lines} lines" if change.lines != 1 else "one line"
        return self._signal(
            hit,
            SignalKind.SLOW,
            f"derived.slow{'er' if change.again else ''}",
            change.first.offset,
            datetime.fromtimestamp(change.first.at_s, UTC),
            failure_class=reason.failure_class,
            domain=reason.domain,
            ranks=reason.ranks,
            step=change.first.step,
            value=round(drop_of(change.excess), 2),
            detail=f"{'slower still' if change.again else 'slower'} since step "
            f"{change.first.step}: {slower_of(change.excess):.1f} % more time per iteration than "
            f"this job's own baseline ({was} to {is_now}), for {change.iterations} iterations in "
            f"{lines}; {reason.because}",
        )

    def _back(self, a: Advance, hit: Hit, back: Back) -> Signal:
        return self._signal(
            hit,
            SignalKind.RECOVERED,
            "derived.slow_over",
            hit.offset,
            datetime.fromtimestamp(a.at_s, UTC),
            failure_class=self._slow_class or "slow_node",
            domain=Domain.UNKNOWN,
            ranks=(),
            step=a.step,
            value=0.0,
            detail=f"the speed is back at step {a.step}, after a drop of "
            f"{drop_of(back.excess):.1f} %",
        )

    def _signal(
        self,
        hit: Hit,
        kind: SignalKind,
        pattern: str,
        offset: int,
        happened_at: datetime,
        *,
        failure_class: str,
        domain: Domain,
        ranks: tuple[int, ...],
        step: int,
        value: float,
        detail: str,
    ) -> Signal:
        source = Source(SourceKind.LOG, hit.stream, str(offset), hit.path)
        return Signal(
            key=signal_key(self._state.attempt_id, source, pattern),
            attempt_id=self._state.attempt_id,
            kind=kind,
            source=source,
            happened_at=min(happened_at, self._now),
            learned_at=self._now,
            pattern_id=pattern,
            failure_class=failure_class,
            domain=domain,
            severity=Severity.WARNING if kind is SignalKind.SLOW else Severity.INFO,
            ranks=ranks,
            step=step,
            value=value,
            detail=detail,
        )

    def _shown(self, cost: float) -> str:
        cost = max(-300.0, min(300.0, cost))
        if self._rank == _THROUGHPUT:
            return f"{exp(-cost):.4g} as printed"
        return f"{exp(cost) * (self._batch or 1):.4g} s"


def _size_of(hit: Hit) -> float | None:
    """How much work a step is, as far as its line tells: its batch, its length or both."""
    batch = hit.real("batch_size")
    size = batch if batch and batch > 0 else None
    length = _LENGTH.search(hit.line) if "seq" in hit.line else None
    if length is not None and int(length.group(1)):
        size = (size or 1.0) * int(length.group(1))
    return size


def _is_timer(hit: Hit) -> bool:
    return any(name in {"timer", "max_ms"} for name, _ in hit.groups)
