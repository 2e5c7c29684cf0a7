"""From the section [metrics] to what is asked of whom."""

from __future__ import annotations

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.model.activity import ActivityKind
from middlewatch.wiring.evidence import evidence, metrics
from middlewatch.wiring.loading import BadSettings, load
from middlewatch.wiring.settings import MetricsSettings

URL = "http://localhost:9090"


def test_site_without_a_server_has_no_metrics_and_still_looks_at_checkpoints() -> None:
    made = evidence(MetricsSettings(), SystemClock())
    assert made._metrics is None
    assert made._directories is not None


def test_all_kinds_are_asked_for_unless_the_site_says_none() -> None:
    clock = SystemClock()
    assert metrics(MetricsSettings(url=URL), clock).kinds == tuple(ActivityKind)
    fewer = MetricsSettings(url=URL, gpu_sm_query="none", disk_io_query=" none ", step_query="none")
    made = metrics(fewer, clock)
    assert set(ActivityKind) - set(made.kinds) == {ActivityKind.GPU_SM, ActivityKind.DISK_IO}
    assert not made.counts_steps


def test_query_without_its_gap_is_refused_at_the_start() -> None:
    with pytest.raises(BadSettings, match=r"gpu_power.*\$nodes"):
        metrics(MetricsSettings(url=URL, gpu_power_query="up"), SystemClock())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"metrics.url": "prometheus:9090"}, "http://"),
        ({"metrics.url": URL, "metrics.token_file": "/t", "metrics.username": "u"}, "two ways in"),
        ({"metrics.window": "1ms"}, "must lie between"),
        ({"metrics.urls": URL}, "did you mean metrics.url"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(flags: dict[str, object], words: str) -> None:
    with pytest.raises(BadSettings, match=words):
        load({}, flags=flags)
