"""How long `up` takes until it is ready, and how long a reading command takes from start to end."""

from __future__ import annotations

import contextlib
import http.client
import os
import pty
import resource
import subprocess
import sys
import time
from pathlib import Path

from tools.bench.figures import Measured, median
from tools.bench.idle import processor_s
from tools.bench.site import Running, Site, Trouble, noting, opt_in, wait

STARTS = 6
ROUNDS = 12
JOBS = 12
CHANGES = {"policy": {"silence_floor": "1h"}}


def measure(site: Site) -> list[Measured]:
    return [_starts(site), _commands(site)]


# -------------------------------------------------------------------------------------- the service


def _starts(site: Site) -> Measured:
    """From exec to the first yes of /readyz: on a new state directory, and on one with a past."""
    found = Measured("start")
    for _ in range(STARTS):
        with site.up() as running:
            found.value("first_start_to_ready_s", ready_s(running))
            found.value("start_cpu_s", processor_s(running))
            running.up.stop()
            found.value("next_start_to_ready_s", ready_s(running))
    for name in ("first_start_to_ready_s", "next_start_to_ready_s", "start_cpu_s"):
        found.figure(name, median(found.values(name)), STARTS)
    slower = max(("first_start_to_ready_s", "next_start_to_ready_s"), key=found.figures.__getitem__)
    found.figure("start_to_ready_s", found.figures[slower], STARTS)
    return found


def ready_s(running: Running) -> float:
    """Start `up`; seconds until it says that it is ready."""
    began = time.perf_counter()
    running.up.start(wait=False)
    wait("ready", lambda: _ready(running.port), 30.0, 0.005)
    return time.perf_counter() - began


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


# ---------------------------------------------------------------------------------------- the client


def _commands(site: Site) -> Measured:
    """Reading commands against a running `up` that watches a few jobs, one after another in rounds."""
    found = Measured("start")
    cluster = site.cluster
    script = noting(cluster, ["sleep 600"], ["#SBATCH --nodes=1", "#SBATCH --job-name=bench-cli"])
    with site.up(CHANGES) as running:
        running.up.start()
        ids = [cluster.submit(script, comment=opt_in("observe")) for _ in range(JOBS)]
        wait("the jobs in the store", lambda: all(running.attempts(i) for i in ids), 60.0)
        commands = {
            "--version": ["--version"],
            "--help": ["--help"],
            "jobs --help": ["jobs", "--help"],
            "jobs": ["jobs"],
            "jobs --json": ["jobs", "--json"],
            "job": ["job", ids[0]],
            "advice": ["advice"],
            "audit": ["audit"],
        }
        for turn in range(ROUNDS + 1):
            for name, words in commands.items():
                seconds, cpu_s = _run_s(running, words, terminal=False)
                if turn:  # the first round fills the page cache and the bytecode's
                    found.value("cli_s", seconds, command=name, cpu_s=cpu_s)
            seconds, cpu_s = _run_s(running, ["jobs"], terminal=True)
            if turn:
                found.value("cli_s", seconds, command="jobs on a terminal", cpu_s=cpu_s)
        cluster.run(["scancel", *ids], check=False)
    medians = {
        str(record["command"]): median(
            [float(str(r["value"])) for r in found.raw if r["command"] == record["command"]]
        )
        for record in found.raw
    }
    slowest = max(medians, key=medians.__getitem__)
    site.say(f"  slowest reading command: mw {slowest}")
    found.figure("cli_start_s", medians[slowest], ROUNDS)
    cpu = [float(str(r["cpu_s"])) for r in found.raw if r["command"] == slowest]
    found.figure("cli_cpu_s", median(cpu), ROUNDS)
    found.figure("cli_version_s", medians["--version"], ROUNDS)
    found.figure("cli_jobs_s", medians["jobs"], ROUNDS)
    return found


def _run_s(running: Running, words: list[str], *, terminal: bool) -> tuple[float, float]:
    """Seconds from start to end, and of processor time."""
    argv = [str(Path(sys.executable).with_name("mw")), "--config", str(running.up.config), *words]
    env = {**running.up.env, "HOME": os.environ.get("HOME", "/"), "TERM": "xterm"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    if terminal:
        code, said = _on_terminal(argv, env)
    else:
        answer = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        code, said = answer.returncode, answer.stderr
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if code != 0:
        raise Trouble(f"mw {' '.join(words)}: exit {code}: {said[-500:]!r}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _on_terminal(argv: list[str], env: dict[str, str]) -> tuple[int, bytes]:
    """As a person runs it: on a terminal, where tables are drawn. Exit code and what was said."""
    ours, theirs = pty.openpty()
    said = b""
    try:
        process = subprocess.Popen(argv, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        with contextlib.suppress(OSError):  # what a terminal says when its last writer has gone
            while piece := os.read(ours, 65536):
                said += piece
        return process.wait(), said
    finally:
        os.close(ours)
