"""From a crash line, taken by a log store, to its signal in ours: a real VictoriaLogs, the real `up`.

The bench is the collector: it pushes lines of real jobs, each with the time at which it is sent, and
takes that time as the one at which the line was written. What VictoriaLogs itself needs until a line
can be found is measured beside it, by asking it again and again for one job's lines.
"""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from middlewatch.lab.victorialogs import CannotBuild, VictoriaLogsServer, available
from middlewatch.model.identity import AttemptId
from middlewatch.model.signal import SourceKind
from tools.bench.figures import Measured
from tools.bench.logstore_jobs import measure_jobs
from tools.bench.signals import crash_lines
from tools.bench.site import Running, Site, Trouble, cancel, noting, opt_in, wait

JOBS = 8
LINES = 400
MEAN_PAUSE_S = 0.4
LOOK_S = 0.01
LATE_S = 60.0


def measure(site: Site) -> list[Measured]:
    found = Measured("logstore")
    state = available()
    if not state.ok:
        raise Trouble(state.reason)
    with tempfile.TemporaryDirectory(prefix="middlewatch-bench-") as folder:
        server = VictoriaLogsServer(Path(folder))
        try:
            server.start()
        except CannotBuild as error:
            raise Trouble(str(error)) from error
        try:
            changes: dict[str, dict[str, Any]] = {
                "policy": {"signal_cap": 1_000_000},
                "logs": {"source": "victorialogs", "url": server.url},
            }
            with site.up(changes) as running:
                running.up.start()
                _latency(site, running, server, found)
            measure_jobs(server, Path(folder), found)
        finally:
            server.stop()
    found.summarise("victorialogs_crash_to_signal_s", p50=0.5, p99=0.99, max=1.0)
    found.summarise("victorialogs_crash_to_signal_store_s", p50=0.5, p99=0.99, max=1.0)
    return [found]


@dataclass
class _Pushed:
    """Crash lines that VictoriaLogs has taken: by job and microsecond."""

    server: VictoriaLogsServer
    lines: dict[tuple[str, int], float] = field(default_factory=dict)
    findable: dict[tuple[str, int], float] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def push(self, job: str, node: str, text: str, *, crash: bool) -> None:
        at = time.time_ns() // 1000
        moment = datetime.fromtimestamp(at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        row = {
            "_time": f"{moment}.{at % 1_000_000:06d}Z",
            "_msg": text,
            "job_id": job,
            "node": node,
            "filename": f"/home/bench/{job}.log",
        }
        if crash:
            self.lines[job, at] = at / 1e6
        path = "/insert/jsonline?_stream_fields=job_id,node,filename"
        kind = {"Content-Type": "application/stream+json"}
        self._post(path, json.dumps(row).encode(), kind)

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        request = Request(self.server.url + path, data=body, headers=headers)  # noqa: S310 - ours
        with urlopen(request, timeout=30) as answer:  # noqa: S310
            return bytes(answer.read())

    def step(self, job: str, node: str) -> None:
        self.steps[job] = self.steps.get(job, 0) + 1
        text = f"step {self.steps[job]}/100000 | loss 2.31 | 0.50 s/step"
        self.push(job, node, text, crash=False)

    def ask(self, job: str) -> None:
        """Note which of the job's crash lines can be found by now."""
        query = f'{{job_id="{job}"}} _time:30s | fields _time'
        data = urlencode({"query": query}).encode()
        rows = self._post("/select/logsql/query", data, {}).splitlines()
        now = time.time()
        for row in rows:
            text = json.loads(row)["_time"].removesuffix("Z")
            whole, _, rest = text.partition(".")
            second = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()
            key = (job, int(second) * 1_000_000 + int(rest.ljust(6, "0")[:6]))
            if key in self.lines:
                self.findable.setdefault(key, now)


def _latency(site: Site, running: Running, server: VictoriaLogsServer, found: Measured) -> None:
    cluster = running.cluster
    body = ["sleep 900"]
    head = ["#SBATCH --nodes=1", "#SBATCH --job-name=bench-shipped"]
    ids = [
        cluster.submit(noting(cluster, body, head), comment=opt_in("observe")) for _ in range(JOBS)
    ]

    def there() -> bool:
        return all(running.attempts(i) and running.attempts(i)[0].nodes for i in ids)

    wait("the jobs in the store", there, 120.0)
    names = {running.attempts(i)[0].id: i for i in ids}
    nodes = {i: running.attempts(i)[0].nodes[0] for i in ids}
    pushed, stop = _Pushed(server), threading.Event()

    def ship() -> None:
        chance = random.Random(11)
        examples = [line for line in crash_lines() if "\n" not in line]
        next_step = time.monotonic()
        next_crash = time.monotonic() + 3
        while len(pushed.lines) < LINES and not stop.is_set():
            now = time.monotonic()
            if now >= next_step:
                for job in ids:
                    pushed.step(job, nodes[job])
                next_step = now + 0.5
            if now >= next_crash:
                job = chance.choice(ids)
                pushed.push(job, nodes[job], chance.choice(examples), crash=True)
                next_crash = now + chance.expovariate(1 / MEAN_PAUSE_S)
            time.sleep(0.005)

    def ask() -> None:
        while not stop.is_set():
            for job in ids:
                pushed.ask(job)
            time.sleep(LOOK_S)

    threads = [threading.Thread(target=work, daemon=True) for work in (ship, ask)]
    for thread in threads:
        thread.start()
    seen = _seen(running, names, pushed, threads[0])
    stop.set()
    for thread in threads:
        thread.join(30)
    missing = 0
    for key, written in pushed.lines.items():
        if key in seen:
            found.value("victorialogs_crash_to_signal_s", seen[key] - written, job=key[0])
        else:
            missing += 1
        if key in pushed.findable:
            delay = pushed.findable[key] - written
            found.value("victorialogs_crash_to_signal_store_s", delay, job=key[0])
    if missing:
        site.say(f"  {missing} crash lines had no signal after {LATE_S:.0f} s")
    found.figure("victorialogs_crash_lines_without_signal", missing, len(pushed.lines))
    cancel(cluster, ids)


def _seen(
    running: Running, names: Mapping[AttemptId, str], pushed: _Pushed, shipping: threading.Thread
) -> dict[tuple[str, int], float]:
    """When the signal of which line was first found stored, until all are or none comes any more."""
    seen: dict[tuple[str, int], float] = {}
    after, until = 0, time.monotonic() + 60 + 3 * LINES * MEAN_PAUSE_S
    last: float | None = None
    while time.monotonic() < min(until, last or until):
        news = running.store.signals_after(after, 1000)
        at = time.time()
        for row, signal in news:
            after = row
            if signal.source.kind is SourceKind.LOG and signal.attempt_id in names:
                key = (names[signal.attempt_id], round(signal.happened_at.timestamp() * 1e6))
                seen.setdefault(key, at)
        if last is None and not shipping.is_alive():
            last = time.monotonic() + LATE_S
        if last is not None and all(key in seen for key in pushed.lines):
            break
        time.sleep(LOOK_S)
    return seen
