"""Reading everything that one decision looks at, and nothing that it did not ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.attempt import Attempt, partitions_of, seen_again
from middlewatch.model.gates import Deployment, Gate, GateName, Gates, gates_for
from middlewatch.model.identity import AttemptId
from middlewatch.model.journal import JournalEntry
from middlewatch.model.optin import read_comment
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    JobState,
    JobView,
    PartitionView,
    Snapshot,
)
from middlewatch.model.signal import Progress, Signal
from middlewatch.ports.scheduler import Scheduler
from middlewatch.reconciliation.holds import our_exclusions
from middlewatch.reconciliation.inherited import ours_on_it
from middlewatch.reconciliation.revival import log_end
from middlewatch.reconciliation.situation import Fact, Need, Place, Situation, place

NOT_RECORDED = Gates(
    (Gate(GateName.JOB_OPT_IN, False, "the attempt is not recorded: no opt-in is known"),)
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Facts that a step asked for, fetched once per advice and tick."""

    detail: Answer[JobDetail] | None = None
    accounting: Answer[tuple[AccountingRecord, ...]] | None = None
    chain: Answer[Snapshot] | None = None


def asked_alone(asked: Asked, given: Asked) -> Asked:
    """Of what was asked all but what was ``given`` with a look that has grown too old: the one is no
    fresher than the other."""
    return Asked(
        None if asked.detail is given.detail else asked.detail,
        None if asked.accounting is given.accounting else asked.accounting,
        asked.chain,
    )


def view_in(look: Answer[Snapshot], advice: Advice) -> JobView | None:
    return look.value.job(advice.job_id) if isinstance(look, Known) else None


def fetched(
    scheduler: Scheduler,
    asked: Asked,
    need: Need,
    job_id: str,
    look_at: Callable[[Sequence[str]], Answer[Snapshot]],
) -> Asked:
    """What was asked, and what that need is for beside it."""
    match need.fact:
        case Fact.DETAIL:
            return replace(asked, detail=scheduler.detail(job_id))
        case Fact.ACCOUNTING:
            return replace(asked, accounting=scheduler.accounting(job_id))
        case Fact.CHAIN:
            return replace(asked, chain=look_at(need.jobs))


def detail_of(detail: Answer[JobDetail] | None, view: JobView | None) -> Answer[JobDetail] | None:
    """The detail, unless it is of another attempt than the one that was looked at."""
    if not isinstance(detail, Known) or view is None:
        return detail
    if detail.value.submitted_at in {None, view.submitted_at}:
        return detail
    return Unknown("the job has moved on between two looks", detail.as_of)


def gates_now(
    deployment: Deployment,
    attempt: Attempt | None,
    look: Answer[Snapshot],
    detail: Answer[JobDetail] | None,
    advice: Advice,
) -> Gates:
    """The gates as they stand at this look: the job's partitions as it shows them, and the job's
    own opt-in from its present comment where it was read."""
    if attempt is None:
        return NOT_RECORDED
    view = view_in(look, advice)
    if view is not None:
        attempt = replace(attempt, partitions=partitions_of(attempt, view))
        if view.uid >= 0 and attempt.submitted_at == view.submitted_at:
            attempt = replace(attempt, uid=view.uid, user=view.user)
    if isinstance(detail, Known):
        opt_in = read_comment(detail.value.comment, deployment.cluster.environment)
        attempt = replace(attempt, opt_in=opt_in)
    name = look.value.cluster_name if isinstance(look, Known) else None
    return gates_for(deployment, attempt, name, advice.failure_class)


def end_to_store(
    attempt: Attempt | None, advice: Advice, view: JobView | None, now: datetime
) -> Attempt | None:
    """Attempt k with its end, where this look is the first to show it: older releases overwrite
    it at the requeue, so it is stored before."""
    if attempt is None or attempt.end is not None or view is None:
        return None
    if place(advice, view) is not Place.SAME:
        return None
    seen = seen_again(attempt, view, now)
    return seen if seen.end is not None else None


def usable_nodes(
    attempt: Attempt, partitions: Answer[tuple[PartitionView, ...]]
) -> tuple[str, ...] | None:
    """The nodes of the attempt's partitions that take work now; None where that is not known."""
    if not isinstance(partitions, Known):
        return None
    usable: set[str] = set()
    for partition in partitions.value:
        if partition.name in attempt.partitions:
            usable |= set(partition.usable)
    return tuple(sorted(usable)) or None


class Recorded(Protocol):
    """What the store says of one attempt: the store itself, or somebody who remembers it."""

    def progress(self, attempt_id: AttemptId) -> Progress | None: ...
    def actions(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]: ...
    def placed(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]: ...
    def signals(
        self, attempt_id: AttemptId, after: int = 0, limit: int = 1000
    ) -> tuple[tuple[int, Signal], ...]: ...


def _signals(store: Recorded, attempt_id: AttemptId) -> Iterator[Signal]:
    """All of the attempt's signals: Slurm's own lines come last, whatever was written before."""
    after = 0
    while page := store.signals(attempt_id, after):
        yield from (signal for _, signal in page)
        after = page[-1][0]


def situation_for(
    advice: Advice,
    look: Answer[Snapshot],
    asked: Asked,
    *,
    store: Recorded,
    deployment: Deployment,
    facts: ClusterFacts,
    policy: Policy,
    entries: tuple[JournalEntry, ...],
    attempt: Attempt | None,
    pending_since: datetime | None,
    partition_nodes: tuple[str, ...] | None,
    deadline_s: float,
    silence: tuple[datetime, datetime] | None = None,
) -> Situation:
    view = view_in(look, advice)
    detail = detail_of(asked.detail, view)
    return Situation(
        advice=advice,
        gates=gates_now(deployment, attempt, look, detail, advice),
        look=look,
        facts=facts,
        policy=policy,
        attempt=attempt,
        progress=store.progress(advice.attempt_id),
        log_end=log_end(_signals(store, advice.attempt_id)),
        actions=store.actions(advice.attempt_id),
        detail=detail,
        accounting=asked.accounting,
        chain=asked.chain,
        pending_since=pending_since,
        our_exclusions=_ours(store, deployment, entries, advice, view),
        partition_nodes=partition_nodes,
        deadline_s=deadline_s,
        silence=silence,
    )


def _ours(
    store: Recorded,
    deployment: Deployment,
    entries: tuple[JournalEntry, ...],
    advice: Advice,
    view: JobView | None,
) -> tuple[str, ...] | None:
    """What of the job's list is ours: by our own journal, and by the store where another host's
    controller sent it. Lists change only while a job waits: of others it is not asked."""
    known = our_exclusions(
        entries,
        deployment.owned_cluster_name,
        advice.job_id,
        advice.submitted_at,
        advice.attempt_index,
    )
    if view is None or view.state is not JobState.PENDING:
        return known
    told = ours_on_it(store.placed(advice.attempt_id))
    if known is None or told is None:
        return told if known is None else known
    return tuple(sorted({*known, *told}))
