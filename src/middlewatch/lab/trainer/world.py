"""Who this rank is, as Slurm tells it, and how it prints."""

from __future__ import annotations

import os
import socket
import sys
from datetime import datetime
from typing import TextIO

DIMENSIONS = 16
BATCH = 8
RATE = 0.05


def number(name: str, default: int = 0) -> int:
    """An integer of the environment; Slurm sets no SLURM_RESTART_COUNT in the first attempt."""
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return default


RANK = number("SLURM_PROCID")
WORLD = number("SLURM_NTASKS", 1)
LOCAL = number("SLURM_LOCALID")
ATTEMPT = number("SLURM_RESTART_COUNT")
LAUNCH = number("SLURM_STEP_ID")
JOB = os.environ.get("SLURM_JOB_ID", "0")
HOST = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
KEY = f"{JOB}-{ATTEMPT}-{LAUNCH}"
"""One key per attempt and launch: a requeued job must not meet its predecessor's ports."""


def say(line: str, stream: TextIO | None = None) -> None:
    """Print one line in one write, so that the lines of several ranks do not cut each other."""
    out = stream or sys.stdout
    out.write(line + "\n")
    out.flush()


def complain(line: str) -> None:
    """The same on standard error."""
    say(line, sys.stderr)


def stamp() -> str:
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ005 - as Megatron prints it
