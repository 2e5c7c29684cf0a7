"""Prometheus and VictoriaMetrics as a test needs them: on free ports, with data of its own making.

What a detector makes of an hour of samples is tried with an hour of samples, and nobody waits an
hour for it: both servers are given the past as a file. Prometheus takes that as blocks before it
starts, VictoriaMetrics over its import API while it runs. What is scraped or pushed now goes the
usual way.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from middlewatch.lab.errors import LabError
from middlewatch.lab.packages import METRICS, install, program
from middlewatch.lab.served import Served


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


class MetricsServer(Served):
    """One server that takes a past."""

    def prepare(self) -> None:
        install(bundle=METRICS)

    def load(self, past: Iterable[Series]) -> None:
        """Give the server a past; see the two kinds for when."""
        raise NotImplementedError


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
