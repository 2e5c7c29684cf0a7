"""What slurmctld has to bear because of us, beside what a naïve poller asks of it.

The requests are slurmctld's own count (`sdiag`): in an idle cluster, and in one with five thousand real
jobs, single ones (no arrays), of which most wait, held, a hundred of those opted in, and a hundred
opted-in ones run. Middlewatch runs with its defaults. The naïve poller is this shell loop, run on the same
jobs: every 30 s `squeue -h -o %i`, then `scontrol show job ID` for each of them, one after the other.

One listing of those jobs is measured in a process of its own that does nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.lab import daemons, start
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.spec import LabSpec
from middlewatch.model.answer import Known
from tools.bench import sdiag
from tools.bench.figures import Measured
from tools.bench.idle import memory_mb
from tools.bench.site import CLUSTER, Running, Site, Trouble, opt_in, wait

JOBS = int(os.environ.get("KIND_JOBS", "5000"))
WAITING = RUNNING = 100
"""Of them opted in."""
LISTINGS = 20
MINUTES = 2.0
SETTLE_S = 120.0
"""Until an idle cluster is looked at as seldom as it will be."""
NAIVE_S = 60.0
DEFAULTS: Mapping[str, Mapping[str, object]] = {"watcher": {"listing_longest": "45s"}}
"""The lab's settings list more often than the defaults, which are measured here."""


def measure_idle(site: Site) -> list[Measured]:
    found = Measured("requests")
    site.say("  starting a Slurm")
    cluster = start.up(LabSpec(name=f"requests-{os.getpid()}", nodes=2))
    try:
        with site.up_on(cluster, DEFAULTS) as running:
            running.up.start()
            time.sleep(SETTLE_S)
            _minutes(cluster, found, "rpc_per_minute_idle")
    finally:
        cluster.down(remove=True)
    return [found]


def measure(site: Site) -> list[Measured]:
    found = Measured("kind")
    site.say("  starting a Slurm")
    cluster = start.up(LabSpec(name=f"kind-{os.getpid()}", nodes=2, cpus_per_node=250))
    try:
        _submit(cluster)
        site.say(f"  {JOBS} jobs")
        _snapshots(cluster, found)
        with site.up_on(cluster, DEFAULTS) as running:
            running.up.start()
            wait("the opted-in jobs", lambda: _known(running) >= WAITING + RUNNING, 300.0, 1.0)
            site.say("  the opted-in ones are known")
            time.sleep(30.0)
            _minutes(cluster, found, "rpc_per_minute_5000_jobs")
            pss, _ = memory_mb(running)
            found.figure("up_5000_jobs_rss_mb", pss, 1)
        _naive(cluster, found)
    finally:
        cluster.down(remove=True)
    return [found]


def _submit(cluster: Cluster) -> None:
    user = cluster.spec.job_users[0]
    script = cluster.home(user) / "job.sh"
    script.write_text("#!/bin/sh\nexec sleep 36000\n")
    env = cluster.env(logged=False)
    common = [daemons.absolute("sbatch"), "--parsable", f"--uid={user}", "-o", "/dev/null"]
    common += ["-D", str(cluster.home(user)), "-N1", "-n1"]
    theirs = [f"--comment={opt_in('observe')}"]

    def one(number: int) -> None:
        extra: list[str] = []
        if number < RUNNING:
            extra = theirs
        elif number < RUNNING + WAITING:
            extra = ["--hold", *theirs]
        else:
            extra = ["--hold"]
        subprocess.run(
            [*common, *extra, str(script)], env=env, check=True, stdout=subprocess.DEVNULL
        )

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(one, range(JOBS)):
            pass
    wait("the running jobs", lambda: _count(cluster, "R") >= RUNNING, 120.0, 1.0)


def _count(cluster: Cluster, states: str) -> int:
    return len(cluster.run(["squeue", "-h", "-t", states, "-o", "%i"]).stdout.split())


def _known(running: Running) -> int:
    return len(running.store.live_attempts(CLUSTER))


def _requests(cluster: Cluster) -> sdiag.Requests:
    return sdiag.read(cluster.run(["sdiag"]).stdout)


def _minutes(cluster: Cluster, found: Measured, name: str) -> None:
    before, began = _requests(cluster), time.monotonic()
    time.sleep(60.0 * MINUTES)
    served = _requests(cluster).since(before)
    minutes = (time.monotonic() - began) / 60.0
    _figure(found, name, served, minutes)


def _figure(found: Measured, name: str, served: sdiag.Requests, minutes: float) -> None:
    """Requests of clients by minutes; what slurmctld's own nodes send it is left out."""
    asked = {k: v for k, v in served.served.items() if not k.startswith("MESSAGE_")}
    for kind, (count, total) in sorted(asked.items()):
        found.value(name, count / minutes, kind=kind, mean_us=total / count)
    clients = sdiag.Requests(asked)
    found.figure(name, clients.count() / minutes, clients.count())
    busy = sum(total for _, total in asked.values()) / minutes / 1000
    found.figure(name.replace("rpc_", "rpc_ms_"), busy, clients.count())


def _naive(cluster: Cluster, found: Measured) -> None:
    env = cluster.env(logged=False)
    squeue, scontrol = daemons.absolute("squeue"), daemons.absolute("scontrol")
    loop = (
        f"while :; do for job in $({squeue} -h -o %i); do "
        f"{scontrol} show job $job >/dev/null; done; sleep 30; done"
    )
    before, began = _requests(cluster), time.monotonic()
    poller = subprocess.Popen(["/bin/sh", "-c", loop], env=env, start_new_session=True)
    try:
        time.sleep(NAIVE_S)
        served = _requests(cluster).since(before)
        minutes = (time.monotonic() - began) / 60.0
    finally:
        os.killpg(poller.pid, 9)
        poller.wait()
    _figure(found, "naive_rpc_per_minute_5000_jobs", served, minutes)


# ---------------------------------------------------------------------------------- the listing


def _snapshots(cluster: Cluster, found: Measured) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tools.bench.kind"],
        env={**os.environ, **cluster.env(logged=False)},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(answer.stdout)
    if said["jobs"] < JOBS:
        raise Trouble(f"{said['jobs']} jobs were listed, not {JOBS}")
    for seconds in said["seconds"]:
        found.value("snapshot_5000_jobs_s", seconds)
    ordered = sorted(said["seconds"])
    found.figure("snapshot_5000_jobs_s", ordered[len(ordered) // 2], len(ordered))
    found.figure("snapshot_5000_jobs_s_max", ordered[-1], len(ordered))
    found.figure("snapshot_5000_jobs_rss_mb", said["rss_mb"], len(ordered))
    found.figure("snapshot_jobs", said["jobs"], 1)


def _list() -> None:
    """In a process of its own: some listings, and how large it grew."""
    clock = SystemClock()
    scheduler = SlurmScheduler(
        CLUSTER, Commands(clock, bin_dir=Path(daemons.absolute("squeue")).parent), clock
    )
    seconds, jobs = [], 0
    for _ in range(LISTINGS):
        began = time.perf_counter()
        answer = scheduler.listing()
        seconds.append(time.perf_counter() - began)
        if not isinstance(answer, Known):
            raise Trouble(f"no listing: {answer}")
        jobs = len(answer.value.jobs)
    # Not getrusage's: that counts what the process inherited from whoever forked it.
    status = Path("/proc/self/status").read_text()
    match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    peak = int(match.group(1)) * 1024 / 1e6 if match else 0.0
    print(json.dumps({"seconds": seconds, "jobs": jobs, "rss_mb": peak}))


if __name__ == "__main__":
    _list()
