"""Whether nodes stand still, judged by what they did before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import nan

import pytest

from middlewatch.detection.witness import witnesses
from middlewatch.model.activity import Activity, ActivityKind, NodeSeries

BEGAN = 1_800_000_000.0
SILENT = BEGAN + 1800
NOW = SILENT + 300
STEP = 15.0
POWER, TENSOR, SM = ActivityKind.GPU_POWER, ActivityKind.GPU_TENSOR, ActivityKind.GPU_SM
CPU, DISK, NET = ActivityKind.CPU_TIME, ActivityKind.DISK_IO, ActivityKind.NETWORK_IO

Curve = Callable[[float], float]


def drops(before: float, after: float, wobble: float = 0.03) -> Curve:
    """At ``before`` until the silence and at ``after`` in it, with a little of a wobble."""

    def at(moment: float) -> float:
        phase = (moment % 60) / 60 - 0.5
        return (before if moment <= SILENT else after) * (1 + wobble * phase)

    return at


def series(node: str, curve: Curve, begin: float = BEGAN, end: float = NOW) -> NodeSeries:
    count = int((end - begin) / STEP)
    times = [begin + STEP * n for n in range(count + 1)]
    return NodeSeries(node, tuple((t, curve(t)) for t in times))


def activity(kind: ActivityKind, *nodes: NodeSeries, unknown: str = "") -> Activity:
    return Activity(kind, nodes, datetime.fromtimestamp(NOW, UTC), 60.0, unknown)


def told(
    *activities: Activity, nodes: tuple[str, ...] = ("n1", "n2")
) -> dict[str, tuple[str, ...]]:
    found = witnesses(activities, nodes, BEGAN, SILENT)
    return {one.kind.value: one.nodes for one in found}


def both(kind: ActivityKind, curve: Curve) -> Activity:
    return activity(kind, series("n1", curve), series("n2", curve))


def test_power_that_fell_to_waiting_on_all_nodes_is_a_witness_and_blames_none() -> None:
    assert told(both(POWER, drops(520, 115))) == {"gpu_power": ()}


def test_sentence_tells_the_figures() -> None:
    (one,) = witnesses([both(POWER, drops(520, 115, 0))], ("n1", "n2"), BEGAN, SILENT)
    assert one.sentence == ("power on 2 of 2 nodes is 115 W, against 520 W while the job trained")


@pytest.mark.parametrize("after", [520, 460, 400, 330])
def test_power_that_is_kept_is_no_witness(after: float) -> None:
    assert told(both(POWER, drops(520, after))) == {}


def test_power_that_fell_but_not_to_its_floor_is_no_witness() -> None:
    def curve(moment: float) -> float:
        idle = moment <= SILENT and moment % 300 < 60
        return 80 if idle else drops(520, 250)(moment)

    assert told(both(POWER, curve)) == {}


def test_tensor_activity_near_zero_is_a_witness() -> None:
    assert told(both(TENSOR, drops(0.35, 0.0))) == {"gpu_tensor": ()}


def test_pipes_that_never_worked_are_no_witness() -> None:
    assert told(both(TENSOR, drops(0.004, 0.0))) == {}


@pytest.mark.parametrize(
    ("kind", "before", "after"), [(CPU, 24.0, 0.4), (DISK, 4e7, 2e3), (NET, 9e9, 4e5), (SM, 0.9, 0)]
)
def test_other_activity_that_stands_still_is_a_witness(
    kind: ActivityKind, before: float, after: float
) -> None:
    assert told(both(kind, drops(before, after))) == {kind.value: ()}


def test_idle_disk_tells_nothing_of_a_job_that_never_read() -> None:
    assert told(both(DISK, drops(3e3, 0))) == {}


def test_one_still_node_among_working_ones_is_named() -> None:
    busy = [series(name, drops(520, 500)) for name in ("n2", "n3", "n4")]
    found = told(
        activity(POWER, series("n1", drops(520, 90)), *busy), nodes=("n1", "n2", "n3", "n4")
    )
    assert found == {"gpu_power": ("n1",)}


def test_half_of_the_nodes_still_is_no_witness() -> None:
    still = [series(name, drops(520, 90)) for name in ("n1", "n2")]
    busy = [series(name, drops(520, 500)) for name in ("n3", "n4")]
    assert told(activity(POWER, *still, *busy), nodes=("n1", "n2", "n3", "n4")) == {}


def test_still_processors_say_nothing_while_the_power_is_kept() -> None:
    assert told(both(POWER, drops(520, 510)), both(CPU, drops(24, 0.2))) == {}


def test_processors_that_work_harder_than_before_excuse_idle_accelerators() -> None:
    assert told(both(POWER, drops(520, 90)), both(CPU, drops(8, 40))) == {}


def test_node_that_writes_a_checkpoint_is_not_still() -> None:
    assert told(both(POWER, drops(520, 90)), both(DISK, drops(5e6, 8e8))) == {}


def test_unmeasured_nodes_are_not_still() -> None:
    found = told(activity(POWER, series("n1", drops(520, 90))), nodes=("n1", "n2", "n3"))
    assert found == {}


def test_nodes_outside_the_allocation_are_passed_over() -> None:
    found = told(activity(POWER, series("n9", drops(520, 90))), nodes=("n1",))
    assert found == {}


def test_exporter_that_went_away_in_the_silence_is_no_witness() -> None:
    gone = [series(name, drops(520, 90), end=SILENT + 100) for name in ("n1", "n2")]
    assert told(activity(POWER, *gone)) == {}


def test_few_samples_on_either_side_are_no_witness() -> None:
    short = [series(name, drops(520, 90), begin=SILENT - 100) for name in ("n1", "n2")]
    assert told(activity(POWER, *short)) == {}
    fresh = Activity(
        POWER,
        tuple(series(name, drops(520, 90), end=SILENT + 210) for name in ("n1", "n2")),
        datetime.fromtimestamp(SILENT + 210, UTC),
        60.0,
    )
    assert told(fresh) == {}


def test_values_that_are_no_numbers_are_no_samples() -> None:
    def curve(moment: float) -> float:
        return 520.0 if moment <= SILENT else nan

    assert told(both(POWER, curve)) == {}


def test_nothing_is_concluded_from_a_server_that_did_not_answer() -> None:
    assert told(activity(POWER, unknown="no answer")) == {}
