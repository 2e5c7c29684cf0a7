"""A real sshd whose gate runs commands that the tests wrote: how they behave is up to the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.ssh import SshCommands
from tests.sshd import Sshd, running

SCRIPT = """#!/bin/sh
# $0 $1 $2 $3: what a test asks of it stands in a file of its own name
. {folder}/behaviour
"""


class Host:
    """The machine with "Slurm"."""

    def __init__(self, server: Sshd) -> None:
        self.server = server
        self.bin = server.folder / "bin"
        self.behaves('echo "$@"')

    def behaves(self, script: str) -> None:
        (self.bin / "behaviour").write_text(script + "\n")

    def log(self) -> str:
        return (self.server.folder / "log").read_text()

    @property
    def logins(self) -> int:
        return self.log().count("Accepted publickey")


@pytest.fixture
def host() -> Iterator[Host]:
    with running("--bin", "BIN") as server:
        folder = server.folder / "bin"
        folder.mkdir()
        for name in ("scontrol", "squeue", "scancel", "sacct", "sinfo", "sacctmgr"):
            (folder / name).write_text(SCRIPT.format(folder=folder))
            (folder / name).chmod(0o755)
        (server.folder / "authorized_keys").write_text(
            (server.folder / "authorized_keys").read_text().replace("BIN", str(folder))
        )
        yield Host(server)


@pytest.fixture
def commands(host: Host, tmp_path: Path) -> Iterator[SshCommands]:
    found = SshCommands(SystemClock(), host.server.target, folder=tmp_path / "ssh")
    yield found
    found.close()
