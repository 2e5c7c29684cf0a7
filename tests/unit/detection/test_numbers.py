"""Numbers that are none for good are a divergence; one odd line is nothing; jumps are remarks."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, nan

import pytest

from middlewatch.detection.advance import Advance, judged
from middlewatch.detection.batch import Hit
from middlewatch.detection.numbers import at_the_end
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Severity, Signal, SignalKind
from tests.unit.attribution.made import attempt

STEP = Pattern("test.step", PatternKind.PROGRESS, "")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Log:
    def __init__(self) -> None:
        self.state: DetectionState = fresh(attempt().id)
        self.signals: list[Signal] = []
        self.step = 0

    def lines(
        self,
        count: int,
        loss: float | None,
        norm: float | None = None,
        *,
        taken: int = 1,
        **groups: str,
    ) -> list[Signal]:
        new: list[Signal] = []
        for number in range(count):
            self.step += taken
            hit = Hit(STEP, "f#0", self.step * 100, "step", tuple(groups.items()), "/out.log")
            told = None if loss is None else loss * (1 + 0.01 * (number % 3))
            line = Advance(self.step, taken, loss=told, grad_norm=norm, at_s=1.7e9, hit=hit)
            self.state, found = judged(self.state, [line], NOW, Policy())
            new += found
        self.signals += new
        return new


@pytest.mark.parametrize("loss", [nan, inf, -inf])
def test_a_loss_that_is_none_for_three_lines_has_diverged(loss: float) -> None:
    log = Log()
    log.lines(30, 2.5)
    began = log.step + 1
    assert log.lines(2, loss) == []
    (signal,) = log.lines(5, loss)
    assert signal.kind is SignalKind.NUMERIC
    assert signal.failure_class == "numerical_divergence"
    assert signal.severity is Severity.ERROR
    assert (signal.step, signal.source.position) == (began, str(began * 100))
    assert "the loss was 2.5" in signal.detail


def test_two_lines_are_enough_where_each_stands_for_many_steps() -> None:
    log = Log()
    log.lines(10, 2.5, taken=10)
    assert len(log.lines(2, nan, taken=10)) == 1


def test_a_single_odd_line_is_healthy() -> None:
    log = Log()
    for _ in range(20):
        log.lines(10, 2.5, 1.0)
        log.lines(1, nan, nan)
    assert log.signals == []


def test_an_overflow_that_is_skipped_is_healthy() -> None:
    log = Log()
    log.lines(20, 2.5, 1.0, skipped="0", loss_scale="65536")
    log.lines(8, None, inf, skipped="1", loss_scale="32768")
    log.lines(20, 2.4, 1.0, skipped="0", loss_scale="32768")
    assert log.signals == []


def test_a_loss_that_is_not_printed_any_more_is_none() -> None:
    log = Log()
    log.lines(20, 2.5, 1.0, skipped="0")
    (signal,) = log.lines(5, None, 1.0, skipped="0")
    assert "not printed" in signal.detail


def test_a_loss_that_is_printed_now_and_then_has_not_vanished() -> None:
    log = Log()
    for _ in range(30):
        log.lines(1, 2.5)
        log.lines(9, None)
    later = len(log.signals)
    assert later <= 1
    log.lines(1, 2.5)
    log.lines(200, None)
    assert len(log.signals) == later


def test_a_loss_scale_that_has_sunk_to_its_minimum_is_a_divergence() -> None:
    log = Log()
    log.lines(20, 2.5, 1.0, skipped="0", loss_scale="65536")
    found = log.lines(4, None, nan, skipped="1", loss_scale="1.0")
    assert [s.failure_class for s in found] == ["numerical_divergence"]


def test_a_scale_that_was_always_one_is_no_scale() -> None:
    log = Log()
    log.lines(50, 2.5, 1.0, skipped="0", loss_scale="1.0")
    assert log.signals == []


def test_numbers_that_were_none_when_it_ended_were_none_for_good() -> None:
    log = Log()
    log.lines(20, 2.5)
    assert log.lines(1, nan) == []
    state, signal = at_the_end(log.state, NOW)
    assert signal is not None
    assert signal.failure_class == "numerical_divergence"
    assert at_the_end(state, NOW)[1] is None


def test_a_healthy_end_says_nothing() -> None:
    log = Log()
    log.lines(20, 2.5)
    assert at_the_end(log.state, NOW) == (log.state, None)


def test_a_jump_of_the_loss_is_a_remark_without_a_class() -> None:
    log = Log()
    log.lines(40, 2.5)
    (signal,) = log.lines(5, 6.0)
    assert (signal.kind, signal.failure_class) == (SignalKind.NUMERIC, "")
    assert signal.severity is Severity.WARNING
    assert signal.value == pytest.approx(6.0, rel=0.05)


def test_a_single_spike_is_no_jump() -> None:
    log = Log()
    for _ in range(10):
        log.lines(20, 2.5, 1.0)
        log.lines(1, 9.0, 15.0)
    assert log.signals == []


def test_a_jump_of_the_gradient_norm_is_a_remark() -> None:
    log = Log()
    log.lines(40, 2.5, 1.0)
    (signal,) = log.lines(3, 2.5, 60.0)
    assert "gradient norm" in signal.detail
    assert signal.failure_class == ""


def test_a_loss_that_stays_far_above_has_exploded() -> None:
    log = Log()
    log.lines(40, 2.5)
    found = log.lines(80, 9.0)
    assert [s.failure_class for s in found] == ["", "numerical_divergence"]


def test_a_falling_loss_is_what_training_is_for() -> None:
    log = Log()
    loss = 11.0
    for _ in range(400):
        loss = 2.0 + (loss - 2.0) * 0.97
        log.lines(1, loss, 1.0)
    assert log.signals == []


def test_remarks_are_bounded() -> None:
    log = Log()
    log.lines(40, 2.5, 1.0)
    for _ in range(60):
        log.lines(5, 9.0, 1.0)
        log.lines(9, 2.5, 1.0)
    assert len(log.signals) <= 20
