"""What the API was told of a job before its scheduler showed it: hearsay, whatever it says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from middlewatch.lab.simulated import SimulatedTrainer, sleeper
from middlewatch.model.attempt import TOLD, Attempt, AttemptEnd, EndedBy
from middlewatch.model.change import Change
from middlewatch.model.identity import AttemptKey
from middlewatch.model.optin import JobMode
from middlewatch.model.scheduler import JobState
from tests.integration.watcher.world import CLUSTER, World, world


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def told(here: World, job_id: str, *, index: int = 0, later_s: float = 0) -> Attempt:
    """An attempt as an upsert stores it, submitted now or ``later_s`` seconds from now."""
    submitted = (here.now + timedelta(seconds=later_s)).replace(microsecond=0)
    attempt = Attempt(
        id=AttemptKey(CLUSTER, job_id, submitted).attempt_id(),
        cluster=CLUSTER,
        job_id=job_id,
        attempt_index=index,
        submitted_at=submitted,
        first_seen_at=here.now,
        last_seen_at=here.now,
        source=TOLD,
        workflow_id="wf",
        state=JobState.RUNNING,
        nodes=("login-001",),
        excluded_nodes=("gpu-009",),
        user="mallory",
    )
    here.store.apply(Change(attempts=(attempt,)))
    return attempt


def test_told_end_of_a_job_that_runs_is_not_believed(here: World) -> None:
    end = AttemptEnd(
        JobState.FAILED, EndedBy.FAILURE, exit_code=None, exit_signal=None, at=None,
        learned_at=here.now,
    )  # fmt: skip
    lie = told(here, "1")
    here.store.apply(Change(attempts=(replace(lie, version=1, state=end.state, end=end),)))
    assert here.submit(sleeper()) == "1"
    here.run(5)
    (attempt,) = here.attempts("1")
    assert attempt.id == lie.id
    assert attempt.end is None
    assert attempt.state is JobState.RUNNING


def test_told_fields_give_way_to_what_the_scheduler_shows(here: World) -> None:
    told(here, "1")
    here.submit(sleeper(), nodes=2, name="llm")
    here.run(5)
    (attempt,) = here.attempts("1")
    assert attempt.source != TOLD
    assert attempt.opt_in.mode is JobMode.ACTION
    assert attempt.user != "mallory"
    assert "login-001" not in attempt.nodes
    assert attempt.excluded_nodes == ()
    assert attempt.workflow_id == "wf", "what no scheduler knows stays as it was told"


def test_told_index_does_not_keep_the_real_attempt_from_being_watched(here: World) -> None:
    told(here, "1", index=7)
    here.submit(SimulatedTrainer())
    here.run(5)
    (attempt,) = here.attempts("1")
    assert attempt.attempt_index == 0
    assert attempt.opt_in.mode is JobMode.ACTION
    assert attempt.stdout == str(here.log)


def test_told_attempt_that_is_newer_is_not_the_present_of_a_real_job(here: World) -> None:
    lie = told(here, "1", index=1, later_s=9)
    here.submit(SimulatedTrainer())
    here.run(5)
    real = next(a for a in here.attempts("1") if a.id != lie.id)
    assert real.live
    assert real.opt_in.mode is JobMode.ACTION
    found = here.store.attempt_by_index("1", 0)
    assert found is not None
    assert found.id == real.id
    assert next(a for a in here.attempts("1") if a.id == lie.id).vanished


def test_told_attempt_of_a_job_that_no_scheduler_shows_is_left_as_it_was_told(here: World) -> None:
    lie = told(here, "77")
    here.submit(sleeper())
    here.run(30)
    assert here.attempts("77") == (replace(lie, version=1),)
