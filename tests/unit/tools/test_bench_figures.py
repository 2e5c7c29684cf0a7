"""How raw values become `build/bench.json`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.bench.figures import (
    AIMS,
    AT_LEAST,
    Measured,
    flat,
    kept_lines,
    median,
    merged,
    percentile,
    remarks,
    rounded,
)

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=60)


def measured(name: str, *values: float) -> Measured:
    found = Measured("group")
    for value in values:
        found.value(name, value)
    return found


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100)]
)
def test_percentile_is_a_measured_value(share: float, expected: float) -> None:
    assert percentile(range(100, 0, -1), share) == expected


def test_percentile_of_few_values_is_their_largest() -> None:
    assert percentile([1.0, 9.0, 2.0], 0.99) == 9.0


@given(NUMBERS, st.floats(0, 1))
def test_percentile_leaves_its_share_at_or_below_it(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert sum(value <= found for value in values) >= share * len(values)
    assert found in values


@given(NUMBERS)
def test_median_has_half_of_the_values_on_each_side(values: list[float]) -> None:
    found = median(values)
    assert 2 * sum(value <= found for value in values) >= len(values)
    assert 2 * sum(value >= found for value in values) >= len(values)


@pytest.mark.parametrize("what", [percentile, lambda values, _share: median(values)])
def test_no_value_has_no_figure(what: object) -> None:
    assert callable(what)
    with pytest.raises(ValueError, match="no value"):
        what([], 0.5)


def test_each_figure_stands_beside_its_count() -> None:
    found = measured("wait_s", 1.0, 2.0, 3.0, 10.0)
    found.summarise("wait_s", p50=0.5, max=1.0)
    assert flat([found]) == {
        "wait_s_p50": 2.5,
        "wait_s_p50_n": 4,
        "wait_s_max": 10,
        "wait_s_max_n": 4,
    }


@given(st.dictionaries(st.text("abc_", min_size=1, max_size=5), st.floats(0, 1e5)))
def test_the_object_is_flat_and_all_numbers(values: dict[str, float]) -> None:
    found = Measured("group")
    for name, value in values.items():
        found.figure(f"{name}_s", value, 7)
    made = json.loads(json.dumps(flat([found])))
    assert all(isinstance(value, int | float) for value in made.values())
    assert {name for name in made if f"{name}_n" in made} == {f"{name}_s" for name in values}
    assert len(made) == 2 * len(values)


def test_a_run_of_one_group_leaves_the_others_figures() -> None:
    before = {"a_s": 1.0, "a_s_n": 3, "b_s": 2.0, "b_s_n": 4}
    assert merged(before, {"b_s": 9.0, "b_s_n": 5}) == {
        "a_s": 1.0,
        "a_s_n": 3,
        "b_s": 9.0,
        "b_s_n": 5,
    }


def test_raw_lines_of_a_group_that_was_measured_again_go() -> None:
    lines = ['{"group": "a", "value": 1}', '{"group": "b", "value": 2}', "torn {", '"text"']
    assert kept_lines(lines, frozenset({"b"})) == ['{"group": "a", "value": 1}']


@pytest.mark.parametrize(
    ("value", "shown"), [(0, 0), (0.123456, 0.1235), (12.3456, 12.35), (123456.7, 123457), (3.0, 3)]
)
def test_figures_have_four_digits(value: float, shown: float) -> None:
    assert rounded(value) == shown


@given(st.floats(1e-9, 1e9))
def test_rounding_moves_a_figure_by_less_than_a_thousandth(value: float) -> None:
    assert rounded(value) == pytest.approx(value, rel=1e-3)


def test_a_missed_aim_is_said() -> None:
    assert remarks({"cli_start_s": 0.31, "cli_start_s_n": 10}) == [
        "cli_start_s is 0.31, the aim is at most 0.3"
    ]


def test_too_few_measurements_are_said() -> None:
    [said] = remarks({"crash_to_running_s_p50": 4.0, "crash_to_running_s_p50_n": 19})
    assert "at least 20" in said


def test_what_meets_its_aim_is_not_remarked_on() -> None:
    assert remarks({name: aim for name, aim in AIMS.items() if "crash" not in name}) == []


def test_figure_below_what_it_must_reach_is_told() -> None:
    assert remarks({"detect_vs_ripgrep": 0.9, "detect_vs_ripgrep_n": 5}) == [
        "detect_vs_ripgrep is 0.9, the aim is at least 1"
    ]
    assert remarks(dict(AT_LEAST)) == []
