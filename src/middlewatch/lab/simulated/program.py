"""What runs inside a simulated job: small programs in virtual time that print real lines.

A program is told when it starts, says when it wants to go on, and does what is due by then. It
never sleeps and reads no clock, so a day of training takes a moment, and the same moment always
brings the same line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Exit:
    """How a batch script ended: an exit code, or the signal that killed it."""

    code: int = 0
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where and as what one attempt runs. ``write`` prints one line into the job's log."""

    job_id: str
    restarts: int
    nodes: tuple[str, ...]
    started_at: datetime
    write: Callable[[str], None]


class Program(Protocol):
    """One attempt's process. ``dies_after_s`` is how long it lives on after SIGTERM; what is
    longer than the cluster's KillWait is cut short by SIGKILL."""

    dies_after_s: float

    def due(self) -> datetime | None:
        """When it will do something next; None: never by itself."""

    def go_on(self, now: datetime) -> Exit | None:
        """Do what is due at ``now``; its exit where it ends with that."""


Start = Callable[[Place], Program]
"""Starts one attempt of a job. Called once per attempt: what outlives an attempt (checkpoints)
lives in the object behind it."""


@dataclass(slots=True)
class _Sleeping:
    until: datetime
    exit: Exit
    dies_after_s: float

    def due(self) -> datetime | None:
        return self.until

    def go_on(self, now: datetime) -> Exit | None:
        return self.exit if now >= self.until else None


def sleeper(seconds: float = 3600.0, ends: Exit = Exit(), dies_after_s: float = 0.2) -> Start:
    """A job that does nothing for a while and then ends as told."""

    def start(place: Place) -> Program:
        return _Sleeping(place.started_at + timedelta(seconds=seconds), ends, dies_after_s)

    return start


@dataclass(slots=True)
class SimulatedTrainer:
    """Training that prints as Megatron-LM does, saves checkpoints and fails when told to.

    ``fault``: ``crash-cuda`` (an uncorrectable ECC error on the attempt's last node),
    ``crash-python``, ``crash-exit`` (exit code ``fault_exit``), ``hang``, ``crash-hang`` (the lines
    of ``crash-cuda``, and then it neither goes on nor ends), or None; it happens
    after step ``fault_at`` in attempt ``fault_attempt``. Times in seconds. ``checkpoint`` is the
    newest complete one, the next attempt goes on from there.
    """

    steps: int = 60
    step_s: float = 0.5
    startup_s: float = 1.0
    checkpoint_every: int = 10
    checkpoint_s: float = 0.1
    fault: str | None = "crash-cuda"
    fault_at: int = 25
    fault_attempt: int = 0
    fault_exit: int = 1
    folder: str = "/checkpoints"
    dies_after_s: float = 0.3
    checkpoint: int = 0
    history: list[tuple[int, int]] = field(default_factory=list)
    """(restarts, step) of every step done, over all attempts."""

    def __call__(self, place: Place) -> Program:
        return _Training(self, place)


class _Training:
    def __init__(self, script: SimulatedTrainer, place: Place) -> None:
        self.dies_after_s = script.dies_after_s
        self._script = script
        self._place = place
        self._step = script.checkpoint
        self._next: datetime | None = place.started_at + timedelta(seconds=script.startup_s)
        self._begun = False

    def due(self) -> datetime | None:
        return self._next

    def go_on(self, now: datetime) -> Exit | None:
        while self._next is not None and self._next <= now:
            done = self._once(self._next)
            if done is not None:
                self._next = None
                return done
        return None

    def _once(self, now: datetime) -> Exit | None:
        script, say = self._script, self._place.write
        if not self._begun:
            self._begin(now)
            self._next = now + timedelta(seconds=script.step_s)
            return None
        self._step += 1
        script.history.append((self._place.restarts, self._step))
        say(_iteration_line(self._step, script.steps, script.step_s, now))
        pause = script.step_s
        if self._step % script.checkpoint_every == 0 or self._step == script.steps:
            saved = now + timedelta(seconds=script.checkpoint_s)
            say(
                f"[{_stamp(now)}] saving checkpoint at iteration {self._step:7d} to "
                f"{script.folder} in torch format"
            )
            say(
                f"  [{_stamp(saved)}] successfully saved checkpoint from iteration "
                f"{self._step:7d} to {script.folder} [ t 1/1, p 1/1 ]"
            )
            script.checkpoint = self._step
            pause += script.checkpoint_s
        if self._faulty():
            return self._fail()
        if self._step >= script.steps:
            say(f"[after training is done] datetime: {_stamp(now)[:19]} ")
            return Exit(0)
        self._next = now + timedelta(seconds=pause)
        return None

    def _begin(self, now: datetime) -> None:
        script, say = self._script, self._place.write
        if script.checkpoint:
            where = f"{script.folder} [ t 1/1, p 1/1 ] at iteration {script.checkpoint}"
            say(f" loading checkpoint from {script.folder} at iteration {script.checkpoint}")
            say(f"  successfully loaded checkpoint from {where}")
        else:
            say(
                "WARNING: could not find the metadata file "
                f"{script.folder}/latest_checkpointed_iteration.txt"
            )
            say("    will not load any checkpoints and will start from random")
        say(f"[before the start of training step] datetime: {_stamp(now)[:19]} ")
        self._begun = True

    def _faulty(self) -> bool:
        script = self._script
        here = self._place.restarts == script.fault_attempt and self._step == script.fault_at
        return here and script.fault is not None

    def _fail(self) -> Exit | None:
        script, say, node = self._script, self._place.write, self._place.nodes[-1]
        if script.fault == "hang":
            self._next = None
            return None
        if script.fault in {"crash-cuda", "crash-hang"}:
            say(
                f"{node} kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=4242, name=python3, An "
                "uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer "
                "at partition 0, subpartition 1."
            )
        if script.fault in {"crash-cuda", "crash-hang", "crash-python"}:
            say("Traceback (most recent call last):")
            say('  File "train.py", line 94, in <module>')
            say("    loss.backward()")
            say(
                "IndexError: list index out of range"
                if script.fault == "crash-python"
                else "RuntimeError: CUDA error: uncorrectable ECC error encountered"
            )
        if script.fault == "crash-hang":
            self._next = None
            return None
        say(f"srun: error: {node}: task {len(self._place.nodes) - 1}: Exited with exit code 1")
        return Exit(script.fault_exit)


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def _iteration_line(step: int, total: int, seconds: float, now: datetime) -> str:
    loss = 0.5 + 9.5 / (1 + step / 10)
    return (
        f" [{_stamp(now)}] iteration {step:8d}/{total:8d} | consumed samples: {step * 64:12d} | "
        f"elapsed time per iteration (ms): {seconds * 1000:.1f} | learning rate: 1.000000E-04 | "
        f"global batch size:    64 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 1.000 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
    )
