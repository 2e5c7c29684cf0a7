"""Every kind of job on a real Slurm: restarted, or left alone with a reason that its user can read.

docs/kinds-of-jobs.md names these tests.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from middlewatch.lab.cluster import Cluster
from tests.e2e.kinds.parade import AGAIN, CRASH, FAILS, KEPT, KEPT_SHORT, RUNS, STEPS, Parade
from tests.e2e.stage import Stage

pytestmark = pytest.mark.slurm

CONVERGED = "CONVERGED DESIRED_STATE_OBSERVED"


@pytest.fixture(scope="module")
def parade(slurm_lab: Cluster) -> Iterator[Parade]:
    slurm_lab.tidy()
    stage = Stage(slurm_lab, slurm_lab.folder / "kinds", "kinds")
    stage.begin()
    made = Parade(stage)
    try:
        submit_all(made)
        interfere(made)
        yield made
    finally:
        stage.close()
        made.clear()
        slurm_lab.tidy()


def submit_all(parade: Parade) -> None:
    lab = parade.lab
    first = parade.submit("held by its owner at the start", RUNS, "--hold")
    parade.stage.wait("the watcher's first listing", lambda: parade.stage.attempt(first))
    fails, hangs = FAILS, RUNS
    parade.submit("hung under an operator's hold", hangs)
    parade.submit("hung under its owner's hold", hangs)
    parade.submit("hung and suspended", hangs)
    of_one = (
        f'#!/bin/bash\n{AGAIN}\n[ "$SLURM_ARRAY_TASK_ID" = 1 ] && exec sleep 3600\n'
        f"{STEPS}\necho '{CRASH}' >&2\nexit 1\n"
    )
    parade.submit("array", of_one, "--array=0-2")
    parade.submit("array with a throttle", of_one, "--array=0-1%1")
    parade.submit("--no-requeue", fails, "--no-requeue")
    parade.submit("in two partitions", fails, "-ptrain,spare")
    parade.submit("with a begin time", RUNS, "--begin=now+1hour")
    parade.submit("out of time", RUNS, "-t1")
    parade.submit("pre-empted and cancelled", RUNS, "-pspare", "-wgpu-006")
    parade.submit("pre-empted and requeued", RUNS, "-wgpu-005")
    for code in (100, 101):
        script = f"#!/bin/bash\n{AGAIN}\n{STEPS}\necho '{CRASH}' >&2\nexit {code}\n"
        parade.submit(f"exit {code}", script)
    parent = parade.submit("hung parent", hangs, "-Jchain")
    parade.submit("waits by afterok", RUNS, f"--dependency=afterok:{parent}")
    parade.submit("waits by afterany", RUNS, f"--dependency=afterany:{parent}")
    parade.submit("waits by afternotok", RUNS, f"--dependency=afternotok:{parent}")
    parade.submit("waits as a singleton", RUNS, "-Jchain", "--dependency=singleton")
    both = f"#!/bin/bash\n#SBATCH hetjob\n#SBATCH -N1 --exclude={KEPT}\n"
    parade.submit("heterogeneous", both + fails.removeprefix("#!/bin/bash\n"))
    user, another = lab.spec.job_users
    parent = parade.submit("failed parent", fails, user=another)
    waits = f"--dependency=afternotok:{parent}"
    parade.submit("let go by afternotok", RUNS, waits, user=another)
    parade.by_root(
        "scontrol", "create", "reservationname=kinds", "starttime=now", "duration=60",
        "nodes=gpu-003,gpu-004", f"users={user}",
    )  # fmt: skip
    parade.submit("in a reservation", fails, "--reservation=kinds")
    script = f"sleep 4; echo '{CRASH}' >&2; exit 1"
    words = [
        "srun",
        "-N1",
        "-xgpu-005,gpu-006",
        f"--comment={parade.stage.opt_in()}",
        "-Jby-srun",
        "sh",
        "-c",
        script,
    ]
    threading.Thread(target=lambda: lab.run(words, user=user, check=False), daemon=True).start()
    stage = parade.stage
    parade.jobs["of srun"] = stage.wait(
        "the job of srun",
        lambda: parade.by_root("squeue", "-a", "-h", "-n", "by-srun", "-o", "%A").strip(),
    )


def interfere(parade: Parade) -> None:
    """What people do meanwhile; returns when everything that is to come has come."""
    stage, job = parade.stage, parade.jobs
    held = ("hung under an operator's hold", "hung under its owner's hold")
    suspended = "hung and suspended"
    for kind in (*held, suspended):
        parade.until(kind, lambda job: parade.state(job, "State") == ("RUNNING",))
    parade.by_operator("scontrol", "hold", job[held[0]])
    parade.lab.run(["scontrol", "hold", job[held[1]]], user=parade.lab.spec.job_users[0])
    parade.by_root("scontrol", "suspend", job[suspended])
    for kind in (*held, suspended, "hung parent"):
        parade.advise(kind)
    for kind in ("out of time", "pre-empted and cancelled", "pre-empted and requeued"):
        parade.until(kind, lambda job: (a := stage.attempt(job)) is not None and bool(a.nodes))
    parade.by_root("scontrol", "update", f"jobid={job['out of time']}", "EndTime=now")
    for node in ("gpu-005", "gpu-006"):
        parade.lab.submit(RUNS, extra=("-purgent", f"-w{node}", "--exclusive"))
    for kind in held:
        parade.until(kind, lambda job: parade.outcome(job) == "PENDING OPERATOR_HOLD")
    parade.until(suspended, lambda job: parade.outcome(job) == "PENDING IN_PROGRESS")
    for kind in (*held, suspended):
        parade.said[kind] = f"{parade.restarts(job[kind])} restarts, {parade.status(job[kind])}"
    parade.by_operator("scontrol", "release", job[held[0]])
    parade.by_root("scontrol", "resume", job[suspended])
    for name in (
        held[0],
        suspended,
        "in two partitions",
        "in a reservation",
        "heterogeneous",
        "hung parent",
        "array_0",
        "array_2",
        "array with a throttle_0",
    ):
        parade.until(name, lambda job: parade.outcome(job) == CONVERGED)
    for kind in ("of srun", "out of time", "--no-requeue", "failed parent"):
        parade.until(kind, lambda job: parade.outcome(job) != "-" or parade.refused(job))
    for kind in ("pre-empted and cancelled", "pre-empted and requeued"):
        parade.until(kind, lambda job: parade.grounds(job)[-1:] == ["preempted"])
    for kind in ("exit 100", "exit 101"):
        parade.until(kind, lambda job: parade.restarts(job) == 1)


def test_tasks_of_an_array_that_fail_at_once_are_restarted_and_no_other_one(
    parade: Parade,
) -> None:
    array = parade.jobs["array"]
    for task in (0, 2):
        assert parade.outcome(f"{array}_{task}") == CONVERGED
        assert parade.verbs(f"{array}_{task}") == ["requeue", "update"]
        assert parade.excluded(f"{array}_{task}") == parade.around("gpu-001")
    assert parade.state(f"{array}_1", "State", "RestartCnt") == ("RUNNING", "0")
    assert parade.verbs(f"{array}_1") == []
    assert parade.excluded(f"{array}_1") == KEPT_SHORT
    assert {a.job_id for a in parade.attempts(array)} == set()


def test_a_throttled_arrays_task_waits_for_its_turn_after_a_restart(parade: Parade) -> None:
    array = parade.jobs["array with a throttle"]
    assert parade.verbs(f"{array}_0") == ["requeue", "update"]
    states = {parade.state(f"{array}_{task}", "State")[0] for task in (0, 1)}
    assert states <= {"RUNNING", "PENDING"}
    assert parade.restarts(f"{array}_1") == 0


def test_a_heterogeneous_job_is_restarted_whole(parade: Parade) -> None:
    job = parade.jobs["heterogeneous"]
    assert parade.verbs(job) == ["requeue", "update"]
    shown = parade.by_root("squeue", "-a", "-h", "-j", job, "-O", "State:|,RestartCnt:|")
    assert [line.split("|")[:2] for line in shown.split()] == [["RUNNING", "1"]] * 2


def test_a_job_that_may_not_be_requeued_is_left_with_a_word_about_it(parade: Parade) -> None:
    job = parade.jobs["--no-requeue"]
    assert parade.grounds(job)[-1] == "not_requeueable"
    assert parade.state(job, "State", "RestartCnt") == ("FAILED", "0")
    assert "submit it with `#SBATCH --requeue`" in parade.told("explain", job)


def test_a_hold_on_a_running_job_keeps_it_until_whoever_placed_it_lifts_it(
    parade: Parade,
) -> None:
    by_operator = "hung under an operator's hold"
    assert parade.said[by_operator] == "0 restarts, an operator holds the running job"
    assert parade.verbs(parade.jobs[by_operator]) == ["requeue", "update"]
    by_owner = "hung under its owner's hold"
    assert parade.said[by_owner] == "0 restarts, its owner holds the running job"
    job = parade.jobs[by_owner]
    assert parade.verbs(job) == []
    assert parade.state(job, "State", "Reason") == ("RUNNING", "JobHeldUser")
    assert "its owner holds the running job" in parade.told("explain", job)


def test_a_suspended_job_is_restarted_only_once_it_goes_on(parade: Parade) -> None:
    kind = "hung and suspended"
    waits = "the attempt is suspended: waiting for whoever suspended it"
    assert parade.said[kind] == f"0 restarts, {waits}"
    assert parade.verbs(parade.jobs[kind]) == ["requeue", "update"]
    assert parade.state(parade.jobs[kind], "State", "RestartCnt") == ("RUNNING", "1")


def test_jobs_that_wait_by_their_users_wish_are_left_waiting(parade: Parade) -> None:
    for kind, reason in (
        ("held by its owner at the start", "JobHeldUser"),
        ("with a begin time", "BeginTime"),
    ):
        job = parade.jobs[kind]
        assert parade.state(job, "State", "Reason", "RestartCnt") == ("PENDING", reason, "0")
        assert parade.verbs(job) == []
        assert f"({reason})" in parade.told("job", job)


def test_pre_emption_is_the_sites_will_and_no_failure(parade: Parade) -> None:
    cancelled = parade.jobs["pre-empted and cancelled"]
    assert parade.state(cancelled, "State", "RestartCnt") == ("PREEMPTED", "0")
    requeued = parade.jobs["pre-empted and requeued"]
    assert parade.restarts(requeued) == 1
    for job in (cancelled, requeued):
        assert parade.grounds(job)[-1] == "preempted"
        assert parade.verbs(job) == []
        assert "it made room for others by the site's rules" in parade.told("explain", f"{job}-0")


def test_a_job_that_met_its_time_limit_is_left_where_the_policy_says_so(parade: Parade) -> None:
    job = parade.jobs["out of time"]
    assert parade.grounds(job)[-1] == "time_limit"
    assert parade.verbs(job) == []
    assert "used up its time limit, and the policy leaves it there" in parade.told("explain", job)


def test_a_job_of_several_partitions_is_restarted_in_any_of_them(parade: Parade) -> None:
    job = parade.jobs["in two partitions"]
    assert parade.outcome(job) == CONVERGED
    assert parade.excluded(job) == parade.around("gpu-001")


def test_a_job_in_a_reservation_moves_to_another_node_of_it(parade: Parade) -> None:
    job = parade.jobs["in a reservation"]
    first = parade.stage.attempt(job, 0)
    assert first is not None
    (bad,) = first.nodes
    assert parade.excluded(job) == parade.around(bad)
    other = {"gpu-003": "gpu-004", "gpu-004": "gpu-003"}[bad]
    assert parade.state(job, "State", "NodeList") == ("RUNNING", other)


def test_what_slurm_requeues_by_an_exit_code_is_not_requeued_again(parade: Parade) -> None:
    by_slurm = parade.jobs["exit 100"]
    assert parade.restarts(by_slurm) == 1
    held = parade.jobs["exit 101"]
    assert parade.state(held, "State", "Reason", "RestartCnt") == (
        "SPECIAL_EXIT",
        "JobHeldUser",
        "1",
    )
    for job in (by_slurm, held):
        assert "requeue" not in parade.verbs(job)
        assert "release" not in parade.verbs(job)


def test_dependents_go_on_waiting_while_the_job_that_they_wait_for_is_restarted(
    parade: Parade,
) -> None:
    assert parade.verbs(parade.jobs["hung parent"]) == ["requeue", "update"]
    for kind in ("afterok", "afterany", "afternotok"):
        waits = parade.jobs[f"waits by {kind}"]
        assert parade.state(waits, "State", "Reason") == ("PENDING", "Dependency")
    singleton = parade.jobs["waits as a singleton"]
    assert parade.state(singleton, "State", "Reason") == ("PENDING", "Dependency")


def test_a_job_whose_failure_let_a_dependent_go_is_not_restarted_beside_it(
    parade: Parade,
) -> None:
    parent, child = parade.jobs["failed parent"], parade.jobs["let go by afternotok"]
    assert parade.grounds(parent)[-1] == "succeeded_by_dependent"
    assert parade.verbs(parent) == []
    assert parade.state(child, "State", "RestartCnt") == ("RUNNING", "0")
    assert f"Its end let {child} of its chain go" in parade.told("explain", parent)


def test_a_job_without_a_batch_script_is_refused_with_the_reason(parade: Parade) -> None:
    job = parade.jobs["of srun"]
    assert parade.outcome(job) == "ABANDONED NOT_PERMITTED"
    assert parade.state(job, "State", "RestartCnt") == ("FAILED", "0")
    assert "only jobs of sbatch can be requeued" in parade.told("explain", job)
