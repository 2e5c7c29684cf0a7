"""The recorder in front of Slurm's commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from middlewatch.lab import commandlog
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.commandlog import is_changing
from middlewatch.lab.patience import wait_for

SLEEP = "#!/bin/sh\nsleep 600\n"


@pytest.mark.parametrize(
    "line",
    [
        "scontrol requeue 12",
        "scontrol update jobid=12 StartTime=now",
        "scontrol -o requeuehold State=SpecialExit 12",
        "/opt/slurm/bin/scontrol release 12",
        "scontrol -M other hold 12",
        "scontrol frobnicate",
        "scontrol",
        "scancel 12",
        "sbatch job.sh",
        "srun hostname",
        "sacctmgr -i modify job where jobid=1 set AdminComment=x",
        "sdiag --reset",
        "unheard-of",
    ],
)
def test_a_command_that_may_change_something_counts_as_changing(line: str) -> None:
    assert is_changing(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "scontrol show job 12",
        "scontrol -o -M requeue show job",
        "scontrol --json show job 12",
        "scontrol ping",
        "scontrol --version",
        "squeue -h -o %i",
        "sacct -j 12",
        "sinfo",
        "sdiag",
        "sbatch --test-only job.sh",
        "sacctmgr -n -P show cluster",
    ],
)
def test_a_command_that_only_reads_does_not_count_as_changing(line: str) -> None:
    assert not is_changing(line.split())


@pytest.mark.slurm
def test_the_log_tells_each_command_with_its_words_user_and_exit_code(lab: Cluster) -> None:
    plain = lab.run(["scontrol", "show", "job", 'n"o\t\u00e4'], check=False)
    seen = lab.run(["scontrol", "show", "job", 'n"o\t\u00e4'], check=False, logged=True)
    job_id = lab.run(["sbatch", "--parsable", "--hold"], stdin=SLEEP, user="games", logged=True)
    lab.run(["scancel", job_id.stdout.strip()], user="games", logged=True)

    assert (seen.returncode, seen.stdout, seen.stderr) == (1, plain.stdout, plain.stderr)
    first, second, third = commandlog.commands(lab.folder)
    assert first.argv == ("scontrol", "show", "job", 'n"o\t\u00e4')
    assert (first.exit_code, first.uid, first.changing) == (1, 0, False)
    assert (second.argv[0], second.exit_code, second.uid, second.changing) == ("sbatch", 0, 5, True)
    assert third.argv == ("scancel", job_id.stdout.strip())
    assert first.at <= second.at <= third.at


@pytest.mark.slurm
def test_a_command_whose_caller_was_killed_is_in_the_log_without_an_exit_code(lab: Cluster) -> None:
    # srun waits for the node, which an exclusive job of ours occupies.
    lab.submit(SLEEP, extra=["--exclusive", "--partition=spare"])
    wait_for(lambda: "running" in lab.run(["squeue", "-h", "-o", "%T"]).stdout.lower(), 30)
    child = subprocess.Popen(
        [str(lab.layout.bin / "srun"), "-p", "spare", "-Q", "true"], env=lab.env()
    )
    wait_for(lambda: lab.run(["squeue", "-h", "-n", "true"]).stdout, 20)
    child.kill()
    child.wait()
    (command,) = commandlog.commands(lab.folder)
    assert (command.argv[0], command.exit_code) == ("srun", None)


@pytest.mark.slurm
def test_a_lost_reply_is_an_error_for_a_command_that_took_effect(lab: Cluster) -> None:
    job_id = lab.submit(SLEEP, extra=["--hold"])
    commandlog.inject(lab.folder, f"scontrol release {job_id}", "drop-reply", "timed out")
    answer = lab.run(["scontrol", "release", job_id], check=False, logged=True)
    assert (answer.returncode, answer.stdout, answer.stderr) == (
        1,
        "",
        "scontrol: error: timed out\n",
    )
    assert lab.wait_state(job_id, "RUNNING") == "RUNNING"


@pytest.mark.slurm
def test_a_refused_command_has_no_effect_and_only_as_often_as_wanted(lab: Cluster) -> None:
    job_id = lab.submit(SLEEP, extra=["--hold"])
    commandlog.inject(lab.folder, "scontrol release", "refuse", "no", times=2)
    answers = [lab.run(["scontrol", "release", job_id], check=False, logged=True) for _ in "123"]
    assert [answer.returncode for answer in answers] == [1, 1, 0]


@pytest.mark.slurm
@pytest.mark.parametrize(
    ("action", "took_effect"),
    [("kill-before", True), ("kill-instead", False), ("kill-after", True)],
)
def test_a_caller_can_be_killed_around_a_command(
    lab: Cluster, tmp_path: Path, action: commandlog.FaultAction, took_effect: bool
) -> None:
    job_id = lab.submit(SLEEP, extra=["--hold"])
    pids = tmp_path / "pids"
    commandlog.inject(lab.folder, "scontrol update", action, str(pids))
    code = (
        "import os, subprocess, sys; open(sys.argv[1], 'w').write(str(os.getpid()));"
        f"subprocess.run(['scontrol', 'update', 'jobid={job_id}', 'Comment=done']); print('alive')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(pids)], env=lab.env(), capture_output=True, check=False
    )
    assert (answer.returncode, answer.stdout) == (-9, b"")

    def ended() -> bool:
        return commandlog.commands(lab.folder)[-1].exit_code is not None

    assert wait_for(ended, 10)
    assert (lab.job(job_id).get("Comment") == "done") == took_effect


@pytest.mark.slurm
@pytest.mark.parametrize(
    ("action", "word", "exit_code"),
    [
        ("meet-before", "go", 0),
        ("meet-before", "stop", 1),
        ("meet-after", "go", 0),
        ("meet-after", "lose", 1),
    ],
)
def test_a_command_waits_for_somebody_and_is_witnessed(
    lab: Cluster,
    tmp_path: Path,
    action: commandlog.FaultAction,
    word: Any,
    exit_code: int,
) -> None:
    took_effect = word != "stop"
    job_id = lab.submit(SLEEP, extra=["--hold"])
    commandlog.bear_witness(lab.folder)
    commandlog.inject(lab.folder, "scontrol update", action, str(tmp_path / "here"))
    argv = ["scontrol", "update", f"jobid={job_id}", "Comment=done"]
    child = subprocess.Popen(argv, env=lab.env(), stderr=subprocess.DEVNULL)
    assert wait_for(lambda: commandlog.met(tmp_path / "here"), 60)
    assert child.poll() is None
    assert (lab.job(job_id).get("Comment") == "done") == (action == "meet-after")
    commandlog.answer(tmp_path / "here", word)
    assert child.wait(60) == exit_code
    assert (lab.job(job_id).get("Comment") == "done") == took_effect
    (lab.folder / "witness").unlink()
    found = commandlog.witnessed(lab.folder)[-1]
    assert (found.argv, found.exit_code) == (tuple(argv), exit_code)
    assert f"JobId={job_id} " in found.before
    assert "Comment=done" not in found.before
    assert ("Comment=done" in (found.after or "")) == took_effect
