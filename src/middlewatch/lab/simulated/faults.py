"""What can go wrong between a client and slurmctld, told in advance."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum


class Fate(StrEnum):
    """What becomes of one changing command."""

    NORMAL = "normal"
    REPLY_LOST = "reply_lost"
    """It takes effect at once; its client gets no answer."""
    LATE = "late"
    """Its client gets no answer; it takes effect later."""
    NEVER = "never"
    """Its client gets no answer and it never takes effect."""


@dataclass(frozen=True, slots=True)
class Doom:
    """A fate, and for `Fate.LATE` after how many seconds the command takes effect."""

    fate: Fate = Fate.NORMAL
    after_s: float = 5.0


@dataclass(slots=True)
class Faults:
    """``commands`` are used up one by one by changing commands, then all goes normally.

    ``unreachable``: looks are Unknown, commands get no answer and have no effect (slurmctld is
    down). ``hung``: the same, but commands take effect when it is thawed. ``accounting_down``:
    only accounting does not answer.
    """

    commands: deque[Doom] = field(default_factory=deque)
    unreachable: bool = False
    hung: bool = False
    accounting_down: bool = False

    def next_command(self) -> Doom:
        return self.commands.popleft() if self.commands else Doom()
