"""What the tick's one full listing costs, with an empty queue and with a long one."""

from __future__ import annotations

import time
from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.lab import daemons
from middlewatch.model.answer import Known
from tools.bench.figures import Measured
from tools.bench.site import CLUSTER, Site, Trouble, cancel

JOBS = 200
LISTINGS = 40


def measure(site: Site) -> list[Measured]:
    found = Measured("listing")
    cluster = site.cluster
    clock = SystemClock()
    commands = Commands(
        clock,
        bin_dir=Path(daemons.absolute("squeue")).parent,
        environ=cluster.env(logged=False),
        observer=None,
    )
    scheduler = SlurmScheduler(CLUSTER, commands, clock)

    def listings(name: str, expected: int) -> None:
        for _ in range(LISTINGS):
            began = time.perf_counter()
            answer = scheduler.listing()
            taken = time.perf_counter() - began
            if not isinstance(answer, Known):
                raise Trouble(f"no listing: {answer}")
            if len(answer.value.jobs) < expected:
                raise Trouble(f"{len(answer.value.jobs)} jobs were listed, not {expected}")
            found.value(name, 1000 * taken)

    listings("listing_empty_ms", 0)
    script = "#!/bin/bash\nsleep 1\n"
    ids = [cluster.submit(script, extra=("--hold",)) for _ in range(JOBS)]
    listings("listing_ms", JOBS)
    cancel(cluster, ids)
    found.summarise("listing_empty_ms", p50=0.5)
    found.summarise("listing_ms", p50=0.5, p95=0.95)
    return [found]
