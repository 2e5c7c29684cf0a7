"""Figures of many cases: their intervals, what is added up, and what is promised."""

from __future__ import annotations

import pytest

from middlewatch.wiring.scoring.figures import Target, f1, figures_of, targets_of, wilson
from middlewatch.wiring.scoring.rules import judge
from tests.unit.wiring_scoring.test_rules import alarm, good, label, nothing_said, said


@pytest.mark.parametrize(
    ("right", "of", "low", "high"),
    # Wilson, E. B. (1927), computed with R's prop.test(correct = FALSE)
    [(8, 10, 0.4902, 0.9433), (0, 20, 0.0, 0.1611), (50, 50, 0.9287, 1.0), (1, 2, 0.0945, 0.9055)],
)
def test_wilsons_interval(right: int, of: int, low: float, high: float) -> None:
    found = wilson(right, of)
    assert found is not None
    assert found == pytest.approx((low, high), abs=5e-4)


def test_of_nothing_there_is_no_interval() -> None:
    assert wilson(0, 0) is None


@pytest.mark.parametrize(
    ("precision", "recall", "both"),
    [(1.0, 1.0, 1.0), (0.5, 1.0, 2 / 3), (0.0, 0.0, 0.0), (None, 1.0, None)],
)
def test_f1(precision: float | None, recall: float | None, both: float | None) -> None:
    assert f1(precision, recall) == (None if both is None else pytest.approx(both))


def test_figures_count_cases_and_ranges() -> None:
    judged = [
        judge(label(), said()),
        judge(label(), said(first={"lines": [[1, 1]], "node": "n2"}, cascade_lines=[])),
        judge(good(), nothing_said()),
        judge(good(), nothing_said(alarms=[alarm()])),
    ]
    figures = figures_of(judged)
    assert (figures.cases, figures.good, figures.stopped) == (4, 2, 2)
    assert (figures.precision.right, figures.precision.of) == (2, 3)
    assert (figures.recall.right, figures.recall.of) == (2, 4)
    assert (figures.share("first_node").right, figures.share("first_node").of) == (1, 2)
    assert (figures.with_false_alarm.right, figures.with_false_alarm.of) == (1, 2)
    assert (figures.with_acting_false_alarm.right, figures.alarms.right) == (1, 2)


def test_every_target_is_met_by_right_analyses_and_missed_by_wrong_ones() -> None:
    fine = [judge(label(), said(), times=range(30)), judge(good(), nothing_said())]
    assert all(target.met for target in targets_of(figures_of(fine), fine))
    wrong = [
        judge(
            label(),
            nothing_said(last_progress_step=1, last_checkpoint_step=1),
            times=range(30),
        ),
        judge(good(), said()),
        judge(label(kind="hang"), said(alarms=[alarm("hang", at_s=100.0)]), times=range(30)),
    ]
    missed = {t.name for t in targets_of(figures_of(wrong), wrong) if not t.met}
    assert missed == {t.name for t in targets_of(figures_of(fine), fine)}


def test_a_hang_may_be_noticed_as_late_as_three_usual_intervals() -> None:
    late = label(kind="hang")
    says = said(kind="hang", alarms=[alarm("hang", line=10, at_s=9.0 + 170.0)])

    def lateness(interval_s: float | None) -> Target:
        judged = [judge(late, says, times=range(30), interval_s=interval_s)]
        return next(t for t in targets_of(figures_of(judged), judged) if "late" in t.name)

    assert lateness(60.0).met
    assert not lateness(50.0).met
    assert not lateness(None).met


def test_what_was_not_measured_misses_nothing() -> None:
    assert Target("x", "x", None, least=0.9).met
