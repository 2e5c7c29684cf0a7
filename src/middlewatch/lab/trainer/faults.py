"""How a rank fails when it is told to, by option or by the control file."""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
import traceback
from pathlib import Path
from typing import NoReturn

from .world import ATTEMPT, BATCH, DIMENSIONS, HOST, JOB, LAUNCH, RANK, WORLD, complain, say

FAULTS = (
    "crash-python",
    "crash-cuda",
    "crash-segv",
    "crash-exit",
    "nccl-timeout",
    "nccl-remote-error",
    "oom",
    "disk-full",
    "hang",
    "slow",
    "self-recover",
)


class Faults:
    """Says, at the beginning of each step, whether this rank fails now and how."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.slowdown = 1.0
        self.obeyed = self._control()  # an order of an earlier attempt is not for this one

    def _control(self) -> str:
        try:
            return str(self.options.control.read_text())
        except (OSError, UnicodeDecodeError):
            return ""

    @staticmethod
    def _here(rank: int, attempt: int) -> bool:
        return rank % WORLD == RANK and attempt in (-1, ATTEMPT)

    def due(self, step: int) -> str | None:
        """The fault that strikes this rank before it has done ``step``, or None."""
        options = self.options
        if (
            step == options.fault_at
            and self._here(options.fault_rank, options.fault_attempt)
            and (LAUNCH == 0 or options.fault_every_launch)
        ):
            fault: str | None = options.fault
            return fault
        return self._ordered()

    def _ordered(self) -> str | None:
        text = self._control()
        if text == self.obeyed:
            return None
        self.obeyed = text
        try:
            order = json.loads(text)
            kind, rank = order["fault"], int(order.get("rank", -1))
            attempt = int(order.get("attempt", ATTEMPT))
            factor = float(order.get("factor", self.options.slow_factor))
        except (ValueError, KeyError, TypeError, AttributeError):
            complain(f"trainer: the control file {self.options.control} cannot be understood")
            return None
        if kind == "heal":
            self.slowdown = 1.0
        if kind not in FAULTS or not self._here(rank, attempt):
            return None
        self.options.slow_factor = factor
        return str(kind)

    def strike(self, kind: str, step: int) -> None:
        """Let the fault happen. Returns only where the rank goes on."""
        if kind == "slow":
            self.slowdown = self.options.slow_factor
        elif kind == "self-recover":
            recover(step)
        elif kind == "crash-python":
            batch = list(range(BATCH))
            say(str(batch[BATCH + step]))  # a real IndexError with a real traceback
        elif kind == "crash-cuda":
            cuda_error()
        elif kind == "crash-segv":
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        elif kind == "crash-exit":
            complain(f"rank {RANK} on {HOST}: exiting with code {self.options.fault_exit}")
            os._exit(self.options.fault_exit)
        elif kind == "oom":
            out_of_memory()
        elif kind == "disk-full":
            with Path("/dev/full").open("wb", buffering=0) as full:
                full.write(b"checkpoint")  # a real ENOSPC
        elif kind == "nccl-remote-error":
            remote_error()
        else:  # hang, and the rank for which the others of nccl-timeout wait
            while True:
                time.sleep(3600)


def recover(step: int) -> None:
    try:
        raise RuntimeError(  # noqa: TRY301 - raised to be caught: that is the point
            f"DataLoader worker (pid {os.getpid()}) is killed by signal: Terminated."
        )
    except RuntimeError:
        traceback.print_exc()
        complain(f"rank {RANK}: recovered, trying step {step} again")


def cuda_error() -> NoReturn:
    complain(
        f"{HOST} kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid={os.getpid()}, name=python3, An "
        "uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at "
        "partition 0, subpartition 1."
    )
    raise RuntimeError(
        "CUDA error: uncorrectable ECC error encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the "
        "stacktrace below might be incorrect.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )


def out_of_memory() -> None:
    complain(
        f"slurmstepd-{HOST}: error: Detected 1 oom_kill event in StepId={JOB}.{LAUNCH}. "
        "Some of the step tasks have been OOM Killed."
    )
    os.kill(os.getpid(), signal.SIGKILL)


def remote_error() -> NoReturn:
    raise RuntimeError(
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2006, remote process "
        "exited or there was a network error, NCCL version 2.20.5\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process "
        "exiting prematurely."
    )


def watchdog(step: int, seconds: float) -> NoReturn:
    """What PyTorch's watchdog prints in every rank that waited in vain; then it aborts."""
    head = f"[rank{RANK}]:[E ProcessGroupNCCL.cpp"
    limit = int(seconds * 1000)
    complain(
        f"{head}:616] [Rank {RANK}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={step}, OpType=ALLREDUCE, NumelIn={DIMENSIONS}, NumelOut={DIMENSIONS}, "
        f"Timeout(ms)={limit}) ran for {limit + 37} milliseconds before timing out."
    )
    complain(
        f"{head}:630] Some NCCL operations have failed or timed out. Due to the asynchronous nature "
        "of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
    )
    complain(f"{head}:636] To avoid data inconsistency, we are taking the entire process down.")
    os.abort()
