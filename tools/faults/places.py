"""Where in a recovery something is done: at a command, at a line that we write, or at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Places(StrEnum):
    BEFORE = "before"
    """The command is on its way and waits until the deed is done."""
    INSTEAD = "instead"
    """As before, and then it is never carried out."""
    AFTER = "after"
    """It has been carried out, and its sender does not know yet."""
    LOST = "lost"
    """As after, and its sender is told that nobody answered."""
    WRITTEN = "written"
    """As soon as something stands in the journal or in the store."""
    SEEN = "seen"
    """As soon as slurmctld shows something."""
    TIME = "time"


AT_COMMANDS = frozenset({Places.BEFORE, Places.INSTEAD, Places.AFTER, Places.LOST})
COMMANDS = {
    "requeue": "scontrol requeue ",
    "requeuehold": "scontrol requeuehold ",
    "update": "scontrol update jobid=",
    "unfence": "scontrol update jobid={job} Requeue=1",
    "release": "scontrol release ",
    "cancel": "scancel ",
    "look": "squeue --local -a --states=all -j ",
    "accounting": "sacct -D ",
}
"""Beginnings of our commands. A look is the batched one of the controller."""
WRITTEN = ("journal", "planned", "advice", "held", "outcome")
SEEN = ("successor", "successor runs")
SINCE = ("fault", "requeue", "start", "running")


@dataclass(frozen=True, slots=True)
class Place:
    """``what`` is a key of `COMMANDS`, or one of `WRITTEN`, `SEEN`, or for a time one of `SINCE`.
    ``number``: the how manieth such command. ``offset_s`` for a time: so long after it."""

    how: Places
    what: str
    number: int = 1
    offset_s: float = 0.0

    def later(self, offset_s: float) -> Place:
        return replace(self, offset_s=offset_s)

    def nth(self, number: int) -> Place:
        return replace(self, number=number)

    def __str__(self) -> str:
        if self.how is Places.TIME:
            return f"{self.offset_s:.2f} s after the {self.what}"
        number = f" {self.number}" if self.number > 1 else ""
        return f"{self.how.value} {self.what}{number}"


def place(words: str) -> Place:
    """``before look 3``, ``written journal``, ``time fault``; without a number 0, to be drawn, for the
    commands that come often. Raises ValueError."""
    how, _, what = words.partition(" ")
    known = Places(how)
    number = 0 if known in AT_COMMANDS and what in ("look", "accounting") else 1
    name, _, last = what.rpartition(" ")
    if last.isdigit():
        what, number = name, int(last)
    names = {Places.WRITTEN: WRITTEN, Places.SEEN: SEEN, Places.TIME: SINCE}.get(
        known, tuple(COMMANDS)
    )
    if what not in names:
        raise ValueError(f"{words!r}: there is no {what!r}; one of {', '.join(names)}")
    return Place(known, what, number)
