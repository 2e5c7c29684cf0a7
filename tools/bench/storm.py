"""Five hundred jobs fail in one moment: how long until each runs again, and what slurmctld has to bear.

The jobs run a real script that blocks on a named pipe; opening it once lets all of them print a crash
line and fail. Middlewatch, as anybody would run it, restarts them. Then it is stopped, the same jobs, now
at their second attempt, fail in the same way, and are requeued with `scontrol requeue`, one command for
each, one after the other, as an administrator's loop does. slurmctld counts its requests and their time in
both (`sdiag`), from the moment of the failure until all run again.
"""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from middlewatch.lab import daemons, start
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.spec import LabSpec
from middlewatch.model.advice import Advice
from tools.bench import sdiag
from tools.bench.figures import Measured, median
from tools.bench.site import CLUSTER, Running, Site, Trouble, opt_in, wait

JOBS = int(os.environ.get("STORM", "500"))
CPUS = 250
NODES = 5
"""The last of them is not in the jobs' partition; the others hold all jobs twice."""
CRASH = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
LIMIT_S = 600.0


def measure(site: Site) -> list[Measured]:
    found = Measured("storm")
    site.say("  starting a Slurm")
    spec = LabSpec(name=f"storm-{os.getpid()}", nodes=NODES, cpus_per_node=CPUS)
    cluster = start.up(spec)
    try:
        ids = _jobs(cluster)
        site.say(f"  {len(ids)} jobs run")
        with site.up_on(cluster) as running:
            running.up.start()
            wait("the jobs' attempts", lambda: _recorded(running) >= len(ids), LIMIT_S, 1.0)
            time.sleep(5.0)
            _with_us(running, ids, found, site)
        _by_hand(cluster, ids, found, site)
    finally:
        cluster.down(remove=True)
    return [found]


# ----------------------------------------------------------------------------------------- the jobs


def _gate(cluster: Cluster, attempt: int) -> Path:
    return cluster.home(cluster.spec.job_users[0]) / f"gate-{attempt}"


def _jobs(cluster: Cluster) -> list[str]:
    """The jobs, all running, each blocked on its attempt's gate."""
    user = cluster.spec.job_users[0]
    home = cluster.home(user)
    for attempt in range(3):
        cluster.run(["mkfifo", str(_gate(cluster, attempt))], user=user)
    begun = home / "begun"
    script = "\n".join(
        [
            "#!/bin/bash",
            "#SBATCH --nodes=1 --ntasks=1 --requeue --open-mode=append",
            "n=${SLURM_RESTART_COUNT:-0}",
            'echo "iteration 1/100 loss 2.0"',
            f'echo "$n $SLURM_JOB_ID $EPOCHREALTIME" >> "{begun}"',
            f'read -r _ < "{home}/gate-$n"',
            f'echo "{CRASH}"',
            "exit 1",
            "",
        ]
    )
    with ThreadPoolExecutor(4) as pool:
        ids = list(
            pool.map(lambda _: cluster.submit(script, comment=opt_in("action")), range(JOBS))
        )
    _all_begun(cluster, 0, len(ids))
    return ids


def _begun(cluster: Cluster, attempt: int) -> dict[str, float]:
    """When which job noted the beginning of that attempt, seconds since 1970."""
    path = cluster.home(cluster.spec.job_users[0]) / "begun"
    found: dict[str, float] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        words = line.split()
        if len(words) == 3 and words[0] == str(attempt):
            found.setdefault(words[1], float(words[2]))
    return found


def _all_begun(cluster: Cluster, attempt: int, count: int) -> dict[str, float]:
    wait(
        f"the jobs' attempt {attempt}",
        lambda: len(_begun(cluster, attempt)) >= count,
        LIMIT_S,
        0.5,
    )
    return _begun(cluster, attempt)


def _open(cluster: Cluster, attempt: int) -> float:
    """Let every job that waits at that gate through; when."""
    at = time.time()
    with _gate(cluster, attempt).open("wb"):
        time.sleep(0.5)
    return at


def _requests(cluster: Cluster) -> sdiag.Requests:
    return sdiag.read(cluster.run(["sdiag"]).stdout)


