"""What `mw doctor` says of a log store and of a metrics server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from middlewatch.lab.loki import LokiStandIn
from middlewatch.wiring.doctor_stores import examined_log_store, examined_metrics
from middlewatch.wiring.findings import Examined, Finding, Level
from middlewatch.wiring.loading import Loaded
from middlewatch.wiring.places import Places
from middlewatch.wiring.settings import LogsSettings, LogsSource, MetricsSettings, Settings
from tests.integration.ingestion.shipping import Ship, slurm

LABELS = {"job_id": "4711", "node": "n1", "filename": "/s/slurm-4711.out"}


def examined(settings: Settings, ship: Ship | None, *watched: str) -> Examined:
    return Examined(
        loaded=Loaded(settings, {}, (), ()),
        places=Places(Path("/nowhere"), Path("/nowhere/api.sock")),
        ask=cast(Any, None),
        scheduler=slurm(),
        now=(ship or Ship("loki", "")).clock.now,
        environment="prod",
        watched=list(watched),
    )


def of_store(ship: Ship, *watched: str, **logs: Any) -> list[tuple[Level, str]]:
    this = examined(ship.settings(**logs), ship, *watched)
    return [(one.level, one.text) for one in examined_log_store(this)]


def test_store_that_has_what_is_needed_is_well(ship: Ship) -> None:
    ship.push(LABELS, (ship.at(5), "step 1"))
    (reach, newest, job) = of_store(ship, "4711")
    assert [level for level, _ in (reach, newest, job)] == [Level.OK] * 3
    assert "5 s old" in newest[1]
    assert "job 4711 is 5 s old" in job[1]


def test_store_that_stands_still_is_warned_of(ship: Ship) -> None:
    ship.push(LABELS, (ship.at(300), "step 1"))
    _, newest, job = of_store(ship, "4712")
    assert (newest[0], job[0]) == (Level.WARN, Level.WARN)
    assert "5m old" in newest[1]
    assert "job 4712 runs and has no line" in job[1]


def test_store_without_the_label_is_warned_of(ship: Ship) -> None:
    ship.push({**LABELS, "job_id": "", "slurm": "4711"}, (ship.at(5), "step 1"))
    ((level, text),) = of_store(ship)
    assert level is Level.WARN
    assert "'job_id'" in text


def test_clock_of_a_writer_that_is_ahead_is_warned_of(ship: Ship) -> None:
    ship.push(LABELS, (ship.at(-120), "step 1"))
    _, newest = of_store(ship)
    assert newest[0] is Level.WARN
    assert "2m ahead" in newest[1]


def failure(settings: Settings) -> Finding:
    (found,) = examined_log_store(examined(settings, None))
    assert found.level is Level.FAIL
    return found


def test_servers_that_are_away_or_others_fail_with_what_mends_it(loki: LokiStandIn) -> None:
    away = LogsSettings(source=LogsSource.LOKI, url="http://localhost:9")
    assert "logs.url" in failure(Settings(logs=away)).mend
    # A Loki is no VictoriaLogs.
    wrong = LogsSettings(source=LogsSource.VICTORIALOGS, url=loki.url)
    assert "VictoriaLogs" in failure(Settings(logs=wrong)).text
    # Without a metrics server jobs are watched all the same.
    metrics = Settings(metrics=MetricsSettings(url="http://localhost:9"))
    (found,) = examined_metrics(examined(metrics, None))
    assert (found.check, found.level) == ("metrics", Level.WARN)


@pytest.mark.parametrize("check", [examined_log_store, examined_metrics])
def test_site_without_them_hears_nothing_of_them(check: Any) -> None:
    assert list(check(examined(Settings(), None))) == []
