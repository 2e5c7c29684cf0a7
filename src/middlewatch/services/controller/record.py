"""What is written of each action and outcome, as values: journal lines, records, milestones,
audit events. The wire's names for commands are given here, beside the real command's."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

from middlewatch.model.action import Action, ActionKind, ActionRecord, Answered, CommandResult
from middlewatch.model.advice import Advice, DesiredState, Status
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.milestone import (
    Milestone,
    MilestoneKind,
    MilestoneSource,
    Operation,
    SchedulerAction,
)
from middlewatch.model.scheduler import JobView
from middlewatch.reconciliation.situation import Situation

PRODUCER = "controller"
STOOD_STILL_S = 1.0
"""What may lie between announcing a command and its end, beyond the command's own deadline."""

SENT_WITHIN = timedelta(seconds=5)
"""A sender that takes longer from announcing a command to beginning it has stood still."""

OPERATIONS = {
    DesiredState.RESTARTED: Operation.RESTART,
    DesiredState.TERMINATED: Operation.TERMINATE,
    DesiredState.RELEASED: Operation.DAG_RELEASE,
    DesiredState.CONSTRAINED: Operation.CONSTRAIN,
}


def journal_entries(
    action: Action,
    advice: Advice,
    view: JobView,
    *,
    cluster_name: str,
    user_exclusions: tuple[str, ...],
    now: datetime,
    max_hold_s: float,
    settle_s: float,
) -> tuple[JournalEntry, ...]:
    """The lines that must be on disk before ``action`` is sent; none for harmless ones."""
    successor = view.restarts + 1

    def entry(kind: JournalKind, restarts: int, release_in_s: float | None) -> JournalEntry:
        by = None if release_in_s is None else now + timedelta(seconds=release_in_s)
        return JournalEntry(
            kind, now, cluster_name, action.job_id, advice.submitted_at, restarts, by
        )

    entries: list[JournalEntry] = []
    if action.kind is ActionKind.REQUEUE:
        entries.append(entry(JournalKind.WINDOW, successor, max_hold_s))
    if action.kind is ActionKind.REQUEUE_HOLD:
        entries.append(entry(JournalKind.HOLD, successor, max_hold_s))
    if action.exclusions is not None:
        ours = tuple(sorted(set(action.exclusions) - set(user_exclusions)))
        line = entry(JournalKind.EXCLUDE, view.restarts, None)
        entries.append(replace(line, user_exclusions=user_exclusions, ours=ours))
    if action.requeueable is False:
        line = entry(JournalKind.FENCE, view.restarts, settle_s)
        entries.append(replace(line, owner_requeue=True))
    return tuple(entries)


def announced_again(
    entries: tuple[JournalEntry, ...],
    announced: datetime,
    result: CommandResult,
    deadline_s: float,
    within_s: float,
) -> tuple[JournalEntry, ...]:
    """The lines once more where whoever sent the command stood still before it: what they announced
    may have been settled meanwhile, as something that can no longer come, and then it came."""
    stood_still = result.ended_at - announced > timedelta(seconds=deadline_s + STOOD_STILL_S)
    if not stood_still or result.answered is Answered.REFUSED:
        return ()
    by = result.ended_at + timedelta(seconds=within_s)
    return tuple(
        replace(entry, at=result.ended_at, release_by=by if entry.release_by else None)
        for entry in entries
    )


def settled(advice: Advice, cluster_name: str, restarts: int, now: datetime) -> JournalEntry:
    """Nothing of ours stands on that attempt any more."""
    return JournalEntry(
        JournalKind.SETTLED, now, cluster_name, advice.job_id, advice.submitted_at, restarts
    )


def planned(
    advice: Advice,
    action: Action,
    number: int,
    view: JobView,
    at: datetime,
    *,
    user_exclusions: tuple[str, ...] = (),
) -> ActionRecord:
    """The record that is written before the command, and tells a killed controller's successor
    that it may have been sent, and one on another host which exclusions are not the user's own."""
    return ActionRecord(
        id=f"{advice.attempt_id}:{number}",
        attempt_id=advice.attempt_id,
        generation=advice.generation,
        action=action,
        answered=Answered.IN_FLIGHT,
        started_at=at,
        saw_restarts=view.restarts,
        ours=tuple(sorted(set(action.exclusions or ()) - set(user_exclusions))),
    )


def performed(record: ActionRecord, result: CommandResult) -> ActionRecord:
    """The record with what came of the command. Where its sender stood still before it sent it, it
    counts from when it was planned: what it hit may not be what had been looked at."""
    stood_still = result.started_at - record.started_at > SENT_WITHIN
    return replace(
        record,
        answered=result.answered,
        started_at=record.started_at if stood_still else result.started_at,
        ended_at=result.ended_at,
        exit_code=result.exit_code,
        argv=result.argv,
        text=result.text[:1000],
    )


