"""What the gateway measures of itself, in Prometheus' text form.

Each gateway has a registry of its own, so that two in one process (tests, the lab) do not mix.
Labels are names of RPCs, never paths: a client cannot make new series.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from middlewatch.model.optin import JobMode
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Progress
from middlewatch.ports.errors import PortError
from middlewatch.services.gateway.recovered import Recovered
from middlewatch.services.gateway.service import Context
from middlewatch.services.gateway.watchers import shares, watchers

PAGE = 500
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
        self._registry.register(Recovered(context.store, context.cluster))

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
        yield from self._jobs()
        yield from watchers(self._context.store, self._context.clock.now())
        yield from shares(self._context.store, self._context.cluster)

    def _jobs(self) -> Iterator[Metric]:
        """How much of what runs is seen: a site without an alarm on this can be blind for days."""
        watched = GaugeMetricFamily(
            "middlewatch_watched_attempts",
            "Running attempts that are watched, by what is seen of them.",
            labels=("seen",),
        )
        counts = {"step": 0, "output": 0, "end_only": 0, "blind": 0}
        try:
            store, cluster = self._context.store, self._context.cluster
            running = [
                attempt.id
                for attempt in store.live_attempts(cluster)
                if attempt.state is JobState.RUNNING
                and attempt.opt_in.effective(cluster.environment) is not JobMode.OFF
            ]
            for first in range(0, len(running), PAGE):
                some = running[first : first + PAGE]
                told = store.progress_of(some)
                for attempt_id in some:
                    counts[_seen(told.get(attempt_id))] += 1
        except PortError:
            return
        for word, count in counts.items():
            watched.add_metric((word,), count)
        yield watched


def _seen(progress: Progress | None) -> str:
    if progress is None:
        return "end_only"
    unseen = {entry.what for entry in progress.unseen}
    if "log" in unseen:
        return "blind"
    if progress.last_step_at is not None and "progress" not in unseen:
        return "step"
    return "output" if progress.last_output_at is not None else "end_only"
