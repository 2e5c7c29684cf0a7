"""From the end of a job to its successor running, from the failure being known to the first command,
and what Slurm alone takes.

First one job at a time, so that each has an idle Slurm to itself; then several at once; then jobs that
fail without ending, where the program's silence after its failure line is what permits acting. Last,
with Middlewatch stopped, the same number of jobs is requeued by hand.
"""

from __future__ import annotations

import re
import subprocess
import time
from functools import partial
from pathlib import Path

from middlewatch.lab import daemons
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.jobs import TrainerOptions
from middlewatch.model.advice import Advice
from middlewatch.model.recovery import PartName, Recovery, RecoveryState
from middlewatch.model.signal import SignalKind
from tools.bench.figures import Measured
from tools.bench.site import (
    Running,
    Site,
    Trouble,
    cancel,
    log_of,
    noted,
    noting,
    opt_in,
    training,
    wait,
)

ALONE = 16
AT_ONCE = 8
HANGING = 4
BY_HAND = 8
PERMITS = frozenset({SignalKind.SCHEDULER_END, SignalKind.NO_PROGRESS_AFTER_FAILURE})
"""Witnesses that permit acting here: the attempt has ended, or nothing came after a failure line."""
CRASH = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def measure(site: Site) -> list[Measured]:
    found = Measured("recovery")
    with site.up() as running:
        running.up.start()
        for number in range(ALONE):
            _crashes(running, found, 1, nodes=2, kind="alone", seed=number)
        site.say(f"  {ALONE} recoveries, one at a time")
        _crashes(running, found, AT_ONCE, nodes=1, kind="at once", seed=0)
        site.say(f"  {AT_ONCE} at once")
        _hangs(running, found)
        site.say(f"  {HANGING} that hung behind a failure line")
    _by_hand(site, found)
    found.summarise("crash_to_running_s", p50=0.5, max=1.0)
    found.summarise("fault_to_running_s", p50=0.5, max=1.0)
    found.summarise("signal_to_action_s", p50=0.5, max=1.0)
    found.summarise("advice_to_action_s", p50=0.5, max=1.0)
    found.summarise("advice_to_converged_s", p50=0.5, max=1.0)
    found.summarise("slurm_requeue_to_running_s", p50=0.5, max=1.0)
    for name in (*(part.value for part in PartName), "total"):
        if found.values(f"resume_{name}_s"):
            found.summarise(f"resume_{name}_s", p50=0.5, max=1.0)
    return [found]


def _crashes(
    running: Running, found: Measured, count: int, *, nodes: int, kind: str, seed: int
) -> None:
    """Start jobs that crash, and see each through to a settled outcome."""
    cluster = running.cluster
    ids = [
        cluster.submit(
            training(
                cluster,
                TrainerOptions(
                    name="bench-crash",
                    nodes=nodes,
                    steps=5000,
                    step_seconds=0.1,
                    checkpoint_every=5,
                    fault="crash-cuda",
                    fault_at=12 + seed % 5,
                    fault_rank=nodes - 1,
                    comment=opt_in("action"),
                ),
            )
        )
        for _ in range(count)
    ]
    for job_id in ids:
        _settled(running, job_id)
        times = noted(cluster, job_id)
        ended, begun = times["end", 0], times["begin", 1]
        about = {"job": job_id, "kind": kind, "trail": _trail(running, job_id, ended)}
        found.value("crash_to_running_s", begun - ended, **about)
        fault = min(
            signal.happened_at.timestamp()
            for _, signal in running.store.signals(running.attempts(job_id)[0].id)
            if signal.kind is SignalKind.FAILURE_LINE
        )
        found.value("fault_to_running_s", begun - fault, job=job_id, kind=kind)
        _first_action(running, found, job_id, kind)
    for job_id in ids:
        _parts(running, found, job_id, kind)
    cancel(cluster, ids)


def _parts(running: Running, found: Measured, job_id: str, kind: str) -> None:
    """Where the time went until training was past the fault, as the product itself tells it."""
    advice = running.advice(job_id)
    if advice is None:
        raise RuntimeError(f"job {job_id} has no advice any more")

    def verified() -> Recovery | None:
        recovery = running.store.recovery(advice.sequence_id)
        settled = recovery is not None and recovery.settled
        return recovery if settled else None

    recovery = wait(f"job {job_id} to pass the lost step", verified, 120.0, 0.2)
    if recovery.state is not RecoveryState.VERIFIED:
        raise RuntimeError(f"job {job_id} did not resume: {recovery.why}")
    for part in recovery.parts:
        found.value(f"resume_{part.name.value}_s", part.seconds, job=job_id, kind=kind)
    found.value("resume_total_s", recovery.total_s, job=job_id, kind=kind)


