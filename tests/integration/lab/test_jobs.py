"""The trainer under Slurm: requeue, resume, and everything that can be broken."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from middlewatch.lab.breakage import KINDS, break_it
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.errors import LabError
from middlewatch.lab.jobs import TrainerOptions
from middlewatch.lab.patience import pause, wait_for

LONG = TrainerOptions(nodes=2, steps=100000, step_seconds=0.05, checkpoint_every=10, format="plain")


def log(lab: Cluster, job_id: str, user: str = "games") -> str:
    try:
        return (lab.home(user) / f"slurm-{job_id}.out").read_text()
    except FileNotFoundError:
        return ""


def losses(text: str) -> dict[int, str]:
    found = re.findall(r"middlewatch: step=(\d+) total=\d+ loss=(\S+)", text)
    return {int(step): loss for step, loss in found}


def reaches(lab: Cluster, job_id: str, step: int) -> Callable[[], bool]:
    return lambda: max(losses(log(lab, job_id)), default=0) >= step


def stands_still(lab: Cluster, job_id: str) -> Callable[[], bool]:
    def unchanged() -> bool:
        before = max(losses(log(lab, job_id)))
        pause(1.5)
        return max(losses(log(lab, job_id))) == before

    return unchanged


def restart(lab: Cluster, job_id: str, *, exclude: str) -> None:
    """Requeue and let go again, as a controller does, without one."""
    lab.run(["scontrol", "requeue", job_id])
    lab.wait_state(job_id, "PENDING")
    pause(1.2)
    words = ["scontrol", "update", f"jobid={job_id}", f"ExcNodeList={exclude}", "StartTime=now"]
    lab.run(words)


def options_named(name: str, **fields: object) -> TrainerOptions:
    values: dict[str, object] = {
        "name": name, "nodes": 2, "step_seconds": 0.02, "checkpoint_every": 10, "format": "plain",
        "append": True, **fields,
    }  # fmt: skip
    return TrainerOptions(**values)  # type: ignore[arg-type]


@pytest.mark.slurm
def test_a_crashed_job_resumes_elsewhere_and_computes_what_it_would_have_computed(
    lab: Cluster,
) -> None:
    whole = lab.submit(options_named("whole", steps=50))
    job_id = lab.submit(options_named("cut", steps=50, fault="crash-cuda", fault_at=38))
    submitted = lab.job(job_id)["SubmitTime"]
    lab.wait_state(job_id, "FAILED")
    bad = lab.run(["scontrol", "show", "hostnames", lab.job(job_id)["NodeList"]]).stdout.split()[-1]
    assert f"{bad} kernel: NVRM: Xid" in log(lab, job_id)

    restart(lab, job_id, exclude=bad)
    lab.wait_state(job_id, "COMPLETED")
    lab.wait_state(whole, "COMPLETED")

    text = log(lab, job_id)
    assert "trainer: job " + job_id + " attempt 1 " in text
    assert "middlewatch: checkpoint=loaded step=30 " in text
    assert losses(text) == losses(log(lab, whole))
    assert len(losses(text)) == 50
    after = lab.run(["scontrol", "show", "hostnames", lab.job(job_id)["NodeList"]]).stdout.split()
    assert bad not in after
    assert wait_for(lambda: [r["State"] for r in lab.accounting(job_id)][-1] == "COMPLETED", 60)
    # Numbers come back on a lab whose slurmctld was killed: an older job may have had this one.
    ours = [r for r in lab.accounting(job_id) if r["Submit"] >= submitted]
    assert len(ours) == 2


@pytest.mark.slurm
def test_a_job_whose_script_starts_the_ranks_again_recovers_by_itself(lab: Cluster) -> None:
    options = options_named("loop", steps=30, fault="crash-python", fault_at=25, relaunch=2)
    job_id = lab.submit(options)
    lab.wait_state(job_id, "COMPLETED")
    text = log(lab, job_id)
    assert "IndexError: list index out of range" in text
    assert "attempt 0 launch 1" in text
    assert max(losses(text)) == 30
    assert lab.job(job_id)["Restarts"] == "0"


@pytest.mark.slurm
def test_a_comment_arrives_as_it_was_given(lab: Cluster) -> None:
    comment = '{"nvidia-recovery":{"environment":"lab","mode":"action"}}'
    in_script = lab.submit(options_named("a", comment=comment), extra=["--hold"])
    in_arguments = lab.submit("#!/bin/sh\n:\n", comment=comment, extra=["--hold"], user="news")
    for job_id in (in_script, in_arguments):
        assert lab.job(job_id)["Comment"] == comment


@pytest.mark.slurm
def test_a_running_job_can_be_crashed_slowed_and_hung(lab: Cluster) -> None:
    job_id = lab.submit(LONG)
    assert wait_for(reaches(lab, job_id, 5), 60)

    break_it(lab, "slow", job_id, factor=10.0)
    assert wait_for(lambda: "step_time_s=0.50" in log(lab, job_id), 60)
    break_it(lab, "heal", job_id)
    now = max(losses(log(lab, job_id)))
    assert wait_for(reaches(lab, job_id, now + 20), 60)

    break_it(lab, "hang", job_id, rank=0)
    assert wait_for(stands_still(lab, job_id), 60)
    stuck = max(losses(log(lab, job_id)))
    assert lab.job(job_id)["JobState"] == "RUNNING"

    # The hang was an order for that attempt; the next one runs on from the checkpoint.
    restart(lab, job_id, exclude="")
    lab.wait_state(job_id, "RUNNING")
    assert wait_for(reaches(lab, job_id, stuck + 1), 60)
    break_it(lab, "crash", job_id, rank=0)
    lab.wait_state(job_id, "FAILED")
    assert "[rank0]: IndexError" in log(lab, job_id)


@pytest.mark.slurm
def test_nodes_and_daemons_can_be_broken_and_mended(lab: Cluster) -> None:
    break_it(lab, "drain-node", "gpu-002")
    assert lab.node_state("gpu-002") == "drained"
    break_it(lab, "resume-node", "gpu-002")
    # The star stays until the node is next asked for a sign of life.
    assert lab.node_state("gpu-002") in {"idle", "idle*"}
    break_it(lab, "stop-dbd")
    assert not lab.running("slurmdbd")
    break_it(lab, "start-dbd")
    assert lab.running("slurmdbd")


@pytest.mark.slurm
def test_a_node_set_down_sends_its_job_elsewhere(lab: Cluster) -> None:
    job_id = lab.submit(LONG)
    assert wait_for(reaches(lab, job_id, 2), 60)
    node = lab.run(["scontrol", "show", "hostnames", lab.job(job_id)["NodeList"]]).stdout.split()[0]
    break_it(lab, "down-node", node)
    lab.wait_state(job_id, "PENDING")
    assert lab.job(job_id)["Restarts"] == "1"


@pytest.mark.slurm
def test_what_cannot_be_broken_is_explained(lab: Cluster) -> None:
    plain = lab.submit("#!/bin/sh\nsleep 600\n")
    for kind, target, words in (
        ("explode", None, "no breakage 'explode'; there are: crash, "),
        ("crash", None, "crash needs a job"),
        ("stop-dbd", "1", "stop-dbd takes no target"),
        ("kill-node", "gpu-999", "no node 'gpu-999'; this lab has gpu-001, "),
        ("crash", plain, f"job {plain} does not run the trainer"),
        ("crash", "../../etc/passwd", "does not run the trainer"),
    ):
        with pytest.raises(LabError) as caught:
            break_it(lab, kind, target)
        assert words in str(caught.value)


@pytest.mark.slurm
def test_a_control_file_that_the_user_made_a_link_does_no_harm(
    lab: Cluster, tmp_path: Path
) -> None:
    job_id = lab.submit(LONG)
    assert wait_for(reaches(lab, job_id, 1), 60)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    control = lab.home("games") / "checkpoints" / job_id / "control.json"
    control.unlink(missing_ok=True)
    control.symlink_to(victim)
    break_it(lab, "crash", job_id)
    lab.wait_state(job_id, "FAILED")
    assert victim.read_text() == "precious"


def test_each_kind_of_breakage_says_what_it_does() -> None:
    assert {kind.target for kind in KINDS.values()} == {"job", "node", ""}
    assert all(kind.text for kind in KINDS.values())
