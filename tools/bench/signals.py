"""From a crash line in a job's log to its signal in the store, and how fast logs are read.

Real jobs on a real Slurm write the lines themselves, at random moments, between the steps of a
training that goes on; `middlewatch up` watches them as it would any job. When a signal is stored is
seen by reading the store again and again from outside: what is measured includes that look.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from middlewatch.adapters.scan.catalogue import read_catalogue
from middlewatch.lab.cluster import Cluster
from middlewatch.model.pattern import PatternKind
from middlewatch.model.signal import Signal, SourceKind
from tools.bench.figures import Measured, median
from tools.bench.idle import memory_mb
from tools.bench.site import Running, Site, cancel, log_of, noting, opt_in, wait

WRITERS = 8
LINES_EACH = 75
MEAN_PAUSE_S = 1.5
LOOK_S = 0.01
LATE_S = 30.0
BULK_MB = 64
BULKS = 3
# Far fewer lines of one pattern come from one attempt than here; the cap is for floods.
CHANGES = {"policy": {"signal_cap": 1_000_000}}


def measure(site: Site) -> list[Measured]:
    found = Measured("signals")
    with site.up(CHANGES) as running:
        running.up.start()
        _latency(site, running, found)
        _bulk(running, found)
        found.figure("busy_rss_mb", memory_mb(running)[0], 1)
    found.summarise("crash_to_signal_s", p50=0.5, p99=0.99, max=1.0)
    found.figure("watch_mb_per_s", median(found.values("watch_mb_per_s")), BULKS)
    return [found]


# ------------------------------------------------------------------------------------------- latency


@dataclass
class Sight:
    """When which signal was first seen in the store: by attempt and place in the log."""

    running: Running
    after: int = 0
    seen: dict[tuple[str, int], float] = field(default_factory=dict)
    whole: dict[tuple[str, int], Signal] = field(default_factory=dict)

    def look(self) -> None:
        new = self.running.store.signals_after(self.after, 1000)
        at = time.time()
        for row, signal in new:
            self.after = row
            if signal.source.kind is SourceKind.LOG:
                key = (signal.attempt_id, int(signal.source.position))
                self.seen.setdefault(key, at)
                self.whole.setdefault(key, signal)


def crash_lines() -> list[str]:
    """An example of each failure pattern; an exception's stands at the end of a traceback."""
    found = []
    for pattern in read_catalogue().patterns:
        example = pattern.examples[0]
        if pattern.kind is PatternKind.FAILURE and "\n" not in example:
            found.append(example)
        elif pattern.kind is PatternKind.EXCEPTION:
            # torch puts a rank's name before each line of its traceback, or before none.
            rank = re.match(r"\[rank\d+\]: |", example)
            before = rank.group() if rank else ""
            above = [
                "Traceback (most recent call last):",
                '  File "train.py", line 1, in step',
                "    loss.backward()",
            ]
            found.append("\n".join([*(before + line for line in above), example]))
    return found


def _latency(site: Site, running: Running, found: Measured) -> None:
    cluster = running.cluster
    folder, ids = _writers(cluster)
    wait("the writers' beginning", lambda: all((folder / f"{i}.lines").exists() for i in ids), 60.0)
    wait("the writers in the store", lambda: all(running.attempts(i) for i in ids), 60.0)
    sight = Sight(running)
    expected = WRITERS * LINES_EACH
    until = time.monotonic() + 20 + 2 * LINES_EACH * MEAN_PAUSE_S
    while time.monotonic() < until:
        sight.look()
        if len(sight.seen) >= expected and _count(folder, ids) >= expected:
            break
        time.sleep(LOOK_S)
    last = time.monotonic() + LATE_S
    missing = -1
    while time.monotonic() < last and missing != 0:
        sight.look()
        missing = sum(
            (running.attempts(i)[0].id, place) not in sight.seen
            for i in ids
            for place, _ in _written(folder, i)
        )
    for job_id in ids:
        attempt = running.attempts(job_id)[0].id
        for place, at in _written(folder, job_id):
            key = (attempt, place)
            if key in sight.seen:
                about = {"job": job_id, "pattern": sight.whole[key].pattern_id}
                found.value("crash_to_signal_s", sight.seen[key] - at, **about)
            else:
                found.value("crash_line_without_signal", place, job=job_id)
    if missing:
        site.say(f"  {missing} crash lines had no signal after {LATE_S:.0f} s")
    found.figure("crash_lines_without_signal", max(missing, 0), _count(folder, ids))
    cancel(cluster, ids)


