"""A real VictoriaLogs, built from its source once and started wherever a test needs one.

No package registry has it as a program, but Go's module proxy has its source: `go install` at a
pinned version, whose checksum stands here and is compared with what Go fetched, makes the program
in a minute or a few. It is kept outside the checkout, under the version and the Go that made it,
with its own checksum beside it: one that was changed since, or is half written, is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from middlewatch.lab.errors import LabError, NotReady, tail
from middlewatch.lab.freeports import one_free
from middlewatch.lab.patience import wait_for

MODULE = "github.com/VictoriaMetrics/VictoriaLogs"
VERSION = "v1.52.2"
SUM = "h1:pQ+odZC8cyAkths0NXqgr8lXtqB8r54THEIrS8kz1ik="
LEAST_GO = (1, 26)
BUILD_LIMIT_S = 1800
START_S = 120.0
STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether it can be built or is there; ``reason`` says why not, and how to mend it."""

    ok: bool
    reason: str


class CannotBuild(LabError):
    """The program could not be made; the message ends with Go's own words."""


def available() -> Availability:
    """Say whether `program()` can succeed here. Changes nothing."""
    go = _go()
    if go is None:
        return Availability(False, "VictoriaLogs is built from source, and there is no Go here")
    version = _go_version(go)
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < LEAST_GO:
        least = ".".join(map(str, LEAST_GO))
        return Availability(
            False, f"VictoriaLogs needs Go {least} or newer; {go} is {version or 'none'}"
        )
    return Availability(True, f"VictoriaLogs {VERSION} by {version}")


def program(say: Callable[[str], None] = lambda _line: None) -> Path:
    """The built program, from the cache or made now. Raises `CannotBuild`."""
    state = available()
    go = _go()
    if not state.ok or go is None:
        raise CannotBuild(state.reason)
    named = f"{MODULE} {VERSION} {SUM} {_go_version(go)}"
    folder = _cache() / hashlib.sha256(named.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "victoria-logs"
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not _whole(path):
            say(f"building VictoriaLogs {VERSION} with {_go_version(go)}: minutes, once")
            _build(go, folder, path)
    return path


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return root / "middlewatch" / "victoria-logs"


def _whole(path: Path) -> bool:
    """Whether the program is there, just as it was when it had been built."""
    try:
        wanted = path.with_suffix(".sha256").read_text().strip()
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == wanted
    except OSError:
        return False


def _build(go: str, folder: Path, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as made:
        environment = {
            **os.environ,
            "GOBIN": made,
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "-trimpath -buildvcs=false",
            "CGO_ENABLED": "0",
        }
        fetched = _run([go, "mod", "download", "-json", f"{MODULE}@{VERSION}"], made, environment)
        try:
            found = json.loads(fetched).get("Sum")
        except ValueError as error:
            raise CannotBuild(f"go mod download said no JSON: {fetched[:200]}") from error
        if found != SUM:
            raise CannotBuild(f"{MODULE} {VERSION} has the checksum {found}, not {SUM}")
        _run([go, "install", f"{MODULE}/app/victoria-logs@{VERSION}"], made, environment)
        new = Path(made) / "victoria-logs"
        with new.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        new.replace(path)
        path.with_suffix(".sha256").write_text(digest + "\n")


def _run(argv: Sequence[str], folder: str, environment: dict[str, str]) -> str:
    try:
        answer = subprocess.run(
            argv,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{' '.join(argv)}: {error}") from error
    if answer.returncode != 0:
        last = "\n".join(answer.stderr.strip().splitlines()[-15:])
        raise CannotBuild(f"{' '.join(argv)} failed (exit {answer.returncode}):\n{last}")
    return answer.stdout


def _go() -> str | None:
    return shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")


def _go_version(go: str) -> str:
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


class VictoriaLogsServer:
    """One server on a loopback port, with its data in ``folder``. It ends with whoever started it.

    ``flags`` are added to its own. Lines of any age are taken.
    """

    def __init__(self, folder: Path, flags: Sequence[str] = (), *, tls: bool = False) -> None:
        self.folder = folder
        self.port = 0
        self._flags = tuple(flags)
        self._scheme = "https" if tls else "http"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "victoria-logs.log"

    def start(self) -> None:
        """Start, or start again on the same port and data. Raises `NotReady`."""
        path = program()
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(1 if self.port else 5):
            port = self.port or one_free()
            if self._started(path, port):
                self.port = port
                return
            self.stop()
        raise NotReady(f"VictoriaLogs did not become ready\n{tail(self.log)}")

    def stop(self) -> None:
        """Stop cleanly: what was taken is on disk afterwards."""
        self._end("terminate")

    def kill(self) -> None:
        self._end("kill")

    def _end(self, how: str) -> None:
        if self._process is None:
            return
        getattr(self._process, how)()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)
        self._process = None

    def _started(self, path: Path, port: int) -> bool:
        argv = [
            str(path),
            f"-storageDataPath={self.folder / 'data'}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=100y",
            "-memory.allowedBytes=256MB",
            "-loggerLevel=WARN",
            *self._flags,
        ]
        setpriv = shutil.which("setpriv")
        if setpriv is not None:
            # Killed with its parent, however that ends.
            argv = [setpriv, "--pdeathsig", "KILL", *argv]
        with self.log.open("ab") as output:
            running = self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

        def settled() -> bool:
            return running.poll() is not None or _listens(port)

        return bool(wait_for(settled, START_S)) and running.poll() is None and self._answers(port)

    def _answers(self, port: int) -> bool:
        """Whether it is ours that answers. Of a server with TLS it is enough that it listens."""
        if self._scheme == "https":
            return True

        def healthy() -> bool:
            try:
                with urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
                    return bool(answer.status == 200)
            except (URLError, OSError):
                return False

        return bool(wait_for(healthy, START_S))


def _listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
