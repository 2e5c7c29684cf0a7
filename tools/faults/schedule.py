"""One schedule: what fails, who interferes when, and how long it lasts. All from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tools.faults.patterns import PATTERNS, Pattern
from tools.faults.places import Place, Places, place


class Kind(StrEnum):
    """What the job does by itself."""

    CRASH = "crash"
    """A rank crashes; the attempt ends FAILED."""
    HANG = "hang"
    """A crash line, then no progress: the attempt is requeued while it runs."""
    NODE = "node"
    """It trains; its node is what fails."""


@dataclass(frozen=True, slots=True)
class Deed:
    """``what`` is a key of `deeds.DEEDS`; it lasts ``seconds`` where it is one that ends."""

    what: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.what + (f" for {self.seconds:.1f} s" if self.seconds else "")


@dataclass(frozen=True, slots=True)
class Event:
    """What is done at one place of the recovery, one after the other. ``lag_s``: the command that is met
    there waits so long first."""

    place: Place
    deeds: tuple[Deed, ...]
    lag_s: float = 0.0

    def __str__(self) -> str:
        lag = f" ({self.lag_s:.0f} s late)" if self.lag_s else ""
        deeds = " + ".join(map(str, self.deeds))
        return f"{self.place}{lag}" + (f": {deeds}" if deeds else "")


RELEASES = ("22.05", "24.11", "newest")
"""By the names that a lab knows them by; the newest is whatever Debian's testing serves."""
USUAL, SHORT, STORMY = "usual", "short", "stormy"
LABS = (USUAL, SHORT, STORMY)
"""Slurm's begin time as it is longer than a recovery (46 s here: two minutes are not waited for); one that
is shorter than our work, so that we take requeue-holds; and a cluster for what befalls a whole
cluster: one schedule at a time."""
UP, APART, ELSEWHERE = "up", "apart", "elsewhere"
DEPLOYMENTS = (UP, APART, ELSEWHERE)
"""`middlewatch up`; each role a process of its own; and the controller with a state directory of its
own, which asks the gateway."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """``release`` is one of `RELEASES`, ``lab`` of `LABS`, ``deployment`` of `DEPLOYMENTS`. ``absent``:
    nobody starts us again before the watchdog has done its duty. ``watchdog_too``: whoever kills
    everything kills the watchdog as well."""

    seed: int
    release: str
    kind: Kind
    lab: str
    deployment: str
    events: tuple[Event, ...]
    watchdog_too: bool
    absent: bool
    user_exclusion: bool
    bystander: bool
    append: bool
    fault_at: int
    steps: int

    def __str__(self) -> str:
        words = [f"Slurm {self.release}", self.kind.value]
        if self.deployment != UP:
            words.append(self.deployment)
        if self.lab == SHORT:
            words.append("short window")
        words += map(str, self.events)
        if self.watchdog_too:
            words.append("the watchdog dies too")
        if self.absent:
            words.append("only the watchdog lets go")
        return ", ".join(words)

    def deeds(self) -> frozenset[str]:
        return frozenset(deed.what for event in self.events for deed in event.deeds)


LONG_S = {USUAL: (48.0, 54.0), SHORT: (25.0, 60.0), STORMY: (48.0, 54.0)}
"""An absence that outlasts Slurm's own begin time (in the short lab: the release-by of a hold)."""
LENGTH_S: dict[str, tuple[float, float]] = {
    "kill controller": (0.2, 9.0),
    "kill gateway": (2.0, 14.0),
    "kill manager": (0.5, 9.0),
    "kill watcher": (0.5, 9.0),
    "freeze us": (32.0, 36.0),
    "slurmctld hangs": (14.0, 26.0),
    "slurmctld hangs briefly": (2.0, 8.0),
    "slurmctld stopped": (3.0, 14.0),
    "slurmctld killed": (0.5, 8.0),
    "slurmctld killed right after": (0.5, 4.0),
    "slurmdbd stopped": (6.0, 22.0),
    "slurmdbd killed": (6.0, 22.0),
    "slurmdbd hangs": (6.0, 22.0),
    "mariadbd stopped": (6.0, 18.0),
    "munged stopped": (4.0, 16.0),
    "database locked": (8.0, 24.0),
    "disk full": (4.0, 18.0),
    "state moved": (2.0, 12.0),
    "node killed": (24.0, 34.0),
    "node set down": (6.0, 14.0),
    "operator holds": (8.0, 18.0),
    "operator requeueholds": (8.0, 18.0),
    "owner holds": (8.0, 18.0),
    "late": (2.0, 7.0),
}
"""How long each deed lasts that ends by itself; drawn uniformly. `kill all`: see `_absence`."""
WINDOW_S = {"fault": 12.0, "requeue": 6.0, "start": 5.0, "running": 3.0}
"""Moments by time are drawn uniformly over so many seconds: about as long as an undisturbed recovery
takes from there where several of them share two cores."""


def drawn(seed: int) -> Schedule:
    """The schedule of that number: always the same. Neighbouring numbers are the same pattern on the
    releases in turn."""
    chance = random.Random(seed)
    release = RELEASES[(seed - 1) % len(RELEASES)]
    pattern = PATTERNS[(seed - 1) // len(RELEASES) % len(PATTERNS)]
    events = tuple(_event(words, pattern, chance) for words in pattern.events)
    fault_at, more_steps = chance.randint(12, 24), chance.randint(38, 86)
    kind = Kind(pattern.kind)
    deeds = {deed.what for event in events for deed in event.deeds}
    if any(what.startswith("slurmctld") and what != "slurmctld hangs" for what in deeds):
        # slurmctld saves its state every few seconds: it must know the job when it comes back.
        fault_at += 90
    if kind is Kind.NODE:
        more_steps += 400
    return Schedule(
        seed=seed,
        release=release,
        kind=kind,
        lab=pattern.lab,
        deployment=pattern.deployment,
        events=events,
        watchdog_too="kill all" in deeds
        and (pattern.everybody or (not pattern.absent and chance.random() < 0.4)),
        absent=pattern.absent,
        user_exclusion=chance.random() < 0.5,
        # Where nodes and daemons fail, Slurm itself restarts healthy jobs.
        bystander=chance.random() < 0.2 and pattern.lab != STORMY,
        append=chance.random() < 0.3,
        fault_at=fault_at,
        steps=fault_at + more_steps,
    )


def _event(words: tuple[str, ...], pattern: Pattern, chance: random.Random) -> Event:
    where = place(words[0])
    if where.how is Places.TIME:
        where = where.later(round(chance.uniform(0, WINDOW_S[where.what]), 2))
    elif where.what in ("look", "listing", "accounting") and where.number == 0:
        where = where.nth(chance.randint(1, 6 if where.what == "look" else 2))
    deeds = []
    lag_s = 0.0
    for word in words[1:]:
        if word == "lag":
            lag_s = 6.5
            continue
        low, high = LENGTH_S.get(word, (0.0, 0.0))
        seconds = round(chance.uniform(low, high), 1)
        if word == "kill all":
            seconds = _absence(pattern, chance)
        deeds.append(Deed(word, seconds))
    return Event(where, tuple(deeds), lag_s)


def _absence(pattern: Pattern, chance: random.Random) -> float:
    if pattern.long:
        return round(chance.uniform(*LONG_S[pattern.lab]), 1)
    return round(chance.uniform(0.1, 4) if chance.random() < 0.7 else chance.uniform(6, 14), 1)
