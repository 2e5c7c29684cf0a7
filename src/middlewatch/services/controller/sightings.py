"""What a look tells beside the answer that it was made for: that a successor is held, or runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from middlewatch.model.action import ActionRecord, Answered
from middlewatch.model.advice import Advice
from middlewatch.model.milestone import Milestone, MilestoneKind
from middlewatch.model.scheduler import JobState, JobView
from middlewatch.services.controller import record


def sighted(
    advice: Advice, view: JobView, as_of: datetime, *, first: bool, actions: Sequence[ActionRecord]
) -> Milestone | None:
    """The milestone of a successor that a look shows; ``first``: it was not seen waiting before."""
    if view.state is JobState.PENDING:
        free = view.eligible_at is not None and view.eligible_at <= as_of
        if not first or (free and not view.held):
            return None
        return record.seen_milestone(advice, MilestoneKind.HELD, as_of, as_of)
    if view.state is JobState.RUNNING and view.started_at is not None:
        began = _began(view.started_at, actions)
        return record.seen_milestone(advice, MilestoneKind.RUNNING, began, as_of)
    return None


def _began(started_at: datetime, actions: Sequence[ActionRecord]) -> datetime:
    """When the successor began. Slurm keeps whole seconds, rounded down; it cannot have been
    before the command that let it go, which is answered before anything is scheduled."""
    let_go = [
        (r.ended_at if r.answered is Answered.DONE else None) or r.started_at
        for r in actions
        if r.action.start_now
    ]
    return max([started_at, *let_go])
