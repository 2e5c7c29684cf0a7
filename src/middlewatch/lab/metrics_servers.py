"""Prometheus and VictoriaMetrics as a test needs them: on free ports, with data of its own making.

What a detector makes of an hour of samples is tried with an hour of samples, and nobody waits an
hour for it: both servers are given the past as a file. Prometheus takes that as blocks before it
starts, VictoriaMetrics over its import API while it runs. What is scraped or pushed now goes the
usual way.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from middlewatch.lab.errors import LabError, NotReady, tail
from middlewatch.lab.freeports import one_free
from middlewatch.lab.packages import METRICS, install, program
from middlewatch.lab.patience import wait_for

START_S = 120.0
STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its name, its labels, and (seconds since the epoch, value)."""

    name: str
    labels: tuple[tuple[str, str], ...]
    samples: tuple[tuple[float, float], ...]

    @property
    def shown(self) -> str:
        inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in self.labels)
        return f"{self.name}{{{inside}}}"


class CannotLoad(LabError):
    """A server did not take the past that it was given."""


class MetricsServer:
    """One server with its data in ``folder``; ``flags`` are added to its own. It ends with whoever
    started it."""

    name = ""
    health = ""

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

    def argv(self, port: int) -> list[str]:
        raise NotImplementedError

    def load(self, past: Iterable[Series]) -> None:
        """Give the server a past; see the two kinds for when."""
        raise NotImplementedError

    def start(self) -> None:
        """Start, or start again on the same port and data. Raises `NotReady`."""
        install(bundle=METRICS)
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(1 if self.port else 5):
            port = self.port or one_free()
            if self._started(port):
                self.port = port
                return
            self.stop()
        raise NotReady(f"{self.name} did not become ready\n{tail(self.log)}")

    def stop(self) -> None:
        """Stop cleanly; nothing where it does not run."""
        running, self._process = self._process, None
        if running is None:
            return
        running.terminate()
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
            return running.poll() is not None or _healthy(f"http://127.0.0.1:{port}{self.health}")

        return bool(wait_for(settled, START_S)) and running.poll() is None


class Prometheus(MetricsServer):
    """Scrapes ``targets`` (host:port) each second under the job name ``lab``. A past is given
    before it is started."""

    name = "Prometheus"
    health = "/-/ready"

    def __init__(
        self, folder: Path, flags: Sequence[str] = (), targets: Sequence[str] = ()
    ) -> None:
        super().__init__(folder, flags)
        self.targets = tuple(targets)

    def argv(self, port: int) -> list[str]:
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [
                {
                    "job_name": "lab",
                    "honor_labels": True,
                    "static_configs": [{"targets": list(self.targets)}],
                }
            ],
        }
        # JSON is YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        return [
            str(program("prometheus")),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--storage.tsdb.retention.time=3650d",
            "--log.level=warn",
            *self.flags,
        ]

    def load(self, past: Iterable[Series]) -> None:
        install(bundle=METRICS)
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "past.om"
        file.write_text(openmetrics(past))
        answer = subprocess.run(
            [
                str(program("promtool")),
                "tsdb",
                "create-blocks-from",
                "openmetrics",
                str(file),
                str(self.folder / "data"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise CannotLoad(f"promtool: {answer.stderr.strip()[-500:]}")


class VictoriaMetrics(MetricsServer):
    """Takes a past while it runs."""

    name = "VictoriaMetrics"
    health = "/health"

    def argv(self, port: int) -> list[str]:
        return [
            str(program("victoria-metrics")),
            f"-storageDataPath={self.folder / 'data'}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=100y",
            "-memory.allowedBytes=256MB",
            "-search.latencyOffset=0s",
            "-search.disableCache",
            "-loggerLevel=WARN",
            *self.flags,
        ]

    def load(self, past: Iterable[Series]) -> None:
        lines = [
            json.dumps(
                {
                    "metric": {"__name__": one.name, **dict(one.labels)},
                    "values": [value for _, value in one.samples],
                    "timestamps": [round(at * 1000) for at, _ in one.samples],
                }
            )
            for one in past
        ]
        body = "\n".join(lines).encode() + b"\n"
        with urlopen(Request(f"{self.url}/api/v1/import", data=body), timeout=60) as answer:  # noqa: S310
            if answer.status not in {200, 204}:
                raise CannotLoad(f"VictoriaMetrics answered {answer.status}")
        # What was taken is searched from the next flush on.
        with urlopen(f"{self.url}/internal/force_flush", timeout=60) as answer:  # noqa: S310
            answer.read()


def openmetrics(past: Iterable[Series]) -> str:
    """The series as a file for promtool, in the order that the format wants."""
    by_name: dict[str, list[Series]] = {}
    for one in past:
        by_name.setdefault(one.name, []).append(one)
    lines: list[str] = []
    for name, members in sorted(by_name.items()):
        lines.append(f"# TYPE {name} unknown")
        for one in members:
            lines.extend(f"{one.shown} {value} {at:.3f}" for at, value in one.samples)
    return "\n".join([*lines, "# EOF", ""])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _healthy(url: str) -> bool:
    try:
        with urlopen(url, timeout=10) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
