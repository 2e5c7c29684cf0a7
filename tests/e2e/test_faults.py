"""Things go wrong in the middle of a recovery, on a real Slurm: a handful of what `make faults` plays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.labfixture import require_slurm
from tools.faults.campaign import run, went_wrong

pytestmark = pytest.mark.slurm

SEEDS = (13, 82, 100, 148)
"""Everything is killed behind the requeue; before the release of a requeue-hold; the controller alone, then the
gateway; the owner cancels in front of our requeue and we are killed behind the cancel."""


def test_a_recovery_in_which_something_goes_wrong_ends_right(tmp_path: Path) -> None:
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
    assert result["events_reached"] >= len(SEEDS)
