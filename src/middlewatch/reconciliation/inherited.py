"""What a leader takes over from one on another host: whatever that one's journal knows and ours not.

Each host's watchdog works from the journal of that host alone. So before a new leader goes on with a
recovery that another host began, its own journal gets the lines that its own watchdog would need,
read from the records of commands in the store and from what a look shows to stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from middlewatch.model.action import ActionKind, ActionRecord
from middlewatch.model.answer import Known
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.scheduler import JobState, JobView
from middlewatch.reconciliation.exclusions import users_own
from middlewatch.reconciliation.holds import Obligation
from middlewatch.reconciliation.in_flight import fence_stands
from middlewatch.reconciliation.plan import hold_stands
from middlewatch.reconciliation.situation import Situation, requeues

OwedTo = tuple[str, int]
"""A job's number and the restart count of the attempt that something is owed to."""


def ours_on_it(placed: Iterable[ActionRecord]) -> tuple[str, ...] | None:
    """Every node that commands of ours added to the job's list, whoever of us sent them; None for
    a job on whose list there never was one."""
    records = tuple(placed)
    if not records:
        return None
    return tuple(sorted({node for record in records for node in record.ours}))


def inherited(
    situation: Situation,
    view: JobView,
    owed: Mapping[OwedTo, Obligation],
    now: datetime,
    *,
    cluster_name: str,
    max_hold_s: float,
    settle_s: float,
) -> tuple[JournalEntry, ...]:
    """The lines that our journal lacks for what of ours stands on the job that ``view`` shows.
    ``owed`` is what our journal knows of this cluster."""
    if view.state is not JobState.PENDING and not fence_stands(situation.actions):
        return ()
    known = owed.get((view.job_id, view.restarts))
    advice = situation.advice
    line = JournalEntry(
        JournalKind.WINDOW, now, cluster_name, view.job_id, advice.submitted_at, view.restarts
    )
    lines: list[JournalEntry] = []
    unknown_hold = known is None or (known.hold is None and known.window is None)
    if unknown_hold and hold_stands(situation, view, now):
        lines.append(_held(situation, line, max_hold_s))
    if (known is None or known.exclude is None) and view.state is JobState.PENDING:
        lines += _excluded(situation, line)
    if (known is None or known.fence is None) and fence_stands(situation.actions):
        lifted = now + timedelta(seconds=settle_s)
        lines.append(replace(line, kind=JournalKind.FENCE, release_by=lifted, owner_requeue=True))
    return tuple(lines)


def _held(situation: Situation, line: JournalEntry, max_hold_s: float) -> JournalEntry:
    """The hold that was announced when the requeue was sent, with the release-by of then."""
    sent = requeues(situation)[-1]
    held = any(r.action.kind is ActionKind.REQUEUE_HOLD for r in requeues(situation))
    return replace(
        line,
        kind=JournalKind.HOLD if held else JournalKind.WINDOW,
        release_by=sent.started_at + timedelta(seconds=max_hold_s),
    )


def _excluded(situation: Situation, line: JournalEntry) -> tuple[JournalEntry, ...]:
    if not isinstance(situation.detail, Known):
        return ()
    detail = situation.detail.value
    own = users_own(situation, detail)
    ours = tuple(sorted(set(detail.excluded_nodes) - set(own)))
    if not ours:
        return ()
    return (replace(line, kind=JournalKind.EXCLUDE, user_exclusions=own, ours=ours),)
