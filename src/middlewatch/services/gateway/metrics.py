"""What the gateway measures of itself, in Prometheus' text form.

Each gateway has a registry of its own, so that two in one process (tests, the lab) do not mix.
Labels are names of RPCs, never paths: a client cannot make new series.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from middlewatch.ports.errors import PortError
from middlewatch.services.gateway.service import Context

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    def __init__(self, context: Context) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "middlewatch_api_requests",
            "Calls of the API, by RPC and gRPC code (0 is success).",
            ("rpc", "code"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "middlewatch_api_seconds",
            "How long calls took.",
            ("rpc",),
            registry=self._registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
        )
        self._registry.register(_Looks(context))

    def called(self, rpc: str, code: int, seconds: float) -> None:
        self._requests.labels(rpc, str(code)).inc()
        self._seconds.labels(rpc).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Looks(Collector):
    """Values that are looked up when somebody asks."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        ages = GaugeMetricFamily(
            "middlewatch_loop_age_seconds",
            "Seconds since the loop last completed a tick; absent until the first one.",
            labels=("loop",),
        )
        for name, age in sorted(self._context.ages().items()):
            if age is not None:
                ages.add_metric((name,), age)
        yield ages
        up = GaugeMetricFamily("middlewatch_store_up", "1 while the store answers.")
        audit = GaugeMetricFamily(
            "middlewatch_audit_last_number", "Number of the newest line of the audit trail."
        )
        try:
            audit.add_metric((), self._context.store.last_audit_number())
            up.add_metric((), 1)
        except PortError:
            up.add_metric((), 0)
        yield up
        yield audit
