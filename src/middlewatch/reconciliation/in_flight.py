"""Commands whose answer was lost, and commands that were refused.

A hung scheduler daemon carries out what its clients gave up on, later. So a command without an
answer is neither repeated nor presumed undone before the daemon has answered a look and the
daemon's own time-out, with a margin, has passed. A refused one is not hammered.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from middlewatch.model.action import ActionKind, ActionRecord, Answered
from middlewatch.reconciliation.situation import Situation

SETTLE_MARGIN_S = 5.0
LONGEST_BACKOFF_S = 60.0
WITHHELD_BACKOFF_S = 8.0
_NAMES = {
    ActionKind.REQUEUE: "the requeue",
    ActionKind.REQUEUE_HOLD: "the requeue",
    ActionKind.UPDATE: "the update",
    ActionKind.RELEASE: "the release",
    ActionKind.CANCEL: "the cancel",
}


def settled_at(record: ActionRecord, situation: Situation) -> datetime:
    """When a command without an answer can no longer take effect. A daemon that was hung carries
    out what it had received only after it is back: time counts from the look that it answered."""
    ended = record.ended_at or record.started_at + timedelta(seconds=situation.deadline_s)
    margin = timedelta(seconds=situation.facts.message_timeout_s + SETTLE_MARGIN_S)
    settled = ended + margin
    if situation.silence is not None:
        began, over = situation.silence
        if began <= settled:
            settled = max(settled, over + margin)
    return settled


def unanswered(
    situation: Situation, kinds: tuple[ActionKind, ...], now: datetime
) -> ActionRecord | None:
    """The newest command of these kinds that may still take effect, or None."""
    open_ones = (Answered.NO_ANSWER, Answered.IN_FLIGHT)
    for record in reversed(situation.actions):
        if record.action.kind not in kinds or record.answered not in open_ones:
            continue
        if now < settled_at(record, situation):
            return record
    return None


def refused_until(
    situation: Situation, kinds: tuple[ActionKind, ...], now: datetime
) -> tuple[datetime, str] | None:
    """Until when a command of these kinds should rest after refusals in a row, and why. Doubles from
    one second to a minute, for those that we withheld ourselves to a few seconds."""
    streak = 0
    last: ActionRecord | None = None
    for record in reversed(situation.actions):
        if record.action.kind not in kinds:
            continue
        if record.answered is not Answered.REFUSED:
            break
        if last is not None and record.withheld != last.withheld:
            break
        streak += 1
        last = last or record
    if last is None:
        return None
    longest = WITHHELD_BACKOFF_S if last.withheld else LONGEST_BACKOFF_S
    pause = min(longest, 2.0 ** min(streak - 1, 6))
    until = (last.ended_at or last.started_at) + timedelta(seconds=pause)
    why = (
        last.text
        if last.withheld
        else f"the scheduler refused {_NAMES[last.action.kind]}: {last.text}"
    )
    return (until, why) if now < until else None


def fence_stands(actions: tuple[ActionRecord, ...]) -> bool:
    """Whether a Requeue=0 of ours may stand that has not been put back."""
    for record in reversed(actions):
        if record.action.requeueable is None or record.answered is Answered.REFUSED:
            continue
        if record.action.requeueable is False:
            return True
        if record.answered is Answered.DONE:
            return False
    return False
