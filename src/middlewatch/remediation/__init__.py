"""Beliefs to advice: what should happen next to an attempt, on which ground, within which budgets."""

from middlewatch.remediation.decide import decide
from middlewatch.remediation.exclusions import blamed_nodes
from middlewatch.remediation.history import (
    earlier_attempts,
    past_attempt,
    restarted_by_us,
    successor_lost,
    successor_of,
)
from middlewatch.remediation.inputs import (
    DecisionInputs,
    History,
    PastAttempt,
    Successor,
    Witnesses,
    witnesses_of,
)
from middlewatch.remediation.outcome import (
    WAITING,
    Advise,
    Budget,
    BudgetName,
    Dropped,
    DroppedNode,
    Exclusions,
    Outcome,
    Refrain,
    RefrainBasis,
)
from middlewatch.remediation.recovery import missing_milestones, recovery_of
from middlewatch.remediation.story import AttemptStory, line_from

__all__ = [
    "WAITING",
    "Advise",
    "AttemptStory",
    "Budget",
    "BudgetName",
    "DecisionInputs",
    "Dropped",
    "DroppedNode",
    "Exclusions",
    "History",
    "Outcome",
    "PastAttempt",
    "Refrain",
    "RefrainBasis",
    "Successor",
    "Witnesses",
    "blamed_nodes",
    "decide",
    "earlier_attempts",
    "line_from",
    "missing_milestones",
    "past_attempt",
    "recovery_of",
    "restarted_by_us",
    "successor_lost",
    "successor_of",
    "witnesses_of",
]
