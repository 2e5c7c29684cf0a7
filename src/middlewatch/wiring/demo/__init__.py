"""The demo: one true recovery, told as it happens, and written down for a program to check.

It runs unattended: a Slurm of its own, `middlewatch up` in action mode, a real distributed job
that crashes, and nobody who helps. The exit code is 0 only where the whole way from the fault to
a step beyond it was seen.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.model.identity import ClusterId
from middlewatch.model.milestone import MilestoneKind
from middlewatch.model.optin import directive
from middlewatch.wiring.demo.backend import Backend, choose
from middlewatch.wiring.demo.job import ENVIRONMENT, Job
from middlewatch.wiring.demo.result import missing, parts_told, record, summary
from middlewatch.wiring.demo.story import Seen, Story

LIMIT_S = 180.0
LOOK_EVERY_S = 0.1


def run(arguments: list[str]) -> int:
    """Run the demo with command-line ``arguments``; its exit code."""
    parser = argparse.ArgumentParser(prog="middlewatch demo", description=__doc__)
    parser.add_argument("--backend", choices=["auto", "slurm", "simulated"], default="auto")
    parser.add_argument("--out", type=Path, default=Path("build/demo.json"))
    parser.add_argument("--name", default="demo", help="name of the lab that is started")
    given = parser.parse_args(arguments)
    # A demo that is told to stop takes its Slurm down with it.
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        backend = choose(given.backend, _say, given.name)
    except (ValueError, RuntimeError) as error:
        _complain(str(error))
        return 1
    try:
        made = _recovery(backend)
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    finally:
        _say("Taking the cluster down.")
        backend.close()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(made, indent=2) + "\n")
    problems = missing(made)
    for problem in problems:
        _complain(problem)
    if not problems:
        for line in (summary(made), *parts_told(made)):
            _say(line)
    _say(f"Everything that was seen is in {given.out}.")
    return 1 if problems else 0


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _complain(line: str) -> None:
    sys.stderr.write(f"demo: {line}\n")


def _recovery(backend: Backend) -> dict[str, Any]:
    what = "real Slurm" if backend.kind == "slurm" else "simulated Slurm"
    _say(f"Middlewatch demo on a {what} {backend.version}; nothing else is touched.")
    backend.begin()
    _say("middlewatch up: ACTION mode (this cluster is ours to play with).")
    comment = directive(ENVIRONMENT, "action")
    _say(f"A training job that opts in by one line: {comment}")
    body = comment.removeprefix("#SBATCH --comment='").removesuffix("'")
    job_id = backend.submit(Job(comment=body))
    _say(f"Job {job_id} is submitted; in attempt 0 a GPU of its second rank will fail.")
    _say("")
    clock = SystemClock()
    store = backend.store()
    story = Story(store, ClusterId("slurm", ENVIRONMENT), job_id, _say)
    try:
        seen = story.look()
        until = clock.monotonic() + LIMIT_S
        while not _over(seen) and clock.monotonic() < until:
            clock.sleep(LOOK_EVERY_S)
            seen = story.look()
    finally:
        store.close()
    _say("")
    backend.finish(job_id)
    return record(
        seen,
        backend=backend.kind,
        version=backend.version,
        job_id=job_id,
        commands=backend.commands(),
        accounting=backend.accounting(job_id),
    )


def _over(seen: Seen) -> bool:
    decided = seen.advice is not None and not seen.advice.active
    return decided and MilestoneKind.RESUMED in seen.milestones and seen.verified
