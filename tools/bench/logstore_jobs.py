"""A thousand jobs through one VictoriaLogs: how long the watcher's round over all of them takes, and
how many questions it asks, together and one by one.

The watcher, its store and VictoriaLogs are real; the scheduler is played. Each job prints a line a
second, and all that was printed must have been read in the end.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import Request, urlopen

from middlewatch.adapters import web
from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.logs import RecordCodec
from middlewatch.adapters.logstores import StoreLogs, VictoriaLogs
from middlewatch.adapters.scan import read_catalogue, scanner_for
from middlewatch.adapters.sql.store import open_store
from middlewatch.lab.victorialogs import VictoriaLogsServer
from middlewatch.services.watcher import Watch, Watcher, WatcherSettings
from middlewatch.wiring.logsource import place_in
from tools.bench.figures import Measured
from tools.bench.live_watcher import Crowd

JOBS = 1000
WARM_ROUNDS, ROUNDS = 4, 40
EVERY_S = 1.0
ALONE_ROUNDS = 8


@dataclass
class _Printing:
    """Jobs that print a line a second, with the collector that ships them."""

    url: str
    printed: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        step = 0
        while not self.stop.is_set():
            began = time.monotonic()
            step += 1
            now = time.time_ns()
            second = datetime.fromtimestamp(now // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            rows = [
                json.dumps(
                    {
                        "_time": f"{second}.{now % 10**9 // 1000 + job % 1000:09d}Z",
                        "_msg": f"step {step}/100000 | loss 2.31 | 0.50 s/step",
                        "job_id": str(job),
                        "node": f"n{job}",
                        "filename": f"/scratch/{job}.out",
                    }
                )
                for job in range(JOBS)
            ]
            request = Request(  # noqa: S310 - ours
                f"{self.url}/insert/jsonline?_stream_fields=job_id,node,filename",
                "\n".join(rows).encode(),
                {"Content-Type": "application/stream+json"},
            )
            with urlopen(request, timeout=30) as answer:  # noqa: S310
                answer.read()
            self.printed += JOBS
            self.stop.wait(max(0.05, 1.0 - (time.monotonic() - began)))


def measure_jobs(server: VictoriaLogsServer, folder: Path, found: Measured) -> None:
    """Rounds over `JOBS` jobs: together, then one by one."""
    printing = _Printing(server.url)
    thread = threading.Thread(target=printing.run, daemon=True)
    thread.start()
    try:
        _rounds(server.url, folder / "together", found, "", ROUNDS, printing=printing)
        printing.stop.clear()
        thread = threading.Thread(target=printing.run, daemon=True)
        thread.start()
        _rounds(server.url, folder / "alone", found, "alone_", ALONE_ROUNDS, together=1)
    finally:
        printing.stop.set()
        thread.join(60)
    for name in ("round_s", "alone_round_s"):
        found.summarise(f"logstore_{name}", p50=0.5, max=1.0)
    for name in ("questions_per_round", "alone_questions_per_round"):
        found.summarise(f"logstore_{name}", p50=0.5)


def _rounds(
    url: str,
    state: Path,
    found: Measured,
    name: str,
    rounds: int,
    *,
    together: int = 256,
    printing: _Printing | None = None,
) -> None:
    clock = SystemClock()
    server = web.Server(web.VICTORIALOGS, web.Access(url, timeout_s=30.0), clock)
    logs = StoreLogs(VictoriaLogs(server), clock, together=together)
    catalogue = read_catalogue()
    store = open_store(state / "middlewatch.db")
    watcher = Watcher(
        store=store,
        scheduler=Crowd(state, JOBS, clock.now().replace(microsecond=0)),
        logs=logs,
        places=place_in(logs),
        scanner=scanner_for(catalogue),
        patterns=catalogue.by_id(),
        codec=RecordCodec(Watch),
        # However long it takes, a round is over all jobs.
        settings=WatcherSettings(details_per_tick=JOBS, seconds_per_tick=600.0),
        clock=clock,
    )
    lines = 0

    def one() -> tuple[float, int]:
        nonlocal lines
        before, began = server.questions, time.monotonic()
        report = watcher.tick(datetime.now(UTC))
        took = time.monotonic() - began
        lines += report.lines_read
        if name == "":
            found.counts["logstore_jobs"] = rounds
            found.figures["logstore_jobs"] = report.watched
        return took, server.questions - before

    for turn in range(WARM_ROUNDS + rounds):
        took, questions = one()
        if turn >= WARM_ROUNDS:
            found.value(f"logstore_{name}round_s", took)
            found.value(f"logstore_{name}questions_per_round", questions)
        time.sleep(max(0.05, EVERY_S - took))
    if printing is not None:
        printing.stop.set()
        until = time.monotonic() + 60
        while lines < printing.printed and time.monotonic() < until:
            time.sleep(1)
            one()
        found.figure("logstore_jobs_lines_missing", printing.printed - lines, printing.printed)
    logs.close()
    store.close()
