"""One Prometheus and one VictoriaMetrics with the same past, started once for these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from middlewatch.adapters.metrics import PromMetrics, Queries
from middlewatch.adapters.web import Access
from middlewatch.lab.metrics_servers import MetricsServer, Prometheus, VictoriaMetrics
from middlewatch.lab.packages import METRICS, available
from tests.contract.metrics.past import NOW, PAST
from tests.webs import metrics_server


@dataclass
class SetClock:
    """A clock that goes on when the test says so."""

    at: datetime = NOW
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def token(self, size: int = 32) -> str:
        raise AssertionError("nothing here needs chance")


@dataclass
class Site:
    """A server with the past in it, and our side of it."""

    server: MetricsServer
    clock: SetClock

    def metrics(self, **queries: Any) -> PromMetrics:
        # A loaded machine may be slow; nothing here is about deadlines.
        return metrics_server(
            Access(self.server.url, timeout_s=60.0), self.clock, Queries(**queries)
        )


def needs_servers() -> None:
    state = available(METRICS)
    if not state.ok:
        pytest.skip(state.reason)


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricsServer]:
    needs_servers()
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    server.load(PAST)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def victoriametrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricsServer]:
    needs_servers()
    server = VictoriaMetrics(tmp_path_factory.mktemp("victoriametrics"))
    server.start()
    server.load(PAST)
    yield server
    server.stop()


@pytest.fixture(params=["prometheus", "victoriametrics"])
def site(request: pytest.FixtureRequest) -> Site:
    return Site(request.getfixturevalue(request.param), SetClock())


@pytest.fixture
def ask(site: Site) -> Iterator[Callable[..., PromMetrics]]:
    made: list[PromMetrics] = []

    def make(**queries: Any) -> PromMetrics:
        made.append(site.metrics(**queries))
        return made[-1]

    yield make
    for one in made:
        one.close()
