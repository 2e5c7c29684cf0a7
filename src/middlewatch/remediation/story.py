"""What was kept of one attempt, as far as its job's recovery is told from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from middlewatch.model.advice import Advice, DesiredState
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import AttemptId
from middlewatch.model.milestone import Milestone
from middlewatch.model.signal import Progress
from middlewatch.remediation.history import follows


@dataclass(frozen=True, slots=True)
class AttemptStory:
    """``milestones`` are those of the attempt's own restart sequence; ``stopped`` is the word of
    its last decision, where that was to leave it alone for good."""

    attempt: Attempt
    progress: Progress | None = None
    advice: Advice | None = None
    milestones: tuple[Milestone, ...] = ()
    stopped: str = ""

    @property
    def restart(self) -> Advice | None:
        """The advice, if it is to restart."""
        advice = self.advice
        return advice if advice is not None and advice.desired is DesiredState.RESTARTED else None


def line_from(attempts: Sequence[Attempt], target: AttemptId) -> tuple[Attempt, ...]:
    """The target and the attempts of its job after it, oldest first; empty where it is not among
    ``attempts``. An index that does not grow, or another owner, belongs to another job under the same
    number."""
    line: list[Attempt] = []
    for attempt in sorted(attempts, key=lambda a: a.submitted_at):
        if attempt.id == target:
            line = [attempt]
        elif line and not attempt.vanished and not attempt.told:
            if not follows(line[-1], attempt):
                break
            line.append(attempt)
    return tuple(line)
