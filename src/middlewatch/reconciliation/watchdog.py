"""Let go what of ours has outstayed its deadline, and nothing else.

A controller that dies between holding a job and letting it go leaves the job waiting for ever.
The watchdog knows only the journal, one fresh look and the time; it acts past deadlines alone, so
it never races a controller that is alive; and it would rather leave a job of ours than touch one
that is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from middlewatch.model.action import Action, ActionKind
from middlewatch.model.answer import Answer, Known
from middlewatch.model.journal import JournalEntry
from middlewatch.model.scheduler import ClusterFacts, JobDetail, JobView, Snapshot
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.reconciliation.holds import Obligation
from middlewatch.reconciliation.traces import (
    Part,
    deadline,
    fenced,
    held_by_us,
    made_impossible,
    own_begin_time,
    window_stands,
)

AFTER_PENDING_S = 2.0
"""Two releases of Slurm refuse a start within the second in which the old attempt ended; the
submit time of a requeued job is the moment at which it became pending."""


@dataclass(frozen=True, slots=True)
class Due:
    """One part of what we owe one job: past its deadline ``since``, and standing in ``view``."""

    part: Part
    entry: JournalEntry
    view: JobView
    since: datetime


@dataclass(frozen=True, slots=True)
class Planned:
    """One action for one job, not to be taken before ``not_before``. ``lets_go``: the job may
    start by it, so it counts for the spread and has used ``slot``."""

    part: Part
    action: Action
    not_before: datetime
    lets_go: bool
    slot: datetime | None = None


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A job that we would let go and must not; ``why`` is for people. ``for_good``: somebody
    else decides about it now, so that nobody is protected by our waiting for it."""

    job_id: str
    why: str
    for_good: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """``planned`` in the order of the deadlines, at most one action per job."""

    planned: tuple[Planned, ...] = ()
    left_alone: tuple[LeftAlone, ...] = ()


def due(
    obligations: Iterable[Obligation],
    look: Answer[Snapshot],
    facts: ClusterFacts | None,
    now: datetime,
    config: WatchdogConfig,
) -> tuple[Due, ...]:
    """What is to be done, one part per job, the oldest deadline first.

    Nothing for a look that is not `Known`, and nothing of another cluster's. Each job named here
    has to be read (`JobDetail`) before `watchdog_actions` can decide about it.
    """
    if not isinstance(look, Known):
        return ()
    owed: dict[str, list[Obligation]] = {}
    for obligation in obligations:
        if obligation.cluster_name == look.value.cluster_name:
            owed.setdefault(obligation.job_id, []).append(obligation)
    found: list[Due] = []
    for view in look.value.jobs:
        # An array's row stands for all of its waiting tasks, and a command naming it hits them all.
        if view.job_id not in owed or view.array_pending:
            continue
        for part, entry in _shown(owed.pop(view.job_id), view, facts, now):
            since = deadline(part, entry, config)
            if now >= since:
                found.append(Due(part, entry, view, since))
                break
    return tuple(sorted(found, key=lambda one: (one.since, one.view.job_id)))


def _shown(
    owed: Sequence[Obligation], view: JobView, facts: ClusterFacts | None, now: datetime
) -> Iterable[tuple[Part, JournalEntry]]:
    """What of ours the look shows on this job, the most harmful first."""
    yield from (
        (Part.HOLD, one.hold) for one in owed if one.hold is not None and held_by_us(one.hold, view)
    )
    excluded = [one.exclude for one in owed if one.exclude and made_impossible(one.exclude, view)]
    if excluded:
        yield Part.EXCLUDE, _united(excluded)
    yield from (
        (Part.FENCE, one.fence) for one in owed if one.fence is not None and fenced(one.fence, view)
    )
    yield from (
        (Part.WINDOW, one.window)
        for one in owed
        if one.window is not None and window_stands(one.window, view, facts, now)
    )


def _united(entries: Sequence[JournalEntry]) -> JournalEntry:
    """Exclusions outlive a requeue: what we added to any attempt of the job is ours; the user's
    own list is the one that was read last."""
    newest = max(entries, key=lambda entry: entry.at)
    ours = {node for entry in entries for node in entry.ours}
    return replace(newest, ours=tuple(sorted(ours)))


