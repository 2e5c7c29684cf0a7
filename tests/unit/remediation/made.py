"""Decision inputs for the tests of remediation: an attempt, its signals, and what stands around."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from middlewatch.attribution import governing, issues_from, signals_of, verdict_for
from middlewatch.model.advice import (
    Advice,
    DecisionBasis,
    DesiredState,
    Disposition,
    Reason,
    Status,
)
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.gates import Deployment, Gates, Mode, gates_for
from middlewatch.model.identity import AttemptId
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import PartitionView
from middlewatch.model.signal import Domain, Progress, Signal
from middlewatch.remediation import (
    Advise,
    DecisionInputs,
    History,
    Outcome,
    PastAttempt,
    Refrain,
    RefrainBasis,
    decide,
    witnesses_of,
)
from tests.unit.attribution.made import CLUSTER, at, attempt

BATCH = PartitionView("batch", ("n1", "n2", "n3", "n4"), ("n1", "n2", "n3", "n4"))


def gates(target: Attempt, *, mode: Mode = Mode.ACTION, acknowledged: bool = True) -> Gates:
    deployment = Deployment(CLUSTER, "cluster", mode, acknowledged, ("batch",))
    return gates_for(deployment, target, "cluster")


def inputs(target: Attempt, *signals: Signal, **given: Any) -> DecisionInputs:
    """Inputs about the governing issue of these signals; everything else as on a good day."""
    issues = issues_from(signals, (), target)
    issue = governing(issues) or issues[0]
    made = DecisionInputs(
        attempt=target,
        mode=JobMode.ACTION,
        issue=issue,
        verdict=verdict_for(issue, signals, target, at(60)),
        witnesses=witnesses_of(signals_of(issue, signals)),
        progress=None,
        history=History(weighs_progress=True),
        policy=Policy(),
        gates=gates(target),
        partitions=(BATCH,),
        partitions_unknown="",
        successor=None,
        existing=None,
        now=at(60),
    )
    return replace(made, **given)


def advised(outcome: Outcome) -> Advise:
    assert isinstance(outcome, Advise), outcome
    return outcome


def refrained(outcome: Outcome) -> RefrainBasis:
    assert isinstance(outcome, Refrain), outcome
    return outcome.basis


def ground(made: DecisionInputs) -> DecisionBasis | RefrainBasis:
    """The basis of the outcome, whichever kind it is."""
    outcome = decide(made)
    return outcome.intent.basis if isinstance(outcome, Advise) else outcome.basis


def progress(
    last: int | None, checkpoint: int | None = None, loaded: int | None = None
) -> Progress:
    return Progress(attempt().id, last_step=last, checkpoint_step=checkpoint, loaded_step=loaded)


def past(index: int, **given: Any) -> PastAttempt:
    """An earlier attempt that we restarted after the program failed."""
    made = PastAttempt(
        attempt_id=AttemptId(f"attempt-{index}"),
        attempt_index=index,
        restarted_by_us=True,
        ended_by=EndedBy.FAILURE,
        failure_class="user_exception",
        domain=Domain.APPLICATION,
    )
    return replace(made, **given)


def advice(target: Attempt, status: Status | None = None, **given: Any) -> Advice:
    """Generation 1 of a restart of that attempt."""
    made = Advice(
        attempt_id=target.id,
        job_id=target.job_id,
        attempt_index=target.attempt_index,
        submitted_at=target.submitted_at,
        owner=CLUSTER,
        desired=DesiredState.RESTARTED,
        exclusions=(),
        generation=1,
        desired_state_changed_at=at(35),
        created_at=at(35),
        basis=DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
        gates=gates(target),
        policy_version="default",
        sequence_id="s",
        explanation="Ended FAILED.",
        status=status,
        version=1,
    )
    return replace(made, **given)


def status(disposition: Disposition, reason: Reason, when: datetime | None = None) -> Status:
    return Status(1, disposition, reason, when or at(40))
