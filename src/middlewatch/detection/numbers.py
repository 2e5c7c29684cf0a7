"""Are the numbers still numbers? Loss and gradient norm, line by line.

A run whose loss has become NaN trains nothing and looks busy. But a single NaN step is skipped by
many programs, an overflow in half precision is how a loss scale finds its value, and losses jump
when the data turn. So one odd line is nothing; what lasts is told: numbers that are none as a
divergence, a jump of loss or gradient norm as a remark that nothing is done about.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING

from middlewatch.detection.batch import real
from middlewatch.detection.series import Numbers, Odd, Place
from middlewatch.detection.state import DetectionState
from middlewatch.model.copies import replace
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

DIVERGED = "numerical_divergence"
KEPT = 48
LEARN = 12
"""Usual values that must be known before any other can be odd."""
LARGEST = 1e30
"""A greater number is as good as this one; sums of the greatest would be none any more."""
LEARN_EVERY = 8
BAD_LINES = 3
BAD_LINES_LONG = 2
LONG = 10
"""Steps in one line from which two lines are as good as three."""
VANISHED = "the loss is not printed any more"
VANISHED_AFTER = 3
"""Lines with a loss after which one without is odd, if there are this many for each without."""
OFTEN = 10
JUMP_LINES = 3
JUMP_SPREADS = 8.0
JUMP_SHARE = 0.25
"""A loss is high if it is above the usual one by both: spreads, and a share of it."""
STEEP_TIMES = 10.0
STEEP_LINES = 2
STEEP_AT_ONCE = 1000.0
EXPLODED_TIMES = 2.0
EXPLODED_LINES = 20
EXPLODED_STEPS = 50
MOST_JUMPS = 20
SMALLEST_SCALE = 1.0
REAL_SCALE = 64.0


def after_numbers(
    state: DetectionState, advances: Sequence[Advance], now: datetime
) -> tuple[DetectionState, list[Signal]]:
    """The state after the numbers of some steps, and what they say."""
    judge = _Judge(state, now)
    for advance in advances:
        judge.line(advance)
    if not judge.counted:
        return state, judge.signals
    return replace(state, numbers=judge.record()), judge.signals


def at_the_end(state: DetectionState, now: datetime) -> tuple[DetectionState, Signal | None]:
    """The attempt has ended: numbers that were none until the last line were none for good."""
    bad = state.numbers.bad
    if bad.since is None or bad.told or bad.what == VANISHED:
        return state, None
    signal = _Judge(state, now).diverged(bad, "until its end")
    bad = replace(bad, told=DIVERGED)
    return replace(state, numbers=replace(state.numbers, bad=bad)), signal


class _Judge:
    """The work on one round's lines."""

    def __init__(self, state: DetectionState, now: datetime) -> None:
        known = state.numbers
        self._id = state.attempt_id
        self._now = now
        self._told, self._untold = known.told, known.untold
        self._losses, self._norms = list(known.losses), list(known.norms)
        self._loss_usual, self._loss_limit = known.loss_usual, known.loss_limit
        self._norm_usual, self._norm_limit = known.norm_usual, known.norm_limit
        self._count = known.counted
        self._best_scale = known.best_scale
        self._bad, self._high, self._steep = known.bad, known.high, known.steep
        self._jumps = known.jumps
        self.counted = False
        self.signals: list[Signal] = []

    def record(self) -> Numbers:
        """What is remembered after all lines so far."""
        return Numbers(
            told=self._told,
            untold=self._untold,
            losses=tuple(self._losses[-KEPT:]),
            norms=tuple(self._norms[-KEPT:]),
            loss_usual=self._loss_usual,
            loss_limit=self._loss_limit,
            norm_usual=self._norm_usual,
            norm_limit=self._norm_limit,
            counted=self._count,
            best_scale=self._best_scale,
            bad=self._bad,
            high=self._high,
            steep=self._steep,
            jumps=self._jumps,
        )

    def line(self, a: Advance) -> None:
        """The numbers of one line."""
        loss, norm = a.loss, a.grad_norm
        if loss is None and norm is None and not self._told:
            return
        self.counted = True
        what = self._odd(a)
        if what:
            self._none(a, what)
            return
        if loss is None and norm is None:
            return  # figures of another kind
        if self._bad.lines:
            if self._bad.what == VANISHED:
                self._untold = min(1000, self._untold + self._bad.lines)
            self._bad = Odd()
        self._count += 1
        if loss is not None:
            if a.taken > 0 and self._told < 1000:
                self._told += 1
            if self._loss_limit is not None and loss > self._loss_limit:
                self._loss_is_high(a, loss)
            else:
                self._high = Odd() if self._high.lines else self._high
                self._losses.append(_short(loss))
        if norm is not None and isfinite(norm):
            if self._norm_limit is not None and norm > self._norm_limit:
                self._norm_is_high(a, norm)
            else:
                self._steep = Odd() if self._steep.lines else self._steep
                self._norms.append(_short(norm))
        if self._count % LEARN_EVERY == 0:
            self._learn()

    def _learn(self) -> None:
        self._losses, self._norms = self._losses[-KEPT:], self._norms[-KEPT:]
        if len(self._losses) >= LEARN:
            # A loss that falls fast is well below its median by now: the last ones count as well.
            middle = median(self._losses)
            spread = 1.4826 * median([abs(one - middle) for one in self._losses])
            over = max(JUMP_SPREADS * spread, JUMP_SHARE * abs(middle))
            self._loss_usual = middle
            self._loss_limit = max(middle, *self._losses[-3:]) + over
        if len(self._norms) >= LEARN:
            self._norm_usual = median(self._norms)
            self._norm_limit = STEEP_TIMES * self._norm_usual if self._norm_usual > 0 else None

    # -- numbers that are none ----------------------------------------------------------------

    def _odd(self, a: Advance) -> str:
        """What makes the numbers of this line none; empty where they are some."""
        skipped = nan_steps = 0.0
        scale: float | None = None
        if a.hit is not None:
            for name, value in a.hit.groups:
                if name == "loss_scale":
                    scale = real(value)
                elif name == "skipped":
                    skipped = real(value) or 0.0
                elif name == "nan_steps":
                    nan_steps = real(value) or 0.0
        if scale is not None and scale > self._best_scale:
            self._best_scale = scale
        if a.loss is not None and not isfinite(a.loss):
            return f"loss {a.loss}"
        if a.grad_norm is not None and not isfinite(a.grad_norm) and not skipped:
            return f"gradient norm {a.grad_norm}"
        if nan_steps and nan_steps >= a.taken > 0:
            return "steps without numbers"
        real_scale = scale is not None and self._best_scale >= REAL_SCALE
        if real_scale and scale is not None and scale <= SMALLEST_SCALE and skipped:
            return "loss scale at its minimum"
        always = self._told >= VANISHED_AFTER and self._told >= OFTEN * self._untold
        if a.loss is None and always and a.taken > 0 and not skipped:
            return VANISHED
        return ""

    def _none(self, a: Advance, what: str) -> None:
        bad = _longer(self._bad, a, what)
        enough = BAD_LINES_LONG if bad.steps >= 2 * LONG else BAD_LINES
        if bad.lines >= enough and not bad.told:
            self.signals.append(self.diverged(bad, f"for {bad.lines} lines"))
            bad = replace(bad, told=DIVERGED)
        self._bad = bad

    def diverged(self, odd: Odd, how_long: str) -> Signal:
        """Numbers that are none, for good."""
        before = f"; the loss was {self._losses[-1]:.4g} before" if self._losses else ""
        return self._signal(
            odd,
            "derived.diverged",
            f"{odd.what} since step {odd.since.step if odd.since else '?'}, {how_long}{before}",
            failure_class=DIVERGED,
            severity=Severity.ERROR,
        )

    # -- jumps --------------------------------------------------------------------------------

    def _loss_is_high(self, a: Advance, loss: float) -> None:
        odd = _longer(self._high, a, f"loss {loss:.4g} after {self._loss_usual:.4g}")
        odd = replace(odd, worst=max(odd.worst, _short(loss)))
        if odd.lines >= JUMP_LINES and not odd.told:
            odd = self._jumped(odd, "derived.loss_jump", "the loss jumped", loss)
        lasts = odd.lines >= EXPLODED_LINES and odd.steps >= EXPLODED_STEPS
        if lasts and odd.told != DIVERGED and loss > EXPLODED_TIMES * self._loss_usual > 0:
            self.signals.append(self.diverged(odd, f"for {odd.lines} lines, up to {odd.worst:.4g}"))
            odd = replace(odd, told=DIVERGED)
        self._high = odd
        if odd.lines > 8 * EXPLODED_LINES:
            # Another kind of loss: it is the usual one from now on.
            self._losses, self._loss_limit, self._high = [_short(loss)], None, Odd()

    def _norm_is_high(self, a: Advance, norm: float) -> None:
        odd = _longer(self._steep, a, f"gradient norm {norm:.4g} after {self._norm_usual:.4g}")
        enough = odd.lines >= STEEP_LINES or norm > STEEP_AT_ONCE * self._norm_usual
        if enough and not odd.told:
            odd = self._jumped(odd, "derived.norm_jump", "the gradient norm jumped", norm)
        self._steep = odd
        if odd.lines > KEPT:
            self._norms, self._norm_limit, self._steep = [_short(norm)], None, Odd()

    def _jumped(self, odd: Odd, pattern: str, how: str, value: float) -> Odd:
        self._jumps += 1
        if self._jumps <= MOST_JUMPS:
            step = odd.since.step if odd.since else "?"
            detail = f"{how}: {odd.what} at step {step}"
            self.signals.append(self._signal(odd, pattern, detail, value=value))
        return replace(odd, told="jump")

    def _signal(
        self,
        odd: Odd,
        pattern: str,
        detail: str,
        *,
        failure_class: str = "",
        severity: Severity = Severity.WARNING,
        value: float | None = None,
    ) -> Signal:
        at = odd.since or Place("", 0, "", self._now.timestamp(), 0)
        source = Source(SourceKind.LOG, at.stream, str(at.offset), at.path)
        return Signal(
            key=signal_key(self._id, source, pattern),
            attempt_id=self._id,
            kind=SignalKind.NUMERIC,
            source=source,
            happened_at=min(datetime.fromtimestamp(at.at_s, UTC), self._now),
            learned_at=self._now,
            pattern_id=pattern,
            failure_class=failure_class,
            domain=Domain.APPLICATION,
            severity=severity,
            step=at.step,
            value=None if value is None else _short(value),
            detail=detail,
        )


def _longer(odd: Odd, a: Advance, what: str) -> Odd:
    if odd.since is None:
        hit = a.hit
        place = ("", 0, "") if hit is None else (hit.stream, hit.offset, hit.path)
        return Odd(1, max(1, a.taken), Place(*place, round(a.at_s, 3), a.step), what)
    return replace(odd, lines=odd.lines + 1, steps=odd.steps + max(0, a.taken))


def _short(value: float) -> float:
    return float(f"{max(-LARGEST, min(LARGEST, value)):.5g}")
