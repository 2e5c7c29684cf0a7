"""The model, its data, and the loop."""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

from .checkpoint import latest_checkpoint, write_atomically
from .collective import Collective, CollectiveTimeout
from .faults import Faults, watchdog
from .lines import FORMATS
from .world import ATTEMPT, BATCH, DIMENSIONS, RANK, RATE


class Training:
    """The model, its data, and the loop."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder: Path = options.checkpoint_dir
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = FORMATS[options.format](options)
        self.faults = Faults(options)
        # The model to be found is the same for all ranks; the batches are each rank's own.
        source = random.Random(options.seed)
        self.truth = [source.gauss(0, 1) for _ in range(DIMENSIONS)]
        self.weights = [0.0] * DIMENSIONS
        self.batches = random.Random(options.seed * 1000003 + RANK)
        self.step = 0

    def resume(self) -> None:
        """Go on from the latest checkpoint, if there is one."""
        found = latest_checkpoint(self.folder)
        if found is None:
            if RANK == 0:
                self.log.fresh(self.folder)
            return
        state, path = found
        self.step, self.weights = state["step"], state["weights"]
        states = state["random"]
        if len(states) > RANK:
            version, internal, gauss = states[RANK]
            self.batches.setstate((version, tuple(internal), gauss))
        if RANK == 0:
            self.log.loaded(self.step, path)

    def gradient(self) -> tuple[float, list[float]]:
        """Loss and gradient of one batch of this rank."""
        total, gradient = 0.0, [0.0] * DIMENSIONS
        for _ in range(BATCH):
            row = [self.batches.gauss(0, 1) for _ in range(DIMENSIONS)]
            target = dot(row, self.truth) + self.batches.gauss(0, 0.01)
            error = dot(row, self.weights) - target
            total += error * error
            gradient = [g + 2 * error * x / BATCH for g, x in zip(gradient, row, strict=True)]
        return total / BATCH, gradient

    def save(self, parts: list[dict[str, Any]]) -> None:
        """Write a checkpoint and forget the oldest ones (rank 0)."""
        path = self.folder / f"step-{self.step:07d}.json"
        self.log.saving(self.step, path)
        state = {
            "step": self.step,
            "weights": self.weights,
            "random": [part["random"] for part in parts],
            "attempt": ATTEMPT,
        }
        time.sleep(self.options.checkpoint_seconds)
        write_atomically(path, json.dumps(state).encode())
        for old in sorted(self.folder.glob("step-*.json"))[: -self.options.keep]:
            old.unlink()
        self.log.saved(self.step, path)

    def run(self) -> None:
        """Train until all steps are done."""
        options = self.options
        self.resume()
        time.sleep(options.startup_seconds)
        collective = Collective(self.folder, options.collective_timeout)
        self.log.begin(self.step + 1)
        while self.step < options.steps:
            begun = time.monotonic()
            kind = self.faults.due(self.step + 1)
            if kind is not None:
                self.faults.strike(kind, self.step + 1)
            loss, gradient = self.gradient()
            wanted = options.step_seconds * self.faults.slowdown
            time.sleep(max(0.0, wanted - (time.monotonic() - begun)))
            following = self.step + 1
            saves = following % options.checkpoint_every == 0 or following == options.steps
            mine: dict[str, Any] = {"loss": loss, "gradient": gradient}
            if saves:
                mine["random"] = self.batches.getstate()
            try:
                mean, parts = collective.reduce(mine)
            except CollectiveTimeout:
                watchdog(following, options.collective_timeout)
            self.step = following
            slope = mean["gradient"]
            self.weights = [w - RATE * g for w, g in zip(self.weights, slope, strict=True)]
            if following % options.log_every == 0 or following == options.steps:
                seconds = time.monotonic() - begun
                self.log.step(following, mean["loss"], seconds, dot(slope, slope) ** 0.5)
            if saves and RANK == 0:
                self.save(parts)
        self.log.end()


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
