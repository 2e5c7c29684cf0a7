"""Many schedules of the simulation side by side, and what became of them, counted."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.faults.simulated.drawn import ADVISED, PEOPLE, TROUBLES, drawn
from tools.faults.simulated.judge import APART, COUNTS
from tools.faults.simulated.play import leave, new_folder, play, stay_in

AGAIN = "python -m tools.faults --simulated --seed {seed} --trace"
TOLD_AT_MOST = 40
ENOUGH = 2000
EXPECTED = tuple(
    dict.fromkeys(
        (
            *PEOPLE,
            *TROUBLES,
            *(f"{kind.lower()} is advised" for kind in ADVISED),
            "a reply is lost",
            "a command never arrives",
            "a command takes effect after its client gave up",
            "somebody acts between a look and a command",
            "ended jobs are forgotten",
            "a leader stands still",
            "a leader is taken over from",
        )
    )
)
"""Everything that has to come to pass in a long run, with effect."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one schedule came to, small enough to be handed from process to process."""

    seed: int
    findings: tuple[tuple[str, str], ...] = ()
    apart: tuple[tuple[str, int], ...] = ()
    happened: tuple[tuple[str, int], ...] = ()
    kills: int = 0
    commands: int = 0
    outcomes: tuple[str, ...] = ()
    virtual_s: float = 0.0
    error: str = ""


@dataclass
class Explored:
    """All of them together."""

    first: int
    played: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    apart: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    commands: int = 0
    virtual_s: float = 0.0
    wrong: list[Line] = field(default_factory=list)
    errors: list[Line] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, line: Line) -> None:
        if line.error:
            self.errors.append(line)
            return
        self.played += 1
        self.counts.update(name for name, _ in line.findings)
        self.apart.update(dict(line.apart))
        self.happened.update(dict(line.happened))
        self.outcomes.update(line.outcomes)
        self.kills += line.kills
        self.commands += line.commands
        self.virtual_s += line.virtual_s
        if line.findings:
            self.wrong.append(line)

    @property
    def never_happened(self) -> tuple[str, ...]:
        """Kinds that are drawn and never came to pass: then nothing is known of them. Asked of
        runs that are long enough for the rarest."""
        if self.played < ENOUGH:
            return ()
        return tuple(kind for kind in EXPECTED if not self.happened[kind])

    def summary(self) -> dict[str, Any]:
        """Its part of build/faults.json."""
        return {
            "schedules": self.played,
            **{name: self.counts[name] for name in COUNTS},
            **{name: self.apart[name] for name in APART},
            **{name: n for name, n in sorted(self.apart.items()) if name not in APART},
            "happened": {kind: self.happened[kind] for kind in sorted({*EXPECTED, *self.happened})},
            "never_happened": list(self.never_happened),
            "kills": self.kills,
            "commands": self.commands,
            "virtual_hours": round(self.virtual_s / 3600, 1),
            "outcomes": dict(sorted(self.outcomes.items())),
            "seeds": {"first": self.first, "count": self.played + len(self.errors)},
            "seeds_not_right": [line.seed for line in self.wrong],
            "harness_errors": len(self.errors),
            "seconds": round(self.seconds, 1),
        }


def explore(
    first: int,
    count: int,
    *,
    workers: int | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> Explored:
    """Play the schedules ``first`` to ``first + count - 1``; each that is not right is told."""
    began = time.monotonic()
    result = Explored(first)
    seeds = range(first, first + count)
    number = min(workers or os.cpu_count() or 1, count)
    told = 0
    for line in _lines(seeds, number):
        result.add(line)
        if (line.findings or line.error) and told < TOLD_AT_MOST:
            told += 1
            say(f"WRONG simulated {line.seed}: {drawn(line.seed)}")
            for name, text in line.findings:
                say(f"      {name}: {text}")
            if line.error:
                say("      " + line.error.strip().splitlines()[-1])
            say(f"      again: {AGAIN.format(seed=line.seed)}")
        done = result.played + len(result.errors)
        if done % 1000 == 0:
            say(f"{done} of {count} simulated schedules, {time.monotonic() - began:.0f} s")
    result.seconds = time.monotonic() - began
    return result


def _lines(seeds: Sequence[int], workers: int) -> Iterable[Line]:
    if workers <= 1:
        try:
            yield from map(one, seeds)
        finally:
            leave()
        return
    # Each worker is a process of its own: a forked one would share threads and a store.
    context = multiprocessing.get_context("spawn")
    folder = new_folder()
    try:
        with context.Pool(workers, stay_in, (folder,)) as pool:
            yield from pool.imap_unordered(one, seeds, chunksize=8)
            pool.close()
            pool.join()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one(seed: int) -> Line:
    """One schedule; what breaks in the harness is told with it."""
    try:
        played = play(seed)
    except Exception as error:  # noqa: BLE001 - one broken schedule must not hide the others
        return Line(seed, error="".join(traceback.format_exception(error))[-3000:])
    return Line(
        seed=seed,
        findings=tuple((f.count, f.text) for f in played.findings),
        apart=tuple(played.apart.items()),
        happened=tuple(played.happened.items()),
        kills=played.kills,
        commands=played.commands,
        outcomes=tuple(" ".join(words.split()[2:]) for words in played.outcomes),
        virtual_s=played.virtual_s,
    )


def show(seed: int, say: Callable[[str], None], *, trace: bool) -> bool:
    """Play one schedule again and tell it; False where it is not right."""
    try:
        played = play(seed, trace=trace)
    finally:
        leave()
    say(f"{seed}  {played.drawn}")
    for line in played.trace:
        say(line)
    for finding in played.findings:
        say(f"WRONG {finding.count}: {finding.text}")
    for outcome in played.outcomes:
        say(f"advice {outcome}")
    return not played.findings
