"""One recovery as it is kept: from the first fault until training is past the step that was lost.

An advice tells that a successor runs. Whether anything was won by it is another fact: only a
step beyond the last one before the fault proves that, and only then is a recovery *verified*.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.milestone import MilestoneSource


class RecoveryState(StrEnum):
    UNDER_WAY = "under_way"
    VERIFIED = "verified"
    """A successor has passed the step that was lost."""
    NOT_RECOVERED = "restarted_not_recovered"
    """A successor ran, and it ended, or has long had the time to, without passing that step."""
    UNVERIFIED = "unverified"
    """A successor runs or ran, and no step of this job can be seen: nobody can tell."""
    GIVEN_UP = "given_up"
    """There is no successor of ours: the advice was abandoned."""


class Mark(StrEnum):
    """The moments that a recovery is measured at: its milestones, and the successor's first step."""

    FAULT = "fault"
    DETECTED = "detected"
    ADVISED = "advised"
    HELD = "held"
    CONSTRAINED = "constrained"
    RELEASED = "released"
    RUNNING = "running"
    FIRST_STEP = "first_step"
    ENDED = "ended"
    """The end of a successor that passed nothing, where nothing was decided about its fault."""
    RESUMED = "resumed"


class PartName(StrEnum):
    """Where the time of a recovery goes, in order."""

    DETECT = "detect"
    """From the fault until the watcher knew of it."""
    DECIDE = "decide"
    """Until there was advice."""
    HOLD = "hold"
    """Until the successor was seen waiting, not eligible to start."""
    RELEASE = "release"
    """Until it was let go."""
    QUEUE = "queue"
    """Until the scheduler ran it."""
    START = "start"
    """Until it printed a step."""
    RECOMPUTE = "recompute"
    """Until it was past the step that was lost; or until its own fault, where it never was."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One mark. ``at`` is by the clock of ``source``, ``learned_at`` by ours (None: not written
    down). ``off_s``: how far ``at`` lay before what it followed, where clocks differ; such a mark is
    measured at ``learned_at``, or not at all."""

    mark: Mark
    attempt_index: int
    at: datetime
    learned_at: datetime | None = None
    source: MilestoneSource | None = None
    step: int | None = None
    off_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Part:
    name: PartName
    seconds: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """One recovery. ``id`` is that of the sequence of its first fault.

    ``parts`` holds only those that are known; ``unsplit_s`` is the time between known marks that
    belongs to ``unsplit`` and cannot be divided among them. ``total_s`` is the sum of all of it:
    from the fault to the last mark that is known, for a verified one to *resumed*.
    ``attempts`` are the indexes of the attempts that were to make it good, the last one is the
    newest. ``settled``: nothing changes any more; an attempt after it belongs to another recovery.
    """

    id: str
    cluster: ClusterId
    job_id: str
    attempt_id: AttemptId
    attempt_index: int
    state: RecoveryState
    why: str
    began_at: datetime
    reason: str = ""
    """Of one that was given up: the advice's own word."""
    failure_class: str = ""
    settled: bool = False
    attempts: tuple[int, ...] = ()
    lost_step: int | None = None
    """The last step before the fault; None where none was seen."""
    lost_of: str = ""
    """The name of the counter of ``lost_step``: only a step of it is beyond; empty: not known."""
    checkpoint_step: int | None = None
    """The newest checkpoint that was known to be complete at the fault."""
    loaded_step: int | None = None
    """What the newest successor went on from, as far as it says."""
    resumed_step: int | None = None
    moments: tuple[Moment, ...] = ()
    parts: tuple[Part, ...] = ()
    unsplit_s: float = 0.0
    unsplit: tuple[PartName, ...] = ()
    total_s: float = 0.0
    clock_off_s: float = 0.0
    """The largest ``off_s`` of its moments."""
    version: int = 0

    def seconds(self, name: PartName) -> float | None:
        """How long a part took; None where that is not known."""
        return next((part.seconds for part in self.parts if part.name is name), None)

    @property
    def largest(self) -> Part | None:
        """The part that took longest; None where none is known, or more time is not divided than
        it took."""
        longest = max(self.parts, key=lambda part: part.seconds, default=None)
        return None if longest is None or longest.seconds < self.unsplit_s else longest
