"""Ten thousand jobs that print a hundred thousand lines per second in all, watched on one core; and
hundreds of megabytes that an outage left, while other jobs go on printing.

The watcher is the product's own, in a process bound to one core; the jobs' lines are written by
another process on the other core, and only the scheduler is played. How late a failure is, is seen
from outside by reading the store: it includes that look.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from middlewatch.adapters.sql.store import open_store
from middlewatch.model.identity import AttemptKey
from middlewatch.model.signal import SourceKind
from middlewatch.ports.store import Store
from tools.bench.figures import Measured, percentile
from tools.bench.live_watcher import CLUSTER
from tools.bench.site import Site, Trouble

ROOT = Path(__file__).resolve().parents[2]
JOBS = 10_000
RATE = 100_000
SECONDS = 60.0
WARM_S = 20.0
"""Of the beginning, when ten thousand jobs are new in the same second, the lag is told apart."""
LATE_S = 120.0
"""So long the last failure lines are waited for; how late each was is a figure of its own."""
BACKLOG_S = 300.0
"""So long those behind a backlog."""
LOOK_S = 0.1
BACKLOG_MB, BACKLOG_FILES, BACKLOG_JOBS, BACKLOG_RATE = 400, 4, 1_000, 10_000


def measure(site: Site) -> list[Measured]:
    found = Measured("live")
    with tempfile.TemporaryDirectory(prefix="live-") as folder:
        _live(site, Path(folder), found)
    with tempfile.TemporaryDirectory(prefix="backlog-") as folder:
        _backlog(Path(folder), found)
    return [found]


@dataclass
class Sight:
    """When which failure line, by attempt and place, was first seen in the store."""

    store: Store
    after: int = 0
    seen: dict[tuple[str, int], float] = field(default_factory=dict)

    def look(self) -> None:
        while new := self.store.signals_after(self.after, 1000):
            at = time.time()
            for row, told in new:
                self.after = row
                if told.source.kind is SourceKind.LOG:
                    self.seen.setdefault((told.attempt_id, int(told.source.position)), at)


def _live(site: Site, folder: Path, found: Measured) -> None:
    (folder / "logs").mkdir()
    started = int(time.time())
    for number in range(JOBS):
        (folder / "logs" / f"{number}.log").touch()
    with _watching(folder, JOBS, started) as watch:
        _until("the first tick", lambda: len(_ticks(folder)) > 0)
        crowd = _crowd(folder, JOBS, RATE, SECONDS)
        while crowd.poll() is None:
            watch.look()
            time.sleep(LOOK_S)
        begun, written, took = _end(folder)
        until = time.monotonic() + LATE_S
        lines = list(_noted(folder, "line", started))
        while time.monotonic() < until and any(key[:2] not in watch.seen for key in lines):
            watch.look()
            time.sleep(LOOK_S)
        ticks = _ticks(folder)
    seen = [key for key in lines if key[:2] in watch.seen]
    at_first = [key for key in seen if key[2] < begun + WARM_S]
    for key in seen:
        if key[2] >= begun + WARM_S:
            found.value("live_lag_s", watch.seen[key[:2]] - key[2])
    found.summarise("live_lag_s", p50=0.5, p99=0.99, max=1.0)
    start = [watch.seen[key[:2]] - key[2] for key in at_first]
    found.figure("live_start_lag_s_p99", percentile(start, 0.99), len(start))
    found.figure("live_lines_without_signal", len(lines) - len(seen), len(lines))
    found.figure("live_jobs", min(float(str(tick["watched"])) for tick in ticks[1:]), len(ticks))
    found.figure("live_lines_s", written / took, written)
    report = json.loads((folder / "report").read_text())
    found.figure("state_per_job_kb", report["memory_kb_per_job"], JOBS)
    steady = [float(str(tick["took_s"])) for tick in ticks[len(ticks) // 3 :]]
    found.figure("live_tick_s_p50", percentile(steady, 0.5), len(steady))
    found.figure("live_first_tick_s", float(str(ticks[0]["took_s"])), 1)
    errors = [tick["errors"] for tick in ticks if tick["errors"]]
    if errors:
        site.say(f"  the watcher reported {errors[0]}")


def _backlog(folder: Path, found: Measured) -> None:
    started = int(time.time())
    crowd = _crowd(folder, BACKLOG_JOBS, BACKLOG_RATE, SECONDS, str(BACKLOG_MB), str(BACKLOG_FILES))
    _until("the backlog", lambda: "written" in _text(folder / "notes"))
    with _watching(folder, BACKLOG_JOBS, started) as watch:
        _until("the watcher", (folder / "report.ticks").exists)
        begun = time.time()
        last = [key[:2] for key in _noted(folder, "backlog", started)]
        until = time.monotonic() + BACKLOG_S
        while time.monotonic() < until and any(key not in watch.seen for key in last):
            watch.look()
            time.sleep(LOOK_S)
        missing = sum(key not in watch.seen for key in last)
        if missing:
            raise Trouble(
                f"{missing} of the backlog's last lines had no signal within {BACKLOG_S:.0f} s"
            )
        done = max(watch.seen[key] for key in last)
        size = sum(
            place
            for job, place, kind in _places(folder)
            if kind == "backlog" and job >= BACKLOG_JOBS - BACKLOG_FILES
        )
        found.figure("backlog_mb_s", size / 1e6 / (done - begun), 1)
        while crowd.poll() is None:
            watch.look()
            time.sleep(LOOK_S)
    lags = [
        watch.seen[key[:2]] - key[2]
        for key in _noted(folder, "line", started)
        if begun <= key[2] <= done and key[:2] in watch.seen
    ]
    if lags:
        found.figure("backlog_live_lag_s_p99", percentile(lags, 0.99), len(lags))


@contextmanager
def _watching(folder: Path, jobs: int, started: int) -> Iterator[Sight]:
    state = folder / "state"
    state.mkdir()
    (folder / "logs").mkdir(exist_ok=True)
    program = [sys.executable, "-m", "tools.bench.live_watcher"]
    core = str(min(os.sched_getaffinity(0)))
    words = [
        str(folder / "logs"),
        str(state),
        str(jobs),
        core,
        str(folder / "report"),
        str(started),
    ]
    process = subprocess.Popen([*program, *words], cwd=ROOT)
    try:
        _until(
            "the store", lambda: (folder / "report.ticks").exists() or process.poll() is not None
        )
        store = open_store(state / "middlewatch.db")
        try:
            yield Sight(store)
        finally:
            store.close()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _crowd(
    folder: Path, jobs: int, rate: int, seconds: float, *backlog: str
) -> subprocess.Popen[bytes]:
    (folder / "logs").mkdir(exist_ok=True)
    _room(jobs)
    program = [sys.executable, str(Path(__file__).with_name("crowd.py"))]
    numbers = [str(jobs), str(rate), str(seconds), "1", *(backlog or ("0", "0"))]
    cores = os.sched_getaffinity(0)
    words = [*program, str(folder / "logs"), str(folder / "notes"), *numbers]
    process = subprocess.Popen(words, cwd=ROOT)
    with suppress(OSError):
        os.sched_setaffinity(process.pid, {max(cores)})
    return process


def _room(files: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise Trouble(f"{wanted} open files are needed, {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _until(what: str, holds: Callable[[], bool], limit_s: float = 300.0) -> None:
    until = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > until:
            raise Trouble(f"{what} did not come within {limit_s:.0f} s")
        time.sleep(0.05)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _places(folder: Path) -> Iterator[tuple[int, int, str]]:
    for line in _text(folder / "notes").splitlines():
        words = line.split()
        if words[-1] in {"line", "backlog"}:
            yield int(words[0]), int(words[1]), words[-1]


def _noted(folder: Path, kind: str, started: int) -> list[tuple[str, int, float]]:
    """Attempt, place and time of each failure line, where all jobs ``started`` at that second."""
    begun = datetime.fromtimestamp(started, UTC)
    found: list[tuple[str, int, float]] = []
    for line in _text(folder / "notes").splitlines():
        words = line.split()
        if words[-1] == kind:
            attempt = AttemptKey(CLUSTER, words[0], begun).attempt_id()
            found.append((attempt, int(words[1]), float(words[2])))
    return found


def _end(folder: Path) -> tuple[float, int, float]:
    words = _text(folder / "notes").splitlines()[-1].split()
    if words[0] != "end":
        raise Trouble("the jobs that print ended early")
    return float(words[2]), int(words[1]), float(words[3]) - float(words[2])


def _ticks(folder: Path) -> list[dict[str, object]]:
    lines = _text(folder / "report.ticks").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]
