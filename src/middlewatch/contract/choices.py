"""Everything that the documented contract leaves open, chosen here and nowhere else.

A later reading of the product's own definitions should change this file (and field names in
proto/), not code that uses it. docs/api.md lists these choices for readers of the API; ADR 0007
says why.
"""

from __future__ import annotations

from middlewatch.model.advice import DesiredState, Disposition, Reason
from middlewatch.model.attempt import EndedBy
from middlewatch.model.audit import AuditLevel
from middlewatch.model.milestone import MilestoneKind, Operation, SchedulerAction
from middlewatch.model.scheduler import JobState

# ----------------------------------------------------------------------------------------- limits

PAGE_DEFAULT = 100
PAGE_MAX = 250
"""A larger limit is refused, not clamped: a client that counts on 1,000 must not lose 750."""

AUDIT_PAGE_DEFAULT = 100
AUDIT_PAGE_MAX = 100

OFFSET_MAX = 2**53
"""Larger offsets are refused: beyond it no database counts and JavaScript rounds."""

WORKFLOW_ID_MAX = 256
ID_MAX = 128
"""Characters in an identifier of a record or job, and in an idempotency key's producer."""
TEXT_MAX = 256
"""Characters in any other single name that a client sends."""
DETAIL_MAX = 4096
EXCERPT_MAX = 2000
LIST_MAX = 10_000
"""Entries in any list inside one record (nodes of one attempt)."""

AUDIT_BATCH_MAX = 500
SIGNAL_BATCH_MAX = 500
PAYLOAD_MAX = 65_536
"""Bytes of one audit event's payload, as JSON."""

EXPLAINED_SIGNALS_MAX = 1000

# ----------------------------------------------------------------------------------------- errors

HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    # grpc-gateway says 400; 409 lets a client tell a stale report from a malformed one.
    "FAILED_PRECONDITION": 409,
    "ABORTED": 409,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "UNAUTHENTICATED": 401,
}

API_KEYS_DISABLED = "API key management is disabled"

# ------------------------------------------------------------------------------------------ words

DESIRED_ON_WIRE = {
    DesiredState.RESTARTED: "ADVICE_STATE_RESTARTED",
    DesiredState.TERMINATED: "ADVICE_STATE_TERMINATED",
    DesiredState.RELEASED: "ADVICE_STATE_RELEASED",
    DesiredState.CONSTRAINED: "ADVICE_STATE_UNSPECIFIED",
}

DISPOSITION_ON_WIRE = {d: f"ADVICE_RECONCILIATION_DISPOSITION_{d.value}" for d in Disposition}

REASON_ON_WIRE = {
    reason: "ADVICE_RECONCILIATION_REASON_UNSPECIFIED"
    if reason is Reason.OTHER
    else f"ADVICE_RECONCILIATION_REASON_{reason.value}"
    for reason in Reason
}

REASON_WHERE_NONE_WAS_GIVEN = {
    Disposition.PENDING: Reason.UNKNOWN_STATE,
    Disposition.CONVERGED: Reason.DESIRED_STATE_OBSERVED,
    # Another controller may have reasons that we do not know; its outcome still counts.
    Disposition.ABANDONED: Reason.OTHER,
}

OPERATION_ON_WIRE = {
    Operation.RESTART: "RECOVERY_OPERATION_RESTART",
    Operation.TERMINATE: "RECOVERY_OPERATION_TERMINATE",
    Operation.DAG_RELEASE: "RECOVERY_OPERATION_DAG_RELEASE",
    # The documented list is complete and has no word for constraint-only advice.
    Operation.CONSTRAIN: "RECOVERY_OPERATION_UNSPECIFIED",
}

ACTION_ON_WIRE = {a: f"RECOVERY_SCHEDULER_ACTION_{a.value}" for a in SchedulerAction}

MILESTONE_ON_WIRE = {k: f"RECOVERY_MILESTONE_KIND_{k.name}" for k in MilestoneKind}

STATUS_ON_WIRE = {
    JobState.PENDING: "JOB_STATUS_PENDING",
    JobState.RUNNING: "JOB_STATUS_RUNNING",
    JobState.SUSPENDED: "JOB_STATUS_SUSPENDED",
    JobState.COMPLETED: "JOB_STATUS_COMPLETED",
    JobState.CANCELLED: "JOB_STATUS_CANCELLED",
    JobState.FAILED: "JOB_STATUS_FAILED",
    JobState.TIMEOUT: "JOB_STATUS_TIMEOUT",
    JobState.NODE_FAIL: "JOB_STATUS_NODE_FAIL",
    JobState.PREEMPTED: "JOB_STATUS_PREEMPTED",
    JobState.BOOT_FAIL: "JOB_STATUS_BOOT_FAIL",
    JobState.DEADLINE: "JOB_STATUS_DEADLINE",
    JobState.OUT_OF_MEMORY: "JOB_STATUS_OUT_OF_MEMORY",
    JobState.UNREADABLE: "JOB_STATUS_UNSPECIFIED",
}
STATUS_REQUEUED = "JOB_STATUS_REQUEUED"
STATUS_STOPPED = "JOB_STATUS_STOPPED"

