"""A round that brought nothing but lines that mean nothing, or no line at all.

Nearly every round of a job is one: it prints, and no pattern knows what. Such a round says that
there was output and nothing else, and with thousands of jobs the way through every question that it
could answer would be most of a watcher's work. So those that it cannot answer are left out here.
What comes of it is what the whole way would give; wherever that is not certain, it is taken.

Until a moment that the state itself names, such rounds differ in nothing but when the output came
last. So many of them, one after the other, come to what the last one with output gives by itself:
whoever watches need not even ask here before that moment.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from middlewatch.detection.batch import Batch
from middlewatch.detection.coverage import PROGRESS
from middlewatch.detection.hang import WORTH_TELLING, recovered_by, silent_since
from middlewatch.detection.limits import silence_limit
from middlewatch.detection.state import DetectionState
from middlewatch.model.attempt import Attempt
from middlewatch.model.copies import replace
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState


def after_chatter(
    state: DetectionState, batch: Batch, seen: datetime, now: datetime, policy: Policy
) -> DetectionState | None:
    """The state after such a round, without any signal; None: only the whole way can tell.

    ``seen`` is when the output was written (``now`` where there was none).
    """
    if not (_brings_nothing(batch) and _is_calm(state, batch.attempt)):
        return None
    printed = batch.output_at is not None and state.output_at != seen
    went_on = replace(state, output_at=seen) if printed else state
    limit = silence_limit(went_on, policy).seconds
    moment = _next_moment(went_on, limit, policy)
    if moment is None or now >= moment:
        return None
    before = went_on.progress
    if before.last_output_at == went_on.output_at and before.silence_limit_s == limit:
        return went_on
    progress = replace(
        before, silence_limit_s=limit, last_output_at=went_on.output_at, updated_at=now
    )
    return replace(went_on, progress=progress)


def calm_until(state: DetectionState, attempt: Attempt, policy: Policy) -> datetime | None:
    """Until when (exclusively) rounds that bring nothing change nothing but when its output came
    last, if output never comes from the past; None: not even the next one is known to."""
    if not (_goes_on(attempt) and _is_calm(state, attempt)) or state.output_at is None:
        return None
    return _next_moment(state, silence_limit(state, policy).seconds, policy)


def _brings_nothing(batch: Batch) -> bool:
    """Whether nothing was found of a running attempt, and nobody else has something to say."""
    return (
        not (batch.hits or batch.unreadable or batch.activity or batch.lost or batch.drained)
        and batch.readable
        and batch.growth is None
        and batch.measured is not False
        and _goes_on(batch.attempt)
    )


def _goes_on(attempt: Attempt) -> bool:
    return (
        attempt.state is JobState.RUNNING
        and attempt.live
        and not (attempt.completing or attempt.vanished)
        and attempt.end is None
    )


def _is_calm(state: DetectionState, attempt: Attempt) -> bool:
    """Whether nothing of it is told of that output alone could end."""
    return (
        not (state.silence_reported or state.paused or state.witnessed)
        and state.unread_since is None
        and (state.started_at is not None or attempt.started_at is None)
        and not any(pause.lasts for pause in state.progress.pauses)
    )


def _next_moment(state: DetectionState, limit_s: float, policy: Policy) -> datetime | None:
    """When time alone may change more; None: now. More output only puts it off."""
    since = silent_since(state)
    if since is None:
        return None
    moments = [since + timedelta(seconds=WORTH_TELLING * limit_s)]
    unseen = tuple(one.what for one in state.progress.unseen)
    suspicion = state.suspicion
    if suspicion is not None:
        if unseen:
            return None
        if not suspicion.reported:
            moments.append(recovered_by(state, suspicion, policy))
    elif state.advanced_at is None:
        # It prints, and none of that is progress: that is told when a first step is overdue.
        if unseen not in {(), (PROGRESS,)} or (unseen and not _prints(state)):
            return None
        if not unseen and state.started_at is not None:
            moments.append(state.started_at + timedelta(seconds=policy.first_step_limit_s))
    elif unseen:
        return None
    return min(moments)


def _prints(state: DetectionState) -> bool:
    return state.started_at is not None and state.output_at is not None
