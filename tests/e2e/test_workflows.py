"""Jobs that wait for other jobs, on real daemons: by what they declare to us, and by Slurm's own
dependencies when their parent is requeued."""

from __future__ import annotations

import json
from typing import Any

import pytest

from middlewatch.model.advice import Advice, DesiredState, Disposition, Reason
from middlewatch.model.milestone import MilestoneKind, Operation
from middlewatch.model.scheduler import JobState
from middlewatch.remediation.release import AwaitBasis
from tests.e2e.stage import Stage

pytestmark = pytest.mark.slurm

QUICK = {"policy": {"parent_settles_s": 2.0}}


def comment(stage: Stage, *depends_on: str) -> str:
    member: dict[str, Any] = {"environment": stage.environment, "mode": "action"}
    if depends_on:
        member["dependsOn"] = list(depends_on)
    return json.dumps({"middlewatch": member}, separators=(",", ":"))


def held(stage: Stage, *depends_on: str) -> str:
    """A short job, submitted held, that waits for others."""
    directives = f"--nodes=1 --hold --comment='{comment(stage, *depends_on)}'"
    return stage.cluster.submit(f"#!/bin/bash\n#SBATCH {directives}\necho began\nsleep 2\n")


def short(
    stage: Stage, seconds: int = 600, code: int = 0, dependency: str = "", requeue: str = "requeue"
) -> str:
    """A job that does nothing, and ends with that code."""
    more = f" --dependency={dependency}" if dependency else ""
    directives = f"--nodes=1 --{requeue} --comment='{comment(stage)}'{more}"
    return stage.cluster.submit(
        f"#!/bin/bash\n#SBATCH {directives}\nsleep {seconds}\nexit {code}\n"
    )


def state(stage: Stage, job: str) -> str:
    return stage.cluster.job(job).get("JobState", "")


def grounds(stage: Stage, job: str) -> list[str]:
    attempt = stage.attempt(job)
    return [d.result for d in stage.store.decisions(attempt.id)] if attempt else []


def ended_with(stage: Stage, job: str) -> Advice:
    advice = stage.wait("an outcome", lambda: stage.outcome(job), 120)
    assert isinstance(advice, Advice)
    assert advice.desired is DesiredState.RELEASED
    return advice


def test_a_held_job_starts_only_after_its_parent_was_recovered_and_has_completed(
    stage: Stage,
) -> None:
    stage.begin(QUICK)
    assert stage.up is not None
    parent = stage.submit(
        nodes=2, steps=150, step_seconds=0.2, fault="crash-cuda", fault_at=15, fault_rank=1
    )
    child = held(stage, parent)
    stage.wait("the wait", lambda: AwaitBasis.PARENTS_NOT_DONE.value in grounds(stage, child), 120)
    stage.wait("the restart", lambda: stage.outcome(parent), 120)
    # Everything dies while the parent runs again, and comes back.
    stage.up.kill()
    stage.up.kill_watchdog()
    assert state(stage, child) == "PENDING"
    stage.up.start()
    stage.wait("attempt 1", lambda: (a := stage.attempt(parent, 1)) and a.state is JobState.RUNNING)
    assert stage.advice(child) is None, "a parent that is being recovered is not done"
    stage.wait("the parent's end", lambda: state(stage, parent) == "COMPLETED", 180)
    advice = ended_with(stage, child)
    assert advice.status is not None
    assert advice.status.disposition is Disposition.CONVERGED
    assert advice.status.reason is Reason.DESIRED_STATE_OBSERVED
    assert "attempt 1 ended COMPLETED" in advice.explanation
    stage.wait("the child", lambda: state(stage, child) in {"RUNNING", "COMPLETED"}, 120)
    job = stage.cluster.job(child)
    assert job["Restarts"] == "0"
    assert [argv[1] for argv in stage.changing()] == ["requeue", "update", "release"]
    ends = stage.attempt(parent, 1)
    begins = stage.wait("its start", lambda: (a := stage.attempt(child)) and a.started_at and a)
    assert ends is not None
    assert ends.end is not None
    assert ends.end.at is not None
    assert begins.started_at >= ends.end.at
    sequence = stage.store.sequence("slurm", stage.environment, child, 0, Operation.DAG_RELEASE)
    assert sequence is not None
    kinds = {m.kind for m in stage.store.milestones(sequence.id)}
    assert {MilestoneKind.ADVISED, MilestoneKind.RELEASED} <= kinds


