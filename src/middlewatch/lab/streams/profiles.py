"""What simulated jobs are like: how they step, what they print, and what interrupts them.

The numbers are drawn from ranges that public training logs show: steps of a fraction of a second
to two minutes; noise of a fraction of a per cent to several, often alike from one step to the
next; lengths that vary; batches that grow by plan; saves, some beside the training; evaluations;
compilations at the start and in between; single steps that take several times as long. How long the
pauses last stands in `middlewatch.lab.streams.pauses`. A profile and a seed give the same job every
time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum

from middlewatch.lab.streams.pauses import Pauses, pauses


class Pace(StrEnum):
    """How the speed of a job varies by itself."""

    EVEN = "even"
    """Fixed lengths: noise only, neighbours more or less alike."""
    WANDERING = "wandering"
    """Even, and slowly up and down by a per cent or two."""
    LENGTHS = "lengths"
    """Every step has another length; the throughput in tokens is printed."""
    LENGTHS_UNTOLD = "lengths_untold"
    """Every step has another length, and only its time is printed."""
    SORTED = "sorted"
    """Lengths sorted within groups of batches: a saw."""
    RAMP = "ramp"
    """The batch grows by plan, and is printed."""
    RAMP_THROUGHPUT = "ramp_throughput"
    """The batch grows by plan; the throughput per device is printed."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of job. Times in seconds, noise as the standard deviation of the logarithm.

    ``per_line`` steps are put together in one line; ``tells_time`` says that the line gives the
    time of a step, else only stamps tell it. ``spikes`` is the share of steps that take several
    times as long. ``save_every`` and ``eval_every`` are steps, 0 for never; ``beside``: a save
    goes on beside the training, which it slows by ``beside_slows``. ``silent_pauses``: evaluations
    that print nothing.
    """

    name: str
    pace: Pace
    step_s: float
    steps: int
    noise: float = 0.01
    alike: float = 0.0
    lengths: float = 0.0
    per_line: int = 1
    tells_time: bool = True
    spikes: float = 0.003
    warm_steps: int = 20
    warm_slower: float = 0.15
    save_every: int = 0
    beside: bool = False
    beside_slows: float = 0.08
    eval_every: int = 0
    silent_pauses: bool = False
    recompiles: int = 0
    pauses: Pauses = pauses(random.Random("pauses"))


def healthy(number: int) -> Profile:
    """The profile of the healthy job with that number: all kinds in turn, drawn within each."""
    chance = random.Random(f"profile/{number}")
    pace = (
        Pace.EVEN, Pace.EVEN, Pace.WANDERING, Pace.LENGTHS, Pace.LENGTHS_UNTOLD,
        Pace.SORTED, Pace.RAMP, Pace.RAMP_THROUGHPUT, Pace.EVEN, Pace.EVEN,
    )[number % 10]  # fmt: skip
    profile = _drawn(chance, pace, number)
    if number % 10 == 8:
        profile = replace(profile, name="even_clock", tells_time=False, per_line=1)
    if number % 10 == 9:
        profile = replace(profile, name="even_interval", per_line=chance.choice((10, 20, 50)))
        profile = replace(profile, step_s=chance.uniform(1.5, 6), steps=9000)
    return profile


def _drawn(chance: random.Random, pace: Pace, number: int) -> Profile:
    step_s = 2.0 * 10 ** chance.uniform(0.0, 1.2)
    steps = max(1500, min(6000, int(chance.uniform(5, 9) * 3600 / step_s)))
    every = chance.choice((100, 200, 250, 500))
    return Profile(
        name=pace.value,
        pace=pace,
        step_s=step_s,
        steps=steps,
        noise=0.003 * 10 ** chance.uniform(0.0, 1.1),
        alike=chance.choice((0.0, 0.0, 0.3, 0.6)),
        lengths=chance.uniform(0.1, 0.35) if pace in LENGTHY else 0.0,
        per_line=chance.choice((1, 1, 1, 5, 10)),
        spikes=chance.choice((0.0005, 0.003, 0.01, 0.02)),
        warm_steps=chance.choice((3, 20, 60, 150)),
        warm_slower=chance.uniform(0.05, 0.4),
        save_every=every,
        beside=number % 3 == 0,
        beside_slows=chance.uniform(0.02, 0.15),
        eval_every=chance.choice((0, 250, 500, 1000)),
        silent_pauses=number % 4 == 1,
        recompiles=chance.choice((0, 0, 1, 3)),
        pauses=pauses(chance),
    )


LENGTHY = frozenset({Pace.LENGTHS, Pace.LENGTHS_UNTOLD, Pace.SORTED})


def plain(number: int, *, per_line: int = 1, lengths: bool = False, rough: bool = False) -> Profile:
    """The profile of a job that is to become slow: noise of 0.3 to 3 %, with all interruptions.

    With ``lengths`` its steps have different lengths and it prints tokens per second; with
    ``rough`` one or two steps in a hundred take up to six times as long, else at most three in a
    thousand do.
    """
    chance = random.Random(f"plain/{number}/{per_line}/{lengths}")
    pace = Pace.LENGTHS if lengths else chance.choice((Pace.EVEN, Pace.EVEN, Pace.WANDERING))
    profile = replace(_drawn(chance, pace, number), per_line=per_line, steps=1600)
    if per_line > 1:
        profile = replace(profile, step_s=chance.uniform(1.5, 6), steps=4000)
    spikes = chance.choice((0.01, 0.02) if rough else (0.0, 0.0005, 0.003))
    return replace(profile, noise=0.003 * 10 ** chance.uniform(0.0, 1.0), spikes=spikes)


def stuck(number: int) -> Profile:
    """The profile of a job that is to hang, or of a healthy one whose pauses are counted: short,
    and every phase comes soon and says so."""
    chance = random.Random(f"stuck/{number}")
    profile = _drawn(chance, chance.choice((Pace.EVEN, Pace.LENGTHS, Pace.WANDERING)), number)
    return replace(
        profile,
        name="short",
        steps=200,
        step_s=min(profile.step_s, 20.0),
        per_line=1,
        save_every=30,
        eval_every=50,
        beside=False,
        silent_pauses=False,
        recompiles=0,
    )
