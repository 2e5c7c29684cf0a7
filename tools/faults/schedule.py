"""One schedule: what fails, when everything is killed, how long nobody is there. All from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What the job does, and what its owner or an operator does meanwhile."""

    CRASH = "crash"
    """A rank crashes; the attempt ends FAILED."""
    HANG = "hang"
    """A crash line, then no progress: the attempt is requeued while it runs."""
    COMPLETE = "complete"
    """As `HANG`, but the job completes while our requeue is on its way: Slurm revives it."""
    CANCEL = "cancel"
    """As `HANG`, but its owner cancels it while our requeue is on its way: Slurm revives it."""
    CANCEL_LATER = "cancel-later"
    """As `CRASH`; its owner cancels the successor in the window."""
    HOLD = "hold"
    """As `CRASH`; an operator holds the successor in the window, and lets it go much later."""


RECOVERS = frozenset({Kind.CRASH, Kind.HANG, Kind.HOLD})
"""Kinds in which attempt 1 must train to its end."""
RACES = frozenset({Kind.COMPLETE, Kind.CANCEL})
"""Kinds in which the requeue comes late and revives what was over."""

COMMANDS = {
    "requeue": "scontrol requeue {job}",
    "requeuehold": "scontrol requeuehold State=SpecialExit {job}",
    "update": "scontrol update jobid={job}",
    "unfence": "scontrol update jobid={job} Requeue=1",
    "release": "scontrol release {job}",
    "cancel": "scancel {job}",
}
"""Beginnings of our commands; job numbers of these labs all have as many digits."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When everything is killed.

    ``how`` is ``time`` (``offset_s`` after ``since``: the fault, our first requeue, or the last
    start), or ``kill-before``, ``kill-instead``, ``kill-after`` the first ``command`` (a key of `COMMANDS`):
    everything dies and the command goes on, or never happens, or has just been carried out.
    """

    how: str
    offset_s: float = 0.0
    command: str = ""
    since: str = "fault"

    def __str__(self) -> str:
        if self.how == "time":
            return f"{self.offset_s:.2f} s after the {self.since}"
        return f"{self.how} {self.command}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What befalls a command besides: ``drop-reply``, ``delay-before`` or ``delay-after``."""

    how: str
    command: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.how} {self.command}" + (f" {self.seconds:.1f} s" if self.seconds else "")


@dataclass(frozen=True, slots=True)
class Schedule:
    """``lab`` is a key of `LABS`. ``absent``: nobody restarts us before the watchdog has done its
    duty. ``daemon``: what happens to slurmctld at the first requeue: ``freeze`` (it hangs for
    longer than our patience and then does everything), ``kill`` (`kill -9` right after it), or
    nothing."""

    seed: int
    kind: Kind
    moments: tuple[Moment, ...]
    reply: Reply | None
    pauses_s: tuple[float, ...]
    watchdog_too: bool
    lab: str
    absent: bool
    daemon: str
    user_exclusion: bool
    bystander: bool
    append: bool
    fault_at: int
    steps: int

    def __str__(self) -> str:
        words = [self.kind.value, *(f"killed {moment}" for moment in self.moments)]
        if self.watchdog_too:
            words.append("the watchdog too")
        words.append("back after " + " and ".join(f"{p:.1f} s" for p in self.pauses_s))
        if self.reply:
            words.append(str(self.reply))
        if self.lab == SHORT:
            words.append("short window")
        if self.daemon:
            words.append(f"{self.daemon} slurmctld")
        if self.absent:
            words.append("only the watchdog lets go")
        return ", ".join(words)


USUAL, SHORT, STORMY = "usual", "short", "stormy"
LABS = (USUAL, SHORT, STORMY)
"""Slurm's own begin time of two minutes; one that is shorter than our work, so that we take
requeue-holds; and one of its own for each schedule in which slurmctld suffers as well."""


def _at(how: str, command: str) -> tuple[str, str]:
    return f"kill-{how}", command


TIME = ("time", "")
LONG = "long"
"""A pause that outlasts Slurm's own begin time."""

