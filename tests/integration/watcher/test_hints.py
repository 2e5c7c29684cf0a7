"""EpilogSlurmctld of a real Slurm touches a file, as docs/slurm-load.md has it: the end is seen at the next
round. A watcher to whom no hint ever comes sees the same end, when its pause is over."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.hints.file import HintFile
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.patience import wait_for
from middlewatch.lab.spec import FOLDERS
from middlewatch.model.attempt import AttemptEnd
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.services.watcher import Watcher, WatcherSettings
from tests.integration.watcher.world import CLUSTER, COMMENT, made

pytestmark = pytest.mark.slurm

PAUSE = timedelta(seconds=300)
RARELY = WatcherSettings(
    listing_shortest_s=PAUSE.total_seconds(), listing_longest_s=PAUSE.total_seconds()
)


class Side:
    """A watcher with a store of its own, whose rounds come when a test says so."""

    def __init__(self, lab: Cluster, folder: Path, hinted: Callable[[], bool]) -> None:
        clock = SystemClock()
        scheduler = SlurmScheduler(CLUSTER, Commands(clock, environ=lab.env(logged=False)), clock)
        self.store: SqlStore = open_store(folder / "middlewatch.db")
        self.watcher: Watcher = made(self.store, scheduler, Policy(), RARELY, hinted=hinted)

    def end(self, job: str, now: datetime) -> AttemptEnd | None:
        """How the job has ended, as far as this side knows after a round."""
        report = self.watcher.tick(now)
        assert report.errors == []
        (attempt,) = self.store.attempts_of_job(CLUSTER, job)
        return attempt.end


def test_an_epilogs_hint_is_seen_at_once_and_a_lost_one_changes_nothing_but_the_time(
    fresh_lab: Callable[..., Cluster], tmp_path: Path
) -> None:
    name = f"test-{os.getpid()}-hints"
    folder = FOLDERS / f"middlewatch-lab-{name}"
    hint, script = folder / "run" / "hint", folder / "home" / "epilog"
    lab = fresh_lab(name=name, nodes=2, extra=(f"EpilogSlurmctld={script}",))
    script.write_text(f"#!/bin/sh\ntouch {hint} >/dev/null 2>&1\nexit 0\n")
    script.chmod(0o755)
    # Programs that were not there, or not named, when slurmctld began are not run.
    lab.stop_daemon("slurmctld")
    lab.start_daemon("slurmctld")
    told = Side(lab, tmp_path / "told", HintFile(hint).came)
    untold = Side(lab, tmp_path / "untold", lambda: False)
    gate = lab.home(lab.spec.job_users[0]) / "gate"
    job = lab.submit(
        f'#!/bin/sh\nwhile [ ! -e "{gate}" ]; do sleep 0.2; done\nexit 3\n', comment=COMMENT
    )
    lab.wait_state(job, "RUNNING")
    start = SystemClock().now()
    assert told.end(job, start) is None
    assert untold.end(job, start) is None

    gate.touch()
    lab.wait_state(job, "FAILED")
    assert wait_for(hint.exists, 60.0, every_s=0.1), "the epilog touched nothing"

    soon = start + timedelta(seconds=2)
    assert untold.end(job, soon) is None
    seen = told.end(job, soon)
    assert seen is not None
    late = untold.end(job, start + PAUSE)
    assert late is not None
    assert seen.state is late.state is JobState.FAILED
    assert (seen.by, seen.exit_code, seen.at) == (late.by, late.exit_code, late.at)
