"""One ordinary user runs everything for his own jobs: no root, no level, and Slurm hides the rest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from middlewatch.lab.cluster import Cluster
from middlewatch.lab.simulated import Exit, sleeper
from middlewatch.model.advice import Disposition
from middlewatch.model.gates import Deployment, GateName, Mode, gates_for
from middlewatch.model.milestone import MilestoneKind
from middlewatch.model.scheduler import ActsFor
from tests.e2e.stage import Stage
from tests.identities import private_data
from tests.integration.controller.world import CLUSTER, World


@pytest.fixture
def stage(lab: Cluster) -> Iterator[Stage]:
    folder = lab.folder / "single-user"
    with private_data(lab, "jobs", "users", "accounts", "usage"):
        made = Stage(lab, folder, "single-user", user=lab.spec.job_users[0])
        yield made
        made.close()


def doctor(stage: Stage) -> tuple[int, list[dict[str, Any]]]:
    """As the user who runs `up` would ask it."""
    assert stage.up is not None
    done = subprocess.run(
        [
            stage.up.python,
            "-m",
            "middlewatch",
            "--config",
            str(stage.up.config),
            "doctor",
            "--json",
        ],
        env=dict(stage.up.env),
        cwd="/",
        user=stage.user,
        group=stage.folder.stat().st_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, list(json.loads(done.stdout)["findings"])


@pytest.mark.slurm
def test_a_user_recovers_his_own_job_and_never_sees_anothers(stage: Stage) -> None:
    stage.begin()
    lab, other = stage.cluster, stage.cluster.spec.job_users[1]
    assert stage.up is not None
    assert stage.up.state == stage.folder / "middlewatch"
    options = {"nodes": 1, "steps": 400, "fault": "crash-cuda", "fault_at": 15}
    own = stage.submit(**options)
    theirs = stage.submit_as(other, **options)
    advice = stage.wait("an outcome", lambda: stage.outcome(own), 180)
    assert advice.status.disposition is Disposition.CONVERGED
    stage.wait(
        "resumed",
        lambda: any(
            one.kind is MilestoneKind.RESUMED for one in stage.store.milestones(advice.sequence_id)
        ),
        120,
    )
    lab.wait_state(theirs, "FAILED", 120)
    assert stage.attempt(theirs) is None
    assert {argv[2].removeprefix("jobid=") for argv in stage.changing()} == {own}
    owner = stage.folder.stat().st_uid
    files = [path for path in stage.up.state.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_uid for path in files} == {owner}

    code, found = doctor(stage)
    said = {one["check"]: one for one in found}
    assert code in {0, 6}, found
    assert "own jobs alone" in said["rights"]["text"]
    assert "adminlevel=Operator" in said["rights"]["mend"]
    assert said["private-data"]["text"] == "all of this user's jobs can be seen"
    assert said["watchdog"]["level"] == "ok"


BOB = 1001


def test_advice_for_somebody_elses_job_is_refused_before_any_command(tmp_path: Path) -> None:
    only = Deployment(
        CLUSTER,
        "simulated",
        Mode.ACTION,
        True,
        ("train",),
        only_for=ActsFor(BOB, "bob", everybody=False),
    )
    world = World(tmp_path, deployment=only)
    try:
        job = world.submit(sleeper(0.2, Exit(3)))
        attempt = world.attempt(job)
        # The gates stood open when it was decided: it was an Operator's deployment then.
        everybody = Deployment(CLUSTER, "simulated", Mode.ACTION, True, ("train",))
        world.advise(attempt, deployment=everybody)
        world.run(30)
        advice = world.store.advice(attempt.id)
        assert advice is not None
        assert advice.status is not None
        assert world.outcome(attempt) == "ABANDONED NOT_PERMITTED"
        assert GateName.JOB_OWNER.value in advice.status.detail
        assert "bob (1001) alone" in advice.status.detail
        assert world.verbs() == []
    finally:
        world.store.close()


def test_the_gate_is_frozen_into_the_decision(tmp_path: Path) -> None:
    only = Deployment(
        CLUSTER,
        "simulated",
        Mode.ACTION,
        True,
        ("train",),
        only_for=ActsFor(BOB, "bob", everybody=False),
    )
    world = World(tmp_path, deployment=only)
    try:
        attempt = world.attempt(world.submit(sleeper(0.2, Exit(3))))
        gates = gates_for(only, attempt, "simulated")
        assert [gate.name for gate in gates.gates if not gate.open] == [GateName.JOB_OWNER]
        world.advise(attempt)
        world.run(30)
        assert world.outcome(attempt) == "ABANDONED NOT_PERMITTED"
        assert world.verbs() == []
    finally:
        world.store.close()
