"""Which process stands somewhere else than all the others, in a dump of their stacks.

Of a job that stands still nearly every stack is the same: it waits in a collective. The one that is
somewhere else is the one that the others wait for, and its innermost frames say where it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from middlewatch.model.signal import Signal, SignalKind

LOCATED = "silent_hang_located"
STACK = "stack."
"""How the patterns of lines of a dump are called."""
PROCESS = "stack.process"
"""The line before the stack of one process that says whose it is."""
FEW = 4
"""At most one stack in so many may be odd for the odd ones to be at fault."""
INNERMOST = 4

_FRAME = re.compile(r"\bframe=(\S+)")
_WAITS = re.compile(
    r"(?i)all_?reduce|all_?gather|reduce_?scatter|barrier|broadcast|all_?to_?all|\brecv|\bsend|synchronize|_wait_for_work"
)


@dataclass(slots=True)
class _Process:
    head: Signal
    frames: list[str] = field(default_factory=list)

    @property
    def place(self) -> tuple[str, ...]:
        return tuple(self.frames[:INNERMOST])

    @property
    def waits(self) -> bool:
        """Whether it stands in a collective, as whoever waits for others does."""
        return any(_WAITS.search(frame) for frame in self.place)


def odd_one(signals: Sequence[Signal]) -> Signal | None:
    """The line that begins the stack of the process that the others wait for; None where no stack
    is odd, or too many are."""
    processes: list[_Process] = []
    for signal in signals:
        if signal.kind is not SignalKind.HINT or not signal.pattern_id.startswith(STACK):
            continue
        if signal.pattern_id.startswith(PROCESS):
            processes.append(_Process(signal))
        elif processes:
            processes[-1].frames.extend(_FRAME.findall(signal.detail))
    told = [process for process in processes if process.frames]
    if not told:
        return None
    away = [process for process in told if not process.waits]
    if len(away) != len(told) and away:
        return away[0].head if len(away) * FEW <= max(len(told), FEW) else None
    usual, times = Counter(process.place for process in told).most_common(1)[0]
    odd = [process for process in told if process.place != usual]
    if len(told) == 1:
        return None if told[0].waits else told[0].head
    few = odd and len(odd) * FEW <= max(len(told), FEW) and times > len(odd)
    return odd[0].head if few else None
