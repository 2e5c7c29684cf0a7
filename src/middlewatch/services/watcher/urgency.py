"""Whose comment is read first, where there are more jobs than one tick may ask about."""

from __future__ import annotations

from datetime import datetime

from middlewatch.model.scheduler import JobState, JobView

RECENT_S = 60.0
"""For this long after its end a job comes before those that wait."""


def urgency(view: JobView, now: datetime) -> tuple[int, float]:
    """The order in which jobs get their share of a tick's questions; the smaller the earlier.

    A comment read late costs something where a job runs, was requeued, or has ended a moment ago.
    Behind them stand those that wait, and last, newest first, what ended before: a cluster whose
    memory is full of old jobs must not hide one that crashes as soon as it has begun.
    """
    if view.ended:
        since = (now - view.ended_at).total_seconds() if view.ended_at else RECENT_S
        return (1 if since < RECENT_S else 3), since
    waits = view.state is JobState.PENDING and view.restarts == 0
    return (2 if waits else 0), -view.restarts
