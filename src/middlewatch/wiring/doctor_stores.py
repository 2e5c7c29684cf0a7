"""Whether the log store and the metrics server of the settings answer, let us in, and have something
of the jobs that are watched now. What does not fit in detail is said by `mw logs check`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.ports.errors import PortError, Refused, Unreachable
from middlewatch.wiring.findings import Examined, Finding, Level
from middlewatch.wiring.loading import BadSettings, duration_text
from middlewatch.wiring.plain import plain
from middlewatch.wiring.settings import LogsSettings, LogsSource

if TYPE_CHECKING:
    from middlewatch.adapters.logstores import Loki, VictoriaLogs

BACK_S = 600
AHEAD_S = 3600
FUTURE_S = 10.0
OLD_S = 120.0
MOST_JOBS = 3
_SECOND = 1_000_000_000
CHECK = "`mw logs check` says what does not fit, and proposes what mends it"


def examined_log_store(this: Examined) -> Iterator[Finding]:
    given = this.loaded.settings.logs
    if given.source is LogsSource.FILES:
        return
    from middlewatch.wiring.logsource import line_store

    try:
        store = line_store(given, SystemClock())
    except ValueError as error:
        yield Finding("log-store", Level.FAIL, plain(error, 300), "see [logs] in docs/settings.md")
        return
    try:
        yield from _asked(this, store, given)
    except PortError as error:
        yield _trouble("log-store", Level.FAIL, error, "logs")
    finally:
        store.close()


def _asked(this: Examined, store: VictoriaLogs | Loki, given: LogsSettings) -> Iterator[Finding]:
    now = this.now()
    newest, asked_s = _newest(this, store, given, "", now)
    if newest is None:
        yield Finding(
            "log-store",
            Level.WARN,
            f"answers, and no line of the last {duration_text(BACK_S)} has the label "
            f"{given.job_label!r}",
            CHECK,
        )
        return
    yield Finding("log-store", Level.OK, f"{given.source.value} answers in {asked_s * 1000:.0f} ms")
    yield _age("log-store", newest, "the newest line of any job")
    for job in this.watched[:MOST_JOBS]:
        own, _ = _newest(this, store, given, job, now)
        if own is None:
            yield Finding(
                "log-store",
                Level.WARN,
                f"job {job} runs and has no line in the last {duration_text(BACK_S)}",
                f"if it has printed something, its label or its collector is wrong: mw logs check "
                f"--job {job}",
            )
        else:
            yield _age("log-store", own, f"the newest line of job {job}")


def _newest(
    this: Examined, store: VictoriaLogs | Loki, given: LogsSettings, job: str, now: datetime
) -> tuple[float | None, float]:
    """How old the newest line with the job's label is, seconds, and how long the answer took."""
    from middlewatch.adapters.logstores import Wanted, recent

    moment = int(now.timestamp())
    since, end = (moment - BACK_S) * _SECOND, (moment + AHEAD_S) * _SECOND
    found = recent(store, since, end, 1, Wanted(given.match, given.job_label, job))
    took = (this.now() - now).total_seconds()
    if not found.entries:
        return None, took
    return this.now().timestamp() - found.entries[-1].at / _SECOND, took


def _age(check: str, age_s: float, whose: str) -> Finding:
    if age_s < -FUTURE_S:
        return Finding(
            check,
            Level.WARN,
            f"{whose} is from {duration_text(round(-age_s))} ahead of now",
            "let nodes, store and this machine follow the same clock; look at zones in time stamps",
        )
    if age_s > OLD_S:
        return Finding(
            check,
            Level.WARN,
            f"{whose} is {duration_text(round(age_s))} old",
            "if jobs print more often, a collector stands still or is late",
        )
    return Finding(check, Level.OK, f"{whose} is {max(0.0, age_s):.0f} s old")


def examined_metrics(this: Examined) -> Iterator[Finding]:
    given = this.loaded.settings.metrics
    if not given.url:
        return
    from middlewatch.wiring.evidence import metrics

    try:
        source = metrics(given, SystemClock())
    except BadSettings as error:
        yield Finding("metrics", Level.FAIL, plain(error, 300), "see [metrics] in docs/settings.md")
        return
    try:
        now = this.now()
        kinds = [
            kind.value
            for kind in source.queries.activity
            if source.labels(source.queries.ask_any(kind), now)
        ]
    except PortError as error:
        # Jobs are watched without it; what is missing is a second witness.
        yield _trouble("metrics", Level.WARN, error, "metrics")
        return
    finally:
        source.close()
    if kinds:
        yield Finding("metrics", Level.OK, f"answers, and measures {', '.join(kinds)}")
    else:
        yield Finding("metrics", Level.WARN, "answers, and has nothing of what is asked for", CHECK)


def _trouble(check: str, level: Level, error: PortError, section: str) -> Finding:
    if isinstance(error, Unreachable):
        mend = f"see that it runs and that {section}.url is right from this machine"
    elif isinstance(error, Refused):
        mend = f"see the token, the user, the tenant and the authorities in [{section}]"
    else:
        mend = f"{section}.url must be the address of the server's own API (docs/settings.md)"
    return Finding(check, level, plain(error, 300), mend)
