"""One step forward, and what the program printed about it.

The fold counts steps; whether they have become slow or their numbers are no numbers any more is
judged by rooms of their own. What they need is handed to them here, in the order of the log and
all steps of a round at once, so that a round costs them one new record and not one per line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from middlewatch.detection.batch import Hit
from middlewatch.detection.numbers import after_numbers
from middlewatch.detection.pace import after_steps
from middlewatch.detection.state import DetectionState
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Signal


@dataclass(slots=True)
class Advance:
    """A step forward. Seconds, and None where the program or the log does not say.

    ``taken`` is the number of steps since the line before (0: figures that were printed after the
    line of ``step``; 1 where it is not known), ``own_s`` the time of one step as the line gives
    it, ``interval_s`` the time since the step line before, None where a start, an announced phase
    or a step back lay in between. ``throughput`` is in the program's own unit. ``loss`` and
    ``grad_norm`` can be NaN or infinite. ``at_s`` is when it was written, seconds since the epoch,
    as well as that is known; ``own_clock`` says whose clock that is (``stamps.WRITTEN`` and so on;
    empty: ours, at the moment of reading). ``hit`` is the line itself.
    """

    step: int
    taken: int = 1
    own_s: float | None = None
    interval_s: float | None = None
    throughput: float | None = None
    data_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    at_s: float = 0.0
    own_clock: str = ""
    hit: Hit | None = None


def judged(
    state: DetectionState,
    advances: Sequence[Advance],
    now: datetime,
    policy: Policy,  # noqa: ARG001
) -> tuple[DetectionState, tuple[Signal, ...]]:
    """The state and the signals after some steps forward. Called with all steps that lie between
    two lines of other kinds, and with the state as it is after them."""
    if not advances:
        return state, ()
    state, about_speed = after_steps(state, advances, now)
    state, about_numbers = after_numbers(state, advances, now)
    return state, (*about_speed, *about_numbers)
