"""The decision to let a held job go once the jobs that it waits for are done.

Only the hold that its owner placed is ever lifted, only while the job has never run, and only once:
what is held again afterwards was held by somebody who meant it. Each dependency has to be met; one
that is wrong, or that nobody can tell, holds the job, and its owner is told. As with every decision
the gates do not change it but are frozen into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from middlewatch.model.advice import (
    Advice,
    DecisionBasis,
    DesiredState,
    Disposition,
    Intent,
    Reason,
    Status,
)
from middlewatch.model.attempt import Attempt
from middlewatch.model.gates import GateName, Gates, closed_by, declares_as_decided
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.remediation.parents import Judged, ParentFacts, Standing, judged

USERS_HOLD = "JobHeldUser"
OPERATORS_HOLD = "JobHeldAdmin"
_NO_REASON = frozenset({"", "None"})
READ_AGAIN = timedelta(minutes=2)
"""Within this time a comment that was changed has been read again."""


@dataclass(frozen=True, slots=True)
class ReleaseInputs:
    """Everything that the decision about one held job may look at. ``parents`` are in the order of
    the declaration; ``existing`` is the advice that stands for the job, whatever became of it."""

    attempt: Attempt
    mode: JobMode
    parents: tuple[ParentFacts, ...]
    policy: Policy
    gates: Gates
    existing: Advice | None
    now: datetime
    cluster_seen: bool = True
    waited: bool = False
    """Whether it was found held and waiting before."""


class AwaitBasis(StrEnum):
    """The one ground for not letting it go. The words are no `RefrainBasis`: both are stored as a
    decision's result."""

    NOTHING_DECLARED = "nothing_declared"
    NOT_WAITING = "not_waiting_any_more"
    """It has begun, or has run before: there is nothing to let go."""
    NOT_HELD = "not_held"
    """It was not submitted held: what it declares has no effect."""
    BAD_DECLARATION = "bad_declaration"
    WRONG_PARENT = "wrong_parent"
    PARENT_FAILED = "parent_failed"
    PARENT_UNKNOWN = "parent_unknown"
    PARENTS_NOT_DONE = "parents_not_done"
    HELD_OTHERWISE = "held_otherwise"
    GATE_UNSEEN = "gate_unseen"
    RELEASE_STANDS = "release_stands"
    RELEASED_BEFORE = "released_before"
    HELD_AGAIN = "held_again"
    """It was let go, and is held again: perhaps by a scheduler that came back from an older state,
    perhaps by somebody who meant it. That is for a person."""


NEEDS_A_PERSON = frozenset(
    {AwaitBasis.BAD_DECLARATION, AwaitBasis.WRONG_PARENT, AwaitBasis.PARENT_FAILED}
)
SETTLED = frozenset(
    {
        AwaitBasis.NOTHING_DECLARED,
        AwaitBasis.NOT_WAITING,
        AwaitBasis.RELEASE_STANDS,
        AwaitBasis.RELEASED_BEFORE,
    }
)
"""Grounds that are no news: what is recorded already says it."""


@dataclass(frozen=True, slots=True)
class Release:
    """RELEASED shall stand for the job. ``decided_anew``: an earlier generation ended without
    letting it go, and something new came after it."""

    intent: Intent
    parents: tuple[Judged, ...]
    decided_anew: bool = False


@dataclass(frozen=True, slots=True)
class Await:
    """It stays held (or is not ours to let go)."""

    basis: AwaitBasis
    explanation: str
    parents: tuple[Judged, ...] = ()


ReleaseOutcome = Release | Await


def release_for(inputs: ReleaseInputs) -> ReleaseOutcome:
    """The outcome for one job. Same inputs, same outcome."""
    attempt = inputs.attempt
    opt_in = attempt.opt_in
    if not opt_in.depends_on and not opt_in.depends_on_wrong:
        return Await(AwaitBasis.NOTHING_DECLARED, "The job declares nothing to wait for.")
    stands = _stands(inputs)
    if stands is not None:
        return stands
    if attempt.attempt_index > 0 or not attempt.live:
        return Await(AwaitBasis.NOT_WAITING, "It has run before, or is over.")
    if not attempt.held or attempt.state is not JobState.PENDING:
        if inputs.waited:
            return Await(AwaitBasis.NOT_WAITING, "Somebody has let it go.")
        return Await(
            AwaitBasis.NOT_HELD,
            "It is not held, so there is nothing to let go and it starts whenever the scheduler lets "
            "it: submit a job that shall wait with `sbatch --hold`.",
        )
    if opt_in.depends_on_wrong:
        return Await(
            AwaitBasis.BAD_DECLARATION,
            f"It stays held: {'; '.join(opt_in.depends_on_wrong)}. Mend it with `scontrol update "
            f"jobid={attempt.job_id} comment=...`, or let the job go yourself.",
        )
    parents = tuple(judged(p, attempt, inputs.policy, inputs.now) for p in inputs.parents)
    if len(parents) != len(opt_in.depends_on):
        return Await(
            AwaitBasis.PARENT_UNKNOWN, "It stays held: not all of its parents were looked at."
        )
    for standing, basis in (
        (Standing.WRONG, AwaitBasis.WRONG_PARENT),
        (Standing.NEVER, AwaitBasis.PARENT_FAILED),
        (Standing.UNKNOWN, AwaitBasis.PARENT_UNKNOWN),
        (Standing.WAITS, AwaitBasis.PARENTS_NOT_DONE),
    ):
        of_it = [parent for parent in parents if parent.standing is standing]
        if of_it:
            return Await(basis, _held_for(basis, of_it, attempt), parents)
    return _let_go(inputs, parents)


