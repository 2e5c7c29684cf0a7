"""What trainers print: Megatron-LM, Hugging Face, and the line that any program can print."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .world import BATCH, RANK, RATE, WORLD, say, stamp


class Plain:
    """Middlewatch's own lines, which any program can print."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.total: int = options.steps

    def fresh(self, folder: Path) -> None:
        """There was no checkpoint."""

    def begin(self, first: int) -> None:
        """The next step is ``first``."""

    def step(self, step: int, loss: float, seconds: float, norm: float) -> None:
        """A step is done (called in every rank)."""
        if RANK == WORLD - 1:
            say(
                f"middlewatch: step={step} total={self.total} loss={loss:.6E} step_time_s={seconds:.3f}"
            )

    def saving(self, step: int, path: Path) -> None:
        """A save begins (rank 0)."""

    def saved(self, step: int, path: Path) -> None:
        """A checkpoint is durable (rank 0)."""
        say(f"middlewatch: checkpoint=saved step={step} path={path}")

    def loaded(self, step: int, path: Path) -> None:
        """Training goes on from a checkpoint (rank 0)."""
        say(f"middlewatch: checkpoint=loaded step={step} path={path}")

    def end(self) -> None:
        """All steps are done."""


class Megatron(Plain):
    """As Megatron-LM prints: iteration lines by the last rank, checkpoints by rank 0."""

    def fresh(self, folder: Path) -> None:
        say(f"WARNING: could not find the metadata file {folder}/latest_checkpointed_iteration.txt")
        say("    will not load any checkpoints and will start from random")

    def begin(self, first: int) -> None:
        if RANK == 0:
            say(f"[before the start of training step] datetime: {stamp()[:19]} ")

    def step(self, step: int, loss: float, seconds: float, norm: float) -> None:
        if RANK == WORLD - 1:
            say(
                f" [{stamp()}] iteration {step:8d}/{self.total:8d} | "
                f"consumed samples: {step * BATCH * WORLD:12d} | "
                f"elapsed time per iteration (ms): {seconds * 1000:.1f} | "
                f"learning rate: {RATE:.6E} | global batch size: {BATCH * WORLD:5d} | "
                f"lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | "
                "number of skipped iterations:   0 | number of nan iterations:   0 |"
            )

    def saving(self, step: int, path: Path) -> None:
        say(
            f"[{stamp()}] saving checkpoint at iteration {step:7d} to {path.parent} in torch format"
        )

    def saved(self, step: int, path: Path) -> None:
        what = f"saved checkpoint from iteration {step:7d} to {path.parent}"
        say(f"  [{stamp()}] successfully {what} [ t 1/1, p 1/1 ]")

    def loaded(self, step: int, path: Path) -> None:
        say(f" loading checkpoint from {path.parent} at iteration {step}")
        say(
            f"  successfully loaded checkpoint from {path.parent} [ t 1/1, p 1/1 ] at iteration {step}"
        )

    def end(self) -> None:
        if RANK == 0:
            say(f"[after training is done] datetime: {stamp()[:19]} ")


class HuggingFace(Plain):
    """As the Trainer of Hugging Face prints: a dictionary and a progress bar, by rank 0."""

    def begin(self, first: int) -> None:
        self.first, self.begun = first, time.monotonic()
        if RANK == 0:
            say("***** Running training *****")
            say(f"  Num examples = {self.total * BATCH * WORLD:,}")
            say(f"  Total optimization steps = {self.total:,}")

    def step(self, step: int, loss: float, seconds: float, norm: float) -> None:
        if RANK > 0:
            return
        self.wipe()
        epoch = round(step / self.total, 2)
        values = {"loss": round(loss, 4), "grad_norm": norm, "learning_rate": RATE, "epoch": epoch}
        say(repr(values))
        gone = time.monotonic() - self.begun
        rate = gone / (step - self.first + 1)
        left = rate * (self.total - step)
        bar = ("█" * (10 * step // self.total)).ljust(10)
        sys.stderr.write(
            f"\r{100 * step // self.total:3d}%|{bar}| {step}/{self.total} "
            f"[{clock(gone)}<{clock(left)}, {rate:5.2f}s/it]"
        )
        sys.stderr.flush()

    @staticmethod
    def wipe() -> None:
        """The bar is wiped before a line is printed and drawn again after it, as tqdm does it."""
        sys.stderr.write("\r" + " " * 60 + "\r")
        sys.stderr.flush()

    def saving(self, step: int, path: Path) -> None:
        self.wipe()
        say(f"Saving model checkpoint to {path.parent}/checkpoint-{step}")

    def saved(self, step: int, path: Path) -> None:
        say(f"Model weights saved in {path.parent}/checkpoint-{step}/model.safetensors")

    def loaded(self, step: int, path: Path) -> None:
        say("  Continuing training from checkpoint, will skip to saved global_step")
        say(f"  Continuing training from global step {step}")

    def end(self) -> None:
        if RANK == 0:
            say(
                "\n\nTraining completed. Do not forget to share your model on huggingface.co/models =)\n"
            )


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


FORMATS: dict[str, type[Plain]] = {"plain": Plain, "megatron": Megatron, "hf": HuggingFace}
