"""The trail: one immutable line per fact, numbered without gaps by the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.identity import AttemptId


class AuditKind(StrEnum):
    SEEN = "seen"
    BELIEVED = "believed"
    DECIDED = "decided"
    DONE = "done"
    CONFIRMED = "confirmed"


class AuditLevel(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ALARM = "alarm"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """``payload`` is JSON text. ``number`` is 0 until the store has given one, then 1, 2, 3 ...

    ``idempotency_key``, where not empty, makes a second event with the same key no event.
    """

    kind: AuditKind
    type: str
    producer: str
    happened_at: datetime
    learned_at: datetime
    level: AuditLevel = AuditLevel.INFO
    attempt_id: AttemptId | None = None
    job_id: str = ""
    attempt_index: int | None = None
    payload: str = "{}"
    idempotency_key: str = ""
    number: int = 0