def _writers(cluster: Cluster) -> tuple[Path, list[str]]:
    folder = cluster.folder / "writers"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o1777)
    program = folder / "writer.py"
    program.write_text(resources.files("tools.bench").joinpath("writer.py").read_text())
    lines = folder / "lines.json"
    lines.write_text(json.dumps(crash_lines()))
    ids = []
    for number in range(WRITERS):
        words = f'"{lines}" "{folder}/$SLURM_JOB_ID.lines" {LINES_EACH} {MEAN_PAUSE_S} {number}'
        body = [f'"{cluster.layout.bin}/lab-python" "{program}" {words} || code=$?']
        head = ["#SBATCH --nodes=1", "#SBATCH --job-name=bench-writer"]
        ids.append(cluster.submit(noting(cluster, body, head), comment=opt_in("action")))
    return folder, ids


def _written(folder: Path, job_id: str) -> list[tuple[int, float]]:
    lines = (folder / f"{job_id}.lines").read_text().splitlines()
    return [(int(place), float(at)) for place, at in (line.split() for line in lines)]


def _count(folder: Path, ids: list[str]) -> int:
    return sum(len(_written(folder, i)) for i in ids)


# ---------------------------------------------------------------------------------------- throughput


def _bulk(running: Running, found: Measured) -> None:
    """A lot of log at once, a crash line at its end: how long until that line is a signal."""
    cluster = running.cluster
    script = noting(cluster, ["sleep 600"], ["#SBATCH --nodes=1", "#SBATCH --job-name=bench-bulk"])
    job_id = cluster.submit(script, comment=opt_in("observe"))
    wait("the job's log", lambda: log_of(cluster, job_id).exists(), 60.0)
    wait("the job in the store", lambda: running.attempts(job_id), 60.0)
    attempt = running.attempts(job_id)[0].id
    for turn in range(BULKS):
        block = bulk(turn, BULK_MB * 1_000_000)
        with log_of(cluster, job_id).open("ab") as log:
            began = time.perf_counter()
            log.write(block)
            place = log.tell()
            log.write(b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
        sight = Sight(running, _last(running))

        def read(sight: Sight = sight, place: int = place) -> bool:
            sight.look()
            return (attempt, place) in sight.seen

        wait("the line behind the bulk", read, 120.0, LOOK_S)
        found.value("watch_mb_per_s", len(block) / 1e6 / (time.perf_counter() - began))
    cancel(cluster, [job_id])


def _last(running: Running) -> int:
    after = 0
    while True:
        rows = running.store.signals_after(after, 1000)
        if not rows:
            return after
        after = rows[-1][0]


def bulk(turn: int, size: int) -> bytes:
    """What a verbose training prints: mostly lines that mean nothing, a step now and then."""
    lines = []
    length = 0
    number = 0
    while length < size:
        number += 1
        line = (
            f"middlewatch: step={turn * 10_000_000 + number} total=100000000 loss=2.31"
            if number % 50 == 0
            else f"[rank{number % 8}]: 2026-01-01 00:00:00,{number % 1000:03d} INFO loader.py:{number % 999}: "
            f"shard {number:09d} of the data set was read in {number % 97} ms, next one is queued"
        )
        lines.append(line)
        length += len(line) + 1
    return ("\n".join(lines) + "\n").encode()