def _stands(inputs: ReleaseInputs) -> Await | None:
    """Why the advice that exists settles the matter, or None."""
    advice = inputs.existing
    if advice is None or _reopens(advice, inputs):
        return None
    if advice.active:
        return Await(
            AwaitBasis.RELEASE_STANDS, f"Generation {advice.generation} is being carried out."
        )
    if _held_again(advice, inputs.attempt):
        return Await(
            AwaitBasis.HELD_AGAIN,
            "It was let go before, and is held again: by its owner, or by a slurmctld that came back "
            f"from an older state. It is not let go twice: scontrol release {inputs.attempt.job_id}.",
        )
    return Await(AwaitBasis.RELEASED_BEFORE, f"Generation {advice.generation} has ended.")


def _held_again(advice: Advice, attempt: Attempt) -> bool:
    status = advice.status
    if status is None or status.disposition is not Disposition.CONVERGED:
        return False
    waits = attempt.live and attempt.held and attempt.state is JobState.PENDING
    # What was seen before the outcome is the very hold that was lifted.
    return waits and attempt.attempt_index == 0 and attempt.last_seen_at > status.observed_at


def _reopens(advice: Advice, inputs: ReleaseInputs) -> bool:
    """Whether something happened after a generation that ended without letting the job go.

    A switch of a mode is nothing that happened. What is: a parent that ended after the outcome, an
    owner who has declared something else, or an operator who has given his hold back to the owner.
    """
    status = advice.status
    if advice.desired is not DesiredState.RELEASED or status is None:
        return False
    if status.disposition is not Disposition.ABANDONED:
        return False
    match status.reason:
        case Reason.NOT_PERMITTED:
            ends = [p.attempt.end for p in inputs.parents if p.attempt is not None]
            later = any(end is not None and end.learned_at > status.observed_at for end in ends)
            return later or _declared_anew(status, inputs)
        case Reason.OPERATOR_HOLD:
            given_back = _reason(inputs.attempt) == USERS_HOLD
            return given_back and inputs.attempt.last_seen_at > status.observed_at
        case _:
            return False


def _declared_anew(status: Status, inputs: ReleaseInputs) -> bool:
    """Whether it was abandoned over what its owner wrote meanwhile, and that is known by now. Who
    has put back what stood there before is believed when the comment has been read again."""
    if not closed_by(status.detail, GateName.DEPENDENCIES):
        return False
    known = not declares_as_decided(inputs.attempt)
    return known or inputs.now >= status.observed_at + READ_AGAIN


def _let_go(inputs: ReleaseInputs, parents: tuple[Judged, ...]) -> ReleaseOutcome:
    attempt = inputs.attempt
    reason = _reason(attempt)
    if reason in _NO_REASON:
        return Await(
            AwaitBasis.HELD_OTHERWISE,
            "All that it waits for is done; the scheduler has not said yet who holds it.",
            parents,
        )
    if reason not in {USERS_HOLD, OPERATORS_HOLD}:
        return Await(
            AwaitBasis.HELD_OTHERWISE,
            f"All that it waits for is done, but its owner does not hold it: {reason}.",
            parents,
        )
    closed = {gate.name for gate in inputs.gates.gates if not gate.open}
    if not inputs.cluster_seen and closed == {GateName.OWNERSHIP}:
        return Await(
            AwaitBasis.GATE_UNSEEN,
            "The scheduler does not answer: a gate that nobody could see would be closed for ever.",
            parents,
        )
    done = "; ".join(f"{parent.dependency}: {parent.why}" for parent in parents)
    intent = Intent(
        desired=DesiredState.RELEASED,
        exclusions=(),
        owner=attempt.cluster,
        basis=DecisionBasis.DAG,
        gates=inputs.gates,
        policy_version=inputs.policy.version,
        may_end_running=False,
        explanation=f"All that it waits for is done ({done}).",
    )
    return Release(intent, parents, decided_anew=inputs.existing is not None)


def _reason(attempt: Attempt) -> str:
    return attempt.reason.strip().replace(" ", "_")


def _held_for(basis: AwaitBasis, parents: Iterable[Judged], attempt: Attempt) -> str:
    told = "; ".join(f"{parent.dependency}: {parent.why}" for parent in parents)
    match basis:
        case AwaitBasis.PARENT_FAILED:
            return (
                f"It stays held for good: {told}. Run that job again, or let this one go yourself "
                f"(scontrol release {attempt.job_id}), or cancel it."
            )
        case AwaitBasis.WRONG_PARENT:
            return f"It stays held: {told}."
        case AwaitBasis.PARENT_UNKNOWN:
            return f"It stays held until that can be told: {told}."
        case _:
            return f"It waits for {told}."
