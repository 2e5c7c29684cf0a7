"""Stores into which a collector ships with labels of the test's choice, each test as a tenant of
its own."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.request import Request, urlopen

from middlewatch.model.answer import Known
from middlewatch.model.scheduler import JobState, JobView, PartitionView, Snapshot
from middlewatch.ports.scheduler import Scheduler
from middlewatch.wiring.settings import LogsSettings, LogsSource, Settings
from tests.contract.logsource.worlds import HandClock

SECOND = 10**9
_TENANTS = itertools.count(1)


@dataclass
class ShipClock(HandClock):
    """A clock during whose pauses things happen."""

    meanwhile: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        self.meanwhile()


@dataclass
class Ship:
    """One store; ``kind`` is victorialogs or loki."""

    kind: str
    url: str
    clock: ShipClock = field(default_factory=ShipClock)
    tenant: int = field(default_factory=lambda: os.getpid() * 1000 + next(_TENANTS))

    def settings(self, **logs: Any) -> Settings:
        tenant = f"{self.tenant}:0" if self.kind == "victorialogs" else str(self.tenant)
        given = LogsSettings(
            source=LogsSource(self.kind), url=self.url, tenant=tenant, timeout_s=60.0, **logs
        )
        return Settings(logs=given)

    def at(self, ago_s: float) -> int:
        return int(self.clock.now().timestamp() * 1000) * 10**6 - int(ago_s * SECOND)

    def push(
        self, labels: Mapping[str, str], *lines: tuple[int, str], fields: Mapping[str, str] = {}
    ) -> None:
        """Lines with the times that the store is told. ``fields`` are none of the stream's labels
        (VictoriaLogs alone)."""
        if self.kind == "loki":
            stream = {"stream": labels, "values": [[str(at), text] for at, text in lines]}
            self._post(
                "/loki/api/v1/push",
                json.dumps({"streams": [stream]}),
                {"Content-Type": "application/json", "X-Scope-OrgID": str(self.tenant)},
            )
            return
        rows = []
        for at, text in lines:
            whole, rest = divmod(at, SECOND)
            moment = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            rows.append(
                json.dumps({"_time": f"{moment}.{rest:09d}Z", "_msg": text, **labels, **fields})
            )
        self._post(
            f"/insert/jsonline?_stream_fields={','.join(labels)}",
            "\n".join(rows),
            {
                "Content-Type": "application/stream+json",
                "AccountID": str(self.tenant),
                "ProjectID": "0",
            },
        )
        self._post("/internal/force_flush", "", {})

    def _post(self, path: str, body: str, headers: dict[str, str]) -> None:
        request = Request(self.url + path, data=body.encode(), headers=headers)
        with urlopen(request, timeout=60) as answer:
            answer.read()


class SlurmSays:
    """A scheduler that knows some jobs and nodes, and can be asked nothing else."""

    def __init__(self, *jobs: str, nodes: tuple[str, ...] = ("n1", "n2")) -> None:
        self._jobs, self._nodes = jobs, nodes

    def listing(self) -> Known[Snapshot]:
        now = datetime.now(UTC)
        views = tuple(
            JobView(job, JobState.RUNNING, frozenset(), "", 1, 0, now, started_at=now)
            for job in self._jobs
        )
        return Known(Snapshot("c", now, views), now)

    def partitions(self) -> Known[tuple[PartitionView, ...]]:
        now = datetime.now(UTC)
        return Known((PartitionView("p", self._nodes, self._nodes),), now)


def slurm(*jobs: str) -> Scheduler:
    return cast("Scheduler", SlurmSays(*jobs))


def stamped(at: int, text: str) -> str:
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d %H:%M:%S} {text}"
