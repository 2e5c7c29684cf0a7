"""Labels of real metrics servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.lab.metrics_servers import Prometheus, VictoriaMetrics
from middlewatch.lab.packages import METRICS, available
from middlewatch.lab.patience import wait_for
from middlewatch.wiring.ingestion import looking
from middlewatch.wiring.ingestion.sample import Finding, Known
from middlewatch.wiring.ingestion.series import MetricSample, metric_findings
from middlewatch.wiring.settings import MetricsSettings
from tests.integration.metrics.exporter import Exporter

SLURM = Known(jobs=frozenset({"4711"}), nodes=frozenset({"n1", "n2"}))
LONG_S = 120.0


@pytest.fixture(autouse=True)
def _servers() -> None:
    state = available(METRICS)
    if not state.ok:
        pytest.skip(state.reason)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter()
    made.start()
    yield made
    made.stop()


def sample(url: str) -> MetricSample:
    return looking.metric_sample(MetricsSettings(url=url, timeout_s=60.0), SystemClock())


def remedies(taken: MetricSample) -> dict[str, object]:
    found: list[Finding] = list(metric_findings(taken, SLURM))
    return {r.key: r.value for one in found for r in one.remedies}


def test_prometheus_names_the_address_and_the_right_label_is_found(
    tmp_path: Path, exporter: Exporter
) -> None:
    exporter.text = 'DCGM_FI_DEV_POWER_USAGE{nodename="n1",gpu="0"} 431.5\n'
    server = Prometheus(tmp_path / "prometheus", targets=(exporter.target,))
    server.start()
    try:
        assert wait_for(lambda: any(k.raw for k in sample(server.url).kinds), LONG_S, every_s=0.2)
        assert remedies(sample(server.url)) == {"node_label": "nodename"}
    finally:
        server.stop()


def test_victoriametrics_has_the_step_counter_under_another_job_label(tmp_path: Path) -> None:
    server = VictoriaMetrics(tmp_path / "victoriametrics")
    server.start()

    def seen() -> bool:
        body = b'middlewatch_step{slurm_job="4711"} 7\n'
        with urlopen(Request(f"{server.url}/api/v1/import/prometheus", data=body), timeout=60):
            pass
        steps = sample(server.url).steps
        return steps is not None and bool(steps.raw)

    try:
        assert wait_for(seen, LONG_S, every_s=0.2)
        mended = remedies(sample(server.url))
        assert mended["job_label"] == "slurm_job"
    finally:
        server.stop()
