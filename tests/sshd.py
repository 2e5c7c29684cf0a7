"""A real sshd for tests, with a key that may do nothing but run the gate.

`sshd` starts one on a free port of the loopback, in a folder of its own, installing openssh-server
first where it is missing; the user that logs in is root, whose key has a forced command. Each
server can be frozen, killed and started again. Tests that use it carry `@pytest.mark.root`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.slurm import gate
from middlewatch.adapters.slurm.ssh import SshTarget
from middlewatch.lab import packages

GATE = Path(gate.__file__)


class Sshd:
    """One server. ``target`` leads to its gate; ``arguments`` are those of the forced command."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.folder = folder
        self.program = folder / "middlewatch-gate"
        shutil.copy(GATE, self.program)
        self.port = _free_port()
        for name in ("host", "key", "stranger"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(keygen, check=True)
        host_key = (folder / "host.pub").read_text().split()[:2]
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {' '.join(host_key)}\n")
        self.force([sys.executable, "-I", str(self.program), *arguments])
        (folder / "sshd_config").write_text(
            f"""Port {self.port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
        )
        self._process: subprocess.Popen[bytes] | None = None

    def force(self, command: list[str], options: str = "restrict") -> None:
        """What the key is allowed to run; the server reads it at each log-in."""
        key = (self.folder / "key.pub").read_text().strip()
        quoted = shlex.join(command).replace('"', '\\"')
        (self.folder / "authorized_keys").write_text(f'{options},command="{quoted}" {key}\n')

    @property
    def target(self) -> SshTarget:
        return SshTarget(
            host="127.0.0.1",
            port=self.port,
            user="root",
            key=str(self.folder / "key"),
            known_hosts=str(self.known_hosts),
        )

    def start(self) -> None:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        program = packages.program("sshd")
        assert program is not None
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)
        raise AssertionError("sshd does not listen")

    def children(self) -> tuple[int, ...]:
        """The server's processes, one pair for each connection, without the listening one."""
        if self._process is None:
            return ()
        found: list[int] = []
        queue = [self._process.pid]
        while queue:
            parent = queue.pop()
            listed = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(parent)],
                capture_output=True,
                text=True,
                check=False,
            )
            new = [int(word) for word in listed.stdout.split()]
            found += new
            queue += new
        return tuple(found)

    def signal_connections(self, number: int) -> None:
        """Freeze, thaw or kill what serves the connections, their commands included."""
        for pid in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """End the server and its connections."""
        if self._process is None:
            return
        self.signal_connections(signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Sshd]:
    """A server whose gate has those arguments. Skips, with the reason, where none can be."""
    state = packages.available(packages.SSH)
    if not state.ok:
        pytest.skip(state.reason)
    packages.install(bundle=packages.SSH)
    with tempfile.TemporaryDirectory(prefix="mw-sshd-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = Sshd(folder, list(arguments))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
