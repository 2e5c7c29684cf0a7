"""A real slurmrestd for a lab whose slurmctld takes tokens."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.rest import RestScheduler, RestTarget
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.daemons import MARK
from middlewatch.model.answer import Known
from middlewatch.model.identity import ClusterId

HERE = ClusterId("slurm", "rest")
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Server:
    """``target`` is its TCP port with root's token; ``socket`` is the same server's Unix socket."""

    lab: Cluster
    target: RestTarget
    socket: Path

    def scheduler(
        self,
        target: RestTarget | None = None,
        deadline_s: float = 20.0,
        interface: str | None = None,
    ) -> RestScheduler:
        return RestScheduler(
            HERE,
            target or self.target,
            SystemClock(),
            query_deadline_s=deadline_s,
            interface=interface,
        )


@contextmanager
def serving(lab: Cluster) -> Iterator[Server]:
    """The lab's release's slurmrestd, by nobody, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="rest-", dir=lab.folder) as name:
        folder = Path(name)
        folder.chmod(0o755)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(lab.token())
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        nobody = pwd.getpwnam("nobody")
        run = folder / "run"
        run.mkdir()
        os.chown(run, nobody.pw_uid, nobody.pw_gid)
        listen = [f"127.0.0.1:{port}", f"unix:{run / 'rest'}"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*lab.spec.prefix, "/usr/sbin/slurmrestd", "-a", "rest_auth/jwt", *listen],
                env={**lab.env(logged=False), "SLURM_JWT": "daemon", MARK: str(lab.folder)},
                user=nobody.pw_uid,
                group=nobody.pw_gid,
                extra_groups=[],
                cwd="/",
                stderr=log,
                start_new_session=True,
            )
        target = RestTarget(f"http://127.0.0.1:{port}", "root", str(token), lab.spec.cluster)
        server = Server(lab, target, run / "rest")
        try:
            until = time.monotonic() + PATIENCE_S
            while not isinstance(found := server.scheduler().facts(), Known):
                words = (folder / "log").read_text(errors="replace")[-2000:]
                assert process.poll() is None, words
                assert time.monotonic() < until, f"{found}\n{words}"
                time.sleep(0.1)
            yield server
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
