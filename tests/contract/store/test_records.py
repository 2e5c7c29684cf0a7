from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.action import Answered
from middlewatch.model.change import Applied, Change, Decision, WatchState
from middlewatch.model.issue import IssueState
from middlewatch.model.milestone import Operation
from middlewatch.model.signal import Phase, Progress
from middlewatch.ports.errors import Conflict
from middlewatch.ports.store import Store
from tests.contract.store.backends import Backend
from tests.contract.store.records import (
    action,
    advice,
    at,
    attempt,
    attempt_id,
    event,
    issue,
    milestone,
    sequence,
    signal,
    verdict,
)

DECISION = Decision("d1", attempt_id(1), at(1), "advise", "p1", '{"history": []}', "{}", 1)


def test_empty_change_is_written_as_nothing(store: Store) -> None:
    assert store.apply(Change()) == Applied()


def test_everything_of_one_change_is_there_for_another_reader(backend: Backend) -> None:
    writer, reader = backend.open(), backend.open()
    writer.apply(
        Change(
            attempts=(attempt(1),),
            watch=(WatchState(attempt_id(1), b"\x00state"),),
            progress=(Progress(attempt_id(1), Phase.TRAINING, 1, 7),),
            signals=(signal(1),),
            issues=(issue(1),),
            verdicts=(verdict(1),),
            decisions=(DECISION,),
            sequences=(sequence(1),),
            advice=(advice(1),),
            actions=(action(1),),
            milestones=(milestone(1),),
            audit=(event(1),),
        )
    )
    assert reader.attempt(attempt_id(1)) == attempt(1, version=1)
    assert reader.watch_state(attempt_id(1)) == WatchState(attempt_id(1), b"\x00state", 1)
    assert reader.progress(attempt_id(1)) == Progress(attempt_id(1), Phase.TRAINING, 1, 7)
    assert [s for _, s in reader.signals(attempt_id(1))] == [signal(1)]
    assert reader.issues(attempt_id(1), 0, 10) == (issue(1, version=1),)
    assert reader.verdicts(attempt_id(1)) == (verdict(1),)
    assert reader.decisions(attempt_id(1)) == (DECISION,)
    assert reader.sequence_by_id(sequence(1).id) == sequence(1)
    assert reader.advice(attempt_id(1)) == advice(1, version=1)
    assert reader.actions(attempt_id(1)) == (action(1),)
    assert reader.milestones(sequence(1).id) == (milestone(1),)
    assert reader.last_audit_number() == 1


def test_data_outlives_the_handle_that_wrote_it(backend: Backend) -> None:
    writer = backend.open()
    writer.apply(Change(advice=(advice(1),), audit=(event(1),)))
    writer.close()
    reader = backend.open()
    assert reader.advice(attempt_id(1)) == advice(1, version=1)
    assert reader.last_audit_number() == 1


def test_watch_state_is_compared_and_swapped(store: Store) -> None:
    state = WatchState(attempt_id(1), b"a")
    assert store.watch_state(attempt_id(1)) is None
    store.apply(Change(watch=(state,)))
    store.apply(Change(watch=(WatchState(attempt_id(1), b"b", 1),)))
    for version in (0, 1, 3):
        with pytest.raises(Conflict):
            store.apply(Change(watch=(replace(state, version=version),), signals=(signal(1),)))
    assert store.watch_state(attempt_id(1)) == WatchState(attempt_id(1), b"b", 2)
    assert store.signals_after(0) == ()


def test_progress_is_replaced(store: Store) -> None:
    assert store.progress(attempt_id(1)) is None
    for step in (1, 2):
        store.apply(Change(progress=(Progress(attempt_id(1), last_step=step, step_time_s=0.1),)))
    assert store.progress(attempt_id(1)) == Progress(attempt_id(1), last_step=2, step_time_s=0.1)


