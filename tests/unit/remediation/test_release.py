"""The decision to let a held job go: only its owner's hold, only once, only when all is done."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from middlewatch.model.advice import (
    Advice,
    DecisionBasis,
    DesiredState,
    Disposition,
    Reason,
    Status,
)
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.dependency import Condition, Dependency
from middlewatch.model.gates import Mode
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.remediation.parents import ParentFacts, Seen, Standing
from middlewatch.remediation.release import (
    Await,
    AwaitBasis,
    Release,
    ReleaseInputs,
    release_for,
)
from tests.unit.attribution.made import at, attempt, ended
from tests.unit.remediation.made import advice, gates

DONE = ended(EndedBy.COMPLETION, at(30), uid=7)
RUNS = attempt(uid=7)
FAILED = ended(EndedBy.FAILURE, at(30), uid=7)


def opt_in(*declared: Dependency, wrong: tuple[str, ...] = ()) -> OptIn:
    return OptIn(JobMode.ACTION, "prod", "middlewatch", depends_on=declared, depends_on_wrong=wrong)


def child(*declared: Dependency, **given: Any) -> Attempt:
    made = attempt(
        job_id="50",
        submitted_at=at(-10),
        state=JobState.PENDING,
        held=True,
        reason="JobHeldUser",
        uid=7,
        nodes=(),
        started_at=None,
        opt_in=opt_in(*(declared or (Dependency("42"),))),
    )
    return replace(made, **given)


def parent(newest: Attempt, condition: Condition = Condition.AFTEROK, **given: Any) -> ParentFacts:
    made = ParentFacts(
        Dependency(newest.job_id, condition), Seen.WATCHED, attempt=newest, end_told=True
    )
    return replace(made, **given)


def inputs(target: Attempt | None = None, *parents: ParentFacts, **given: Any) -> ReleaseInputs:
    target = target or child()
    made = ReleaseInputs(
        attempt=target,
        mode=JobMode.ACTION,
        parents=parents or (parent(DONE),),
        policy=Policy(),
        gates=gates(target),
        existing=None,
        now=at(100),
    )
    return replace(made, **given)


def basis(made: ReleaseInputs) -> AwaitBasis | None:
    """The ground for holding it; None where it is let go."""
    outcome = release_for(made)
    return None if isinstance(outcome, Release) else outcome.basis


def standing_advice(target: Attempt, status: Status | None = None) -> Advice:
    return advice(target, status, desired=DesiredState.RELEASED, basis=DecisionBasis.DAG)


def ended_as(disposition: Disposition, reason: Reason, seconds: float = 60) -> Status:
    return Status(1, disposition, reason, at(seconds))


def test_a_held_job_is_let_go_when_its_parent_is_done() -> None:
    outcome = release_for(inputs())
    assert isinstance(outcome, Release)
    assert outcome.intent.desired is DesiredState.RELEASED
    assert outcome.intent.basis is DecisionBasis.DAG
    assert outcome.intent.exclusions == ()
    assert not outcome.intent.may_end_running
    assert "afterok:42: attempt 0 ended COMPLETED" in outcome.intent.explanation
    assert [p.standing for p in outcome.parents] == [Standing.MET]


def test_closed_gates_are_frozen_into_it_and_change_nothing() -> None:
    target = child()
    outcome = release_for(inputs(target, gates=gates(target, mode=Mode.MONITOR)))
    assert isinstance(outcome, Release)
    assert not outcome.intent.gates.open


def test_each_parent_has_to_be_done() -> None:
    other = replace(DONE, job_id="43")
    both = child(Dependency("42"), Dependency("43"))
    assert basis(inputs(both, parent(DONE), parent(other))) is None
    runs = replace(RUNS, job_id="43")
    assert basis(inputs(both, parent(DONE), parent(runs))) is AwaitBasis.PARENTS_NOT_DONE
    assert basis(inputs(both, parent(DONE))) is AwaitBasis.PARENT_UNKNOWN


def test_a_parent_that_is_being_recovered_is_not_done() -> None:
    held = inputs(None, parent(FAILED, asked="advise"))
    assert basis(held) is AwaitBasis.PARENTS_NOT_DONE
    held = inputs(None, parent(DONE, advice=(advice(DONE),)))
    assert basis(held) is AwaitBasis.PARENTS_NOT_DONE


def test_a_parent_that_failed_for_good_holds_the_job_for_good_and_says_so() -> None:
    final = replace(FAILED, end=replace(FAILED.end, final=True))  # type: ignore[type-var]
    made = inputs(None, parent(final, asked="budget_spent", read_at=at(40)), now=at(1000))
    outcome = release_for(made)
    assert isinstance(outcome, Await)
    assert outcome.basis is AwaitBasis.PARENT_FAILED
    assert "afterok:42: attempt 0 ended FAILED, for good" in outcome.explanation
    assert "scontrol release 50" in outcome.explanation


def test_a_wrong_declaration_holds_the_job_whatever_else_is_done() -> None:
    target = child(opt_in=opt_in(Dependency("42"), wrong=("x is no job number",)))
    outcome = release_for(inputs(target))
    assert isinstance(outcome, Await)
    assert outcome.basis is AwaitBasis.BAD_DECLARATION
    assert "x is no job number" in outcome.explanation
    assert "scontrol update jobid=50 comment=" in outcome.explanation


def test_a_job_that_is_not_held_has_nothing_to_be_let_go_from() -> None:
    free = child(held=False)
    assert basis(inputs(free)) is AwaitBasis.NOT_HELD
    assert basis(inputs(free, waited=True)) is AwaitBasis.NOT_WAITING
    runs = child(held=False, state=JobState.RUNNING)
    assert basis(inputs(runs)) is AwaitBasis.NOT_HELD


def test_a_job_that_has_run_before_is_never_let_go_by_this() -> None:
    again = child(attempt_index=1, reason="job_requeued_in_held_state")
    assert basis(inputs(again)) is AwaitBasis.NOT_WAITING
    assert basis(inputs(child(end=DONE.end))) is AwaitBasis.NOT_WAITING
    assert basis(inputs(child(vanished=True))) is AwaitBasis.NOT_WAITING


@pytest.mark.parametrize("reason", ["BadConstraints", "launch failed requeued held", "", "None"])
def test_a_hold_that_is_not_a_persons_is_left_alone(reason: str) -> None:
    assert basis(inputs(child(reason=reason))) is AwaitBasis.HELD_OTHERWISE


def test_an_operators_hold_is_decided_about_and_left_to_the_controller_to_refuse() -> None:
    assert basis(inputs(child(reason="JobHeldAdmin"))) is None


def test_a_gate_that_nobody_could_see_is_waited_for() -> None:
    target = child()
    unseen = replace(gates(target))
    unseen = replace(
        unseen,
        gates=tuple(replace(g, open=g.name.value != "ownership") for g in unseen.gates),
    )
    assert basis(inputs(target, gates=unseen, cluster_seen=False)) is AwaitBasis.GATE_UNSEEN
    assert basis(inputs(target, gates=unseen)) is None


def test_once_let_go_it_is_never_let_go_again() -> None:
    target = child()
    assert basis(inputs(existing=standing_advice(target))) is AwaitBasis.RELEASE_STANDS
    for reason in (Reason.DESIRED_STATE_OBSERVED, Reason.ALREADY_SATISFIED):
        over = standing_advice(target, ended_as(Disposition.CONVERGED, reason))
        assert basis(inputs(existing=over)) is AwaitBasis.RELEASED_BEFORE


def test_a_job_that_is_held_again_is_told_to_a_person_and_not_let_go_twice() -> None:
    over = standing_advice(
        child(), ended_as(Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, 60)
    )
    seen_before = child(last_seen_at=at(59))
    assert basis(inputs(seen_before, existing=over)) is AwaitBasis.RELEASED_BEFORE
    again = child(last_seen_at=at(70))
    assert basis(inputs(again, existing=over)) is AwaitBasis.HELD_AGAIN
    runs = child(last_seen_at=at(70), held=False, state=JobState.RUNNING)
    assert basis(inputs(runs, existing=over)) is AwaitBasis.RELEASED_BEFORE


def test_what_was_not_permitted_is_not_permitted_by_a_switch_but_by_a_new_end() -> None:
    target = child()
    refused = standing_advice(target, ended_as(Disposition.ABANDONED, Reason.NOT_PERMITTED))
    assert basis(inputs(existing=refused)) is AwaitBasis.RELEASED_BEFORE
    rerun = ended(EndedBy.COMPLETION, at(80), uid=7, attempt_index=1)
    outcome = release_for(inputs(None, parent(rerun), existing=refused))
    assert isinstance(outcome, Release)
    assert outcome.decided_anew


def test_a_release_that_its_owner_stopped_is_decided_anew_from_what_is_declared_then() -> None:
    over = replace(
        ended_as(Disposition.ABANDONED, Reason.NOT_PERMITTED, 60),
        detail="gate dependencies has closed: its comment declares afterok:43",
    )
    decided = (Dependency("42"),)
    refused = standing_advice(child(), over)
    # Its comment has not been read again: what stands there is what was there before.
    unread = inputs(child(let_go_after=decided), existing=refused)
    assert basis(replace(unread, now=at(61))) is AwaitBasis.RELEASED_BEFORE
    other = child(Dependency("43"), let_go_after=decided)
    of_other = ParentFacts(Dependency("43"), Seen.WATCHED, attempt=attempt(job_id="43", uid=7))
    waits = inputs(other, of_other, existing=refused)
    assert basis(replace(waits, now=at(61))) is AwaitBasis.PARENTS_NOT_DONE
    # Its owner has put back what was there.
    outcome = release_for(replace(unread, now=at(200)))
    assert isinstance(outcome, Release)
    assert outcome.decided_anew


def test_an_operators_refusal_stands_until_he_gives_the_hold_back() -> None:
    refused = standing_advice(child(), ended_as(Disposition.ABANDONED, Reason.OPERATOR_HOLD))
    seen_before = child(last_seen_at=at(50))
    assert basis(inputs(seen_before, existing=refused)) is AwaitBasis.RELEASED_BEFORE
    still = child(reason="JobHeldAdmin", last_seen_at=at(70))
    assert basis(inputs(still, existing=refused)) is AwaitBasis.RELEASED_BEFORE
    given_back = child(last_seen_at=at(70))
    assert basis(inputs(given_back, existing=refused)) is None


@pytest.mark.parametrize(
    "reason",
    [Reason.TARGET_ENDED, Reason.TARGET_GONE, Reason.TARGET_REPLACED, Reason.STALE_ATTEMPT],
)
def test_other_outcomes_are_final(reason: Reason) -> None:
    gone = standing_advice(child(), ended_as(Disposition.ABANDONED, reason))
    rerun = ended(EndedBy.COMPLETION, at(80), uid=7, attempt_index=1)
    assert basis(inputs(None, parent(rerun), existing=gone)) is AwaitBasis.RELEASED_BEFORE


def test_nothing_is_let_go_unless_every_parent_is_met_whatever_the_mixture() -> None:
    kinds = {
        Standing.MET: lambda n: parent(replace(DONE, job_id=n)),
        Standing.WAITS: lambda n: parent(replace(RUNS, job_id=n)),
        Standing.NEVER: lambda n: ParentFacts(
            Dependency(n), Seen.ELSEWHERE, uid=7, state=JobState.FAILED
        ),
        Standing.UNKNOWN: lambda n: ParentFacts(Dependency(n), Seen.UNKNOWN, "no answer"),
        Standing.WRONG: lambda n: ParentFacts(Dependency(n), Seen.NOWHERE),
    }
    for mixture in itertools.product(kinds, repeat=3):
        parents = tuple(kinds[kind](str(60 + n)) for n, kind in enumerate(mixture))
        target = child(*(p.dependency for p in parents))
        outcome = release_for(inputs(target, *parents))
        assert isinstance(outcome, Release) is (set(mixture) == {Standing.MET})
