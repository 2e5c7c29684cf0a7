"""`python -m tools.faults`, or `make faults`: see docs/faults.md."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from tools.faults.campaign import run, went_wrong
from tools.faults.schedule import PATTERNS, drawn

FAST = (1, 3, 9, 13, 18)
"""Seeds of a run of a few minutes."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="play this schedule (again)")
    parser.add_argument("--count", type=int, default=len(PATTERNS), help="how many schedules")
    parser.add_argument("--first", type=int, default=1, help="number of the first of them")
    parser.add_argument("--side-by-side", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/faults.json"))
    parser.add_argument("--list", action="store_true", help="print the schedules and play none")
    given = parser.parse_args(arguments)
    seeds = list(range(given.first, given.first + given.count))
    if os.environ.get("FAST"):
        seeds = list(FAST)
    if given.seed:
        seeds = given.seed
    if given.list:
        for seed in seeds:
            say(f"{seed:>4}  {drawn(seed)}")
        return 0
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        result = run(
            seeds,
            side_by_side=given.side_by_side,
            out=given.out,
            name=f"faults-{os.getpid()}",
            say=say,
        )
    except KeyboardInterrupt:
        say("interrupted; everything was taken down")
        return 130
    problems = went_wrong(result)
    for problem in problems:
        say(problem)
    played = sum(result["real_schedules"].values())
    say(f"{played} schedules, {result['kills']} times killed, {result['schedules_wrong']} wrong")
    say(f"What was seen is in {given.out}.")
    return 1 if problems else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