def test_issues_are_compared_and_swapped(store: Store) -> None:
    store.apply(Change(issues=(issue(1),)))
    recovered = issue(1, version=1, state=IssueState.RECOVERED)
    store.apply(Change(issues=(recovered,)))
    with pytest.raises(Conflict):
        store.apply(Change(issues=(recovered,)))
    assert store.issues(attempt_id(1), 0, 10) == (replace(recovered, version=2),)


def test_issues_come_oldest_first_of_one_attempt_and_newest_first_of_all(store: Store) -> None:
    store.apply(Change(issues=(issue(1, 1), issue(1, 2), issue(2, 1))))
    assert [i.id for i in store.issues(attempt_id(1), 0, 10)] == ["issue-1-1", "issue-1-2"]
    assert [i.id for i in store.issues(None, 0, 2)] == ["issue-1-2", "issue-2-1"]
    assert [i.id for i in store.issues(None, 2, 2)] == ["issue-1-1"]


def test_verdicts_are_appended(store: Store) -> None:
    store.apply(Change(verdicts=(verdict(1), verdict(2))))
    store.apply(Change(verdicts=(verdict(1),)))
    assert store.verdicts(attempt_id(1)) == (verdict(1), verdict(2), verdict(1))


def test_decisions_are_appended_and_never_rewritten(store: Store) -> None:
    second = replace(DECISION, id="d2", result="no_evidence", generation=None)
    store.apply(Change(decisions=(DECISION, second)))
    store.apply(Change(decisions=(DECISION,)))
    with pytest.raises(Conflict, match="d1"):
        store.apply(Change(decisions=(replace(DECISION, result="other"),)))
    assert store.decisions(attempt_id(1)) == (DECISION, second)


def test_action_is_written_before_its_command_and_completed_after_it(store: Store) -> None:
    store.apply(Change(actions=(action(1),)))
    store.apply(Change(actions=(action(2),)))
    done = action(1, answered=Answered.DONE, ended_at=at(3), exit_code=0, argv=("scontrol", "x"))
    store.apply(Change(actions=(done,)))
    assert store.actions(attempt_id(1)) == (done, action(2))


def test_sequence_is_written_once(store: Store) -> None:
    store.apply(Change(sequences=(sequence(1),)))
    store.apply(Change(sequences=(sequence(1, traceparent="another"),)))
    assert store.sequence_by_id(sequence(1).id) == sequence(1)
    assert store.sequence_by_id("nobody's") is None


def test_sequence_is_found_by_its_parts_and_the_newest_where_a_number_came_back(
    store: Store,
) -> None:
    newer = sequence(1, id="newer", created_at=at(900))
    store.apply(Change(sequences=(sequence(1), newer, sequence(1, id="o", environment="test"))))
    assert store.sequence("slurm", "prod", "1001", 0, Operation.RESTART) == newer
    assert store.sequence("slurm", "prod", "1001", 1, Operation.RESTART) is None
    assert store.sequence("slurm", "prod", "1001", 0, Operation.TERMINATE) is None


def test_milestone_reported_again_is_the_one_first_reported(store: Store) -> None:
    store.apply(Change(sequences=(sequence(1),), milestones=(milestone(1), milestone(1, step=9))))
    store.apply(Change(milestones=(milestone(1, step=10), milestone(1, of=2))))
    assert store.milestones(sequence(1).id) == (milestone(1),)
    assert store.milestones(sequence(2).id) == (milestone(1, of=2),)


def test_milestones_come_in_the_order_in_which_they_happened(store: Store) -> None:
    store.apply(Change(milestones=(milestone(3), milestone(1))))
    store.apply(Change(milestones=(milestone(2),)))
    assert [m.step for m in store.milestones(sequence(1).id)] == [1, 2, 3]


def test_progress_of_several_attempts_is_read_at_once(store: Store) -> None:
    told = Progress(attempt_id(2), last_step=5)
    store.apply(Change(progress=(told,)))
    assert store.progress_of([attempt_id(1), attempt_id(2)]) == {attempt_id(2): told}
