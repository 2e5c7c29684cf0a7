"""Where jobs' output is read from: their own files, or the log store that a site ships them to.

A file's path is in the scheduler's record of the job. In a store an attempt's lines are those with
its job's id in the label that the settings name, from its start on. The first attempt's begin at
its submission, for nothing else can have written under that number then, and clocks differ; a later
one's at its start, before which the earlier attempt may still be ending.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from middlewatch.model.attempt import Attempt
from middlewatch.ports.clock import Clock
from middlewatch.ports.scanner import LogSource
from middlewatch.wiring.settings import LogsSettings, LogsSource, tenant_headers

if TYPE_CHECKING:
    from middlewatch.adapters.logstores import Loki, StoreLogs, VictoriaLogs

Places = Callable[[Attempt], tuple[str, ...]]


def line_store(given: LogsSettings, clock: Clock) -> VictoriaLogs | Loki:
    """The server of the settings. Raises `ValueError` for labels that are none."""
    from middlewatch.adapters import web
    from middlewatch.adapters.logstores import Labels, Loki, VictoriaLogs

    access = web.Access(
        url=given.url,
        headers=tenant_headers(given),
        token_file=given.token_file,
        username=given.username,
        password_file=given.password_file,
        ca_file=given.ca_file,
        timeout_s=given.timeout_s,
    )
    labels = Labels(
        job=given.job_label,
        node=given.node_label,
        file=given.file_label,
        match=given.match,
        job_in_stream=given.job_label_in_stream,
    )
    if given.source is LogsSource.LOKI:
        return Loki(web.Server(web.LOKI, access, clock), clock, labels)
    return VictoriaLogs(web.Server(web.VICTORIALOGS, access, clock), labels)


def store_logs(given: LogsSettings, clock: Clock) -> StoreLogs:
    """The log store of the settings. Raises `ValueError` for labels that are none."""
    from middlewatch.adapters.logstores import StoreLogs

    return StoreLogs(line_store(given, clock), clock, delay_s=given.delay_s)


def place_in(logs: StoreLogs) -> Places:
    """Where an attempt's lines are; nowhere before it has started."""

    def places(attempt: Attempt) -> tuple[str, ...]:
        if attempt.started_at is None:
            return ()
        begins = attempt.started_at
        if attempt.attempt_index == 0:
            begins = min(attempt.submitted_at, begins)
        return (logs.path(attempt.job_id, begins.timestamp()),)

    return places


def sources(given: LogsSettings, files: LogSource, clock: Clock) -> tuple[LogSource, Places]:
    """What the watcher reads from, and where an attempt's output is there."""
    from middlewatch.services.watcher.roster import paths_of

    if given.source is LogsSource.FILES:
        return files, paths_of
    logs = store_logs(given, clock)
    return logs, place_in(logs)
