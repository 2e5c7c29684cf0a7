"""`mw doctor` over SSH: whom the gate runs as, what it lets through, and why it cannot be reached."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import fakeslurm
from tests.sshd import Sshd, running

pytestmark = pytest.mark.root


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with running("--bin", str(fakeslurm.install(tmp_path / "bin")), "--looks-only") as server:
        yield server


def findings(server: Sshd, folder: Path, **changes: str) -> list[dict[str, Any]]:
    target = server.target
    given = {
        "transport": "ssh",
        "ssh_host": target.host,
        "ssh_port": target.port,
        "ssh_user": target.user,
        "ssh_key": target.key,
        "ssh_known_hosts": target.known_hosts,
        **changes,
    }
    words = [word for key, value in given.items() for word in ("--set", f"slurm.{key}={value}")]
    argv = [sys.executable, "-m", "middlewatch", "doctor", "--json", "--state-dir", str(folder)]
    answer = subprocess.run([*argv, *words], capture_output=True, text=True, check=False)
    return list(json.loads(answer.stdout)["findings"])


def test_doctor_looks_through_the_gate(server: Sshd, tmp_path: Path) -> None:
    found = findings(server, tmp_path / "state")
    said = {(one["check"], one["level"]): one["text"] for one in found}
    assert "as root" in said["ssh", "ok"]
    assert "only looks" in said["ssh", "info"]
    assert "24.11.5" in said["slurmctld", "ok"]
    assert not [one for one in found if one["level"] == "fail"]


def test_doctor_says_why_the_host_is_not_spoken_to(server: Sshd, tmp_path: Path) -> None:
    found = findings(server, tmp_path / "state", ssh_known_hosts="/dev/null")
    trouble = next(one for one in found if one["check"] == "ssh")
    assert trouble["level"] == "fail"
    assert "slurm.ssh_known_hosts" in trouble["text"]