def not_sent(record: ActionRecord, why: str, at: datetime) -> ActionRecord:
    """The record of a command that was planned and then withheld: it cannot take effect."""
    return replace(record, answered=Answered.REFUSED, ended_at=at, text=why)


def milestones_of(advice: Advice, record: ActionRecord) -> tuple[Milestone, ...]:
    """The milestones of a command that was done. One update that constrains and lets go is
    reported twice, as the wire has two names for it."""
    if record.answered is not Answered.DONE or record.ended_at is None:
        return ()
    operation = OPERATIONS[advice.desired]
    at = record.ended_at

    def milestone(action: SchedulerAction, kind: MilestoneKind | None) -> Milestone:
        return Milestone(
            sequence_id=advice.sequence_id,
            idempotency_key=f"{record.id}:{action.value}",
            at=at,
            learned_at=at,
            kind=kind,
            operation=operation,
            action=action,
            detail=" ".join(record.argv),
            source=MilestoneSource.CONTROLLER,
        )

    action = record.action
    match action.kind:
        case ActionKind.REQUEUE | ActionKind.REQUEUE_HOLD:
            # The begin time that a plain requeue sets is what holds the successor.
            return (milestone(SchedulerAction.SLURM_REQUEUE_HOLD, None),)
        case ActionKind.CANCEL:
            return (milestone(SchedulerAction.SLURM_CANCEL, None),)
        case ActionKind.RELEASE:
            return (milestone(SchedulerAction.SLURM_RELEASE, MilestoneKind.RELEASED),)
        case ActionKind.UPDATE:
            made: list[Milestone] = []
            if action.exclusions is not None:
                made.append(
                    milestone(SchedulerAction.SLURM_UPDATE_CONSTRAINTS, MilestoneKind.CONSTRAINED)
                )
            if action.start_now:
                made.append(milestone(SchedulerAction.SLURM_RELEASE, MilestoneKind.RELEASED))
            return tuple(made)


def seen_milestone(
    advice: Advice, kind: MilestoneKind, at: datetime, learned_at: datetime
) -> Milestone:
    return Milestone(
        sequence_id=advice.sequence_id,
        idempotency_key=f"{advice.attempt_id}:{kind.value}",
        at=at,
        learned_at=learned_at,
        kind=kind,
        operation=OPERATIONS[advice.desired],
        source=(
            MilestoneSource.SCHEDULER
            if kind is MilestoneKind.RUNNING
            else MilestoneSource.CONTROLLER
        ),
    )


def audit(
    advice: Advice,
    kind: AuditKind,
    type_: str,
    at: datetime,
    payload: dict[str, object],
    *,
    level: AuditLevel = AuditLevel.INFO,
    key: str = "",
) -> AuditEvent:
    return AuditEvent(
        kind=kind,
        type=type_,
        producer=PRODUCER,
        happened_at=at,
        learned_at=at,
        level=level,
        attempt_id=advice.attempt_id,
        job_id=advice.job_id,
        attempt_index=advice.attempt_index,
        payload=json.dumps({"generation": advice.generation, **payload}, sort_keys=True),
        idempotency_key=key,
    )


def audit_of_action(advice: Advice, record: ActionRecord, at: datetime) -> AuditEvent:
    """The real command, to the letter, with what came of it."""
    level = AuditLevel.INFO if record.answered is Answered.DONE else AuditLevel.WARNING
    if record.action.why.startswith("revived in error"):
        level = AuditLevel.ALARM
    return audit(
        advice,
        AuditKind.DONE,
        f"action.{record.action.kind.value}",
        at,
        {
            "argv": list(record.argv),
            "exitCode": record.exit_code,
            "answered": record.answered.value,
            "text": record.text[:300],
            "why": record.action.why,
        },
        level=level,
    )


def audit_of_status(advice: Advice, status: Status) -> AuditEvent:
    alarm = status.reason.value == "REVIVED_IN_ERROR"
    return audit(
        advice,
        AuditKind.CONFIRMED,
        "advice.outcome" if status.terminal else "advice.waiting",
        status.observed_at,
        {
            "disposition": status.disposition.value,
            "reason": status.reason.value,
            "detail": status.detail,
        },
        level=AuditLevel.ALARM if alarm else AuditLevel.INFO,
    )


def audit_of_lost_log(situation: Situation, action: Action, at: datetime) -> tuple[AuditEvent, ...]:
    """Say so where the successor is let go before k's log was read to its end."""
    progress = situation.progress
    if not action.start_now or (progress is not None and progress.log_drained_at is not None):
        return ()
    read_at = progress.last_output_at if progress is not None else None
    return (
        audit(
            situation.advice,
            AuditKind.SEEN,
            "log.not_drained",
            at,
            {"lastOutputReadAt": read_at.isoformat() if read_at else None},
            level=AuditLevel.WARNING,
        ),
    )