STATE_AND_END_OF_STATUS: dict[str, tuple[JobState, EndedBy | None]] = {
    "JOB_STATUS_PENDING": (JobState.PENDING, None),
    "JOB_STATUS_RUNNING": (JobState.RUNNING, None),
    "JOB_STATUS_SUSPENDED": (JobState.SUSPENDED, None),
    STATUS_STOPPED: (JobState.CANCELLED, EndedBy.UNKNOWN),
    "JOB_STATUS_COMPLETED": (JobState.COMPLETED, EndedBy.COMPLETION),
    "JOB_STATUS_CANCELLED": (JobState.CANCELLED, EndedBy.SOMEBODY),
    "JOB_STATUS_FAILED": (JobState.FAILED, EndedBy.FAILURE),
    "JOB_STATUS_TIMEOUT": (JobState.TIMEOUT, EndedBy.TIME_LIMIT),
    "JOB_STATUS_NODE_FAIL": (JobState.NODE_FAIL, EndedBy.NODE_FAILURE),
    "JOB_STATUS_PREEMPTED": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "JOB_STATUS_BOOT_FAIL": (JobState.BOOT_FAIL, EndedBy.LAUNCH),
    "JOB_STATUS_DEADLINE": (JobState.DEADLINE, EndedBy.DEADLINE),
    "JOB_STATUS_OUT_OF_MEMORY": (JobState.OUT_OF_MEMORY, EndedBy.OUT_OF_MEMORY),
    STATUS_REQUEUED: (JobState.CANCELLED, EndedBy.REQUEUE),
}

JM_STATES = frozenset({s.value for s in JobState} - {"UNREADABLE"}) | {"REQUEUED"}
"""Words of ``jmState``, with or without ``JOB_STATUS_``; others are refused, not ignored: a filter
that is silently dropped shows jobs that nobody asked for."""

AUDIT_LEVEL_WORDS = {
    "": AuditLevel.INFO,
    "trace": AuditLevel.INFO,
    "debug": AuditLevel.INFO,
    "info": AuditLevel.INFO,
    "notice": AuditLevel.INFO,
    "warn": AuditLevel.WARNING,
    "warning": AuditLevel.WARNING,
    "error": AuditLevel.ALARM,
    "critical": AuditLevel.ALARM,
    "fatal": AuditLevel.ALARM,
    "alarm": AuditLevel.ALARM,
}
"""Levels of ingested events, whatever their case, after a prefix such as ``EVENT_LEVEL_``."""

RESERVED_PRODUCERS = frozenset({"watcher", "manager", "controller", "watchdog", "gateway"})
"""Our own services: only a caller with the controller scope may write in their name."""

SORT_ASCENDING = "event_produced_at:asc"
SORT_DESCENDING = "event_produced_at:desc"
SORT_DEFAULT = SORT_ASCENDING

# ------------------------------------------------------------------- what OpenAPI says beyond types

REQUIRED: dict[str, frozenset[str]] = {
    "heimdall.v1.Job": frozenset({"workflow_id"}),
    "heimdall.v1.Workflow": frozenset({"workflow_id"}),
    "heimdall.v1.CreateOrUpdateJobRequest": frozenset({"workflow_id"}),
    "heimdall.v1.GetWorkflowRequest": frozenset({"workflow_id"}),
    "heimdall.v1.GetRecoverySequenceRequest": frozenset(
        {"scheduler_system", "scheduler_scope", "job_id", "source_attempt_index", "operation"}
    ),
    "heimdall.v1.GetRecoverySequenceResponse": frozenset({"recovery_context"}),
    "heimdall.v1.RecordRecoveryMilestoneRequest": frozenset(
        {"sequence_id", "idempotency_key", "operation", "action"}
    ),
    "middlewatch.v1.ListVerdictsRequest": frozenset({"attempt"}),
    "middlewatch.v1.ListDecisionsRequest": frozenset({"attempt"}),
    "middlewatch.v1.PostedSignal": frozenset({"attempt"}),
}
"""Proto field names, by message; documented as required, or without meaning when absent."""

LIMITS: dict[tuple[str, str], dict[str, int]] = {
    ("*", "limit"): {"minimum": 1, "maximum": PAGE_MAX},
    ("*", "page_number"): {"minimum": 1},
    ("*", "workflow_id"): {"maxLength": WORKFLOW_ID_MAX},
    ("heimdall.v1.CreateOrUpdateJobRequest", "workflow_id"): {
        "minLength": 1,
        "maxLength": WORKFLOW_ID_MAX,
    },
    ("heimdall.v1.QueryAuditEventsRequest", "limit"): {"minimum": 1, "maximum": AUDIT_PAGE_MAX},
    ("heimdall.v1.CreateAuditEventsRequest", "items"): {"maxItems": AUDIT_BATCH_MAX},
    ("middlewatch.v1.PostSignalsRequest", "signals"): {"maxItems": SIGNAL_BATCH_MAX},
}
"""By message (``*``: any) and proto field name."""