def watchdog_actions(
    found: Sequence[Due],
    details: Mapping[str, Answer[JobDetail]],
    facts: ClusterFacts | None,
    now: datetime,
    config: WatchdogConfig,
    *,
    last_slot: datetime | None = None,
) -> Plan:
    """The next action for each job in ``found`` (from `due`) whose detail is `Known`.

    Actions that let a job go are spread over slots ``spacing_s`` apart, of which at most
    ``per_tick`` are free at any moment. ``last_slot`` is that of the last one that was taken.
    """
    planned: list[Planned] = []
    left: list[LeftAlone] = []
    spacing = timedelta(seconds=config.spacing_s)
    slot = now - spacing * (config.per_tick - 1)
    if last_slot is not None:
        slot = max(slot, last_slot + spacing)
    for one in found:
        detail = details.get(one.view.job_id)
        if not isinstance(detail, Known):
            continue
        match _decided(one, detail.value, facts, now):
            case LeftAlone() as alone:
                left.append(alone)
            case Planned() as step if step.lets_go:
                planned.append(replace(step, not_before=max(step.not_before, slot), slot=slot))
                slot += spacing
            case Planned() as step:
                planned.append(step)
            case None:
                pass
    return Plan(tuple(planned), tuple(left))


def _decided(
    one: Due, detail: JobDetail, facts: ClusterFacts | None, now: datetime
) -> Planned | LeftAlone | None:
    view = one.view
    if detail.job_id != view.job_id or detail.submitted_at not in (None, view.submitted_at):
        return None  # it has moved on between the two looks
    if one.part is Part.FENCE:
        return _lift_fence(one, detail)
    if detail.held_by_operator is True:
        return LeftAlone(view.job_id, "an operator holds it", for_good=True)
    match one.part:
        case Part.HOLD:
            return _let_go(one, detail, facts, now)
        case Part.EXCLUDE:
            return _lose_our_exclusions(one, detail)
        case Part.WINDOW:
            return _start_now(one, "our begin-time window is past its deadline", lets_go=True)
        case _:
            assert_never(one.part)


def _let_go(
    one: Due, detail: JobDetail, facts: ClusterFacts | None, now: datetime
) -> Planned | LeftAlone:
    """End the begin time first, while the hold still stands; with the next look release."""
    if detail.held_by_operator is None:
        why = "it cannot be told whether an operator holds it as well"
        return LeftAlone(one.view.job_id, why, for_good=False)
    if own_begin_time(one.view, facts, now):
        return _start_now(one, "our hold is past its deadline: end its begin time", lets_go=False)
    action = Action(ActionKind.RELEASE, one.view.job_id, "watchdog: our hold is past its deadline")
    return Planned(one.part, action, _startable(one), lets_go=True)


def _start_now(one: Due, why: str, *, lets_go: bool) -> Planned:
    action = Action(ActionKind.UPDATE, one.view.job_id, f"watchdog: {why}", start_now=True)
    return Planned(one.part, action, _startable(one), lets_go)


def _startable(one: Due) -> datetime:
    return max(one.since, one.view.submitted_at + timedelta(seconds=AFTER_PENDING_S))


def _lift_fence(one: Due, detail: JobDetail) -> Planned | None:
    if detail.requeueable is not False:
        return None
    why = "watchdog: put the owner's Requeue=1 back"
    action = Action(ActionKind.UPDATE, one.view.job_id, why, requeueable=True)
    return Planned(one.part, action, one.since, lets_go=False)


def _lose_our_exclusions(one: Due, detail: JobDetail) -> Planned | LeftAlone | None:
    """All of ours go; of the user's own list what still stands there stays, in its order."""
    users, ours = set(one.entry.user_exclusions), set(one.entry.ours)
    added = {node for node in detail.excluded_nodes if node not in users}
    if not added:
        return None
    strangers = sorted(added - ours)
    if strangers:
        why = f"somebody else has excluded {', '.join(strangers[:5])} since"
        return LeftAlone(one.view.job_id, why, for_good=True)
    action = Action(
        ActionKind.UPDATE,
        one.view.job_id,
        "watchdog: our exclusions have made the job impossible",
        exclusions=tuple(node for node in detail.excluded_nodes if node in users),
    )
    return Planned(one.part, action, _startable(one), lets_go=True)
