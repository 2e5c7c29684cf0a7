"""One schedule of the simulation: a cluster, its jobs, and everything that goes wrong. All from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from middlewatch.lab.simulated import Doom, Fate

RELEASES = ("22.05.8", "24.11.5", "26.05.5")
FAULTS = ("crash-cuda", "crash-hang", "crash-python", "node")
DEPENDENTS = ("afterany", "afternotok", "afterok", "singleton")
PEOPLE = (
    "operator holds",
    "operator holds",
    "operator releases",
    "operator requeues",
    "operator requeues and holds",
    "operator cancels",
    "operator starts",
    "owner cancels",
    "owner cancels",
    "owner holds",
    "owner releases",
    "owner excludes",
    "owner excludes",
    "owner excludes",
    "owner forbids requeueing",
    "owner opts out",
    "job completes",
    "job completes",
    "job fails",
)
TROUBLES = (
    "slurmctld hangs",
    "slurmctld hangs",
    "slurmctld is away",
    "slurmctld comes back older",
    "accounting is away",
    "listings miss jobs",
    "listings are cut short",
    "a node dies",
    "a node is set down",
    "the number comes back",
    "the clock jumps",
    "the watchdog dies",
)
ADVISED = ("TERMINATED", "RELEASED", "CONSTRAINED")
"""What somebody else than the manager may advise about a job of its own."""
THEIRS = {
    "TERMINATED": ("operator holds", "owner cancels", "operator requeues", "job completes"),
    "RELEASED": ("operator holds", "owner holds", "owner releases", "owner cancels"),
    "CONSTRAINED": ("operator holds", "owner excludes", "operator starts", "owner cancels"),
}
"""What people do to those jobs."""
MOMENTS = ("looked", "send", "arrived", "answered")


@dataclass(frozen=True, slots=True)
class When:
    """``moment`` of the controller's ``number``-th question or command since the fault, or
    (``time``) ``after_s`` seconds since it."""

    moment: str
    number: int = 0
    after_s: float = 0.0

    def __str__(self) -> str:
        if self.moment == "time":
            return f"{self.after_s:.1f} s after the fault"
        return f"when {self.number} times {self.moment}"


@dataclass(frozen=True, slots=True)
class Happening:
    """Somebody does something, or something breaks for ``length_s``; ``size`` is what the kind
    makes of it (seconds of a clock's jump, the age of a state), ``about`` the job that somebody
    does it to; empty: the one that fails."""

    what: str
    when: When
    length_s: float = 0.0
    size: float = 0.0
    about: str = ""

    def __str__(self) -> str:
        length = f" for {self.length_s:.0f} s" if self.length_s else ""
        about = f" the {self.about} job" if self.about else ""
        return f"{self.what}{about}{length} {self.when}"


@dataclass(frozen=True, slots=True)
class Death:
    """A process is killed at its ``step``-th step since the fault, and back after ``absent_s``.
    ``watchdog_too``: and so is the watchdog, for ``watchdog_absent_s``."""

    step: int
    absent_s: float
    watchdog_too: bool = False
    watchdog_absent_s: float = 0.0

    def __str__(self) -> str:
        also = " with the watchdog" if self.watchdog_too else ""
        return f"killed at step {self.step}{also} for {self.absent_s:.0f} s"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Times in seconds. ``beside``: one of two controllers is in the process that has the store;
    otherwise each is on a host of its own. ``dies`` is the process that the deaths befall.
    ``advised`` are further jobs, each with advice of that kind ``advised_after_s`` after the fault."""

    seed: int
    release: str
    fault: str
    begin_delay_s: float
    accounting_lag_s: float
    sched_interval_s: float
    min_job_age_s: float
    file_append: bool
    nodes: int
    dies_after_s: float
    user_excludes: bool
    requeueable: bool
    dependent: str
    healthy_beside: bool
    stranger_beside: bool
    slow: float
    controllers: int
    people: tuple[Happening, ...] = ()
    troubles: tuple[Happening, ...] = ()
    dooms: tuple[tuple[int, Doom], ...] = ()
    deaths: tuple[Death, ...] = ()
    freeze: tuple[tuple[int, float], ...] = ()
    operators_let_go: bool = True
    beside: bool = True
    dies: str = "up"
    advised: tuple[str, ...] = ()
    advised_after_s: float = 0.0

    def __str__(self) -> str:
        words = [
            f"{self.fault} on {self.release}, begin time {self.begin_delay_s:.0f} s",
            f"{self.dependent} dependent" if self.dependent else "",
            _controllers(self),
            f"advised {', '.join(self.advised)}" if self.advised else "",
            "" if self.requeueable else "not requeueable",
            *(str(death) for death in self.deaths),
            *(f"command {n} {doom.fate.value} {doom.after_s:.0f} s" for n, doom in self.dooms),
            *(f"stands still {s:.0f} s before command {n}" for n, s in self.freeze),
            *(str(one) for one in (*self.people, *self.troubles)),
        ]
        return "; ".join(word for word in words if word)


def drawn(seed: int) -> Drawn:
    """The schedule of that seed; the same one wherever it is drawn."""
    r = random.Random(f"middlewatch-{seed}")
    share = _Shares(r)
    deaths = []
    if r.random() < 0.55:
        deaths.append(_death(r))
        if r.random() < 0.3:
            deaths.append(_death(r))
    dooms = {}
    if r.random() < 0.45:
        for _ in range(r.choice((1, 1, 2))):
            dooms[r.choice((1, 1, 1, 2, 2, 3, 4))] = _doom(r)
    controllers = 2 if r.random() < 0.15 else 1
    freeze: tuple[tuple[int, float], ...] = ()
    if r.random() < (0.4 if controllers > 1 else 0.03):
        freeze = ((r.choice((1, 1, 2, 3)), r.choice((4.0, 20.0, 45.0, 70.0))),)
    plain = Drawn(
        seed=seed,
        release=r.choice(RELEASES),
        fault=share.of({"crash-cuda": 35, "crash-hang": 40, "crash-python": 10, "node": 15}),
        begin_delay_s=r.choice((121.0, 121.0, 121.0, 31.0, 18.0, 11.0, 11.0)),
        accounting_lag_s=r.choice((0.1, 0.5, 2.0, 2.0, 8.0)),
        sched_interval_s=r.choice((0.7, 1.3, 2.0)),
        min_job_age_s=r.choice((300.0, 300.0, 20.0, 6.0)),
        file_append=r.random() < 0.2,
        nodes=r.choice((1, 1, 2)),
        dies_after_s=r.choice((0.1, 0.3, 2.5, 9.0)),
        user_excludes=r.random() < 0.4,
        requeueable=r.random() < 0.96,
        dependent=r.choice(DEPENDENTS) if r.random() < 0.12 else "",
        healthy_beside=r.random() < 0.25,
        stranger_beside=r.random() < 0.25,
        slow=r.choice((1.0, 1.0, 1.0, 8.0, 30.0)),
        controllers=controllers,
        people=tuple(_person(r) for _ in range(r.choice((0, 1, 1, 1, 2, 2, 3)))),
        troubles=tuple(_trouble(r) for _ in range(r.choice((0, 0, 0, 1, 1, 2)))),
        dooms=tuple(sorted(dooms.items())),
        deaths=tuple(deaths),
        freeze=freeze,
        operators_let_go=r.random() < 0.7,
    )
    # From a chance of its own, so that the rest stays as it was.
    return _widened(plain, random.Random(f"middlewatch-more-{seed}"))


def _controllers(d: Drawn) -> str:
    if d.controllers == 1:
        return ""
    dies = f" ({d.dies} dies)" if d.deaths else ""
    return f"two controllers{', one beside the store' if d.beside else ''}{dies}"


def _widened(d: Drawn, r: random.Random) -> Drawn:
    """Several hosts, leaders that stand still beyond their lease, and advice of other kinds."""
    if d.controllers == 1 and r.random() < 0.12:
        d = replace(d, controllers=2)
    if d.controllers > 1:
        beside = r.random() < 0.4
        freeze = d.freeze
        if r.random() < 0.5:
            freeze = ((r.choice((1, 1, 1, 2, 2, 3)), r.choice((20.0, 70.0, 110.0, 110.0, 140.0))),)
        dies = "up" if beside else r.choice(("up", "one", "one"))
        d = replace(d, beside=beside, freeze=freeze, dies=dies)
    advised = tuple(kind for kind in ADVISED if r.random() < 0.12)
    theirs = tuple(
        Happening(
            r.choice(THEIRS[kind]), When("time", after_s=r.uniform(0.2, 25.0)), about=kind.lower()
        )
        for kind in advised
        if r.random() < 0.5
    )
    return replace(
        d, advised=advised, advised_after_s=r.uniform(0.0, 20.0), people=(*d.people, *theirs)
    )


class _Shares:
    def __init__(self, r: random.Random) -> None:
        self._r = r

    def of(self, shares: dict[str, int]) -> str:
        return self._r.choices(list(shares), list(shares.values()))[0]


def _death(r: random.Random) -> Death:
    absent = r.choice((0.5, 2.0, 2.0, 6.0, 14.0, 14.0, 40.0, 130.0))
    too = r.random() < 0.4
    return Death(r.randint(1, 60), absent, too, absent + r.choice((0.0, 0.0, 10.0)))


def _doom(r: random.Random) -> Doom:
    fate = r.choice((Fate.REPLY_LOST, Fate.LATE, Fate.LATE, Fate.NEVER))
    return Doom(fate, r.uniform(0.0, 13.0))


def _when(r: random.Random) -> When:
    if r.random() < 0.4:
        return When("time", after_s=r.choice((0.2, 1.0, 3.0, 8.0, 8.0, 20.0)) * r.uniform(0.5, 2.0))
    moment = r.choice(MOMENTS)
    # The first two commands are the requeue and the update: most is at stake around them.
    number = r.randint(1, 12) if moment == "looked" else r.choice((1, 1, 2, 2, 2, 3, 4))
    return When(moment, number)


def _person(r: random.Random) -> Happening:
    return Happening(r.choice(PEOPLE), _when(r))


def _trouble(r: random.Random) -> Happening:
    what = r.choice(TROUBLES)
    length, size = 0.0, 0.0
    if what in {
        "slurmctld hangs",
        "slurmctld is away",
        "accounting is away",
        "the watchdog dies",
    }:
        length = r.choice((3.0, 8.0, 25.0, 25.0, 70.0))
    elif what.startswith("listings"):
        length = r.choice((3.0, 10.0, 90.0))
    elif what == "slurmctld comes back older":
        length, size = r.choice((1.0, 4.0, 20.0)), r.choice((0.3, 2.0, 5.0))
    elif what == "the clock jumps":
        size = r.choice((-100.0, -20.0, -3.0, 3.0, 20.0, 45.0, 100.0))
    return Happening(what, _when(r), length, size)