PATTERNS: tuple[tuple[Kind, tuple[str, str], str, str], ...] = (
    # what fails, when we are killed, what else, on which lab
    (Kind.CRASH, TIME, "", USUAL),
    (Kind.CRASH, _at("after", "requeue"), LONG, USUAL),
    (Kind.CRASH, _at("after", "requeuehold"), "absent", SHORT),
    (Kind.CRASH, _at("before", "requeue"), "", USUAL),
    (Kind.CRASH, _at("instead", "requeue"), "", USUAL),
    (Kind.CRASH, _at("after", "requeue"), "", USUAL),
    (Kind.CRASH, _at("before", "update"), "", USUAL),
    (Kind.CRASH, _at("instead", "update"), "", USUAL),
    (Kind.CRASH, _at("after", "update"), "", USUAL),
    (Kind.CRASH, _at("after", "requeuehold"), "everybody dead", SHORT),
    (Kind.HANG, TIME, "", USUAL),
    (Kind.HANG, _at("before", "requeue"), "", USUAL),
    (Kind.COMPLETE, TIME, "", USUAL),
    (Kind.CANCEL, TIME, "", USUAL),
    (Kind.CRASH, _at("before", "requeuehold"), "", SHORT),
    (Kind.CRASH, _at("instead", "requeuehold"), "", SHORT),
    (Kind.HANG, _at("after", "requeue"), LONG, USUAL),
    (Kind.HOLD, TIME, "", USUAL),
    (Kind.CRASH, _at("after", "update"), "", SHORT),
    (Kind.CRASH, _at("before", "release"), "", SHORT),
    (Kind.COMPLETE, _at("before", "cancel"), "", USUAL),
    (Kind.CANCEL, _at("instead", "cancel"), "", USUAL),
    (Kind.CANCEL_LATER, TIME, "", USUAL),
    (Kind.CRASH, TIME, "drop-reply requeue", USUAL),
    (Kind.CRASH, TIME, "drop-reply update", USUAL),
    (Kind.CRASH, _at("after", "release"), "", SHORT),
    (Kind.CRASH, TIME, "", SHORT),
    (Kind.CRASH, TIME, "delay-before requeue", USUAL),
    (Kind.CRASH, TIME, "delay-after update", USUAL),
    (Kind.HANG, _at("after", "requeuehold"), "", SHORT),
    (Kind.HOLD, TIME, "", SHORT),
    (Kind.CRASH, TIME, "twice", USUAL),
    (Kind.COMPLETE, TIME, "", SHORT),
    (Kind.CANCEL, TIME, "", SHORT),
    (Kind.CRASH, _at("before", "unfence"), "drop-reply requeuehold", SHORT),
    (Kind.CRASH, _at("after", "unfence"), "drop-reply requeuehold", SHORT),
    (Kind.COMPLETE, _at("after", "cancel"), "", USUAL),
    (Kind.HOLD, _at("after", "requeue"), "", USUAL),
    (Kind.CRASH, TIME, "drop-reply requeuehold", SHORT),
    (Kind.CRASH, TIME, "twice", SHORT),
    (Kind.CRASH, TIME, "freeze", STORMY),
    (Kind.CRASH, TIME, "kill", STORMY),
    (Kind.HANG, TIME, "freeze", STORMY),
    (Kind.CRASH, _at("before", "update"), "kill", STORMY),
)
"""Schedule number n is drawn from pattern (n - 1) modulo their number, so that a run of as many
schedules as there are patterns meets each step between two commands."""

WINDOW_S = {("hang", "fault"): 16.0, ("complete", "requeue"): 10.0, ("cancel", "requeue"): 10.0}
USUAL_WINDOW_S = {"fault": 12.0, "requeue": 6.0, "start": 5.0}
"""Moments by time are drawn uniformly over so many seconds: about as long as an undisturbed recovery
takes from there where five of them share two cores."""


def drawn(seed: int) -> Schedule:
    """The schedule of that number: always the same."""
    chance = random.Random(seed)
    kind, (how, command), extra, lab = PATTERNS[(seed - 1) % len(PATTERNS)]
    first = Moment(how, command=command)
    if how == "time":
        since = "requeue" if kind in RACES or chance.random() < 0.5 else "fault"
        window = WINDOW_S.get((kind.value, since), USUAL_WINDOW_S[since])
        # The requeue takes effect as late as its delay.
        window += 6.0 if extra == "kill" else 0.0
        first = Moment(how, round(chance.uniform(0, window), 2), since=since)
    moments = [first]
    again = chance.random() < 0.2
    if extra == "twice" or (again and kind not in RACES and not extra):
        later = round(chance.uniform(0, USUAL_WINDOW_S["start"]), 2)
        moments.append(Moment("time", later, since="start"))
    pauses = [
        round(chance.uniform(0, 4) if chance.random() < 0.7 else chance.uniform(6, 14), 2)
        for _ in moments
    ]
    watchdog_too = chance.random() < 0.4
    if extra == LONG:
        pauses[0] = round(chance.uniform(123, 130), 2)
        watchdog_too = True
    if extra == "everybody dead":
        pauses[0] = round(chance.uniform(25, 60), 2)
        watchdog_too = True
    if extra == "absent":
        watchdog_too = False
    reply: Reply | None = None
    if kind in RACES:
        # So that the end comes between our last look and what the requeue does.
        reply = Reply("delay-before", "requeuehold" if lab == SHORT else "requeue", 3.0)
    elif extra == "freeze":
        # So that slurmctld hangs between our look and what the requeue asks of it.
        reply = Reply("delay-before", "requeue", 1.5)
    elif extra == "kill":
        # So that slurmctld has saved the failure, and forgets the requeue alone.
        reply = Reply("delay-before", "requeue", 8.0)
    elif extra.startswith(("drop", "delay")):
        what, _, about = extra.partition(" ")
        seconds = round(chance.uniform(2, 7), 1) if what.startswith("delay") else 0.0
        reply = Reply(what, about, seconds)
    fault_at, more_steps = chance.randint(12, 24), chance.randint(38, 86)
    if extra == "kill":
        # slurmctld saves its state every few seconds: it must know the job when it comes back.
        fault_at += 150
    return Schedule(
        seed=seed,
        kind=kind,
        moments=tuple(moments),
        reply=reply,
        pauses_s=tuple(pauses),
        watchdog_too=watchdog_too,
        lab=lab,
        absent=extra == "absent",
        daemon=extra if lab == STORMY else "",
        user_exclusion=chance.random() < 0.5,
        bystander=chance.random() < 0.25,
        append=chance.random() < 0.3,
        fault_at=fault_at,
        steps=fault_at + more_steps,
    )
