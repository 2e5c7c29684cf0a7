"""Killed between the steps of a recovery, on a real Slurm: a handful of what `make faults` plays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.labfixture import require_slurm
from tools.faults.campaign import run, went_wrong

pytestmark = pytest.mark.slurm

SEEDS = (4, 7, 14, 20)
"""Around the requeue with the watchdog dead too, before the update, in a race with a cancel, and
before the release of a requeue-hold."""


def test_a_recovery_that_is_killed_between_two_steps_ends_right(tmp_path: Path) -> None:
    require_slurm()
    told: list[str] = []
    result = run(
        SEEDS,
        side_by_side=len(SEEDS),
        out=tmp_path / "faults.json",
        name=f"test-{os.getpid()}-faults",
        say=told.append,
    )
    assert went_wrong(result) == [], "\n".join(told)
    assert sum(result["real_schedules"].values()) == len(SEEDS)
    assert result["kills"] >= len(SEEDS)
