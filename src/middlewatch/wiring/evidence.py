"""From settings to what a silent job is looked at with besides its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from middlewatch.model.activity import ActivityKind
from middlewatch.ports.clock import Clock
from middlewatch.wiring.settings import MetricsSettings

if TYPE_CHECKING:
    from middlewatch.adapters.metrics import PromMetrics
    from middlewatch.services.watcher import Evidence

NOT_ASKED = "none"


def evidence(given: MetricsSettings, clock: Clock) -> Evidence:
    """Raises `BadSettings` where a query or a label cannot be used."""
    from middlewatch.adapters.logs.growth import CheckpointDirectories
    from middlewatch.services.watcher import Evidence

    source = metrics(given, clock) if given.url else None
    return Evidence(source, CheckpointDirectories(clock), clock, given.every_s)


def metrics(given: MetricsSettings, clock: Clock) -> PromMetrics:
    """The metrics server that the site named. Raises `BadSettings`."""
    from middlewatch.adapters import web
    from middlewatch.adapters.metrics import BadQueryError, PromMetrics, Queries
    from middlewatch.adapters.metrics.queries import DEFAULTS, STEP
    from middlewatch.wiring.loading import BadSettings, Problem

    asked: dict[ActivityKind, str] = {}
    for kind in ActivityKind:
        query = getattr(given, f"{kind.value}_query").strip()
        if query != NOT_ASKED:
            asked[kind] = query or DEFAULTS[kind]
    step = given.step_query.strip()
    try:
        queries = Queries(
            activity=asked,
            step="" if step == NOT_ASKED else step or STEP,
            node_label=given.node_label,
            job_label=given.job_label,
            window_s=given.window_s,
        )
    except BadQueryError as error:
        raise BadSettings([Problem("metrics", str(error))]) from error
    access = web.Access(
        url=given.url,
        headers=((given.tenant_header, given.tenant),) if given.tenant else (),
        token_file=given.token_file,
        username=given.username,
        password_file=given.password_file,
        ca_file=given.ca_file,
        timeout_s=given.timeout_s,
    )
    return PromMetrics(web.Server(web.METRICS, access, clock), clock, queries)
