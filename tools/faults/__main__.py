"""`python -m tools.faults`, or `make faults`: see docs/faults.md."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tools.faults.campaign import run, went_wrong
from tools.faults.patterns import PATTERNS
from tools.faults.schedule import RELEASES, drawn
from tools.faults.simulated.drawn import drawn as drawn_simulated
from tools.faults.simulated.explore import Explored, explore, show
from tools.faults.together import simulation_went_wrong, write

FAST = (1, 49, 82, 127, 147, 187, 226)
"""Seeds of a run of a few minutes, on the first release."""
SIMULATED = 10_000


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="play this schedule (again)")
    parser.add_argument("--count", type=int, default=len(PATTERNS) * len(RELEASES), help="how many")
    parser.add_argument("--first", type=int, default=1, help="number of the first of them")
    parser.add_argument("--side-by-side", type=int, default=6)
    parser.add_argument(
        "--again", action="store_true", help="keep what the last run played right, play the rest"
    )
    parser.add_argument("--release", choices=RELEASES, help="only the schedules of this one")
    parser.add_argument("--out", type=Path, default=Path("build/faults.json"))
    parser.add_argument("--list", action="store_true", help="print the schedules and play none")
    parser.add_argument("--simulated", action="store_true", help="only those of the simulation")
    parser.add_argument("--real", action="store_true", help="only those on a real Slurm")
    parser.add_argument("--simulated-count", type=int, default=SIMULATED, help="how many of them")
    parser.add_argument(
        "--simulated-first", type=int, default=1, help="number of the first of them"
    )
    parser.add_argument("--trace", action="store_true", help="with --simulated --seed: tell it all")
    given = parser.parse_args(arguments)
    if given.simulated and given.seed and not given.list:
        return sum(not show(seed, say, trace=given.trace) for seed in given.seed) and 1
    if given.list:
        _list(given)
        return 0
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        return _played(given)
    except KeyboardInterrupt:
        say("interrupted; everything was taken down")
        return 130


def _list(given: argparse.Namespace) -> None:
    for seed in _seeds(given):
        told = drawn_simulated(seed) if given.simulated else drawn(seed)
        if given.simulated or given.release in (None, drawn(seed).release):
            say(f"{seed:>4}  {told}")


def _seeds(given: argparse.Namespace) -> list[int]:
    if given.seed:
        return list(given.seed)
    if given.simulated:
        return list(range(given.simulated_first, given.simulated_first + given.simulated_count))
    if os.environ.get("FAST"):
        return list(FAST)
    return list(range(given.first, given.first + given.count))


def _played(given: argparse.Namespace) -> int:
    """Play what was asked for, write it down, and say what is wrong."""
    simulated: Explored | None = None
    real: dict[str, Any] | None = None
    if not given.real and not given.seed:
        count = min(given.simulated_count, 300) if os.environ.get("FAST") else given.simulated_count
        simulated = explore(given.simulated_first, count, say=say)
    if not given.simulated:
        real = run(
            _seeds(given),
            side_by_side=given.side_by_side,
            out=given.out,
            name=f"faults-{os.getpid()}",
            say=say,
            release=given.release,
            again=given.again,
        )
    write(given.out, real, simulated)
    problems = [] if real is None else went_wrong(real)
    problems += [] if simulated is None else simulation_went_wrong(simulated)
    for problem in problems:
        say(problem)
    if simulated is not None:
        say(
            f"{simulated.played} simulated schedules, {simulated.kills} times killed, "
            f"{len(simulated.wrong)} wrong, {simulated.seconds:.0f} s"
        )
    if real is not None:
        played = sum(real["real_schedules"].values())
        say(
            f"{played} real schedules, {real['events_reached']} events, {real['schedules_wrong']} wrong"
        )
    say(f"What was seen is in {given.out}.")
    return 1 if problems else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
