"""Servers that tests start and ask over HTTP: on a free port, with their data in a folder of their own.

A free port may be somebody else's by the time a server binds it, so that a first start tries several;
a later one is on the same port, because whoever asks knows it by then.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from middlewatch.lab.errors import NotReady, tail
from middlewatch.lab.freeports import one_free
from middlewatch.lab.patience import wait_for

START_S = 120.0
STOP_S = 60.0


class Served:
    """One server on a loopback port, with its data in ``folder``; ``flags`` are added to its own. It
    ends with whoever started it. ``health`` is the path that answers 200 when it is ready."""

    name = ""
    health = "/health"

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        self.folder = folder
        self.port = 0
        self.flags = tuple(flags)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def prepare(self) -> None:
        """Get the program."""
        raise NotImplementedError

    def argv(self, port: int) -> list[str]:
        raise NotImplementedError

    def answers(self, port: int) -> bool:
        """Whether it is ready."""
        try:
            with urlopen(f"http://127.0.0.1:{port}{self.health}", timeout=10) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def start(self) -> None:
        """Start, or start again on the same port and data. Raises `NotReady`."""
        self.prepare()
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(1 if self.port else 5):
            port = self.port or one_free()
            if self._started(port):
                self.port = port
                return
            self.stop()
        raise NotReady(f"{self.name} did not become ready\n{tail(self.log)}")

    def stop(self) -> None:
        """Stop cleanly: what was taken is on disk afterwards. Nothing where it does not run."""
        if self._process is not None:
            self._process.terminate()
        self._end()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._end()

    def _end(self) -> None:
        running, self._process = self._process, None
        if running is None:
            return
        try:
            running.wait(STOP_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait(STOP_S)

    def _started(self, port: int) -> bool:
        argv = self.argv(port)
        setpriv = shutil.which("setpriv")
        if setpriv is not None:
            # Killed with its parent, however that ends.
            argv = [setpriv, "--pdeathsig", "KILL", *argv]
        with self.log.open("ab") as output:
            running = self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

        def settled() -> bool:
            return running.poll() is not None or self.answers(port)

        return bool(wait_for(settled, START_S)) and running.poll() is None


def listens(port: int) -> bool:
    """Whether anybody takes connections on a loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
