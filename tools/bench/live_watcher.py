"""Runs by itself: the real watcher over a listing of many running jobs, on one core.

    live_watcher.py FOLDER STATE JOBS CORE REPORT BEGUN

The store, the scanner, the reader of files and the detection are the product's; only the scheduler
is played, for no cluster here has ten thousand jobs. Its listing is made anew at each look, as a
real one is; all jobs began at BEGUN, seconds since the epoch. On SIGTERM the tick under way is finished and the report written.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.logs import FileLogs, RecordCodec, room_for_files
from middlewatch.adapters.scan import read_catalogue, scanner_for
from middlewatch.adapters.scan.catalogue import read_loops
from middlewatch.adapters.sql.store import open_store
from middlewatch.model.action import Action, Answered, CommandResult
from middlewatch.model.answer import Absent, Answer, Known
from middlewatch.model.identity import ClusterId
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    JobState,
    JobView,
    PartitionView,
    Snapshot,
)
from middlewatch.model.sharing import pool_of
from middlewatch.services.watcher import Watch, Watcher, WatcherSettings
from middlewatch.services.watcher.share import Part
from middlewatch.wiring.memory import collect_rarely

CLUSTER = ClusterId("slurm", "bench")
COMMENT = '{"middlewatch":{"environment":"bench","mode":"observe"}}'
PAUSE_S = 0.05


class Crowd:
    """A scheduler that shows ``jobs`` running jobs that began at ``begun``, whose output is in
    ``folder``."""

    cluster = CLUSTER

    def __init__(self, folder: Path, jobs: int, begun: datetime) -> None:
        self._folder = folder
        self._begun = begun
        self._views = tuple(
            JobView(
                job_id=str(number),
                state=JobState.RUNNING,
                flags=frozenset(),
                reason="None",
                priority=100,
                restarts=0,
                submitted_at=begun,
                started_at=begun,
                partitions=("train",),
                node_list=f"n{number}",
                node_count=1,
                uid=os.geteuid(),
                user="bench",
            )
            for number in range(jobs)
        )

    def facts(self) -> Answer[ClusterFacts]:
        return Known(ClusterFacts("bench", "24.11.5", 121.0, 10.0, 300.0, 30.0), _now())

    def listing(self) -> Answer[Snapshot]:
        views = tuple(dataclasses.replace(view) for view in self._views)
        return Known(Snapshot("bench", _now(), views), _now())

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        return Absent(_now())

    def detail(self, job_id: str) -> Answer[JobDetail]:
        path = str(self._folder / f"{job_id}.log")
        found = JobDetail(
            job_id=job_id,
            submitted_at=self._begun,
            comment=COMMENT,
            name="train",
            work_dir="/",
            stdout=path,
            stderr=path,
            excluded_nodes=(),
            required_nodes=(),
            requeueable=True,
            held_by_operator=False,
            append_output=False,
        )
        return Known(found, _now())

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        return Known((), _now())

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        return Known((), _now())

    def hostnames(self, node_list: str) -> tuple[str, ...]:
        return (node_list,)

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        return CommandResult(Answered.REFUSED, (), 1, "nothing is done here", _now(), _now())


def _now() -> datetime:
    return datetime.now(UTC)


def memory_kb() -> int:
    """Resident memory of this process."""
    text = Path("/proc/self/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def made(folder: Path, state: Path, jobs: int, begun: datetime) -> Watcher:
    catalogue, loops, clock = read_catalogue(), read_loops(), SystemClock()
    store = open_store(state / "middlewatch.db")
    collect_rarely()
    return Watcher(
        store=store,
        scheduler=Crowd(folder, jobs, begun),
        logs=FileLogs(hold=room_for_files()),
        scanner=scanner_for(catalogue),
        loops=scanner_for(loops),
        patterns={**catalogue.by_id(), **loops.by_id()},
        codec=RecordCodec(Watch),
        policy=Policy(),
        # To ask for ten thousand comments is slurmctld's work, which is played here.
        settings=WatcherSettings(details_per_tick=jobs),
        clock=clock,
        share=Part(store, pool_of("watcher", CLUSTER), "bench", 30.0, clock),
    )


def main() -> None:
    folder, state, jobs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    os.sched_setaffinity(0, {int(sys.argv[4])})
    report = Path(sys.argv[5])
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop.append(number))
    begun_at = datetime.fromtimestamp(int(sys.argv[6]), UTC)
    watcher = made(folder, state, jobs, begun_at)
    empty_kb = memory_kb()
    ticks, longest, read = 0, 0.0, 0
    begun, used = time.monotonic(), time.process_time()
    with report.with_suffix(".ticks").open("w", buffering=1) as lines:
        while not stop:
            at = time.monotonic()
            cpu = time.process_time()
            told = watcher.tick(_now())
            took = time.monotonic() - at
            ticks, longest, read = ticks + 1, max(longest, took), read + told.bytes_read
            lines.write(
                json.dumps(
                    {
                        "took_s": took,
                        "cpu_s": time.process_time() - cpu,
                        "watched": told.watched,
                        "bytes": told.bytes_read,
                        "hits": told.hits,
                        "signals": told.signals_stored,
                        "behind": told.behind,
                        "errors": told.errors[:3],
                    }
                )
                + "\n"
            )
            time.sleep(max(PAUSE_S, 0.5 - took))
    report.write_text(
        json.dumps(
            {
                "ticks": ticks,
                "longest_tick_s": longest,
                "bytes": read,
                "cpu_s": time.process_time() - used,
                "wall_s": time.monotonic() - begun,
                "memory_kb_per_job": (memory_kb() - empty_kb) / jobs,
            }
        )
    )


if __name__ == "__main__":
    main()