def _recorded(running: Running) -> int:
    return sum(1 for a in running.store.live_attempts(CLUSTER) if a.started_at is not None)


# --------------------------------------------------------------------------------------- the storms


def _with_us(running: Running, ids: list[str], found: Measured, site: Site) -> None:
    cluster = running.cluster
    before = _requests(cluster)
    at = _open(cluster, 0)
    settled: dict[str, Advice] = {}
    told = 0.0

    def all_settled() -> bool:
        nonlocal told
        for job_id in ids:
            if job_id not in settled:
                advice = running.advice(job_id)
                if advice is not None and not advice.active:
                    settled[job_id] = advice
        if time.monotonic() - told > 10.0:
            told = time.monotonic()
            site.say(
                f"    {time.time() - at:.0f} s: {len(settled)} settled, {len(_begun(cluster, 1))} begun"
            )
        return len(settled) == len(ids)

    wait("the jobs' outcomes", all_settled, LIMIT_S, 1.0)
    begun = _all_begun(cluster, 1, len(ids))
    served = _requests(cluster).since(before)
    for job_id, advice in settled.items():
        status = advice.status
        if status is None or status.disposition.value != "CONVERGED":
            found.value("storm_unconverged", 1, job=job_id, why=str(status))
            continue
        actions = running.store.actions(advice.attempt_id)
        first = min(a.started_at for a in actions)
        created = advice.created_at.timestamp()
        ended = status.observed_at.timestamp()
        found.value("storm_converged_s", ended - at, job=job_id)
        found.value("storm_advised_s", created - at, job=job_id)
        found.value("storm_first_action_s", first.timestamp() - at, job=job_id)
        found.value("storm_running_s", begun[job_id] - at, job=job_id)
    converged = found.values("storm_converged_s")
    found.figure("storm_jobs", len(ids), 1)
    found.figure("storm_unconverged", len(ids) - len(converged), len(ids))
    found.figure("storm_500_last_converged_s", max(converged), len(converged))
    found.figure("storm_500_converged_s_p50", median(converged), len(converged))
    for name in ("storm_advised_s", "storm_first_action_s", "storm_running_s"):
        found.figure(f"{name}_last", max(found.values(name)), len(converged))
    _tell(served, found, "storm")
    site.say(f"  all converged after {max(converged):.0f} s")


def _by_hand(cluster: Cluster, ids: list[str], found: Measured, site: Site) -> None:
    """The same jobs, at their next failure, without us."""
    site.say(f"  {len(ids)} jobs fail again, requeued by hand; Slurm takes over two minutes")
    before = _requests(cluster)
    at = _open(cluster, 1)
    wait("the ends", lambda: not _count(cluster, "R,CG"), LIMIT_S, 1.0)
    env = cluster.env(logged=False)
    for job_id in ids:
        subprocess.run([daemons.absolute("scontrol"), "requeue", job_id], env=env, check=True)
    begun = _all_begun(cluster, 2, len(ids))
    served = _requests(cluster).since(before)
    found.figure("storm_slurm_last_running_s", max(begun.values()) - at, len(ids))
    _tell(served, found, "slurm")
    ours, theirs = found.figures["storm_rpc_us"], found.figures["slurm_rpc_us"]
    found.figure("storm_vs_slurm_ratio", ours / theirs, 1)


def _count(cluster: Cluster, states: str) -> int:
    return len(cluster.run(["squeue", "-h", "-t", states, "-o", "%i"]).stdout.split())


def _tell(served: sdiag.Requests, found: Measured, name: str) -> None:
    for kind, (count, total) in sorted(served.served.items()):
        found.value(f"{name}_rpc", total / count, kind=kind, count=count)
    found.figure(f"{name}_rpc_us", served.mean_us(), served.count())
    total_s = served.mean_us() * served.count() / 1e6
    found.figure(f"{name}_rpc_total_s", total_s, served.count())
    requeues = served.count("REQUEST_JOB_REQUEUE")
    if not requeues:
        raise Trouble("slurmctld counted no requeue")
    found.figure(f"{name}_requeue_us", served.mean_us("REQUEST_JOB_REQUEUE"), requeues)
