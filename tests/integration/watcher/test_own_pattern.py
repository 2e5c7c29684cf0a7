"""A progress pattern that a job's owner gives in its comment."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.lab.simulated import EPOCH
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Progress, SignalKind
from middlewatch.services.watcher import WatcherSettings
from tests.integration.watcher.scripted import ScriptedScheduler
from tests.integration.watcher.world import CLUSTER, made

OWN = r"did (?P<step>\d+) of (?P<total>\d+), loss is (?P<loss>\S+)"


def watched(folder: Path, pattern: str) -> tuple[SqlStore, str]:
    """A job with that pattern has printed thirty lines of its own; its store and attempt id."""
    scheduler = ScriptedScheduler(CLUSTER, EPOCH)
    store = open_store(folder / "state" / "middlewatch.db")
    watcher = made(store, scheduler, Policy(), WatcherSettings())
    log = folder / "out-7.log"
    lines = (f"did {step} of 400, loss is {3 - step / 100}" for step in range(1, 31))
    log.write_text("".join(f"{line}\n" for line in lines))
    os.utime(log, (EPOCH.timestamp() + 1,) * 2)
    own = {"environment": "prod", "mode": "observe", "progress": pattern}
    scheduler.job("7", json.dumps({"middlewatch": own}), str(log), uid=os.geteuid())
    for _ in range(3):
        scheduler.now += timedelta(seconds=1)
        watcher.tick(scheduler.now)
    (attempt,) = store.attempts_of_job(CLUSTER, "7")
    return store, attempt.id


def progress_of(store: SqlStore, attempt_id: str) -> Progress:
    found = store.progress(attempt_id)
    assert found is not None
    return found


def test_lines_that_only_their_owner_knows_are_progress(tmp_path: Path) -> None:
    store, attempt_id = watched(tmp_path, OWN)
    progress = progress_of(store, attempt_id)
    assert (progress.last_step, progress.total_steps, progress.loss) == (30, 400, 2.7)


@pytest.mark.parametrize(
    "pattern", [r"did (?P<step>\d+", r"(?P<step>(?:\d{1,900}){1,900})", r"(?P<step>\d+)(?=x)"]
)
def test_pattern_that_will_not_do_is_told_and_stops_nothing(tmp_path: Path, pattern: str) -> None:
    store, attempt_id = watched(tmp_path, pattern)
    assert progress_of(store, attempt_id).last_step is None
    (signal,) = [
        signal for _, signal in store.signals(attempt_id) if signal.kind is SignalKind.CANNOT_READ
    ]
    assert "progress pattern" in signal.detail