def _trail(running: Running, job_id: str, ended: float) -> list[str]:
    """What happened when, in seconds after the job's end: tells why one recovery took long."""
    attempt = running.attempts(job_id)[0]
    advice = running.store.advice(attempt.id)
    happened = [
        (signal.learned_at.timestamp(), f"signal {signal.pattern_id}")
        for _, signal in running.store.signals(attempt.id)
    ]
    for action in running.store.actions(attempt.id):
        happened.append((action.started_at.timestamp(), f"{action.action.kind.value} begins"))
        if action.ended_at is not None:
            happened.append((action.ended_at.timestamp(), f"{action.answered.value}"))
    if advice is not None:
        happened.append((advice.created_at.timestamp(), "advice"))
        happened += [
            (milestone.at.timestamp(), f"milestone {milestone.kind.value}")
            for milestone in running.store.milestones(advice.sequence_id)
            if milestone.kind is not None
        ]
    return [f"{at - ended:+.3f} {what}" for at, what in sorted(happened)]


def _settled(running: Running, job_id: str) -> None:
    def settled() -> Advice | None:
        advice = running.advice(job_id)
        return advice if advice is not None and not advice.active else None

    advice = wait(f"the outcome of job {job_id}", settled, 120.0, 0.2)
    wait(
        f"the successor of job {job_id}",
        partial(_began, running.cluster, job_id, 1),
        150.0,
    )
    status = advice.status
    if status is None or status.disposition.value != "CONVERGED":
        raise RuntimeError(f"job {job_id} did not recover: {status}")


def _first_action(running: Running, found: Measured, job_id: str, kind: str) -> None:
    attempt = running.attempts(job_id)[0].id
    known = min(
        signal.learned_at for _, signal in running.store.signals(attempt) if signal.kind in PERMITS
    )
    first = min(action.started_at for action in running.store.actions(attempt))
    found.value("signal_to_action_s", (first - known).total_seconds(), job=job_id, kind=kind)
    advice = running.advice(job_id)
    if advice is None or advice.status is None:
        raise Trouble(f"job {job_id} has no outcome")
    since = advice.desired_state_changed_at
    found.value("advice_to_action_s", (first - since).total_seconds(), job=job_id, kind=kind)
    converged = (advice.status.observed_at - since).total_seconds()
    found.value("advice_to_converged_s", converged, job=job_id, kind=kind)


def _hangs(running: Running, found: Measured) -> None:
    """Jobs whose ranks stop; then a failure line appears in the log, and nothing more."""
    cluster = running.cluster
    options = TrainerOptions(
        name="bench-hang",
        nodes=1,
        tasks_per_node=2,
        steps=5000,
        step_seconds=0.1,
        checkpoint_every=5,
        fault="hang",
        fault_at=30,
        fault_rank=1,
        comment=opt_in("action"),
    )
    ids = [cluster.submit(training(cluster, options)) for _ in range(HANGING)]
    for job_id in ids:
        log = log_of(cluster, job_id)
        wait("the last step", partial(_stepped, log, 29), 60.0, 0.1)
        with log.open("ab") as file:
            file.write(CRASH)
    for job_id in ids:
        _settled(running, job_id)
        _first_action(running, found, job_id, "hang")
    cancel(cluster, ids)


def _stepped(log: Path, steps: int) -> bool:
    try:
        return re.search(rf"\] iteration +{steps}/", log.read_text(errors="replace")) is not None
    except OSError:
        return False


def _began(cluster: Cluster, job_id: str, attempt: int) -> bool:
    return ("begin", attempt) in noted(cluster, job_id)


def _by_hand(site: Site, found: Measured) -> None:
    """Slurm alone: `scontrol requeue` of running jobs that did not opt in, all at once."""
    cluster = site.cluster
    script = noting(cluster, ["sleep 900"], ["#SBATCH --nodes=1", "#SBATCH --requeue"])
    ids = [cluster.submit(script) for _ in range(BY_HAND)]
    for job_id in ids:
        wait("the jobs", partial(_began, cluster, job_id, 0), 60.0)
    time.sleep(3.0)
    site.say(f"  requeueing {BY_HAND} jobs by hand; Slurm takes about two minutes")
    began = {job_id: (time.time(), _requeue(cluster, job_id)) for job_id in ids}
    for _, command in began.values():
        if command.wait(30) != 0:
            raise RuntimeError("scontrol requeue failed")
    for job_id, (at, _) in began.items():
        wait("Slurm's restart", partial(_began, cluster, job_id, 1), 300.0, 0.2)
        found.value(
            "slurm_requeue_to_running_s", noted(cluster, job_id)["begin", 1] - at, job=job_id
        )
    cancel(cluster, ids)


def _requeue(cluster: Cluster, job_id: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [daemons.absolute("scontrol"), "requeue", job_id], env=cluster.env(logged=False)
    )
