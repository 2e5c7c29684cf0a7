"""How long the phases of simulated jobs last in which nothing steps.

Whether an alarm comes too early in a phase depends on how long such phases are, so that the
distributions are said here and nowhere else. They are ours, drawn around what is published: images
pulled and modules imported within a minute, now and then within several; models of some billions of
parameters loaded and saved in one to ten minutes; just-in-time compilers that take from nothing to
a quarter of an hour; storage that is slow now and then. Model size makes loads, first saves and exports
long together. All lengths are log-normal: `median` seconds, `spread` the standard deviation of the
logarithm.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp

SIZE = 0.9
"""How much of the spread of loads and saves comes from the size of the model."""
LAUNCH = (15.0, 1.1)
"""Until the first line: 95 % below 92 s, 99 % below 194 s."""
LOAD = (40.0, 0.5)
"""Beside the size. With it 95 % below 217 s, 99 % below 438 s."""
COMPILES = 0.6
"""The share of jobs that compile before their first step; half of them say so."""
COMPILE = (50.0, 1.1)
SAVE = (15.0, 0.4)
"""Beside the size: 95 % below 76 s, 99 % below 148 s, the largest of a thousand seven minutes."""
FIRST_SAVE = (1.0, 2.5)
"""The first save takes so many times as long, evenly drawn: buffers and directories are made."""
AGAIN = 0.2
SLOW_STORAGE = 0.01
SLOW_STORAGE_TIMES = (2.0, 4.0)
"""One save in a hundred meets slow storage."""
EVALUATION = (50.0, 1.0)
EXITS = (0.75, 0.15, 0.10)
"""Ends: at once (1 to 20 s); after one more export, half to twice a save; after something is
packed or uploaded without a word."""
UPLOAD = (45.0, 1.0)
SAYS_ITS_END = 0.7


@dataclass(frozen=True, slots=True)
class Pauses:
    """One job's phases, seconds. ``launch_s``: until its first line; ``load_s``: from the last
    start-up line; ``compile_s``: 0 where it does not compile; ``save_s`` and ``evaluation_s`` are
    typical, ``first_save`` is how many times as long the first one takes. An evaluation prints
    ``evaluation_lines`` lines. ``exit_s``: from the last line on."""

    launch_s: float
    load_s: float
    compile_s: float
    says_compile: bool
    save_s: float
    first_save: float
    evaluation_s: float
    evaluation_lines: int
    exit_s: float
    says_end: bool


def pauses(chance: random.Random) -> Pauses:
    """Draw one job's."""
    size = exp(chance.gauss(0, SIZE))
    save_s = max(0.5, size * _drawn(chance, SAVE))
    compiles = chance.random() < COMPILES
    ends = chance.random()
    at_once, export = EXITS[0], EXITS[0] + EXITS[1]
    if ends < at_once:
        exit_s = chance.uniform(1, 20)
    elif ends < export:
        exit_s = save_s * chance.uniform(0.5, 2.0)
    else:
        exit_s = _drawn(chance, UPLOAD)
    return Pauses(
        launch_s=_drawn(chance, LAUNCH),
        load_s=size * _drawn(chance, LOAD),
        compile_s=_drawn(chance, COMPILE) if compiles else 0.0,
        says_compile=chance.random() < 0.5,
        save_s=save_s,
        first_save=chance.uniform(*FIRST_SAVE),
        evaluation_s=_drawn(chance, EVALUATION),
        evaluation_lines=chance.choice((1, 4)),
        exit_s=exit_s,
        says_end=chance.random() < SAYS_ITS_END,
    )


def another(chance: random.Random, usual_s: float) -> float:
    """The length of one more save or evaluation of a job."""
    length = usual_s * exp(chance.gauss(0, AGAIN))
    if chance.random() < SLOW_STORAGE:
        length *= chance.uniform(*SLOW_STORAGE_TIMES)
    return length


def _drawn(chance: random.Random, distribution: tuple[float, float]) -> float:
    median, spread = distribution
    return median * exp(chance.gauss(0, spread))
