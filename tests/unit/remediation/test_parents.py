"""When a job that others wait for is done, and when that cannot be told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from middlewatch.model.advice import DesiredState, Disposition, Reason
from middlewatch.model.attempt import TOLD, Attempt, EndedBy
from middlewatch.model.dependency import Condition, Dependency
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.remediation import WAITING
from middlewatch.remediation.parents import (
    LONG_AFTER,
    ParentFacts,
    Seen,
    Standing,
    job_at,
    judged,
    lines_of,
)
from tests.unit.attribution.made import at, attempt, ended
from tests.unit.remediation.made import advice, status

POLICY = Policy(parent_settles_s=60)
CHILD = attempt(job_id="50", submitted_at=at(-10), state=JobState.PENDING, held=True, uid=7)
OVER = {
    EndedBy.FAILURE,
    EndedBy.NODE_FAILURE,
    EndedBy.OUT_OF_MEMORY,
    EndedBy.TIME_LIMIT,
    EndedBy.DEADLINE,
    EndedBy.OWNER,
    EndedBy.OPERATOR,
    EndedBy.SOMEBODY,
    EndedBy.PREEMPTION,
    EndedBy.LAUNCH,
}


def over(by: EndedBy, **given: Any) -> Attempt:
    """A parent's attempt whose end accounting has confirmed."""
    made = ended(by, at(30), uid=7, **given)
    assert made.end is not None
    return replace(made, end=replace(made.end, final=True))


def facts(
    newest: Attempt | None = None, condition: Condition = Condition.AFTEROK, **given: Any
) -> ParentFacts:
    """A watched parent of which nothing is open any more, some time after its end."""
    made = ParentFacts(
        Dependency("42", condition),
        Seen.WATCHED,
        attempt=attempt(uid=7) if newest is None else newest,
        asked="decided_already",
        end_told=True,
        read_at=at(31),
    )
    return replace(made, **given)


def standing(parent: ParentFacts, seconds: float = 600, child: Attempt = CHILD) -> Standing:
    return judged(parent, child, POLICY, at(seconds)).standing


def why(parent: ParentFacts, seconds: float = 600, child: Attempt = CHILD) -> str:
    return judged(parent, child, POLICY, at(seconds)).why


def test_a_parent_that_completed_is_done_at_once() -> None:
    done = over(EndedBy.COMPLETION)
    assert standing(facts(done), 30) is Standing.MET
    assert standing(facts(done, Condition.AFTERANY), 30) is Standing.MET
    assert standing(facts(done, Condition.AFTERNOTOK), 30) is Standing.NEVER


@pytest.mark.parametrize("by", sorted(OVER))
def test_a_parent_that_ended_otherwise_for_good_meets_the_other_conditions(by: EndedBy) -> None:
    assert standing(facts(over(by))) is Standing.NEVER
    assert standing(facts(over(by), Condition.AFTERANY)) is Standing.MET
    assert standing(facts(over(by), Condition.AFTERNOTOK)) is Standing.MET


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED])
def test_a_parent_that_has_not_ended_is_waited_for(state: JobState) -> None:
    assert standing(facts(attempt(state=state, uid=7))) is Standing.WAITS


@pytest.mark.parametrize("desired", list(DesiredState))
@pytest.mark.parametrize("by", [EndedBy.COMPLETION, EndedBy.FAILURE])
@pytest.mark.parametrize("condition", list(Condition))
def test_a_parent_with_open_advice_is_not_done_however_it_ended(
    desired: DesiredState, by: EndedBy, condition: Condition
) -> None:
    newest = over(by)
    open_ = advice(newest, desired=desired)
    assert standing(facts(newest, condition, advice=(open_,))) is Standing.WAITS
    pending = replace(open_, status=status(Disposition.PENDING, Reason.IN_PROGRESS))
    assert standing(facts(newest, condition, advice=(pending,))) is Standing.WAITS


