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
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from middlewatch.lab.errors import LabError
from middlewatch.lab.served import Served, listens

MODULE = "github.com/VictoriaMetrics/VictoriaLogs"
VERSION = "v1.52.2"
SUM = "h1:pQ+odZC8cyAkths0NXqgr8lXtqB8r54THEIrS8kz1ik="
LEAST_GO = (1, 26)
BUILD_LIMIT_S = 1800


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


class VictoriaLogsServer(Served):
    """Takes lines of any age."""

    name = "VictoriaLogs"

    def __init__(self, folder: Path, flags: Sequence[str] = (), *, tls: bool = False) -> None:
        super().__init__(folder, flags)
        self._scheme = "https" if tls else "http"

    @property
    def url(self) -> str:
        # The name that a certificate is for.
        return f"{self._scheme}://localhost:{self.port}"

    def prepare(self) -> None:
        program()

    def argv(self, port: int) -> list[str]:
        return [
            str(program()),
            f"-storageDataPath={self.folder / 'data'}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=100y",
            "-memory.allowedBytes=256MB",
            "-loggerLevel=WARN",
            *self.flags,
        ]

    def answers(self, port: int) -> bool:
        """Of a server with TLS it is enough that it listens."""
        return listens(port) if self._scheme == "https" else super().answers(port)
