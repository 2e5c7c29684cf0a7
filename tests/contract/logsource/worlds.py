"""One way to write lines and to read them again, for files, VictoriaLogs, and Loki or its stand-in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec

from middlewatch.adapters.logs import FileLogs
from middlewatch.adapters.logstores import Labels, Loki, StoreLogs, VictoriaLogs
from middlewatch.adapters.logstores.place import path_of
from middlewatch.adapters.web import Access
from middlewatch.lab.loki import LokiStandIn
from middlewatch.lab.victorialogs import VictoriaLogsServer
from middlewatch.ports.scanner import Block, CannotRead, Cursor, LogSource
from tests.webs import log_store

SECOND = 10**9
LEAST_READ = 1 << 16


@dataclass
class HandClock:
    """A clock that a test moves. It begins ten minutes ago, so that a real store takes all that is
    written by it."""

    moment: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(minutes=10))
    passed: float = 1000.0

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def token(self, size: int = 32) -> str:
        return "x" * size

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        self.passed += seconds


@dataclass(frozen=True)
class Wrote:
    """A line to be written: its time in nanoseconds after the world's beginning."""

    at: int
    text: bytes
    node: str = "n1"
    file: str = "/home/alice/out.log"
    job: str = ""


class World:
    """``keeps_bytes``: what is no UTF-8 comes back as it was. ``keeps_copies``: equal lines of one
    moment stay apart."""

    keeps_bytes = True
    keeps_copies = True

    def __init__(self, job: str, clock: HandClock) -> None:
        self.job = job
        self.clock = clock
        self.began = int(clock.now().timestamp()) * SECOND

    def write(self, *lines: Wrote) -> None:
        raise NotImplementedError

    def source(self) -> LogSource:
        """What a process that has just started reads with."""
        raise NotImplementedError

    def path(self, job: str = "") -> str:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections."""


class FileWorld(World):
    def __init__(self, job: str, clock: HandClock, folder: Path) -> None:
        super().__init__(job, clock)
        self._folder = folder

    def write(self, *lines: Wrote) -> None:
        for line in lines:
            with Path(self.path(line.job)).open("ab") as file:
                file.write(line.text + b"\n")

    def source(self) -> LogSource:
        return FileLogs()

    def path(self, job: str = "") -> str:
        return str(self._folder / f"{job or self.job}.log")


class StoreWorld(World):
    """A world with a server: ``stop`` and ``start`` take it away and bring it back."""

    store: type[VictoriaLogs | Loki]

    def __init__(self, job: str, clock: HandClock, url: str, **access: Any) -> None:
        super().__init__(job, clock)
        self.url = url
        self.access: dict[str, Any] = {"timeout_s": 60.0, **access}
        self.labels = Labels()
        self._made: list[StoreLogs] = []
        self.stoppable = False
        self.stop: Callable[[], None] = lambda: None
        self.start: Callable[[], None] = lambda: None

    def source(self, **access: Any) -> StoreLogs:
        given = Access(self.url, **{**self.access, **access})
        made = StoreLogs(
            log_store(self.store, given, self.clock, self.labels), self.clock, delay_s=3.0
        )
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.close()

    def path(self, job: str = "") -> str:
        return path_of(self.store.name, job or self.job, self.began / SECOND)

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        request = Request(self.url + path, data=body, headers=headers)
        with urlopen(request, timeout=60) as answer:
            answer.read()


class VictoriaWorld(StoreWorld):
    store = VictoriaLogs

    def write(self, *lines: Wrote, tenant: str = "0:0") -> None:
        account, _, project = tenant.partition(":")
        rows = []
        for line in lines:
            whole, rest = divmod(self.began + line.at, SECOND)
            moment = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            row = {
                "_time": f"{moment}.{rest:09d}Z",
                "_msg": line.text.decode("utf-8", "surrogateescape"),
                self.labels.job: line.job or self.job,
                "node": line.node,
                "filename": line.file,
            }
            # What is no UTF-8 goes out as it is, as a careless collector would send it.
            text = json.dumps(row, ensure_ascii=False)
            rows.append(text.encode("utf-8", "surrogateescape"))
        self._post(
            f"/insert/jsonline?_stream_fields={self.labels.job},node,filename",
            b"\n".join(rows),
            {
                "Content-Type": "application/stream+json",
                "AccountID": account,
                "ProjectID": project,
            },
        )
        self._post("/internal/force_flush", b"", {})


class LokiWorld(StoreWorld):
    store = Loki
    keeps_bytes = False
    keeps_copies = False

    def __init__(
        self, job: str, clock: HandClock, url: str, server: LokiStandIn | None = None, **more: Any
    ) -> None:
        super().__init__(job, clock, url, **more)
        self.server = server

    def write(self, *lines: Wrote, tenant: str = "") -> None:
        streams = [
            {
                "stream": {
                    self.labels.job: line.job or self.job,
                    "node": line.node,
                    "filename": line.file,
                },
                "values": [[str(self.began + line.at), line.text.decode("utf-8", "replace")]],
            }
            for line in lines
        ]
        headers = {"Content-Type": "application/json"}
        wanted = tenant or dict(self.access.get("headers", ())).get("X-Scope-OrgID", "")
        if wanted:
            headers["X-Scope-OrgID"] = wanted
        if self.server is not None:
            self.server.entries.push(wanted or "fake", {"streams": streams})
        else:
            self._post("/loki/api/v1/push", json.dumps({"streams": streams}).encode(), headers)


class Reader:
    """Reads as the watcher does: block by block, keeping nothing but the cursor, as text."""

    def __init__(self, world: World, path: str = "") -> None:
        self.world = world
        self.path = path or world.path()
        self.source = world.source()
        self.cursor: Cursor | None = None
        self.blocks: list[Block] = []

    def restart(self) -> None:
        """Another process takes over: it has what was stored."""
        self.source = self.world.source()
        if self.cursor is not None:
            stored = msgspec.json.encode(self.cursor)
            self.cursor = msgspec.json.decode(stored, type=Cursor)

    def once(self, *, limit: int = LEAST_READ, final: bool = False) -> Block | CannotRead | None:
        """One read whose result is not stored."""
        return self.source.read(self.path, os.geteuid(), self.cursor, limit, final=final)

    def read(self, *, restarts: bool = False, limit: int = LEAST_READ) -> list[bytes]:
        """All that is new, to the end; with ``restarts`` by another process after each block."""
        self.world.clock.advance(20)
        found: list[bytes] = []
        for _ in range(2000):
            got = self.once(limit=limit)
            if got is None:
                return found
            assert isinstance(got, Block), got
            assert self.cursor is None or got.base_offset >= self.cursor.offset
            self.blocks.append(got)
            self.cursor = got.cursor
            found += got.data.splitlines() if got.data else []
            if restarts:
                self.restart()
            if got.at_end:
                return found
        raise AssertionError("no end of reading")


def texts(lines: Sequence[Wrote]) -> list[bytes]:
    return [line.text for line in lines]


def stopped_and_started(server: VictoriaLogsServer | LokiStandIn, world: StoreWorld) -> None:
    """Let the world's server be taken away and brought back."""
    world.stop, world.start = server.stop, server.start
    world.stoppable = True
