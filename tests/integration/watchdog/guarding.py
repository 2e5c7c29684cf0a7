"""A state directory, stand-ins for Slurm's commands and a journal, for tests of the process."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from middlewatch.adapters.journal.file import FileJournal
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.wiring import presence
from middlewatch.wiring.watchdog_process import WatchdogSpec

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
PATIENCE_S = 40.0


def spec_for(state_dir: Path, bin_dir: Path) -> WatchdogSpec:
    config = WatchdogConfig(max_hold_s=300, interval_s=0.2, spacing_s=0)
    return WatchdogSpec(state_dir, environment="test", config=config, bin_dir=str(bin_dir))


def eventually(what: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """The first true answer of ``what``; fails the test where none comes."""
    until = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.05)


def runs(pid: int) -> bool:
    return presence.start_ticks_of(pid) is not None


@dataclass
class Guarding:
    folder: Path
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state_dir = self.folder / "state"
        self.bin_dir = self.folder / "bin"
        self.bin_dir.mkdir(parents=True)
        self.journal = FileJournal(self.state_dir)
        environment = f"PYTHONPATH={shlex.quote(str(ROOT / 'src'))}"
        for program in ("squeue", "scontrol"):
            script = self.bin_dir / program
            script.write_text(
                f"#!/bin/sh\n{environment} exec {shlex.quote(sys.executable)} "
                f'{HERE / "stub_slurm.py"} {self.folder} {program} "$@"\n'
            )
            script.chmod(0o755)
        self.put()

    @property
    def spec(self) -> WatchdogSpec:
        return spec_for(self.state_dir, self.bin_dir)

    def put(self, **changes: object) -> None:
        """Job 7 in a requeue-hold of the kind that we take, its begin time over."""
        begun = int(time.time()) - 300
        job = {
            "id": 7,
            "state": "SPECIAL_EXIT",
            "reason": "job requeued in held state",
            "priority": 0,
            "restarts": 1,
            "submit": begun,
            "eligible": begun + 121,
        }
        (self.folder / "jobs.json").write_text(json.dumps([job | changes]))

    def owe(self, within_s: float) -> None:
        """Write down that we hold job 7."""
        now = datetime.now(UTC)
        self.journal.append(
            JournalEntry(
                JournalKind.HOLD,
                now - timedelta(seconds=60),
                "alpha",
                "7",
                now - timedelta(seconds=600),
                1,
                release_by=now + timedelta(seconds=within_s),
            )
        )

    def changes(self) -> list[str]:
        path = self.folder / "changes.log"
        return path.read_text().splitlines() if path.exists() else []

    def log(self) -> str:
        path = self.state_dir / presence.WATCHDOG_LOG
        return path.read_text() if path.exists() else ""

    def seen(self) -> presence.Presence | None:
        return presence.read(self.state_dir / presence.WATCHDOG_ALIVE)

    def up(self, then: str) -> subprocess.Popen[str]:
        """A stand-in for `up`, in a process group of its own, that starts the watchdog."""
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.integration.watchdog.stub_up",
                str(self.state_dir),
                str(self.bin_dir),
                then,
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Leave no process behind, whatever became of the test."""
        for process in self._started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        seen = self.seen()
        if seen is not None and presence.alive(seen):
            os.kill(seen.pid, signal.SIGKILL)
