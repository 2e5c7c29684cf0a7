"""Running the real command as a process, on a Slurm that answers and does nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from middlewatch.wiring import presence
from tests.integration.cli import fakeslurm

PATIENCE_S = 60.0
GROUPS = frozenset({"limits"})
"""Commands whose options belong to the command behind them."""


def wait_until(what: Callable[[], object], why: str) -> None:
    """Return once ``what`` is true; fail with ``why`` if it never is."""
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until, why
        time.sleep(0.02)


@dataclass
class World:
    """One state directory, one environment, and the processes that were started in it."""

    folder: Path
    commands: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}

    def arguments(self, *words: str) -> list[str]:
        common = ["--state-dir", str(self.state), "--set", f"slurm.bin_dir={self.commands}"]
        first = 2 if words[0] in GROUPS else 1
        return [sys.executable, "-m", "middlewatch", *words[:first], *common, *words[first:]]

    def run(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(*words),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            input=stdin,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        with (self.folder / "out").open("a") as out, (self.folder / "err").open("a") as err:
            process = subprocess.Popen(
                self.arguments(*words), env=self.env, stdout=out, stderr=err, text=True
            )
        self.started.append(process)
        return process

    def up(self, *words: str) -> subprocess.Popen[str]:
        """`up`, ready: its loops have turned."""
        process = self.start("up", "--port", "0", "--log-format", "json", *words)
        self.await_ready(process)
        return process

    def await_ready(self, process: subprocess.Popen[str]) -> None:
        wait_until(
            lambda: process.poll() is not None or (self.state / "url").exists(),
            f"up is not ready: {self.err()}",
        )
        assert process.poll() is None, self.err()

    def out(self) -> str:
        return (self.folder / "out").read_text()

    def err(self) -> str:
        return (self.folder / "err").read_text()

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        seen = presence.read(self.state / presence.WATCHDOG_ALIVE)
        if seen is not None:
            presence.kill(seen)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, fakeslurm.install(tmp_path / "bin"))
    yield made
    made.end()
