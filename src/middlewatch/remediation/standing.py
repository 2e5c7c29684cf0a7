"""When advice that exists settles the matter, and when new trouble is decided anew."""

from __future__ import annotations

from middlewatch.model.advice import Advice, DecisionBasis, DesiredState, Disposition, Reason
from middlewatch.remediation.inputs import DecisionInputs
from middlewatch.remediation.outcome import Refrain, RefrainBasis

REOPENABLE = frozenset({Reason.NOT_PERMITTED, Reason.ADVICE_EXPIRED, Reason.TARGET_RUNNING})
"""Outcomes that left the attempt as it was: new trouble of it is decided anew. (`TARGET_RUNNING`:
training went on by itself before the restart, and may fail again.)"""


def standing(inputs: DecisionInputs) -> Refrain | None:
    """Why the advice that exists settles the matter, or None where it may be revised."""
    advice = inputs.existing
    if advice is None:
        return None
    if let_go(advice):
        # What failed afterwards is decided about for the first time.
        return None
    if advice.basis is DecisionBasis.DAG:
        return Refrain(
            RefrainBasis.WAITING_FOR_OUTCOME,
            f"Generation {advice.generation} lets it go, and has no outcome yet.",
        )
    if advice.basis is DecisionBasis.PERSON:
        return Refrain(
            RefrainBasis.ANOTHER_DECISION_STANDS,
            f"Generation {advice.generation} was decided by {advice.basis.value}.",
        )
    if advice.active or reopens(advice, inputs):
        return None
    status = advice.status
    how = "" if status is None else f" as {status.disposition.value} {status.reason.value}"
    return Refrain(
        RefrainBasis.DECIDED_ALREADY,
        f"Generation {advice.generation} ended{how}, and no new trouble came after it.",
    )


def let_go(advice: Advice) -> bool:
    """Whether the advice let a held job go (or did not), and is settled."""
    return advice.basis is DecisionBasis.DAG and not advice.active


def reopens(advice: Advice, inputs: DecisionInputs) -> bool:
    """Whether trouble came after a generation that ended without touching the attempt, or what
    it had brought about is gone.

    A switch of a mode is no trouble, and neither is a line that arrives late: the fact itself
    must be younger than the outcome, and the attempt must have been alive at the outcome.
    """
    status = advice.status
    if status is None:
        return False
    if status.disposition is Disposition.CONVERGED:
        # A scheduler that came back from an older state has undone the restart.
        return advice.desired is DesiredState.RESTARTED and inputs.successor_lost
    if status.disposition is not Disposition.ABANDONED:
        return False
    if status.reason not in REOPENABLE:
        return False
    end = inputs.attempt.end
    if end is not None and (end.at or end.learned_at) <= status.observed_at:
        return False
    news = inputs.witnesses.news_at
    return news is not None and news > status.observed_at
