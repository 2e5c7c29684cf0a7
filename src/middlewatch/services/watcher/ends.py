"""How an attempt ended, told more and more exactly.

The listing says at once that a job has ended; accounting says later who cancelled it and what a
requeued attempt died of; and of a job that left the listing while nobody looked, accounting is
all there is. What cannot be known stays unknown, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from middlewatch.detection.scheduler_facts import refined_end
from middlewatch.model.answer import Absent, Answer, Known
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.copies import replace
from middlewatch.model.scheduler import AccountingRecord, JobState, JobView

FORGOTTEN_AFTER_S = 60.0
"""How long accounting may lag behind a job that the scheduler no longer lists."""


def record_of(records: Sequence[AccountingRecord], attempt: Attempt) -> AccountingRecord | None:
    """The newest record of that very attempt: earlier jobs of the number have other times."""
    for record in reversed(records):
        if record.submitted_at == attempt.submitted_at:
            return record
    return None


def of_another_job(
    earlier: Attempt, view: JobView, answer: Answer[tuple[AccountingRecord, ...]]
) -> bool:
    """Whether accounting has more attempts under the number, between an attempt and what is listed
    now, than the restart count leaves room for: then another job got the number meanwhile."""
    if not isinstance(answer, Known):
        return False
    between = [
        record
        for record in answer.value
        if earlier.submitted_at < record.submitted_at < view.submitted_at
    ]
    return len(between) > view.restarts - earlier.attempt_index - 1


def with_accounting(
    attempt: Attempt,
    answer: Answer[tuple[AccountingRecord, ...]],
    now: datetime,
    gives_up_s: float,
) -> Attempt:
    """The attempt with what accounting says about its end, if it says anything."""
    end = attempt.end
    if isinstance(answer, Known):
        record = record_of(answer.value, attempt)
        refined = None if record is None else refined_end(end, record, attempt, now)
        if refined is not None:
            return _ended(attempt, refined)
    if end is None:
        return attempt
    waited = (now - end.learned_at).total_seconds()
    if isinstance(answer, Absent) or waited > gives_up_s:
        return replace(attempt, end=replace(end, final=True))
    return attempt


def gone(
    attempt: Attempt,
    answer: Answer[tuple[AccountingRecord, ...]],
    missing_since: datetime,
    now: datetime,
) -> Attempt:
    """The attempt of a job that a complete listing no longer shows."""
    asked = with_accounting(attempt, answer, now, gives_up_s=0.0)
    if asked.end is not None:
        return asked
    waited = (now - missing_since).total_seconds()
    if isinstance(answer, Absent) or (isinstance(answer, Known) and waited > FORGOTTEN_AFTER_S):
        end = AttemptEnd(
            state=JobState.UNREADABLE,
            by=EndedBy.UNKNOWN,
            exit_code=None,
            exit_signal=None,
            at=None,
            learned_at=now,
            final=True,
        )
        return _ended(attempt, end)
    return attempt


def _ended(attempt: Attempt, end: AttemptEnd) -> Attempt:
    return replace(attempt, end=end, state=end.state, completing=False)
