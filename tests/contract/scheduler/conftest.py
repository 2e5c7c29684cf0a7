"""The worlds of the scheduler's contract.

``MIDDLEWATCH_TEST_LAB=FOLDER`` tries the running lab in that folder (of another release, in a
chroot) instead of the session's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.lab.cluster import Cluster
from tests.contract.scheduler.worlds import Real, Simulated, World
from tests.sshd import running


@pytest.fixture(scope="session")
def gate(slurm_lab: Cluster) -> Iterator[SshCommands]:
    """The lab's commands behind a real sshd, over one connection for the whole session."""
    with running("--conf", slurm_lab.env()["SLURM_CONF"]) as server:
        commands = SshCommands(SystemClock(), server.target)
        yield commands
        commands.close()


@pytest.fixture(
    params=[
        pytest.param("22.05.8", id="simulated-22.05"),
        pytest.param("26.05.5", id="simulated-26.05"),
        pytest.param("slurm", id="slurm", marks=pytest.mark.slurm),
        pytest.param("ssh", id="ssh", marks=pytest.mark.slurm),
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """An idle cluster behind the scheduler port."""
    if request.param == "ssh":
        lab = request.getfixturevalue("lab")
        yield Real(lab, request.getfixturevalue("gate"))
        return
    if request.param != "slurm":
        yield Simulated(request.param)
        return
    other = os.environ.get("MIDDLEWATCH_TEST_LAB")
    if other is None:
        yield Real(request.getfixturevalue("lab"))
        return
    lab = Cluster.load(Path(other))
    lab.tidy()
    yield Real(lab)
    lab.tidy()
