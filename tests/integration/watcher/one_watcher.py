"""Runs by itself: one of several watchers of a cluster whose running jobs are the files of a folder.

    one_watcher.py FOLDER NAME TERM_S

On SIGTERM the round under way is finished, what is known is written, and the shards are given back.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.logs import FileLogs, RecordCodec
from middlewatch.adapters.scan import Re2Scanner, read_catalogue
from middlewatch.adapters.sql.store import open_store
from middlewatch.model.identity import ClusterId
from middlewatch.model.sharing import pool_of
from middlewatch.services.watcher import Watch, Watcher, WatcherSettings
from middlewatch.services.watcher.share import Part
from tests.integration.watcher.scripted import ScriptedScheduler

CLUSTER = ClusterId("slurm", "prod")
POOL = pool_of("watcher", CLUSTER)
COMMENT = '{"middlewatch":{"environment":"prod","mode":"action"}}'
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
PAUSE_S = 0.1


def cluster(folder: Path) -> ScriptedScheduler:
    made = ScriptedScheduler(CLUSTER, BEGUN)
    for log in sorted(folder.glob("slurm-*.out")):
        job_id = log.stem.partition("-")[2]
        made.job(job_id, COMMENT, str(log), uid=os.geteuid())
    return made


def main() -> None:
    folder, name, term_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop.append(number))
    store = open_store(folder / "state" / "middlewatch.db")
    scheduler, catalogue, clock = cluster(folder), read_catalogue(), SystemClock()
    watcher = Watcher(
        store=store,
        scheduler=scheduler,
        logs=FileLogs(),
        scanner=Re2Scanner(catalogue),
        patterns=catalogue.by_id(),
        codec=RecordCodec(Watch),
        settings=WatcherSettings(details_per_tick=1000, states_per_tick=1),
        clock=clock,
        share=Part(store, POOL, name, term_s, clock),
    )
    while not stop:
        scheduler.now = clock.now()
        watcher.tick(scheduler.now)
        time.sleep(PAUSE_S)
    watcher.finish(clock.now())


if __name__ == "__main__":
    main()
