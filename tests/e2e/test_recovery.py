"""One true recovery, and the jobs that must be left alone, on real daemons."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from middlewatch.lab.breakage import break_it
from middlewatch.lab.jobs import TrainerOptions
from middlewatch.model.advice import Disposition, Reason
from middlewatch.model.milestone import MilestoneKind
from middlewatch.model.scheduler import JobState
from middlewatch.wiring import demo
from middlewatch.wiring.demo.result import missing
from tests.e2e.stage import Stage

pytestmark = pytest.mark.slurm


def test_the_demo_shows_a_whole_recovery(tmp_path: Path, slurm_lab: object) -> None:
    out = tmp_path / "demo.json"
    assert demo.run(["--backend", "slurm", "--out", str(out), "--name", "test-demo"]) == 0
    made = json.loads(out.read_text())
    assert missing(made) == []
    assert made["backend"] == "slurm"
    moments = [made["milestones"][name] for name in ("detected", "advised", "released", "resumed")]
    assert moments == sorted(moments)
    steps = made["steps"]
    assert steps["checkpoint"] <= steps["last_before_fault"] < steps["resumed"]
    assert steps["lost"] == steps["last_before_fault"] - steps["checkpoint"]
    verbs = [" ".join(c["argv"][1:2]) for c in made["commands"]]
    assert verbs == ["requeue", "update"]


def test_a_crashed_job_goes_on_beyond_the_fault_without_the_bad_node(stage: Stage) -> None:
    stage.begin()
    job = stage.submit(nodes=2, steps=400, fault="crash-cuda", fault_at=15, fault_rank=1)
    advice = stage.wait("an outcome", lambda: stage.outcome(job))
    assert advice.status.disposition is Disposition.CONVERGED
    first = stage.attempt(job, 0)
    assert first is not None
    assert advice.exclusions == (first.nodes[1],)
    stage.wait("nodes of the successor", lambda: (stage.attempt(job, 1) or first).nodes)
    assert not set(advice.exclusions) & set(stage.attempt(job, 1).nodes)  # type: ignore[union-attr]
    kinds = stage.wait(
        "resumed",
        lambda: (
            (found := {m.kind for m in stage.store.milestones(advice.sequence_id)}).issuperset(
                MilestoneKind
            )
            and found
        ),
    )
    assert kinds >= set(MilestoneKind)


def test_a_job_that_recovers_by_itself_is_not_touched(stage: Stage) -> None:
    stage.begin()
    inside = stage.submit(nodes=2, steps=60, fault="self-recover", fault_at=10)
    looped = stage.submit(
        nodes=2, steps=60, fault="crash-python", fault_at=10, relaunch=2, fault_rank=1
    )
    for job in (inside, looped):
        stage.wait(
            "completion",
            lambda job=job: stage.cluster.job(job).get("JobState") == "COMPLETED",
            120,
        )
        ended = stage.wait(
            "its end",
            lambda job=job: (
                (stage.attempt(job) or 0)
                and (
                    stage.attempt(job).end  # type: ignore[union-attr]
                )
            ),
        )
        assert ended.state is JobState.COMPLETED
    time.sleep(3)
    assert stage.changing() == []
    assert stage.advice(inside) is None
    assert stage.advice(looped) is None


def test_a_job_of_a_chain_is_not_restarted_beside_its_successor(stage: Stage) -> None:
    stage.begin()
    first = stage.submit(nodes=2, steps=5000)
    stage.wait("the first to run", lambda: (a := stage.attempt(first)) and a.nodes)
    second = stage.submit(nodes=2, steps=400, dependency=f"afterany:{first}")
    stage.wait("the chain noted", lambda: (a := stage.attempt(first)) and a.dependents)
    break_it(stage.cluster, "crash", first)
    stage.wait("its end", lambda: (a := stage.attempt(first)) is not None and a.end, 60)
    stage.wait("the chain", lambda: stage.cluster.job(second).get("JobState") == "RUNNING")
    time.sleep(4)
    assert stage.changing() == []
    assert stage.cluster.job(first)["JobState"] == "FAILED"
    advice = stage.outcome(first)
    assert advice is None or advice.status.reason is Reason.SUCCEEDED_BY_DEPENDENT  # type: ignore[union-attr]


def test_silence_alone_raises_an_alarm_and_nothing_else(stage: Stage) -> None:
    stage.begin({"policy": {"silence_floor_s": 4.0, "grace_floor_s": 2.0}})
    job = stage.submit(nodes=2, steps=1000, fault="hang", fault_at=30)
    attempt = stage.wait("the attempt", lambda: stage.attempt(job))
    stage.wait(
        "an alarm",
        lambda: any(s.kind.value == "silence" for _, s in stage.store.signals(attempt.id)),
        90,
    )
    time.sleep(3)
    assert stage.changing() == []
    assert stage.cluster.job(job)["JobState"] == "RUNNING"


# Long enough before the fault for its pace to be learnt, also where it is first looked at late.
STUCK_AFTER_A_CRASH_LINE = """#!/bin/bash
#SBATCH --nodes=1 --comment='{comment}'
first=$(( ${{SLURM_RESTART_COUNT:-0}} * 50 + 1 ))
for step in $(seq $first 80); do echo "middlewatch: step=$step total=400"; sleep 0.2; done
if [ "${{SLURM_RESTART_COUNT:-0}}" = 0 ]; then
  echo "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
  sleep 1000
