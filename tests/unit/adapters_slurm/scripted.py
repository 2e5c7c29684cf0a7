"""Slurm's commands, played from a script, and recordings of real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from middlewatch.adapters.slurm.command import Finished
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.model.identity import ClusterId

DATA = Path(__file__).parents[2] / "data" / "slurm"
RELEASES = ("22.05.8", "24.11.5", "26.05.5")
START = datetime(2026, 11, 30, tzinfo=UTC)


def recording(release: str, name: str) -> str:
    return (DATA / release / name).read_text()


def cases(release: str) -> list[dict[str, Any]]:
    """Recorded changing commands: argv, rc, stdout, stderr, case."""
    return json.loads(recording(release, "changing.json"))


class HandClock:
    """A clock that a test turns by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def token(self, size: int = 32) -> str:
        return "t" * size


def finished(
    argv: Sequence[str] = ("squeue",),
    *,
    stdout: str = "",
    stderr: str = "",
    rc: int | None = 0,
    problem: str = "",
    at: datetime = START,
) -> Finished:
    return Finished(tuple(argv), rc, stdout, stderr, problem, at, at, 0.0)


Answers = Callable[[tuple[str, ...]], tuple[str, str, int | None]]


class ScriptedCommands:
    """Answers each command by a function: (stdout, stderr, exit code). Keeps what was asked."""

    def __init__(self, answers: Answers, clock: HandClock) -> None:
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []
        self.who = (0, "root")
        self._clock = clock

    def user(self) -> tuple[int, str]:
        return self.who

    def run(self, argv: Sequence[str], deadline_s: float, *, changing: bool = False) -> Finished:
        self.asked.append(tuple(argv))
        out, err, code = self.answers(tuple(argv))
        problem = "killed" if code is None else ""
        return finished(
            argv, stdout=out, stderr=err, rc=code, problem=problem, at=self._clock.now()
        )


def scheduler(answers: Answers) -> tuple[SlurmScheduler, ScriptedCommands, HandClock]:
    clock = HandClock()
    commands = ScriptedCommands(answers, clock)
    found = SlurmScheduler(ClusterId("slurm", "test"), commands, clock)  # type: ignore[arg-type]
    return found, commands, clock


CONFIG = """Configuration data as of 1796000841
ClusterName             = lab
SLURM_VERSION           = 22.05.8
MessageTimeout          = 10 sec
"""
