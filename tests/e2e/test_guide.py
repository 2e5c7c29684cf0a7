"""The administrator's guide, typed as it stands on a machine with a real Slurm."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.lab.patience import wait_for
from tests.e2e.guided import Line, Machine, lines
from tests.labfixture import require_slurm

FAILS = (
    "sbatch --parsable --partition=canary --comment="
    '\'{"middlewatch":{"environment":"prod","mode":"action"}}\' '
    "--wrap='sleep 3; echo \"RuntimeError: CUDA error: uncorrectable ECC error encountered\"; exit 1'"
)
ONLY_WARNS = (0, 6)
"""Codes of `mw doctor` on a site where nothing has to be mended first."""


@pytest.fixture
def machine() -> Iterator[Machine]:
    require_slurm()
    made = Machine(Path(f"/var/tmp/mw-guide-{os.getpid()}"), f"test-{os.getpid()}-guide")
    try:
        made.prepare()
        yield made
    finally:
        made.close()


def typed(machine: Machine, line: Line) -> str:
    codes = ONLY_WARNS if line.text.endswith("doctor") or "doctor --json" in line.text else (0,)
    limit_s = 300.0 if line.text.startswith("until") else 120.0
    return machine.run(line.text, root=line.root, codes=codes, limit_s=limit_s)


def ours(machine: Machine) -> list[str]:
    """Processes of the user that the guide makes."""
    listed = machine.run("ps -u middlewatch -o stat=,args= || true").splitlines()
    return [row for row in listed if "middlewatch" in row and not row.startswith("Z")]


def changes(machine: Machine) -> str:
    """What the trail says of commands that changed a job."""
    return machine.run("mw audit --limit 1000 | grep -E ' action[.][a-z]' || true")


@pytest.mark.slurm
def test_every_line_of_the_guide_does_what_the_guide_says(machine: Machine) -> None:
    guide = lines()
    assert {line.section for line in guide} == {2, 3, 4, 5, 6, 7, 9, 10, 11}
    job = ""
    for line in guide:
        if line.section == 6 and not job:
            # What the guide's user does between two blocks: a job of his fails.
            job = machine.run(FAILS, root=False).strip()
            assert wait_for(
                lambda: "would have" in machine.run("mw advice"), timeout_s=120.0, every_s=1.0
            )
        said = typed(machine, line)
        if line.text == "mw advice" and line.section == 6:
            assert job in said
            assert changes(machine) == ""
        elif line.text.endswith("doctor") and line.section == 5:
            assert "monitor: nothing is changed" in said
        elif line.text.endswith("doctor") and line.section == 7:
            assert "action, in canary alone" in said
        elif "squeue --name=drill" in line.text and line.section == 7:
            assert re.search(r"PENDING BeginTime", said), said
            assert ours(machine) == []
        elif line.text.startswith("until") and "RUNNING" in line.text:
            assert ours(machine) == []
        elif line.text.endswith("mw rollback"):
            assert "restarts hit healthy jobs" in said
        elif "mw rollback --undo" in line.text:
            assert "not rolled back" in said
    assert ours(machine) == []
    assert machine.run("scontrol show job -o | grep -c Priority=0 || true").strip() == "0"
    assert machine.run("ls -d /var/lib/middlewatch* || true", codes=(0,)).strip() == ""
