"""How long `up` takes until it is ready, and how long a reading command takes from start to end."""

from __future__ import annotations

import contextlib
import http.client
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

from tools.bench.figures import Measured, median
from tools.bench.site import Running, Site, noting, opt_in, wait

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
            running.up.stop()
            found.value("next_start_to_ready_s", ready_s(running))
    for name in ("first_start_to_ready_s", "next_start_to_ready_s"):
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
                seconds = _run_s(running, words, terminal=False)
                if turn:  # the first round fills the page cache and the bytecode's
                    found.value("cli_s", seconds, command=name)
            seconds = _run_s(running, ["jobs"], terminal=True)
            if turn:
                found.value("cli_s", seconds, command="jobs on a terminal")
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
    found.figure("cli_version_s", medians["--version"], ROUNDS)
    found.figure("cli_jobs_s", medians["jobs"], ROUNDS)
    return found


def _run_s(running: Running, words: list[str], *, terminal: bool) -> float:
    argv = [str(Path(sys.executable).with_name("mw")), "--config", str(running.up.config), *words]
    env = {**running.up.env, "HOME": os.environ.get("HOME", "/"), "TERM": "xterm"}
    if terminal:
        return _on_terminal_s(argv, env)
    began = time.perf_counter()
    answer = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    seconds = time.perf_counter() - began
    if answer.returncode != 0:
        raise RuntimeError(f"mw {' '.join(words)}: exit {answer.returncode}: {answer.stderr!r}")
    return seconds


def _on_terminal_s(argv: list[str], env: dict[str, str]) -> float:
    """As a person runs it: on a terminal, where tables are drawn."""
    ours, theirs = pty.openpty()
    try:
        began = time.perf_counter()
        process = subprocess.Popen(argv, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        with contextlib.suppress(OSError):  # what a terminal says when its last writer has gone
            while os.read(ours, 65536):
                pass
        code = process.wait()
        seconds = time.perf_counter() - began
    finally:
        os.close(ours)
    if code != 0:
        raise RuntimeError(f"{argv} on a terminal: exit {code}")
    return seconds
