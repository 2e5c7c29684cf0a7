"""What only the end shows: what was left standing, what was left undone, and what was forgotten."""

from __future__ import annotations

from middlewatch.adapters.sql.store import SqlStore
from middlewatch.lab.simulated import SimulatedCluster
from middlewatch.lab.simulated.records import Job
from middlewatch.model.advice import Advice, Reason
from middlewatch.model.audit import AuditEvent
from middlewatch.model.scheduler import ENDED
from middlewatch.ports.store import AuditFilter
from tools.faults.counts import BREACHES, NO_BREACHES
from tools.faults.simulated.told import Finding
from tools.faults.simulated.witness import Witness

COUNTS = (
    *BREACHES,
    "unled_actions",
    "hasty_leaders",
    "broken",
)
APART = (
    *NO_BREACHES,
    "people_requeued_beside_us",
    "cancels_that_slurmctld_forgot",
    "holds_kept_through_a_cancel",
)


def judge(witness: Witness, store: SqlStore, cluster: SimulatedCluster) -> tuple[Finding, ...]:
    """All findings of a schedule that has been played to its end."""
    _standing(witness, cluster)
    _revived(witness, cluster)
    _remembered(witness, store)
    _ended(witness, store)
    return tuple(witness.found)


def _standing(witness: Witness, cluster: SimulatedCluster) -> None:
    for job in cluster.jobs.values():
        if job.state in ENDED:
            continue
        if job.pending and job.requeue_held and not job.special_exit:
            witness.apart["holds_kept_through_a_cancel"] += _held_by_us(witness, job)
        why = witness.stands_on(job)
        if why == "fence":
            witness.note("fences_left", f"job {job.job_id}: Requeue=0 of ours stands at the end")
        elif why:
            witness.note("held_forever", f"job {job.job_id}: {why} at the end ({job.reason})")


def _held_by_us(witness: Witness, job: Job) -> bool:
    """Whether the hold is one of ours that stayed when the job was cancelled, and when somebody
    requeued it after that. Slurm took its mark away, and lets nobody release what is over."""
    lineage = witness.lineage(job)
    cancelled = any(attempt[0] == lineage for attempt in witness.stopped)
    ours = any(d.ours and d.lineage == lineage and d.what == "requeue_hold" for d in witness.deeds)
    return cancelled and ours


def _revived(witness: Witness, cluster: SimulatedCluster) -> None:
    for attempt, how in witness.revived.items():
        lineage, restarts = attempt
        if lineage in witness.frozen_jobs:
            continue
        began = witness.started.get(attempt)
        mine = [d for d in witness.deeds if d.lineage == lineage and d.restarts == restarts]
        undone = any(d.ours and d.what == "cancel" and not d.refusal for d in mine)
        theirs = any(not d.ours and not d.refusal for d in mine)
        job = next((j for j in cluster.jobs.values() if witness.lineage(j) == lineage), None)
        if undone and began is None:
            witness.apart["revived_then_undone"] += 1
            continue
        if theirs:
            witness.apart["revived_and_people_decided"] += 1
            continue
        if began is not None and not began[1] and _told(witness, attempt):
            # Nobody could act before Slurm's own begin time ended: said, and left alone.
            witness.apart["revived_and_started_by_slurm"] += 1
            continue
        if began is None and (job is None or job.restarts != restarts or job.state in ENDED):
            continue
        what = "was let go" if began is not None and began[1] else "was left"
        text = f"lineage {lineage}: had {how} and attempt {restarts} {what}"
        witness.note(f"revived_{how}_left", text)


def _told(witness: Witness, attempt: tuple[int, int]) -> bool:
    for advice in witness.advice.values():
        target = witness.target(advice)
        if target is None or (target[0], target[1] + 1) != attempt or advice.status is None:
            continue
        if advice.status.reason is Reason.REVIVED_IN_ERROR:
            return True
    return False


def _remembered(witness: Witness, store: SqlStore) -> None:
    for (attempt_id, generation), advice in witness.advice.items():
        found = [g for g in store.generations(attempt_id) if g.generation == generation]
        if not found:
            witness.note("lost_advice", f"{advice.job_id} generation {generation} is gone")
        elif _intent(found[0]) != _intent(advice):
            witness.note("lost_advice", f"{advice.job_id} generation {generation} was changed")
        elif advice.status is not None and advice.status.terminal:
            status = found[0].status
            if status is None or status.reason is not advice.status.reason:
                witness.note("lost_advice", f"{advice.job_id} g{generation} lost its outcome")
    events: list[AuditEvent] = []
    while page := store.audit(AuditFilter(), events[-1].number or 0 if events else 0, 1000):
        events.extend(page)
    numbers = [event.number for event in events]
    if numbers != list(range(1, len(numbers) + 1)):
        witness.note("lost_audit", f"the trail's numbers have gaps: {numbers[:50]}")
    keys = {event.idempotency_key for event in events if event.idempotency_key}
    for key, kind in witness.audit.items():
        if not key.startswith("#") and key not in keys:
            witness.note("lost_audit", f"{kind} ({key}) was acknowledged and is gone")
    kept = {
        record.id
        for advice in witness.advice.values()
        for record in store.actions(advice.attempt_id)
    }
    for missing in sorted(witness.intents - kept):
        witness.note("lost_audit", f"the record of command {missing} is gone")


def _intent(advice: Advice) -> tuple[object, ...]:
    return (advice.desired, advice.exclusions, advice.owner, advice.created_at, advice.basis)


def _ended(witness: Witness, store: SqlStore) -> None:
    for _, advice in store.advice_page(True, 0, 100):
        status = advice.status.detail if advice.status else "no report"
        witness.note("unconverged", f"advice {advice.job_id} is still open: {status}")
