"""How far something came, and by which of a program's counters.

A program prints several counts: steps, files that it loads, the bars of its start. A number tells
how far one of them has come, and nothing about the others: file 2000 does not lie beyond step 40.
So a step is kept with its counter, and only steps of one counter are compared.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepCounter:
    """``name`` is the id of the pattern that its lines are read by; what one pattern reads is one
    counter. ``rank`` is how explicitly such a line speaks of training steps: -2 for a loop of any
    kind, 2 for what was written for this very job."""

    name: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Reached:
    """A step and the counter that it is of. ``step`` is None where none was seen, ``of`` where the
    counter is not known: in records of versions that did not write it down."""

    step: int | None = None
    of: StepCounter | None = None

    def alike(self, other: Reached) -> bool:
        """Whether both may be compared: one counter, or one of them is not known."""
        return self.of is None or other.of is None or self.of.name == other.of.name

    def beyond(self, lost: Reached) -> bool:
        """Whether this is a step of the same counter that lies behind ``lost``."""
        if self.step is None or lost.step is None:
            return False
        return self.alike(lost) and self.step > lost.step

    def another_of(self, lost: Reached) -> bool:
        """Whether a step was seen of another counter that may speak of the same steps, so that
        nobody can tell how far it is from ``lost``. A loop of any kind tells nothing beside a better
        counter: what was lost has not begun again."""
        if self.step is None or self.of is None or lost.of is None or self.alike(lost):
            return False
        return self.of.rank >= min(lost.of.rank, 0)


def furthest_of(*reached: Reached) -> Reached:
    """The furthest step of the most explicit counter among ``reached``, which are given oldest
    first; of counters that are alike explicit it is the first. A step whose counter is not known
    counts as one of it."""
    seen = [one for one in reached if one.step is not None]
    known = [one.of for one in seen if one.of is not None]
    counter = max(known, key=lambda of: of.rank, default=None)
    steps = [one.step for one in seen if one.step is not None and one.alike(Reached(0, counter))]
    return Reached(max(steps, default=None), counter)
