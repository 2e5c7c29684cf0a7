"""A job's line of attempts with what was kept of each, for the tests of recoveries."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from middlewatch.model.advice import Advice, Disposition, Reason, Status
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.milestone import Milestone, MilestoneKind, MilestoneSource
from middlewatch.model.policy import Policy
from middlewatch.model.recovery import Mark, Recovery
from middlewatch.model.signal import Progress
from middlewatch.remediation import AttemptStory, recovery_of
from middlewatch.remediation.recovery import resumed_key
from tests.unit.attribution.made import at, attempt, ended
from tests.unit.remediation.made import advice

S = MilestoneSource
CONVERGED = Status(1, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(6))


def milestone(
    kind: MilestoneKind, when: float, source: S, learned: float | None = None, **given: Any
) -> Milestone:
    made = Milestone(
        "s", kind.value, at(when), at(when if learned is None else learned), kind, source=source
    )
    return replace(made, **given)


def usual(begin: float = 0.0) -> tuple[Milestone, ...]:
    """From a fault in step 37 until the successor runs, five seconds later."""
    return (
        milestone(MilestoneKind.FAULT, begin, S.LOG, begin + 0.5, step=37),
        milestone(MilestoneKind.DETECTED, begin + 0.5, S.WATCHER),
        milestone(MilestoneKind.ADVISED, begin + 0.75, S.MANAGER),
        milestone(MilestoneKind.HELD, begin + 2.0, S.CONTROLLER),
        milestone(MilestoneKind.CONSTRAINED, begin + 3.0, S.CONTROLLER),
        milestone(MilestoneKind.RELEASED, begin + 3.0, S.CONTROLLER),
        milestone(MilestoneKind.RUNNING, begin + 5.0, S.SCHEDULER, begin + 5.25),
    )


def passing(successor: Attempt, when: float, step: int = 38, past: int | None = 37) -> Milestone:
    return milestone(
        MilestoneKind.RESUMED,
        when,
        S.LOG,
        when + 0.1,
        step=step,
        past_step=past,
        idempotency_key=resumed_key(successor.id),
    )


def steps(
    of: Attempt,
    first: int | None,
    last: int | None,
    first_at: datetime | None = None,
    **given: Any,
) -> Progress:
    made = Progress(
        of.id,
        first_step=first,
        last_step=last,
        first_step_at=first_at,
        last_step_at=first_at,
        step_time_s=1.0,
        last_output_at=at(0),
    )
    return replace(made, **given)


def failed(index: int, when: float, **given: Any) -> Attempt:
    made = ended(EndedBy.FAILURE, attempt_index=index, **given)
    assert made.end is not None
    return replace(made, end=replace(made.end, at=at(when), learned_at=at(when + 1)))


def first(**given: Any) -> AttemptStory:
    """Attempt 0: it failed in step 37 and was restarted."""
    broken = failed(0, 0.0)
    made = AttemptStory(
        attempt=broken,
        progress=steps(broken, 1, 37, at(-500), checkpoint_step=30),
        advice=advice(broken, CONVERGED, failure_class="ecc"),
        milestones=usual(),
    )
    return replace(made, **given)


def successor(index: int = 1, **given: Any) -> AttemptStory:
    """Attempt 1: it runs since second 5, and printed step 31 in second 8."""
    running = attempt(attempt_index=index, started_at=at(5))
    made = AttemptStory(attempt=running, progress=steps(running, 31, 34, at(8), loaded_step=30))
    return replace(made, **given)


def verified() -> tuple[AttemptStory, ...]:
    """The successor passes step 37 in second 15."""
    after = successor()
    told = (*usual(), passing(after.attempt, 15.0))
    return (first(milestones=told), after)


def failed_again() -> AttemptStory:
    """Attempt 1 fails in second 12, at step 35, and is restarted too."""
    broken = failed(1, 12.0, started_at=at(5))
    return AttemptStory(
        attempt=broken,
        progress=steps(broken, 31, 35, at(8), loaded_step=30),
        advice=replace(advice(broken, CONVERGED), sequence_id="s1"),
        milestones=usual(12.0),
    )


def told(*line: AttemptStory, now: float = 60.0, **given: Any) -> Recovery:
    found = recovery_of(line, at(now), given.pop("policy", Policy()), **given)
    assert found is not None
    return found


def advised_otherwise(story: AttemptStory, **given: Any) -> Advice:
    assert story.advice is not None
    return replace(story.advice, **given)


def marks(recovery: Recovery) -> list[Mark]:
    return [moment.mark for moment in recovery.moments]
