"""What the watcher writes into the trail, and the one milestone that is its to write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.milestone import Milestone, MilestoneKind, MilestoneSource, Operation
from middlewatch.model.signal import SILENT, Severity, Signal, SignalKind

PRODUCER = "watcher"
MOST_SIGNALS = 20
"""Signals of one change and pattern that get a line of the trail each; the signals themselves are
all kept, up to their cap."""

_LEVELS = {
    Severity.INFO: AuditLevel.INFO,
    Severity.WARNING: AuditLevel.WARNING,
    Severity.ERROR: AuditLevel.WARNING,
    Severity.FATAL: AuditLevel.ALARM,
}


def audit_of(attempt: Attempt, stored: Attempt | None, now: datetime) -> tuple[AuditEvent, ...]:
    """The events of one change of one attempt; each has a key, so that repeating adds none."""
    events: list[AuditEvent] = []
    if stored is None:
        facts = {
            "state": attempt.state.value,
            "mode": attempt.opt_in.mode.value if attempt.opt_in.mode else None,
            "submittedAt": attempt.submitted_at.isoformat(),
        }
        events.append(_event(attempt, "attempt.seen", now, now, facts=facts, key="seen"))
    if attempt.nodes and (stored is None or stored.nodes != attempt.nodes):
        started = attempt.started_at or now
        facts_of_start: dict[str, object] = {"nodes": list(attempt.nodes[:64])}
        key = f"placed/{','.join(attempt.nodes)[:200]}"
        events.append(
            _event(attempt, "attempt.placed", started, now, facts=facts_of_start, key=key)
        )
    end = attempt.end
    if end is not None and (stored is None or stored.end != end):
        told = {"state": end.state.value, "by": end.by.value, "exitCode": end.exit_code}
        key = f"ended/{end.state.value}/{end.by.value}"
        events.append(_event(attempt, "attempt.ended", end.at or now, now, facts=told, key=key))
    if attempt.vanished and (stored is None or not stored.vanished):
        events.append(
            _event(
                attempt,
                "attempt.vanished",
                now,
                now,
                facts={},
                key="vanished",
                level=AuditLevel.ALARM,
            )
        )
    return tuple(events)


def audit_of_signals(
    attempt: Attempt, signals: Iterable[Signal]
) -> tuple[tuple[str, AuditEvent], ...]:
    """The events of signals, by the signals' keys."""
    told: Counter[str] = Counter()
    events: list[tuple[str, AuditEvent]] = []
    for signal in signals:
        if signal.kind is SignalKind.CASCADE_LINE or told[signal.pattern_id] >= MOST_SIGNALS:
            continue
        told[signal.pattern_id] += 1
        events.append((signal.key, _of_signal(attempt, signal)))
    return tuple(events)


def _of_signal(attempt: Attempt, signal: Signal) -> AuditEvent:
    facts = {
        "signal": signal.key,
        "pattern": signal.pattern_id,
        "class": signal.failure_class,
        "nodes": list(signal.nodes),
        "ranks": list(signal.ranks),
        "step": signal.step,
        "detail": signal.detail[:400],
    }
    level = _LEVELS[signal.severity]
    if signal.kind in SILENT:
        level = AuditLevel.ALARM
    kind = f"signal.{signal.kind.value}"
    return _event(
        attempt,
        kind,
        signal.happened_at,
        signal.learned_at,
        facts=facts,
        key=f"signal/{signal.key}",
        level=level,
    )


def _event(
    attempt: Attempt,
    kind: str,
    happened_at: datetime,
    learned_at: datetime,
    *,
    facts: object,
    key: str,
    level: AuditLevel = AuditLevel.INFO,
) -> AuditEvent:
    return AuditEvent(
        kind=AuditKind.SEEN,
        type=kind,
        producer=PRODUCER,
        happened_at=min(happened_at, learned_at),
        learned_at=learned_at,
        level=level,
        attempt_id=attempt.id,
        job_id=attempt.job_id,
        attempt_index=attempt.attempt_index,
        payload=json.dumps(facts, ensure_ascii=False, separators=(",", ":")),
        idempotency_key=f"watcher/{attempt.id}/{key}",
    )


def resumed(
    sequence_id: str,
    successor: Attempt,
    reached: tuple[int, datetime],
    now: datetime,
    past_step: int | None = None,
) -> Milestone:
    """The successor's first step beyond ``past_step``, the last one before the fault; ``reached``
    is that step and when it was."""
    step, at = reached
    return Milestone(
        sequence_id=sequence_id,
        idempotency_key=f"resumed/{successor.id}",
        at=min(at, now),
        learned_at=now,
        kind=MilestoneKind.RESUMED,
        operation=Operation.RESTART,
        step=step,
        detail=f"attempt {successor.attempt_index} reached step {step}",
        source=MilestoneSource.LOG,
        past_step=past_step,
    )