def test_a_restart_of_the_attempt_before_that_is_not_settled_keeps_waiting() -> None:
    before = attempt(uid=7)
    newest = over(EndedBy.COMPLETION, attempt_index=1)
    open_ = advice(before)
    assert standing(facts(newest, advice=(open_,))) is Standing.WAITS
    assert "recovered" in why(facts(newest, advice=(open_,)))
    settled = replace(open_, status=status(Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED))
    assert standing(facts(newest, advice=(settled,))) is Standing.MET


@pytest.mark.parametrize("asked", ["advise", *sorted(basis.value for basis in WAITING)])
@pytest.mark.parametrize("condition", [Condition.AFTERANY, Condition.AFTERNOTOK])
def test_a_failed_parent_that_is_being_decided_about_is_not_done(
    asked: str, condition: Condition
) -> None:
    assert standing(facts(over(EndedBy.FAILURE), condition, asked=asked)) is Standing.WAITS


def test_a_failed_parent_may_be_restarted_until_the_evidence_is_all_in() -> None:
    failed = over(EndedBy.FAILURE)
    assert failed.end is not None
    any_ = Condition.AFTERANY
    unconfirmed = replace(failed, end=replace(failed.end, final=False))
    assert standing(facts(unconfirmed, any_)) is Standing.WAITS
    assert standing(facts(failed, any_, asked="", end_told=False)) is Standing.WAITS
    assert standing(facts(failed, any_, asked="", end_told=True)) is Standing.MET
    assert standing(facts(failed, any_), 30 + 59) is Standing.WAITS
    assert standing(facts(failed, any_), 30 + 60) is Standing.MET
    unread = facts(failed, any_, read_at=at(29))
    assert standing(unread, 30 + 599) is Standing.WAITS
    assert standing(unread, 30 + 600) is Standing.MET
    early = replace(failed, end=replace(failed.end, at=at(32)))
    assert standing(facts(early, any_, read_at=at(30)), 30 + 60) is Standing.MET
    never_ran = replace(failed, nodes=(), started_at=None)
    assert standing(facts(never_ran, any_, read_at=None), 30 + 60) is Standing.MET
    forgotten = facts(failed, any_, asked="", end_told=False, read_at=None)
    assert standing(forgotten, 30 + LONG_AFTER.total_seconds()) is Standing.MET


def test_a_failed_parent_that_opted_out_is_never_restarted_and_so_done() -> None:
    failed = over(EndedBy.FAILURE, opt_in=OptIn(JobMode.OFF, "prod", "middlewatch"))
    bare = facts(failed, Condition.AFTERANY, asked="", end_told=False, read_at=None)
    assert standing(bare, 31) is Standing.MET


@pytest.mark.parametrize("condition", list(Condition))
def test_what_cannot_be_told_is_not_done(condition: Condition) -> None:
    assert standing(facts(over(EndedBy.UNKNOWN), condition)) is Standing.UNKNOWN
    assert standing(facts(over(EndedBy.REQUEUE), condition)) is Standing.WAITS
    nobody = replace(facts(None, condition), seen=Seen.UNKNOWN, why="no answer", attempt=None)
    assert standing(nobody) is Standing.UNKNOWN
    unreadable = replace(nobody, seen=Seen.ELSEWHERE, uid=7, state=JobState.UNREADABLE)
    assert standing(unreadable) is Standing.UNKNOWN


def test_a_declaration_that_cannot_be_meant_is_told_to_its_owner() -> None:
    itself = replace(facts(), dependency=Dependency("50"))
    assert standing(itself) is Standing.WRONG
    task = replace(CHILD, job_id="50_3")
    assert standing(itself, child=task) is Standing.WRONG
    assert standing(facts(cycle=("50", "42", "50"))) is Standing.WRONG
    assert "50 -> 42 -> 50" in why(facts(cycle=("50", "42", "50")))
    for seen in (Seen.NOWHERE, Seen.LATER, Seen.ARRAY):
        assert standing(facts(seen=seen, attempt=None)) is Standing.WRONG


