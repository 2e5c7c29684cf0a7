"""Signals that belong together: one failure, as a person would name it, and what we believe of it.

The symptom (signals), the suspected cause (verdict), the decision (advice) and the outcome
(reconciliation status) are four records and are never merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.identity import AttemptId
from middlewatch.model.signal import Domain

CANNOT_READ = "cannot_read"
VANISHED = "vanished"
NOT_VISIBLE = "not_visible"
NO_FAULT = frozenset({CANNOT_READ, VANISHED, NOT_VISIBLE})
"""Classes of ours for issues that are no failure of the attempt: told, never acted on."""


class IssueState(StrEnum):
    OPEN = "open"
    RECOVERED = "recovered"
    """The program went on by itself; nothing to do."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Issue:
    """One failure of one attempt. ``first_cause`` and ``cascade`` are signal keys."""

    id: str
    attempt_id: AttemptId
    failure_class: str
    state: IssueState
    first_cause: str
    cascade: tuple[str, ...]
    happened_at: datetime
    learned_at: datetime
    summary: str = ""
    version: int = 0


class VerdictBasis(StrEnum):
    """What the belief rests on, strongest evidence first."""

    SCHEDULER_FACT = "scheduler_fact"
    LINE_NAMES_NODE = "line_names_node"
    LINE_NAMES_RANK = "line_names_rank"
    PATTERN_DOMAIN = "pattern_domain"
    SILENCE_ONLY = "silence_only"
    NOTHING = "nothing"


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A belief about one issue: never a permission. ``nodes`` lie within the allocation."""

    issue_id: str
    attempt_id: AttemptId
    domain: Domain
    failure_class: str
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    basis: VerdictBasis
    confidence: Confidence
    explanation: str
    at: datetime
