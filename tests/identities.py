"""Slurm's commands as somebody else than root: the same tests, with another user's rights.

`commands_as` runs them as the lab's job user (an owner without any level) or as its Operator. The
product then finds out by itself whose jobs it may act for, as it does where it runs as that user.
"""

from __future__ import annotations

import contextlib
import pwd
from collections.abc import Iterator

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.patience import wait_for


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
