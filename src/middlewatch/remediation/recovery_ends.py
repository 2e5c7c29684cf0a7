"""What a recovery has come to while no attempt has passed the lost step, and whether that is the end.

A successor that runs is not yet one that recovered. It is given the time that it should need, learnt
from the attempt that failed; an end that nothing was decided about yet is not the end of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from middlewatch.model.advice import Disposition
from middlewatch.model.attempt import EndedBy
from middlewatch.model.policy import Policy
from middlewatch.model.recovery import RecoveryState
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Progress
from middlewatch.model.steps import Reached
from middlewatch.remediation.story import AttemptStory

SETTLES_AFTER = timedelta(seconds=30)
"""How long an end is looked at before it is taken for the end of the recovery, too: the attempt
that ended may be advised to be restarted once more."""

LOST_AFTER = timedelta(hours=1)
"""How long a successor that should be there is waited for."""

SLACK = 2.0
SLACK_S = 300.0
"""A successor gets twice the time that it should need to come to the lost step, and five minutes:
saves and evaluations on the way are not counted."""


def state_of(
    line: Sequence[AttemptStory], lost: Reached, now: datetime, policy: Policy
) -> tuple[RecoveryState, str]:
    """What a recovery has come to whose attempts have not passed ``lost``, and why."""
    newest = line[-1]
    advice = newest.restart
    if advice is not None and advice.gates.open:
        status = advice.status
        if status is None or status.disposition is Disposition.PENDING:
            return RecoveryState.UNDER_WAY, _waiting_for(newest)
        if status.disposition is Disposition.CONVERGED:
            return _awaited(status.observed_at, now, "its successor has not been seen yet")
        if len(line) == 1:
            told = f": {status.detail}" if status.detail else ""
            return RecoveryState.GIVEN_UP, f"{status.reason.value}{told}"
    return _of_successor(line, lost, now, policy)


def _waiting_for(story: AttemptStory) -> str:
    return f"attempt {story.attempt.attempt_index} is to be restarted"


def _of_successor(
    line: Sequence[AttemptStory], lost: Reached, now: datetime, policy: Policy
) -> tuple[RecoveryState, str]:
    """Of a recovery whose newest attempt is a successor that has passed nothing so far."""
    first, newest = line[0], line[-1]
    attempt, progress = newest.attempt, newest.progress
    name = f"attempt {attempt.attempt_index}"
    reached = Reached() if progress is None else progress.reached
    steps_seen = lost.step is not None or reached.step is not None
    end = attempt.end
    stopped = f"; not restarted again ({newest.stopped})" if newest.stopped else ""
    if end is not None:
        if end.by is EndedBy.REQUEUE:
            text = f"{name} was requeued, and the next one has not been seen yet"
            return _awaited(end.learned_at, now, text)
        if attempt.started_at is None:
            return RecoveryState.GIVEN_UP, f"{name} ended ({end.by.value}) before it ran"
        how = f"{name} ended ({end.by.value})"
        undecided = not newest.stopped and newest.advice is None
        if undecided and now - end.learned_at < SETTLES_AFTER:
            return RecoveryState.UNDER_WAY, f"{how}; what comes of that is not decided yet"
        if not steps_seen:
            return RecoveryState.UNVERIFIED, f"{how}; this job prints no steps{stopped}"
        came = "before a step" if reached.step is None else f"at step {reached.step}"
        if lost.step is None:
            # Steps were printed, and whether any was lost before is not known.
            return RecoveryState.UNVERIFIED, f"{how} {came}; what was lost is not known{stopped}"
        if not reached.alike(lost):
            came = f"before a step{_but(reached, lost)}"
        doubt = _doubt(line, lost)
        if doubt:
            return RecoveryState.UNVERIFIED, f"{how} {came}; {doubt}{stopped}"
        return RecoveryState.NOT_RECOVERED, f"{how} {came}, not past step {lost.step}{stopped}"
    if attempt.state is not JobState.RUNNING:
        return RecoveryState.UNDER_WAY, f"{name} is {attempt.state.value}"
    if not steps_seen:
        return RecoveryState.UNVERIFIED, f"{name} runs, and this job prints no steps"
    if lost.step is None:
        return RecoveryState.UNVERIFIED, f"{name} runs; what was lost is not known"
    until = time_limit(first, newest, lost, policy)
    at = "no step yet" if reached.step is None else f"step {reached.step}"
    if not reached.alike(lost):
        at = f"no step yet{_but(reached, lost)}"
    if until is not None and now > until:
        late = f"has not passed step {lost.step} in the time that it should need"
        if reached.another_of(lost):
            return RecoveryState.UNVERIFIED, f"{name} runs, {at}: nobody can tell how far it is"
        return RecoveryState.NOT_RECOVERED, f"{name} runs, {at}, and {late}"
    return RecoveryState.UNDER_WAY, f"{name} runs, {at}, to pass step {lost.step}"


def _but(reached: Reached, lost: Reached) -> str:
    """What was seen instead of a step of the counter that was lost."""
    if lost.of is None or reached.of is None or reached.step is None:
        return ""
    return f" of the counter {lost.of.name} (but {reached.step} of {reached.of.name})"


def _doubt(line: Sequence[AttemptStory], lost: Reached) -> str:
    """Why nobody can tell whether the last of the line, which is over and not beyond the lost step
    by its own count, was beyond it all the same; empty where its count tells."""
    progress, end = line[-1].progress, line[-1].attempt.end
    if progress is None or progress.last_step is None:
        return ""
    completed = end is not None and end.by is EndedBy.COMPLETION
    if progress.reached.another_of(lost) or (completed and not progress.reached.alike(lost)):
        return f"nobody can tell whether it passed step {lost.step}"
    if completed and _counted_anew(line, progress):
        return f"its own total, counted anew: nobody can tell whether it passed step {lost.step}"
    return ""


def _counted_anew(line: Sequence[AttemptStory], progress: Progress) -> bool:
    """Whether a successor came to the end of a count that began where that of the first attempt had,
    and nobody saw a checkpoint of this job: the steps of each run are counted anew. A run that fell
    short of its own total, or told none, may as well have failed."""
    before = line[0].progress
    if before is None or before.first_step is None or progress.first_step is None:
        return False
    told = [story.progress for story in line if story.progress is not None]
    if any(one.checkpoint_step is not None or one.loaded_step is not None for one in told):
        return False
    total, last = progress.total_steps, progress.last_step
    # The last one of a count from zero is one less than the total.
    if total is None or last is None or last < total - 1:
        return False
    return progress.first_step <= before.first_step


def _awaited(since: datetime, now: datetime, text: str) -> tuple[RecoveryState, str]:
    if now - since > LOST_AFTER:
        return RecoveryState.GIVEN_UP, f"{text}, for over an hour"
    return RecoveryState.UNDER_WAY, text


def time_limit(
    first: AttemptStory, newest: AttemptStory, lost: Reached, policy: Policy
) -> datetime | None:
    """By when the newest attempt should have passed the lost step, learnt from the first one's
    own pace; None where there is nothing to learn it from."""
    began, progress, before = newest.attempt.started_at, newest.progress, first.progress
    if began is None or before is None:
        return None
    if progress is not None and not progress.reached.alike(lost):
        # Its steps are not the ones that are waited for.
        progress = None
    if progress is None or progress.first_step_at is None or progress.first_step is None:
        ready = first.attempt.started_at
        took = 0.0
        if ready is not None and before.first_step_at is not None:
            took = max(0.0, (before.first_step_at - ready).total_seconds())
        return began + timedelta(seconds=max(policy.first_step_limit_s, SLACK * took + SLACK_S))
    pace = _pace(first)
    if pace is None:
        return None
    steps = max(0, (lost.step or 0) - progress.first_step) + 1
    return progress.first_step_at + timedelta(seconds=SLACK * steps * pace + SLACK_S)


def _pace(story: AttemptStory) -> float | None:
    """Seconds of one step."""
    progress = story.progress
    if progress is None:
        return None
    if progress.step_time_s is not None:
        return progress.step_time_s
    if None in (progress.first_step, progress.last_step):
        return None
    if progress.first_step_at is None or progress.last_step_at is None:
        return None
    steps = (progress.last_step or 0) - (progress.first_step or 0)
    seconds = (progress.last_step_at - progress.first_step_at).total_seconds()
    return seconds / steps if steps > 0 and seconds >= 0 else None


def settled(state: RecoveryState, newest: AttemptStory, now: datetime) -> bool:
    """Whether nothing that may still come belongs to this recovery."""
    if state is RecoveryState.VERIFIED:
        return True
    if state is RecoveryState.UNDER_WAY:
        return False
    advice = newest.advice
    if advice is not None and advice.active:
        return False
    known = [] if advice is None or advice.status is None else [advice.status.observed_at]
    end = newest.attempt.end
    if end is not None:
        known.append(end.learned_at)
    elif state is not RecoveryState.GIVEN_UP:
        return False
    return bool(known) and now - max(known) >= SETTLES_AFTER