fi
for step in $(seq 81 400); do echo "middlewatch: step=$step total=400"; sleep 0.1; done
"""


def test_a_crash_line_and_then_no_progress_ends_a_job_that_still_runs(stage: Stage) -> None:
    stage.begin({"policy": {"grace_floor_s": 3.0}})
    script = STUCK_AFTER_A_CRASH_LINE.format(comment=stage.opt_in())
    job = stage.cluster.submit(script)
    advice = stage.wait("an outcome", lambda: stage.outcome(job), 120)
    assert advice.may_end_running
    assert advice.status.disposition is Disposition.CONVERGED
    stage.wait(
        "resumed",
        lambda: any(
            m.kind is MilestoneKind.RESUMED for m in stage.store.milestones(advice.sequence_id)
        ),
    )
    verbs = [argv[1] for argv in stage.changing()]
    assert verbs == ["requeue", "update"]


def test_a_person_who_cancels_is_the_end_of_it(stage: Stage) -> None:
    stage.begin()
    job = stage.submit(nodes=2, steps=1000)
    stage.wait("steps", lambda: (a := stage.attempt(job)) and stage.store.progress(a.id))
    stage.cluster.run(["scancel", job], user=stage.cluster.spec.job_users[0])
    stage.wait("its end", lambda: (a := stage.attempt(job)) is not None and a.end)
    time.sleep(4)
    assert stage.changing() == []
    assert stage.cluster.job(job)["JobState"] == "CANCELLED"


def test_a_job_without_an_opt_in_is_never_touched(stage: Stage) -> None:
    stage.begin()
    plain = stage.submit(nodes=2, steps=100, fault="crash-cuda", fault_at=5, comment="project 7")
    broken = stage.submit(
        nodes=2, steps=100, fault="crash-cuda", fault_at=5, comment='{"middlewatch":{'
    )
    for job in (plain, broken):
        stage.cluster.wait_state(job, "FAILED", 60)
    time.sleep(4)
    assert stage.changing() == []
    assert stage.advice(plain) is None


def test_a_failed_node_is_excluded_while_slurms_own_begin_time_runs(stage: Stage) -> None:
    stage.begin()
    options = TrainerOptions(nodes=2, steps=5000, step_seconds=0.1, comment=stage.opt_in())
    job = stage.cluster.submit(options)
    attempt = stage.wait(
        "the attempt", lambda: (a := stage.attempt(job)) is not None and a.nodes and a
    )
    lost = attempt.nodes[1]
    stage.cluster.kill_node(lost)
    stage.wait(
        "the exclusion",
        lambda: lost in stage.cluster.job(job).get("ExcNodeList", ""),
        120,
    )
    assert all("requeue" not in argv for argv in stage.changing())
    assert all("StartTime=now" not in argv for argv in stage.changing())
