"""A round that brought nothing but lines that mean nothing, or no line at all.

Nearly every round of a healthy job is one: it prints, and no pattern knows what. Such a round says
that there was output and nothing else, and with thousands of jobs the way through every question
that it could answer would be most of a watcher's work. So those that it cannot answer are left out
here. What comes of it is what the whole way would give; wherever that is not certain, it is taken.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from middlewatch.detection.batch import Batch
from middlewatch.detection.hang import WORTH_TELLING, silent_since
from middlewatch.detection.limits import settled, silence_limit
from middlewatch.detection.state import DetectionState
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState


def after_chatter(
    state: DetectionState, batch: Batch, seen: datetime, now: datetime, policy: Policy
) -> DetectionState | None:
    """The state after such a round, without any signal; None: only the whole way can tell.

    ``seen`` is when the output was written (``now`` where there was none).
    """
    if not (_brings_nothing(batch) and _is_healthy(state)):
        return None
    if state.started_at is None and batch.attempt.started_at is not None:
        return None
    since = silent_since(state)
    limit = silence_limit(state, policy).seconds
    # Behind the last step, and before the first, output itself bears on silence; here only time does.
    if since is None or (now - since).total_seconds() >= WORTH_TELLING * limit:
        return None
    output_at = state.output_at if batch.output_at is None else seen
    before = state.progress
    if before.last_output_at == output_at and before.silence_limit_s == limit:
        return state if state.output_at == output_at else replace(state, output_at=output_at)
    progress = replace(before, silence_limit_s=limit, last_output_at=output_at, updated_at=now)
    return replace(state, output_at=output_at, progress=progress)


def _brings_nothing(batch: Batch) -> bool:
    """Whether the files of a running attempt were read to their end and nothing was found."""
    attempt = batch.attempt
    return (
        not (batch.hits or batch.unreadable or batch.activity or batch.lost or batch.drained)
        and batch.caught_up
        and batch.readable
        and batch.sampled
        and batch.growth is None
        and batch.measured is not False
        and attempt.state is JobState.RUNNING
        and attempt.live
        and not (attempt.completing or attempt.vanished)
        and attempt.end is None
    )


def _is_healthy(state: DetectionState) -> bool:
    """It steps at a pace of its own, and nothing of it is suspected, missed or waited for."""
    return (
        state.suspicion is None
        and not (state.silence_reported or state.paused or state.witnessed)
        and state.unread_since is None
        and not state.progress.unseen
        and not any(pause.lasts for pause in state.progress.pauses)
        and settled(state)
    )
