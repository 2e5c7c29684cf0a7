"""The command line of the trainer, and how a rank ends."""

from __future__ import annotations

import argparse
import os
import resource
import time
import traceback
from pathlib import Path
from typing import NoReturn

from .collective import PeerLost
from .faults import FAULTS, remote_error
from .heartbeat import begin
from .lines import FORMATS
from .training import Training
from .world import ATTEMPT, HOST, JOB, LAUNCH, LOCAL, RANK, WORLD, complain, say


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A small real training job.")
    add = parser.add_argument
    add("--checkpoint-dir", type=Path, required=True)
    add("--steps", type=int, default=100, help="steps until the training is done")
    add("--step-seconds", type=float, default=0.2, help="how long one step takes at least")
    add("--checkpoint-every", type=int, default=10, metavar="STEPS")
    add("--checkpoint-seconds", type=float, default=0.0, help="how long a save takes at least")
    add("--startup-seconds", type=float, default=0.0, help="pause before the first step")
    add("--keep", type=int, default=3, help="checkpoints that are kept")
    add("--log-every", type=int, default=1, metavar="STEPS")
    add("--seed", type=int, default=1)
    add("--format", choices=sorted(FORMATS), default="megatron")
    add("--fault", choices=FAULTS)
    add("--fault-at", type=int, default=1, metavar="STEP", help="strikes before this step is done")
    add("--fault-rank", type=int, default=-1, help="-1 is the last rank")
    add("--fault-attempt", type=int, default=0, help="the attempt it strikes in; -1: each")
    add("--fault-every-launch", action="store_true", help="not only in the attempt's first srun")
    add("--fault-exit", type=int, default=1, help="exit code of crash-exit")
    add("--slow-factor", type=float, default=4.0)
    add("--collective-timeout", type=float, default=0.0, help="seconds; 0 waits for ever")
    add(
        "--cascade", choices=("none", "remote-error"), default="none", help="when another rank dies"
    )
    add("--control", type=Path, help="file with orders; default: control.json beside checkpoints")
    add("--heartbeat", type=Path, help="file that each rank appends its signs of life to")
    options = parser.parse_args(argv)
    if options.fault == "nccl-timeout" and not options.collective_timeout:
        options.collective_timeout = 3.0
    if options.control is None:
        options.control = options.checkpoint_dir / "control.json"
    return options


def main() -> None:
    options = arguments()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if RANK == 0:
        say(f"trainer: job {JOB} attempt {ATTEMPT} launch {LAUNCH}, {WORLD} ranks")
    say(f"trainer: rank {RANK} on {HOST} (local rank {LOCAL})")
    if options.heartbeat is not None:
        begin(options.heartbeat)
    try:
        Training(options).run()
    except PeerLost:
        if options.cascade == "none":
            # srun --kill-on-bad-exit ends this rank too, normally long before that.
            time.sleep(20)
            os._exit(1)
        try:
            remote_error()
        except RuntimeError:
            report()
    except Exception:  # noqa: BLE001 - the rank's outermost handler: whatever it was is printed
        report()


def report() -> NoReturn:
    """End as PyTorch ends: every line of the traceback names the rank."""
    complain("\n".join(f"[rank{RANK}]: {line}" for line in traceback.format_exc().splitlines()))
    os._exit(1)


if __name__ == "__main__":
    main()