def test_another_users_job_is_refused_and_an_unknown_owner_is_not_guessed() -> None:
    done = over(EndedBy.COMPLETION)
    assert standing(facts(replace(done, uid=8))) is Standing.WRONG
    assert standing(facts(replace(done, uid=-1, user="alice"))) is Standing.UNKNOWN
    named = replace(CHILD, user="alice")
    assert standing(facts(replace(done, uid=-1, user="alice")), child=named) is Standing.MET
    assert standing(facts(replace(done, uid=-1, user="bob")), child=named) is Standing.WRONG


@pytest.mark.parametrize(
    ("state", "ok", "notok"),
    [
        (JobState.COMPLETED, Standing.MET, Standing.NEVER),
        (JobState.FAILED, Standing.NEVER, Standing.MET),
        (JobState.CANCELLED, Standing.NEVER, Standing.MET),
        (JobState.RUNNING, Standing.WAITS, Standing.WAITS),
        (JobState.PENDING, Standing.WAITS, Standing.WAITS),
    ],
)
def test_the_end_of_a_job_that_nobody_watches_is_its_end(
    state: JobState, ok: Standing, notok: Standing
) -> None:
    made = ParentFacts(Dependency("42"), Seen.ELSEWHERE, uid=7, state=state)
    assert standing(made) is ok
    other = replace(made, dependency=Dependency("42", Condition.AFTERNOTOK))
    assert standing(other) is notok
    assert standing(replace(made, requeued=True)) is Standing.WAITS


def test_the_parent_is_the_job_that_had_the_number_then() -> None:
    old = [attempt(submitted_at=at(-900)), attempt(attempt_index=1, submitted_at=at(-800))]
    new = [attempt(submitted_at=at(-100)), attempt(attempt_index=1, submitted_at=at(50))]
    known = [*new, *old]
    assert lines_of(known) == (tuple(old), tuple(new))
    assert job_at(known, at(-500)) == tuple(old)
    assert job_at(known, at(-100)) == tuple(new)
    assert job_at(known, at(-1000)) == ()


def test_what_vanished_and_what_was_only_told_makes_no_parent() -> None:
    first = attempt(submitted_at=at(-900))
    vanished = attempt(attempt_index=1, submitted_at=at(-800), vanished=True)
    told = attempt(attempt_index=2, submitted_at=at(-700), source=TOLD)
    assert job_at([first, vanished, told], at(0)) == (first,)


def test_words_hold_as_long_as_the_facts_do() -> None:
    failed = facts(over(EndedBy.FAILURE), Condition.AFTERANY)
    assert why(failed, 40) == why(failed, 41)
    later = at(600) + timedelta(days=1)
    assert judged(failed, CHILD, POLICY, at(600)) == judged(failed, CHILD, POLICY, later)


@pytest.mark.parametrize("condition", [Condition.AFTERANY, Condition.AFTERNOTOK])
def test_a_restart_that_converged_is_not_the_end_before_its_successor_has_a_record(
    condition: Condition,
) -> None:
    failed = over(EndedBy.FAILURE)
    converged = status(Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)
    restarted = replace(advice(failed), status=converged)
    seen = facts(failed, condition, advice=(restarted,))
    assert standing(seen) is Standing.WAITS
    assert "has not been seen" in why(seen)
    assert standing(replace(seen, successor_lost=True)) is Standing.MET
    of_another = replace(restarted, attempt_id=attempt(submitted_at=at(-900)).id)
    assert standing(replace(seen, advice=(of_another,))) is Standing.MET


def test_a_restarted_job_that_got_the_number_is_no_later_attempt_of_the_parent() -> None:
    old = attempt(submitted_at=at(-900), uid=7)
    new = attempt(attempt_index=1, submitted_at=at(50), uid=7, numbered_again=True)
    another = attempt(attempt_index=1, submitted_at=at(50), uid=8)
    for later in (new, another):
        assert job_at([old, later], at(-500)) == (old,)
        assert job_at([old, later], at(60)) == (later,)