def test_an_operators_hold_on_a_waiting_job_is_left_to_the_operator(stage: Stage) -> None:
    stage.begin(QUICK)
    parent = short(stage, seconds=1)
    child = held(stage, parent)
    stage.cluster.run(["scontrol", "hold", child])
    stage.wait("the hold", lambda: stage.cluster.job(child).get("Reason") == "JobHeldAdmin")
    advice = ended_with(stage, child)
    assert advice.status is not None
    assert advice.status.disposition is Disposition.ABANDONED
    assert advice.status.reason is Reason.OPERATOR_HOLD
    assert stage.changing() == []
    assert stage.cluster.job(child)["Reason"] == "JobHeldAdmin"
    # He gives the hold back to the job's owner: that is new, and decided anew.
    stage.cluster.run(["scontrol", "uhold", child])
    again = stage.wait(
        "the release", lambda: (a := stage.outcome(child)) and a.generation == 2 and a, 120
    )
    assert again.status.disposition is Disposition.CONVERGED


def test_monitor_mode_says_what_it_would_have_let_go(stage: Stage) -> None:
    stage.begin({"deployment": {"mode": "monitor"}, **QUICK})
    parent = short(stage, seconds=1)
    child = held(stage, parent)
    advice = ended_with(stage, child)
    assert advice.status is not None
    assert advice.status.reason is Reason.NOT_PERMITTED
    assert stage.changing() == []
    assert state(stage, child) == "PENDING"


def test_what_cannot_be_waited_for_is_told_and_what_failed_lets_others_go(stage: Stage) -> None:
    stage.begin(QUICK)
    parent = short(stage, seconds=1, code=3, requeue="no-requeue")
    notok = held(stage, f"afternotok:{parent}")
    ok, unknown = held(stage, parent), held(stage, "999999")
    broken = held(stage, "soon")
    stage.wait(
        "the wrong number", lambda: grounds(stage, unknown) == [AwaitBasis.WRONG_PARENT.value], 120
    )
    stage.wait(
        "the bad word", lambda: grounds(stage, broken) == [AwaitBasis.BAD_DECLARATION.value], 120
    )
    advice = stage.wait("the release", lambda: stage.outcome(notok), 180)
    assert advice.desired is DesiredState.RELEASED
    assert advice.status.disposition is Disposition.CONVERGED
    stage.wait("the alarm", lambda: AwaitBasis.PARENT_FAILED.value in grounds(stage, ok), 120)
    for job in (ok, unknown, broken):
        assert stage.cluster.job(job)["Reason"] == "JobHeldUser"
        assert stage.advice(job) is None


def test_slurms_own_dependents_of_a_job_that_is_requeued_while_it_runs_go_on_waiting(
    stage: Stage,
) -> None:
    """The same requeue that a hung job gets: facts 7.5, on the daemons of this machine."""
    cluster = stage.cluster
    stage.begin()
    parent = short(stage)
    cluster.wait_state(parent, "RUNNING", 60)
    waiting = {
        kind: short(stage, seconds=1, dependency=f"{kind}:{parent}")
        for kind in ("afterok", "afterany", "afternotok")
    }
    cluster.run(["scontrol", "requeue", parent])
    stage.wait("the requeue", lambda: state(stage, parent) == "PENDING")
    for job in waiting.values():
        assert state(stage, job) == "PENDING"
        assert cluster.job(job)["Reason"] in {"Dependency", "None"}
    cluster.run(["scontrol", "update", f"jobid={parent}", "StartTime=now"])
    cluster.wait_state(parent, "RUNNING", 60)
    # They were noted: had it failed instead, the last two would be its successors.
    noted = stage.wait(
        "the dependents",
        lambda: (a := stage.attempt(parent, 1)) and len(a.dependents) == 3 and a.dependents,
    )
    assert {(d.job_id, d.kind) for d in noted} == {(j, kind) for kind, j in waiting.items()}


@pytest.mark.parametrize("kind", ["afternotok", "singleton"])
def test_a_dependent_that_slurm_lets_go_at_a_failure_is_the_successor(
    stage: Stage, kind: str
) -> None:
    stage.begin()
    cluster = stage.cluster
    first = stage.submit(nodes=2, steps=5000, fault="crash-cuda", fault_at=60, name="chain")
    cluster.wait_state(first, "RUNNING", 60)
    dependency = kind if kind == "singleton" else f"{kind}:{first}"
    second = stage.submit(nodes=2, steps=400, dependency=dependency, name="chain")
    stage.wait("the chain noted", lambda: (a := stage.attempt(first)) and a.dependents)
    stage.wait("its end", lambda: (a := stage.attempt(first)) and a.end, 120)
    stage.wait("the chain", lambda: state(stage, second) == "RUNNING")
    stage.wait("the decision", lambda: "succeeded_by_dependent" in grounds(stage, first))
    assert stage.changing() == []
    assert state(stage, first) == "FAILED"
