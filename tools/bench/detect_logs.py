"""Logs to search: what a training prints, made from a seed, of any size.

*Chatty*: a run with debugging on; of its lines 1 % are steps and 0.05 % are failures and warnings.
*Quiet*: a run that prints little else than its steps; 60 % of the lines are steps.
The failures and warnings are the examples and near-misses of the catalogue itself; the steps are
Megatron's, the longest of the common formats; saves and evaluations come in between.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from middlewatch.adapters.scan.catalogue import read_catalogue
from middlewatch.model.pattern import PatternKind

SEED = 3
POOL = 100_000
LINES_AT_ONCE = 20_000
_WORDS = (
    "shard",
    "loader",
    "queue",
    "bucket",
    "tensor",
    "cache",
    "prefetch",
    "worker",
    "offset",
    "layer",
    "block",
    "kernel",
    "stream",
    "event",
    "batch",
    "token",
    "mask",
    "head",
    "scale",
    "expert",
    "router",
    "gradient",
    "buffer",
    "pool",
    "segment",
    "index",
    "reader",
    "chunk",
)
_TROUBLES = frozenset({PatternKind.FAILURE, PatternKind.EXCEPTION, PatternKind.HARMLESS})


@dataclass(frozen=True, slots=True)
class Kind:
    """Shares of lines."""

    name: str
    steps: float
    troubles: float


CHATTY = Kind("chatty", steps=0.01, troubles=0.0005)
QUIET = Kind("quiet", steps=0.6, troubles=0.0005)


def write(path: Path, kind: Kind, size: int, seed: int = SEED) -> int:
    """Write at least ``size`` bytes of whole lines; their number is returned."""
    count = 0
    with path.open("wb") as file:
        while file.tell() < size:
            for lines in _portions(kind, seed):
                file.write(("\n".join(lines) + "\n").encode())
                count += len(lines)
                if file.tell() >= size:
                    break
    return count


def _portions(kind: Kind, seed: int) -> Iterator[list[str]]:
    chance = random.Random(seed)
    pool = [_remark(chance) for _ in range(POOL)]
    troubles = _trouble_lines()
    step = 0
    while True:
        lines = chance.choices(pool, k=LINES_AT_ONCE)
        for place in range(LINES_AT_ONCE):
            drawn = chance.random()
            if drawn < kind.steps:
                step += 1
                lines[place] = _saved(step) if step % 500 == 0 else _step(chance, step)
            elif drawn < kind.steps + kind.troubles:
                lines[place] = chance.choice(troubles)
        yield lines


def _trouble_lines() -> list[str]:
    """Failures, and as many lines that only look like one."""
    found: list[str] = []
    for pattern in read_catalogue().patterns:
        if pattern.kind in _TROUBLES:
            found.append(pattern.examples[0])
            found.append(pattern.near_misses[0])
    return [line for line in found if "\n" not in line and "\r" not in line]


def _clock(step: int) -> str:
    hours, rest = divmod(step * 7 // 5, 3600)
    minutes, seconds = divmod(rest, 60)
    days, hours = divmod(hours, 24)
    months, days = divmod(days, 28)
    return f"2026-{1 + months % 12:02d}-{1 + days:02d} {hours:02d}:{minutes:02d}:{seconds:02d}"


def _step(chance: random.Random, step: int) -> str:
    took = chance.gauss(1400.0, 6.0)
    return (
        f" [{_clock(step)}.{step * 7919 % 1000000:06d}] iteration {step:8d}/ 9000000 | consumed samples: "
        f"{step * 512:12d} | elapsed time per iteration (ms): {took:.1f} | throughput per GPU "
        f"(TFLOP/s/GPU): {580000 / took:.1f} | learning rate: 1.000000E-04 | global batch size:   512 "
        f"| lm loss: {2 + chance.random() / 50:.6E} | loss scale: 1.0 | grad norm: "
        f"{0.3 + chance.random() / 20:.3f} | number of skipped iterations:   0 | number of nan "
        "iterations:   0 |"
    )


def _saved(step: int) -> str:
    return (
        f"  successfully saved checkpoint from iteration {step:7d} to /scratch/run/ckpt [ t 1/1 ]"
    )


def _remark(chance: random.Random) -> str:
    """A line that means nothing."""
    one, two, three = chance.choices(_WORDS, k=3)
    rank, number = chance.randrange(64), chance.randrange(1_000_000_000)
    match chance.randrange(8):
        case 0 | 1:
            return (
                f"[rank{rank}]: 2026-01-01 00:00:{number % 60:02d},{number % 1000:03d} INFO "
                f"{one}.py:{number % 999}: {two} {number:09d} of the data set was read in "
                f"{number % 97} ms, next one is queued"
            )
        case 2 | 3:
            return (
                f"gpu-{rank:03d}:{number % 99991}:{number % 99989} [{rank % 8}] NCCL INFO Channel "
                f"{number % 32:02d}/0 : {rank}[{rank % 8}] -> {(rank + 1) % 64}[{(rank + 1) % 8}] "
                "via P2P/IPC/read"
            )
        case 4:
            return (
                f"{rank}: [DEBUG] {one}.{two}: {three}={number} {one}={number / 1e9:.4f} took "
                f"{number % 1000 / 1000:.3f}s"
            )
        case 5:
            return "  " + " ".join(chance.choices(_WORDS, k=3 + number % 15))
        case 6:
            return (
                f"2026-01-01T00:00:{number % 60:02d}.{number % 1000000:06d}Z node{rank:02d} "
                f"trainer[{number % 99991}]: {one} {two} at 0x{number * 7919:012x}, {number % 9973} "
                f"of {number % 9967} {three}s"
            )
        case _:
            return (
                f"[default{rank % 8}]:W0101 00:00:{number % 60:02d}.{number % 1000000:06d} "
                f"{number % 99991} torch/_{one}/{two}.py:{number % 999}] [{rank}/0] {three} is "
                "slower than usual"
            )
