"""The runner, on real processes that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands, Observed, clean_environment


def commands(**fields: object) -> Commands:
    return Commands(SystemClock(), **fields)  # type: ignore[arg-type]


def test_output_and_exit_code_come_back() -> None:
    done = commands().run(("sh", "-c", "echo out; echo err >&2; exit 3"), 10.0)
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert done.ended_at >= done.started_at


def test_a_command_that_hangs_dies_at_its_deadline_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}; wait"
    done = commands().run(("sh", "-c", script), 0.5)
    assert done.exit_code is None
    assert "deadline" in done.problem
    child = pid_file.read_text().strip()
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", child], capture_output=True, text=True, check=False
    ).stdout
    assert state.strip()[:1] in {"", "Z"}


def test_a_changing_command_dies_soon_after_its_deadline_although_we_stand_still(
    tmp_path: Path,
) -> None:
    pid_file = tmp_path / "pid"
    program = (
        "from middlewatch.adapters.clock.system import SystemClock\n"
        "from middlewatch.adapters.slurm.command import Commands\n"
        f"words = ('sh', '-c', 'echo $$ > {pid_file}; exec sleep 300')\n"
        "Commands(SystemClock()).run(words, 1.0, changing=True)\n"
    )
    ours = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        _until(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
        os.kill(ours.pid, signal.SIGSTOP)
        child = pid_file.read_text().strip()
        _until(lambda: _state(child) in {"", "Z"})
        assert _state(str(ours.pid)) == "T"
    finally:
        os.kill(ours.pid, signal.SIGKILL)
        ours.wait()


def test_a_changing_command_that_ends_by_itself_is_told_apart_from_one_that_was_killed() -> None:
    done = commands().run(("sh", "-c", "exit 1"), 10.0, changing=True)
    assert (done.argv[0], done.exit_code) == ("sh", 1)
    assert commands().run(("sh", "-c", "sleep 60"), 0.3, changing=True).exit_code is None


def _until(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 90.0
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def _state(pid: str) -> str:
    """The first letter of what `ps` says of that process; nothing for one that is gone."""
    words = ["ps", "-o", "stat=", "-p", pid]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()[:1]


def test_a_command_that_floods_is_killed() -> None:
    done = commands(stdout_limit=100_000).run(("sh", "-c", "yes"), 30.0)
    assert done.exit_code is None
    assert "more than 100000 bytes" in done.problem


def test_much_on_stderr_neither_blocks_nor_is_kept() -> None:
    script = "head -c 3000000 /dev/zero >&2; echo done"
    done = commands().run(("sh", "-c", script), 30.0)
    assert (done.exit_code, done.stdout) == (0, "done\n")
    assert len(done.stderr) == 64 * 1024


def test_a_command_that_closes_its_output_and_stays_is_killed() -> None:
    done = commands().run(("sh", "-c", "exec >&- 2>&-; exec sleep 60"), 0.5)
    assert done.exit_code is None
    assert "did not end" in done.problem


def test_a_missing_command_is_a_problem_and_no_exception() -> None:
    done = commands().run(("middlewatch-no-such-command",), 5.0)
    assert done.exit_code is None
    assert "could not be started" in done.problem


def test_a_command_killed_from_outside_has_a_negative_exit_code() -> None:
    done = commands().run(("sh", "-c", "kill -9 $$"), 5.0)
    assert done.exit_code == -9


def test_bytes_that_are_no_text_are_replaced() -> None:
    done = commands().run(("printf", "a\\377b"), 5.0)
    assert done.stdout == "a\ufffdb"


def test_prefix_and_folder_of_the_commands_are_used_and_not_reported(tmp_path: Path) -> None:
    tool = tmp_path / "squeue"
    tool.write_text('#!/bin/sh\necho "$PREFIXED $1"\n')
    tool.chmod(0o755)
    seen: list[Observed] = []
    runner = commands(prefix=("env", "PREFIXED=yes"), bin_dir=tmp_path, observer=seen.append)
    done = runner.run(("squeue", "-h"), 5.0, changing=True)
    assert done.stdout == "yes -h\n"
    assert [(o.argv, o.exit_code, o.changing) for o in seen] == [(("squeue", "-h"), 0, True)]


@pytest.mark.parametrize(
    "name", ["SQUEUE_STATES", "SLURM_CLUSTERS", "SACCT_FORMAT", "SLURM_BITSTR_LEN"]
)
def test_what_changes_the_answers_of_slurms_commands_is_taken_from_their_environment(
    name: str,
) -> None:
    cleaned = clean_environment({name: "x", "SLURM_CONF": "/etc/s", "PATH": "/bin", "TZ": "Mars"})
    assert cleaned == {
        "SLURM_CONF": "/etc/s",
        "PATH": "/bin",
        "SLURM_TIME_FORMAT": "%s",
        "LC_ALL": "C",
        "TZ": "UTC",
    }
