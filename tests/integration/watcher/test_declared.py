"""A held job that declares what it waits for, from its comment into the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from middlewatch.lab.simulated import sleeper
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import SignalKind
from tests.integration.watcher.world import CLUSTER, World, world


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def comment(*depends_on: str) -> str:
    member = {"environment": CLUSTER.environment, "mode": "action", "dependsOn": depends_on}
    return json.dumps({"middlewatch": member})


def test_a_held_job_is_recorded_with_what_it_waits_for_and_tells_it_once(here: World) -> None:
    parent = here.submit(sleeper())
    child = here.submit(sleeper(), hold=True, comment=comment(parent, "afterany:9"))
    here.run(5)
    (attempt,) = here.attempts(child)
    assert (attempt.state, attempt.held, attempt.reason) == (
        JobState.PENDING,
        True,
        "JobHeldUser",
    )
    assert [one.text for one in attempt.opt_in.depends_on] == [f"afterok:{parent}", "afterany:9"]
    here.restart()
    here.run(5)
    (signal,) = here.signals(attempt, SignalKind.DEPENDENCY)
    assert signal.detail == f"afterok:{parent}; afterany:9"


def test_a_declaration_that_cannot_be_read_is_recorded_as_wrong(here: World) -> None:
    child = here.submit(sleeper(), hold=True, comment=comment("soon"))
    here.run(5)
    (attempt,) = here.attempts(child)
    assert attempt.opt_in.depends_on_wrong
    assert len(here.signals(attempt, SignalKind.DEPENDENCY)) == 1
