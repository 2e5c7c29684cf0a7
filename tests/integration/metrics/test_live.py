"""Samples that are scraped and pushed now, with outages of the exporter and of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.metrics import PromMetrics, Queries
from middlewatch.adapters.web import Access
from middlewatch.lab.metrics_servers import Prometheus, VictoriaMetrics
from middlewatch.lab.packages import METRICS, available
from middlewatch.lab.patience import wait_for
from middlewatch.model.activity import ActivityKind
from middlewatch.model.answer import Known, Unknown
from tests.integration.metrics.exporter import Exporter
from tests.webs import metrics_server

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


def metrics_of(url: str) -> PromMetrics:
    queries = Queries(window_s=4.0)
    return metrics_server(Access(url, timeout_s=60.0), SystemClock(), queries)


def eventually(question: Callable[[], bool]) -> None:
    assert wait_for(question, LONG_S, every_s=0.2)


def test_exporter_is_seen_while_it_lives_and_its_last_value_does_not_outlive_it(
    tmp_path: Path, exporter: Exporter
) -> None:
    exporter.text = 'DCGM_FI_DEV_POWER_USAGE{Hostname="n1",gpu="0"} 431.5\n'
    server = Prometheus(tmp_path / "prometheus", targets=(exporter.target,))
    server.start()
    clock, metrics = SystemClock(), metrics_of(server.url)

    def named() -> bool:
        answer = metrics.measured(clock.now())
        return isinstance(answer, Known) and "n1" in answer.value

    def watts() -> set[float]:
        now = clock.now()
        answer = metrics.activity(
            ActivityKind.GPU_POWER, ("n1",), "42", now - timedelta(seconds=30), now
        )
        assert not isinstance(answer, Unknown), answer
        found = answer.value if isinstance(answer, Known) else ()
        return {value for series in found for _, value in series.samples}

    try:
        eventually(named)
        eventually(lambda: watts() == {431.5})
        exporter.stop()
        eventually(lambda: not named())
        exporter.start()
        eventually(named)
        eventually(lambda: watts() == {431.5})
    finally:
        metrics.close()
        server.stop()


def test_pushed_steps_are_read_back_also_over_an_outage_of_the_server(tmp_path: Path) -> None:
    server = VictoriaMetrics(tmp_path / "victoriametrics")
    server.start()
    clock, metrics = SystemClock(), metrics_of(server.url)

    def push(step: int) -> None:
        body = f'middlewatch_step{{job_id="42"}} {step}\n'.encode()
        with urlopen(Request(f"{server.url}/api/v1/import/prometheus", data=body), timeout=60):
            pass

    def newest(pushed: int) -> int | None:
        push(pushed)
        now = clock.now()
        answer = metrics.steps(now - timedelta(seconds=30), now)
        if not isinstance(answer, Known):
            return None
        (one,) = answer.value
        return one.samples[-1][1]

    try:
        eventually(lambda: newest(7) == 7)
        server.stop()
        now = clock.now()
        assert isinstance(metrics.steps(now - timedelta(seconds=30), now), Unknown)
        server.start()
        eventually(lambda: newest(8) == 8)
    finally:
        metrics.close()
        server.stop()
