"""Slurm's commands as somebody else than root: the same tests, with another user's rights.

`commands_as` runs them as the lab's job user (an owner without any level) or as its Operator. The
product then finds out by itself whose jobs it may act for, as it does where it runs as that user.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.scan.engine import cache_folder
from middlewatch.adapters.slurm.command import Commands
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.patience import wait_for

SOURCE = Path(__file__).resolve().parents[1] / "src"
SYSTEM_PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"


class CommandsAs(Commands):
    """The commands of one user of this machine, started by root."""

    def __init__(self, lab: Cluster, user: str, *, logged: bool = False) -> None:
        entry = pwd.getpwnam(user)
        self._who = entry.pw_uid, user
        become = ("setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups")
        super().__init__(
            SystemClock(), prefix=(*become, *lab.spec.prefix), environ=lab.env(logged=logged)
        )

    def user(self) -> tuple[int, str]:
        return self._who


@dataclass(frozen=True, slots=True)
class Runnable:
    """A Python with our program in it that any user of this machine may run."""

    python: str
    env: Mapping[str, str]


@functools.cache
def runnable_by(user: str) -> Runnable:
    """Our own Python where that user may run it, else another of the same release with our packages
    on its path; copied to where everybody may read, if they lie where only we do. Skips, with the
    reason, where there is none."""
    paths = [str(SOURCE), *(path for path in sys.path if path.endswith("-packages"))]
    found = _tried(user, Runnable(sys.executable, {}))
    found = found or _tried(user, Runnable(SYSTEM_PYTHON, {"PYTHONPATH": ":".join(paths)}))
    if found is None:
        copied = ":".join(_copied(Path(path)) for path in paths)
        found = _tried(user, Runnable(SYSTEM_PYTHON, {"PYTHONPATH": copied}))
    if found is None:
        pytest.skip(f"no Python of this release that {user} may run: {SYSTEM_PYTHON} would do")
    return found


def _tried(user: str, one: Runnable) -> Runnable | None:
    entry = pwd.getpwnam(user)
    program = "import middlewatch.wiring.up, middlewatch.adapters.scan, sqlalchemy, uvicorn"
    try:
        done = subprocess.run(
            [one.python, "-c", program],
            env={"PATH": "/usr/bin:/bin", **one.env},
            cwd="/",
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
            capture_output=True,
            check=False,
        )
    except OSError:
        return None
    return one if done.returncode == 0 else None


def _copied(path: Path) -> str:
    folder = Path(tempfile.mkdtemp(prefix="mw-python-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    into = folder / path.name
    shutil.copytree(path, into, ignore=shutil.ignore_patterns("__pycache__", "mypy*", "ruff*"))
    subprocess.run(["chmod", "-R", "a+rX", str(into)], check=True)
    return str(into)


def warmed(home: Path, user: str) -> None:
    """Give that user the compiled patterns that we have: to make them takes a slow machine long."""
    ours, theirs = cache_folder(), home / ".cache" / "middlewatch"
    if ours is None or not ours.is_dir() or theirs.exists():
        return
    entry = pwd.getpwnam(user)
    theirs.mkdir(parents=True, mode=0o700)
    kept = [Path(shutil.copy(path, theirs)) for path in ours.glob("patterns-*.hsdb")]
    for path in (theirs.parent, theirs, *kept):
        os.chown(path, entry.pw_uid, entry.pw_gid)


@contextlib.contextmanager
def effectively(user: str) -> Iterator[None]:
    """We, with that user's rights on files, as long as this lasts."""
    before = os.geteuid()
    os.seteuid(pwd.getpwnam(user).pw_uid)
    try:
        yield
    finally:
        os.seteuid(before)


@contextlib.contextmanager
def private_data(lab: Cluster, *words: str) -> Iterator[None]:
    """The running lab with ``PrivateData`` set to those words."""
    conf = lab.layout.slurm_conf
    before = conf.read_text()
    conf.write_text(f"{before}PrivateData={','.join(words)}\n")
    try:
        _reconfigured(lab, ",".join(sorted(words)))
        yield
    finally:
        conf.write_text(before)
        _reconfigured(lab, "none")


def _reconfigured(lab: Cluster, private: str) -> None:
    lab.run(["scontrol", "reconfigure"])

    def taken() -> bool:
        lines = lab.run(["scontrol", "show", "config"], check=False).stdout.splitlines()
        found = [line.partition("=")[2].strip() for line in lines if line.startswith("PrivateData")]
        return [",".join(sorted(text.split(","))) for text in found] == [private]

    assert wait_for(taken, timeout_s=60.0)
