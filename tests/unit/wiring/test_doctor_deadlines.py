"""What ends a command that nobody is left to kill is missing: the doctor says so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands
from middlewatch.wiring.doctor import COMMANDS, examined_commands
from middlewatch.wiring.findings import Finding, Level


def found(folder: Path, *programs: str) -> dict[str, Finding]:
    for name in (*COMMANDS, *programs):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    settings = SimpleNamespace(slurm=SimpleNamespace(bin_dir=str(folder)))
    this = SimpleNamespace(
        commands=Commands(SystemClock(), environ={"PATH": str(folder)}),
        loaded=SimpleNamespace(settings=settings),
    )
    return {one.check: one for one in examined_commands(cast(Any, this))}


def test_a_path_without_timeout_is_told(tmp_path: Path) -> None:
    told = found(tmp_path)
    assert told["commands"].level is Level.OK
    assert told["deadlines"].level is Level.WARN
    assert "timeout" in told["deadlines"].text
    assert "coreutils" in told["deadlines"].mend


def test_where_it_is_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert list(found(tmp_path, "timeout")) == ["commands"]
