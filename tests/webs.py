"""Adapters that ask a server, joined with the server that they ask."""

from __future__ import annotations

from middlewatch.adapters import web
from middlewatch.adapters.logstores import Labels, Loki, VictoriaLogs
from middlewatch.adapters.metrics import PromMetrics, Queries
from middlewatch.ports.clock import Clock


def log_store(
    kind: type[Loki | VictoriaLogs],
    access: web.Access,
    clock: Clock,
    labels: Labels | None = None,
) -> Loki | VictoriaLogs:
    if kind is Loki:
        return Loki(web.Server(web.LOKI, access, clock), clock, labels)
    return VictoriaLogs(web.Server(web.VICTORIALOGS, access, clock), labels)


def metrics_server(access: web.Access, clock: Clock, queries: Queries | None = None) -> PromMetrics:
    return PromMetrics(web.Server(web.METRICS, access, clock), clock, queries)
