from __future__ import annotations

from collections.abc import Mapping

from middlewatch.adapters.metrics.queries import CPU, POWER
from middlewatch.wiring.ingestion.sample import Finding, Known, Level
from middlewatch.wiring.ingestion.series import Measured, MetricSample, metric_findings
from tests.unit.wiring_ingestion.samples import SLURM, remedies, wrong


def power(raw: Mapping[str, str], *, fits: bool = False) -> Measured:
    return Measured(
        "gpu_power",
        "gpu_power_query",
        "Hostname",
        "DCGM_FI_DEV_POWER_USAGE",
        (raw,) if fits else (),
        (raw,),
        POWER,
    )


def cpu(raw: Mapping[str, str], *, fits: bool = False) -> Measured:
    return Measured(
        "cpu_time", "cpu_time_query", "instance", "node_cpu_seconds_total",
        (raw,) if fits else (), (raw,), CPU,
    )  # fmt: skip


def found(sample: MetricSample, known: Known = SLURM) -> list[Finding]:
    return list(metric_findings(sample, known))


def test_labels_that_fit_are_said_to_fit() -> None:
    good = MetricSample(
        (power({"Hostname": "n1"}, fits=True), cpu({"instance": "n2:9100"}, fits=True))
    )
    assert wrong(found(good)) == []
    assert sum(one.level is Level.OK for one in found(good)) == 2


def test_a_node_label_of_another_name_for_all_is_set_for_all() -> None:
    raw = {"kubernetes_node": "n1", "instance": "10.0.0.1:9100"}
    sample = MetricSample((power(raw), cpu(raw)))
    assert remedies(found(sample)) == {"metrics.node_label": "kubernetes_node"}


def test_one_kind_with_another_label_gets_a_query_of_its_own() -> None:
    sample = MetricSample((power({"host": "n1"}), cpu({"instance": "n1:9100"}, fits=True)))
    mended = remedies(found(sample))
    assert set(mended) == {"metrics.gpu_power_query"}
    assert 'host=~"$nodes"' in str(mended["metrics.gpu_power_query"])


def test_addresses_instead_of_nodes_are_named_with_how_to_mend_them() -> None:
    sample = MetricSample((cpu({"instance": "10.0.0.1:9100"}, fits=True),))
    one = wrong(found(sample))[0]
    assert "10.0.0.1" in one.text
    assert "relabel_configs" in one.mend


def test_a_step_counter_with_another_job_label_is_mended() -> None:
    raw = {"slurm_job": "4711", "rank": "0"}
    steps = Measured("steps", "step_query", "job_id", "middlewatch_step", (), (raw,))
    sample = MetricSample((cpu({"instance": "n1"}, fits=True),), steps)
    assert remedies(found(sample)) == {"metrics.job_label": "slurm_job"}


def test_a_window_that_holds_no_two_scrapes_is_widened() -> None:
    sample = MetricSample((cpu({"instance": "n1"}, fits=True),), interval_s=60.0, window_s=60.0)
    assert remedies(found(sample)) == {"metrics.window": 150.0}


def test_no_metrics_at_all_is_a_finding() -> None:
    assert [one.check for one in wrong(found(MetricSample()))] == ["metrics"]
