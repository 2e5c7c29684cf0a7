"""What every metrics server must answer, and what may be made of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from statistics import median

import pytest

from middlewatch.adapters.metrics import PromMetrics
from middlewatch.detection.witness import witnesses
from middlewatch.model.activity import Activity, ActivityKind, NodeSeries
from middlewatch.model.answer import Absent, Known, Unknown
from tests.contract.metrics.conftest import Site
from tests.contract.metrics.past import BEGAN, NOW, SILENT

Ask = Callable[..., PromMetrics]
JOB = ("n1", "n2")


def seen(metrics: PromMetrics, kind: ActivityKind, *nodes: str) -> dict[str, NodeSeries]:
    answer = metrics.activity(kind, nodes, "42", BEGAN, NOW)
    assert isinstance(answer, Known), answer
    return {series.node: series for series in answer.value}


def usual(series: NodeSeries, *, silent: bool) -> float:
    edge = SILENT.timestamp()
    chosen = [v for at, v in series.samples if (at >= edge + 60 if silent else at <= edge)]
    return median(chosen)


def test_only_nodes_that_were_asked_for_come_back_under_their_own_names(ask: Ask) -> None:
    found = seen(ask(), ActivityKind.GPU_POWER, "n1", "n2")
    assert sorted(found) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (ActivityKind.GPU_POWER, 500.4, 85.4),
        (ActivityKind.GPU_TENSOR, 0.31, 0.0),
        (ActivityKind.CPU_TIME, 1.8, 0.0),
        (ActivityKind.DISK_IO, 4e6, 0.0),
        (ActivityKind.NETWORK_IO, 2e8, 2e3),
    ],
)
def test_each_kind_is_measured_as_it_was_made(
    ask: Ask, kind: ActivityKind, before: float, after: float
) -> None:
    series = seen(ask(), kind, "n1")["n1"]
    assert usual(series, silent=False) == pytest.approx(before, rel=0.02)
    assert usual(series, silent=True) == pytest.approx(after, rel=0.02, abs=1e-9)


def test_samples_ascend_and_lie_within_what_was_asked_for(ask: Ask) -> None:
    for series in seen(ask(), ActivityKind.GPU_POWER, "n1", "n2").values():
        times = [at for at, _ in series.samples]
        assert times == sorted(set(times))
        assert BEGAN.timestamp() <= times[0]
        assert NOW.timestamp() - 60 <= times[-1] <= NOW.timestamp()


def test_dead_exporter_gives_no_samples_instead_of_its_last_value(ask: Ask) -> None:
    series = seen(ask(), ActivityKind.GPU_POWER, "dying")["dying"]
    assert series.samples[-1][0] <= SILENT.timestamp() + 30 + 60


def test_nodes_that_nobody_measures_are_absent(ask: Ask) -> None:
    answer = ask().activity(ActivityKind.GPU_POWER, ("n3", "n4"), "42", BEGAN, NOW)
    assert isinstance(answer, Absent)


@pytest.mark.parametrize("name", ['n1"} or vector(1)#', "n1|n10", "n.*", "n[0-9]+", "", "n1\n"])
def test_names_are_data_and_never_part_of_the_query(ask: Ask, name: str) -> None:
    answer = ask().activity(ActivityKind.GPU_POWER, (name,), "42", BEGAN, NOW)
    assert isinstance(answer, Absent)


@pytest.mark.parametrize("job", ['4"} or vector(1) or x{y="', "\\", "é\u2028", "42\n", '"'])
def test_job_ids_are_data_in_a_sites_own_query(ask: Ask, job: str) -> None:
    query = 'max by (instance) (node_disk_read_bytes_total{instance=~"$nodes",job="$job"})'
    metrics = ask(activity={ActivityKind.DISK_IO: query})
    answer = metrics.activity(ActivityKind.DISK_IO, JOB, job, BEGAN, NOW)
    assert isinstance(answer, Absent)


def test_more_nodes_than_one_query_can_name_are_asked_for_in_parts(ask: Ask) -> None:
    many = [f"gpu-node-with-a-long-name-{n:04}" for n in range(600)]
    found = seen(ask(), ActivityKind.NETWORK_IO, "n1", *many, "n10")
    assert sorted(found) == ["n1", "n10"]


def test_site_that_labels_otherwise_says_so(ask: Ask) -> None:
    query = 'max by ($node_label) (DCGM_FI_DEV_POWER_USAGE{Hostname=~"$nodes"})'
    metrics = ask(activity={ActivityKind.GPU_POWER: query}, node_label="Hostname")
    assert sorted(seen(metrics, ActivityKind.GPU_POWER, "n1")) == ["n1"]
    assert metrics.kinds == (ActivityKind.GPU_POWER,)


def test_query_that_is_none_is_unknown_with_the_servers_words(ask: Ask) -> None:
    metrics = ask(activity={ActivityKind.GPU_POWER: 'max by (x) (y{z=~"$nodes"'})
    answer = metrics.activity(ActivityKind.GPU_POWER, JOB, "42", BEGAN, NOW)
    assert isinstance(answer, Unknown)
    assert "422" in answer.why or "400" in answer.why
    assert "[metrics]" in answer.why


def test_query_that_gives_no_series_of_samples_is_unknown(ask: Ask) -> None:
    metrics = ask(activity={ActivityKind.GPU_POWER: '"$nodes"'})
    answer = metrics.activity(ActivityKind.GPU_POWER, JOB, "42", BEGAN, NOW)
    assert not isinstance(answer, Known)


def test_all_measured_nodes_are_told_at_once(ask: Ask) -> None:
    answer = ask().measured(NOW)
    assert isinstance(answer, Known)
    assert {"n1", "n2", "n2.cluster.local", "n10"} <= answer.value
    assert "dying" not in answer.value


def test_step_counters_of_all_jobs_come_in_one_answer(ask: Ask) -> None:
    answer = ask().steps(NOW - timedelta(minutes=6), NOW)
    assert isinstance(answer, Known)
    steps = {one.job_id: one.samples for one in answer.value}
    assert sorted(steps) == ["42", "43"]
    assert {step for _, step in steps["42"]} == {60}
    assert [step for _, step in steps["43"]] == sorted(step for _, step in steps["43"])
    assert steps["43"][-1][1] == 38


def test_site_without_a_step_counter_has_none(ask: Ask) -> None:
    metrics = ask(step="max by ($job_label) (nobody_counts)")
    assert isinstance(metrics.steps(BEGAN, NOW), Absent)
    assert not ask(step="").counts_steps


def test_still_nodes_testify_and_working_ones_do_not(ask: Ask) -> None:
    def told(*nodes: str) -> dict[str, tuple[str, ...]]:
        metrics = ask()
        activities = [
            Activity(kind, tuple(seen(metrics, kind, *nodes).values()), NOW, metrics.window_s)
            for kind in (ActivityKind.GPU_POWER, ActivityKind.GPU_TENSOR, ActivityKind.CPU_TIME)
        ]
        found = witnesses(activities, nodes, BEGAN.timestamp(), SILENT.timestamp())
        return {one.kind.value: one.nodes for one in found}

    assert told("n1", "n2") == {"gpu_power": (), "gpu_tensor": (), "cpu_time": ()}
    assert told("n10") == {}
    assert told("dying") == {}
    assert told("n1", "n10") == {}


def test_server_that_goes_away_is_unknown_and_is_asked_again_when_it_is_back(
    site: Site, ask: Ask
) -> None:
    metrics = ask()
    question = (ActivityKind.GPU_POWER, JOB, "42", BEGAN, NOW)
    assert isinstance(metrics.activity(*question), Known)
    site.server.stop()
    try:
        gone = metrics.activity(*question)
        assert isinstance(gone, Unknown)
        assert str(site.server.port) in gone.why
        assert isinstance(metrics.measured(NOW), Unknown)
        assert isinstance(metrics.steps(BEGAN, NOW), Unknown)
    finally:
        site.server.start()
    # It is left alone for a while, back or not.
    assert isinstance(metrics.activity(*question), Unknown)
    site.clock.sleep(60)
    assert isinstance(metrics.activity(*question), Known)
