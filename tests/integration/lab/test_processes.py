"""What the lab does to the machine outside its folder: processes and packages."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from middlewatch.lab import packages
from middlewatch.lab.processes import (
    Process,
    alive,
    process,
    processes_named,
    send,
    spawn,
    stop,
    with_descendants,
)

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
_IGNORES = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)"
DEAF = (sys.executable, "-c", f"{_IGNORES}; time.sleep(600)")


def test_a_process_number_that_was_used_again_is_left_alone() -> None:
    myself = process(os.getpid())
    assert myself is not None
    assert alive(myself)
    earlier = Process(myself.pid, myself.started - 1)
    assert not alive(earlier)
    assert not send(earlier, signal.SIGKILL)
    stop(earlier, grace_s=1.0)
    assert alive(myself)


def test_a_daemon_has_a_session_of_its_own_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    running = spawn(DEAF, {"PATH": os.environ["PATH"]}, log)
    try:
        assert os.getsid(running.pid) == running.pid
        while "deaf" not in log.read_text():
            assert alive(running)
    finally:
        stop(running, grace_s=0.2)
    assert not alive(running)


def test_a_frozen_process_can_be_stopped(tmp_path: Path) -> None:
    running = spawn(SLEEP, {}, tmp_path / "log")
    send(running, signal.SIGSTOP)
    stop(running, grace_s=5.0)
    assert not alive(running)


def test_children_are_found_with_their_parents(tmp_path: Path) -> None:
    running = spawn(("/bin/sh", "-c", "sleep 600 & wait"), {"PATH": "/bin"}, tmp_path / "log")
    family = with_descendants([running.pid])
    while len(family) < 2:
        family = with_descendants([running.pid])
    try:
        assert running in family
        assert any(child in family for child in processes_named(["sleep"]))
    finally:
        for member in family:
            send(member, signal.SIGKILL)


def fail_while_installing(policy: Path) -> None:
    with packages.no_service_starts(policy):
        assert os.access(policy, os.X_OK)
        assert policy.read_text().endswith("exit 101\n")
        raise RuntimeError("apt failed")


@pytest.mark.parametrize("before", [None, b"#!/bin/sh\nexit 0\n"])
def test_an_installation_puts_the_policy_of_service_starts_back(
    tmp_path: Path, before: bytes | None
) -> None:
    policy = tmp_path / "policy-rc.d"
    if before is not None:
        policy.write_bytes(before)
        policy.chmod(0o700)
    with pytest.raises(RuntimeError, match="apt failed"):
        fail_while_installing(policy)
    assert (policy.read_bytes() if policy.exists() else None) == before
    if before is not None:
        assert policy.stat().st_mode & 0o777 == 0o700


def test_a_policy_left_by_a_killed_installation_is_not_taken_for_the_machines(
    tmp_path: Path,
) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(packages.FORBID)
    with packages.no_service_starts(policy):
        assert policy.exists()
    assert not policy.exists()


@pytest.mark.root
def test_without_root_the_lab_says_what_to_do() -> None:
    os.seteuid(65534)
    try:
        state = packages.available()
        with pytest.raises(packages.CannotInstall, match="needs root"):
            packages.install()
    finally:
        os.seteuid(0)
    assert not state.ok
    assert "run as root, or use the simulated Slurm" in state.reason


@pytest.mark.slurm
def test_an_installation_with_nothing_missing_does_nothing() -> None:
    packages.install()
    said: list[str] = []
    assert packages.install(said.append) == ()
    assert said == []
