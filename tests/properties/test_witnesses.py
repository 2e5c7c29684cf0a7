"""What can never become a witness against a job."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st

from middlewatch.detection.witness import RULES, witnesses
from middlewatch.model.activity import Activity, ActivityKind, NodeSeries

BEGAN = 1_800_000_000.0
SILENT = BEGAN + 1500
NOW = SILENT + 400
NODES = ("n1", "n2", "n3")
KINDS = st.sampled_from(list(ActivityKind))
ANYTHING = st.floats(allow_nan=True, allow_infinity=True)
TIMES = st.floats(BEGAN - 500, NOW + 100)


def made(kind: ActivityKind, *samples: tuple[tuple[float, float], ...]) -> Activity:
    nodes = tuple(NodeSeries(name, tuple(s)) for name, s in zip(NODES, samples, strict=False))
    return Activity(kind, nodes, datetime.fromtimestamp(NOW, UTC), 60.0)


def grid(values: list[float]) -> tuple[tuple[float, float], ...]:
    return tuple((BEGAN + 15 * n, value) for n, value in enumerate(values))


def judged(*activities: Activity) -> tuple[object, ...]:
    return witnesses(activities, NODES, BEGAN, SILENT)


@given(st.lists(st.tuples(KINDS, st.lists(st.tuples(TIMES, ANYTHING), max_size=200)), max_size=4))
def test_any_samples_are_judged_without_an_error(
    given_: list[tuple[ActivityKind, list[tuple[float, float]]]],
) -> None:
    for one in witnesses(
        [made(kind, *[tuple(sorted(s, key=lambda x: x[0]))] * 3) for kind, s in given_],
        NODES,
        BEGAN,
        SILENT,
    ):
        assert set(one.nodes) <= set(NODES)
        assert one.sentence


@given(KINDS, st.lists(st.sampled_from([nan, inf, -inf, -1.0]), max_size=130))
def test_samples_that_are_no_measurements_testify_nothing(
    kind: ActivityKind, values: list[float]
) -> None:
    assert judged(made(kind, grid(values), grid(values), grid(values))) == ()


@given(KINDS, st.floats(0, 1e12))
def test_what_never_changes_testifies_nothing(kind: ActivityKind, value: float) -> None:
    same = grid([value] * 127)
    assert judged(made(kind, same, same, same)) == ()


@given(KINDS, st.integers(0, 9), st.floats(1, 1e6))
def test_a_short_past_testifies_nothing(kind: ActivityKind, few: int, level: float) -> None:
    samples = tuple(
        [(SILENT - 15 * n, level) for n in range(few, 0, -1)]
        + [(SILENT + 15 * n, 0.0) for n in range(1, 27)]
    )
    assert judged(made(kind, samples, samples, samples)) == ()


@given(KINDS, st.integers(0, 12), st.floats(1, 1e6))
def test_a_silence_that_was_hardly_measured_testifies_nothing(
    kind: ActivityKind, few: int, level: float
) -> None:
    samples = tuple(
        [(BEGAN + 15 * n, level) for n in range(101)]
        + [(SILENT + 75 + 15 * n, 0.0) for n in range(few)]
    )
    assert judged(made(kind, samples, samples, samples)) == ()


@given(
    st.floats(70, 700),
    st.lists(st.floats(0.86, 1.1), min_size=127, max_size=127),
    st.sampled_from(list(ActivityKind)),
    st.floats(1, 1e9),
)
def test_a_job_that_keeps_its_power_is_never_still(
    watts: float, shares: list[float], other: ActivityKind, level: float
) -> None:
    power = grid([watts * max(0.97, share) for share in shares])
    stopped = grid([level] * 101 + [0.0] * 26)
    activities = [made(ActivityKind.GPU_POWER, power, power, power)]
    if other is not ActivityKind.GPU_POWER:
        activities.append(made(other, stopped, stopped, stopped))
    assert judged(*activities) == ()


@given(st.floats(1.0, 20.0), st.floats(0.0, 0.05), st.sampled_from(list(ActivityKind)))
def test_a_job_that_worked_and_stands_still_everywhere_is_told(
    times: float, left: float, kind: ActivityKind
) -> None:
    level = RULES[kind].least * times
    last = level * left * RULES[kind].share
    samples = grid([level] * 101 + [last] * 26)
    found = witnesses([made(kind, samples, samples, samples)], NODES, BEGAN, SILENT)
    assert [(one.kind, one.nodes) for one in found] == [(kind, ())]
