"""From stored signals to advice: what is written, once, and what is not."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from middlewatch.model import rollback
from middlewatch.model.advice import DecisionBasis, DesiredState, Disposition, Reason
from middlewatch.model.answer import Answer
from middlewatch.model.attempt import EndedBy
from middlewatch.model.audit import AuditKind
from middlewatch.model.change import Change
from middlewatch.model.gates import GateName, Mode
from middlewatch.model.issue import IssueState
from middlewatch.model.milestone import MilestoneKind, Operation
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.policy import Policy
from middlewatch.model.rollback import Rollback
from middlewatch.model.scheduler import AccountingRecord, JobState, PartitionView
from middlewatch.model.signal import Progress, SignalKind
from middlewatch.ports.errors import Unreachable, Unreadable
from middlewatch.ports.store import AuditFilter
from middlewatch.remediation import RefrainBasis
from middlewatch.services.manager.explain import explain
from middlewatch.services.manager.frozen import inputs_of, outcome_of, replay
from middlewatch.services.manager.manager import AT_ONCE, CURSOR, Manager
from tests.integration.manager.world import ToldScheduler, World, deployment, record, successor
from tests.unit.attribution.made import (
    at,
    attempt,
    ecc,
    end_signal,
    ended,
    exception,
    lost_peer,
    signal,
    watchdog,
)

FAILED = ended(EndedBy.FAILURE)
CRASH = (ecc(20, nodes=("n1",), step=120), lost_peer(21), end_signal(30))
GRACE = signal(SignalKind.NO_PROGRESS_AFTER_FAILURE, 50)


def test_a_crash_becomes_issue_verdict_decision_and_advice_at_once(world: World) -> None:
    world.put(FAILED, *CRASH, progress=Progress(FAILED.id, last_step=120, checkpoint_step=100))
    report = world.tick(31)
    assert report.advised == (FAILED.id,)
    assert world.hints == 1
    (issue,) = world.store.issues(FAILED.id, 0, 10)
    assert (issue.failure_class, issue.state) == ("gpu_ecc_uncorrectable", IssueState.OPEN)
    (verdict,) = world.store.verdicts(FAILED.id)
    assert verdict.nodes == ("n1",)
    advice = world.advice(FAILED)
    assert advice.desired is DesiredState.RESTARTED
    assert (advice.generation, advice.exclusions) == (1, ("n1",))
    assert advice.basis is DecisionBasis.ATTEMPT_ENDED_IN_FAILURE
    assert advice.gates.open
    assert advice.issue_ids == (issue.id,)
    assert advice.created_at == advice.desired_state_changed_at == at(31)
    (decision,) = world.store.decisions(FAILED.id)
    assert (decision.result, decision.generation) == ("advise", 1)


def test_the_way_to_the_advice_is_told_in_milestones_in_order(world: World) -> None:
    world.put(FAILED, *CRASH, progress=Progress(FAILED.id, last_step=120))
    world.tick(31)
    advice = world.advice(FAILED)
    told = [(m.kind, m.at, m.step) for m in world.store.milestones(advice.sequence_id)]
    assert told == [
        (MilestoneKind.FAULT, at(20), 120),
        (MilestoneKind.DETECTED, at(20.5), None),
        (MilestoneKind.ADVISED, at(31), None),
    ]
    sequence = world.store.sequence("slurm", "prod", "42", 0, Operation.RESTART)
    assert sequence is not None
    assert sequence.id == advice.sequence_id
    version, trace, span, flags = sequence.traceparent.split("-")
    assert (version, trace, flags) == ("00", sequence.id.replace("-", ""), "01")
    assert len(span) == 16


def test_a_log_clock_that_runs_ahead_does_not_disorder_the_milestones(world: World) -> None:
    ahead = ecc(500, nodes=("n1",), learned_at=at(21))
    world.put(FAILED, ahead, end_signal(30))
    world.tick(31)
    moments = [m.at for m in world.store.milestones(world.advice(FAILED).sequence_id)]
    assert moments == sorted(moments)


def test_everything_is_on_the_trail_in_its_order(world: World) -> None:
    world.put(FAILED, *CRASH)
    world.tick(31)
    trail = world.store.audit(AuditFilter(attempt_id=FAILED.id), 0, 100)
    assert [(e.kind, e.type) for e in trail] == [
        (AuditKind.SEEN, "issue.opened"),
        (AuditKind.BELIEVED, "verdict.formed"),
        (AuditKind.DECIDED, "decision.advised"),
    ]
    said = json.loads(trail[-1].payload)
    assert said["exclusions"] == ["n1"]
    assert said["wouldHave"] is False
    assert said["budgets"][0]["name"] == "restarts_without_checkpoint"


def test_a_second_tick_writes_nothing(world: World) -> None:
    world.put(FAILED, *CRASH)
    world.tick(31)
    before = world.everything(FAILED.id)
    for seconds in (32, 33, 60, 3600):
        world.tick(seconds)
    assert world.everything(FAILED.id) == before


def test_a_restarted_manager_writes_nothing_again_even_without_its_cursor(world: World) -> None:
    world.put(FAILED, *CRASH)
    world.tick(31)
    before = world.everything(FAILED.id)
    world.store.put_notes(((CURSOR, "0"),))
    world.restarted()
    assert world.tick(40).evaluated >= 1
    assert world.everything(FAILED.id) == before


def test_the_cursor_is_durable_and_moves_behind_what_is_settled(world: World) -> None:
    world.put(FAILED, *CRASH)
    assert world.tick(31).signals == 3
    assert world.store.note(CURSOR) == "3"
    world.restarted()
    assert world.tick(32).signals == 0


def test_a_damaged_cursor_is_named(world: World) -> None:
    world.store.put_notes(((CURSOR, "three"),))
    with pytest.raises(Unreadable, match=CURSOR):
        world.tick(31)


def test_a_line_of_a_running_attempt_waits_and_its_end_decides(world: World) -> None:
    running = world.put(attempt(), *CRASH[:2])
    assert world.tick(22).advised == ()
    (decision,) = world.store.decisions(running.id)
    assert decision.result == RefrainBasis.WAITING_FOR_WITNESS.value
    world.put(FAILED, end_signal(30))
    assert world.tick(31).advised == (FAILED.id,)
    assert not world.advice(FAILED).may_end_running


def test_a_hang_is_restarted_when_the_grace_has_passed(world: World) -> None:
    running = world.put(attempt(), watchdog(0))
    world.tick(1)
    world.see(GRACE)
    world.tick(51)
    advice = world.advice(running)
    assert advice.may_end_running
    assert advice.basis is DecisionBasis.WATCHDOG_AND_NO_PROGRESS


def test_a_program_that_recovers_by_itself_is_left_alone(world: World) -> None:
    running = world.put(attempt(), exception(0))
    world.tick(1)
    world.see(signal(SignalKind.RECOVERED, 10))
    world.tick(11)
    (issue,) = world.store.issues(running.id, 0, 10)
    assert issue.state is IssueState.RECOVERED
    assert world.store.advice(running.id) is None


def test_silence_raises_an_alarm_and_nothing_else(world: World) -> None:
    running = world.put(attempt(), signal(SignalKind.SILENCE, 0))
    world.tick(1)
    assert world.store.advice(running.id) is None
    alarms = world.store.audit(AuditFilter(attempt_id=running.id, level="alarm"), 0, 10)
    assert {e.type for e in alarms} == {"issue.opened", "decision.refrained"}


def test_without_opt_in_issues_are_kept_and_nothing_is_decided(world: World) -> None:
    for mode in (None, JobMode.OFF):
        target = ended(EndedBy.FAILURE, job_id=f"job-{mode}", opt_in=OptIn(mode, "prod"))
        world.put(target, exception(20, of=target), end_signal(30, of=target))
        world.tick(31)
        assert len(world.store.issues(target.id, 0, 10)) == 1
        assert world.store.decisions(target.id) == ()
        assert world.store.advice(target.id) is None


@pytest.mark.parametrize(
    ("change", "target", "gate"),
    [
        ({"mode": Mode.MONITOR}, FAILED, GateName.DEPLOYMENT_MODE),
        ({"acknowledge_scheduler_actions": False}, FAILED, GateName.ACKNOWLEDGED),
        ({"partitions": ()}, FAILED, GateName.PARTITION_ALLOWLIST),
        ({"owned_cluster_name": "another"}, FAILED, GateName.OWNERSHIP),
        ({}, replace(FAILED, opt_in=OptIn(JobMode.OBSERVE, "prod")), GateName.JOB_OPT_IN),
    ],
)
def test_a_closed_gate_is_frozen_into_the_advice(
    world: World, change: dict[str, object], target: object, gate: GateName
) -> None:
    world.restarted(deployment(**change))
    world.put(target, *CRASH)  # type: ignore[arg-type]
    world.tick(31)
    closed = world.advice(FAILED).gates.first_closed()
    assert closed is not None
    assert closed.name is gate
    assert "Would have" in world.advice(FAILED).explanation


def test_opening_the_gates_later_does_not_touch_old_advice(world: World) -> None:
    world.restarted(deployment(mode=Mode.MONITOR))
    world.put(FAILED, *CRASH)
    world.tick(31)
    world.report(FAILED, Disposition.ABANDONED, Reason.NOT_PERMITTED, at(32))
    before = world.everything(FAILED.id)
    world.restarted(deployment(mode=Mode.ACTION))
    for seconds in (40, 50, 60):
        world.tick(seconds)
    assert world.everything(FAILED.id) == before
    # Even a line of the old failure that only arrives now does not.
    world.see(lost_peer(22, position="late", learned_at=at(70)))
    world.tick(70)
    assert world.advice(FAILED).generation == 1


def test_new_trouble_after_a_closed_gate_is_decided_anew_in_a_new_generation(world: World) -> None:
    world.restarted(deployment(mode=Mode.MONITOR))
    running = world.put(attempt(), watchdog(0), GRACE)
    world.tick(51)
    world.report(running, Disposition.ABANDONED, Reason.NOT_PERMITTED, at(52))
    world.restarted(deployment(mode=Mode.ACTION))
    world.tick(60)
    assert world.advice(running).generation == 1
    target = ended(EndedBy.FAILURE, at(100))
    world.put(target, end_signal(100))
    world.tick(101)
    advice = world.advice(target)
    assert (advice.generation, advice.gates.open, advice.active) == (2, True, True)
    kinds = [m.kind for m in world.store.milestones(advice.sequence_id)]
    assert kinds.count(MilestoneKind.ADVISED) == 2


def test_a_scheduler_that_says_nothing_of_itself_delays_a_decision_that_could_act(
    world: World,
) -> None:
    world.scheduler.name = None
    world.put(FAILED, *CRASH)
    world.tick(31)
    assert world.store.advice(FAILED.id) is None
    world.scheduler.name = "cluster"
    world.tick(33)
    assert world.advice(FAILED).gates.open


def test_in_monitor_mode_nothing_waits_for_the_scheduler(world: World) -> None:
    world.scheduler.name = None
    world.restarted(deployment(mode=Mode.MONITOR))
    world.put(FAILED, *CRASH)
    world.tick(31)
    assert not world.advice(FAILED).gates.open


def test_without_partitions_a_decision_waits_and_then_goes_without_the_exclusion(
    world: World,
) -> None:
    world.scheduler.views = None
    world.put(FAILED, *CRASH)
    world.tick(22)
    assert world.store.advice(FAILED.id) is None
    world.tick(24)
    assert world.store.advice(FAILED.id) is None
    world.tick(40)
    advice = world.advice(FAILED)
    assert advice.exclusions == ()
    assert "no answer" in advice.explanation


def test_partitions_are_asked_for_only_where_a_node_may_be_excluded(world: World) -> None:
    world.put(FAILED, exception(20), end_signal(30))
    world.tick(31)
    assert "partitions" not in world.scheduler.asked
    assert world.advice(FAILED).exclusions == ()


def test_later_evidence_is_attached_without_a_new_generation(world: World) -> None:
    world.put(FAILED, *CRASH)
    world.tick(31)
    world.see(lost_peer(25, position="more"))
    world.tick(32)
    assert world.advice(FAILED).generation == 1
    (issue,) = world.store.issues(FAILED.id, 0, 10)
    assert len(issue.cascade) == 3


def test_a_node_that_late_evidence_names_makes_a_new_generation(world: World) -> None:
    world.put(FAILED, lost_peer(20), end_signal(30))
    world.tick(31)
    assert world.advice(FAILED).exclusions == ()
    world.see(ecc(22, nodes=("n2",)))
    world.tick(32)
    advice = world.advice(FAILED)
    assert (advice.generation, advice.exclusions) == (2, ("n2",))
    assert len(world.store.generations(FAILED.id)) == 2


def node_failure(world: World) -> tuple[object, object]:
    """Slurm has requeued by itself: attempt 0 is over, attempt 1 waits."""
    fact = end_signal(30, "node_failure")
    gone = world.put(ended(EndedBy.NODE_FAILURE), fact)
    waits = world.put(successor(gone, 31, state=JobState.PENDING, nodes=()))
    return gone, waits


def test_a_failed_node_that_accounting_names_is_excluded_on_the_successor(world: World) -> None:
    world.scheduler.records = (record(ended(EndedBy.NODE_FAILURE), failed_node="n2"),)
    node_failure(world)
    world.tick(32)
    advice = world.advice(ended(EndedBy.NODE_FAILURE))
    assert (advice.basis, advice.exclusions) == (DecisionBasis.NODE_FAILURE, ("n2",))
    assert not advice.may_end_running


def test_where_accounting_does_not_name_it_the_one_node_that_is_down_is_it(world: World) -> None:
    world.scheduler.views = (PartitionView("batch", ("n1", "n2", "n3", "n4"), ("n1", "n3", "n4")),)
    node_failure(world)
    world.tick(32)
    assert world.advice(ended(EndedBy.NODE_FAILURE)).exclusions == ("n2",)


def test_a_failed_node_without_a_name_is_asked_for_again(world: World) -> None:
    gone, _ = node_failure(world)
    world.tick(32)
    assert world.store.advice(gone.id) is None  # type: ignore[attr-defined]
    world.scheduler.records = (record(ended(EndedBy.NODE_FAILURE), failed_node="n1"),)
    world.tick(36)
    assert world.advice(ended(EndedBy.NODE_FAILURE)).exclusions == ("n1",)


def test_restarts_without_a_checkpoint_come_to_an_end(world: World) -> None:
    results = []
    current = attempt()
    for _ in range(5):
        start = current.submitted_at
        seconds = (start - at(0)).total_seconds()
        failed = replace(
            ended(EndedBy.FAILURE, at(seconds + 20)),
            id=current.id,
            submitted_at=start,
            attempt_index=current.attempt_index,
        )
        world.put(
            failed,
            exception(seconds + 19, of=failed),
            end_signal(seconds + 20, of=failed),
            progress=Progress(failed.id, last_step=50 + current.attempt_index),
        )
        world.tick(seconds + 21)
        results.append(world.store.decisions(failed.id)[-1].result)
        if world.store.advice(failed.id) is None:
            break
        world.report(
            failed,
            Disposition.CONVERGED,
            Reason.DESIRED_STATE_OBSERVED,
            at(seconds + 25),
        )
        current = successor(failed, seconds + 22)
    assert results == ["advise", "advise", "advise", "budget_spent"]
    alarms = world.store.audit(AuditFilter(level="alarm"), 0, 10)
    assert [e.type for e in alarms] == ["decision.refrained"]


def test_a_bad_node_does_not_return_with_the_next_restart(world: World) -> None:
    first = world.put(FAILED, *CRASH)
    world.tick(31)
    world.report(first, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(40))
    second = replace(
        successor(first, 35, nodes=("n3", "n4"), excluded_nodes=("n1",)),
        state=JobState.FAILED,
        end=ended(EndedBy.FAILURE, at(60)).end,
    )
    world.put(second, exception(59, of=second), end_signal(60, of=second))
    world.tick(61)
    assert world.advice(second).exclusions == ("n1",)


def test_a_restart_that_the_scheduler_has_forgotten_is_decided_anew(world: World) -> None:
    world.put(FAILED, *CRASH)
    world.tick(31)
    world.report(FAILED, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(40))
    after = world.put(successor(FAILED, 35))
    world.tick(41)
    assert world.advice(FAILED).generation == 1
    gone = replace(after, vanished=True)
    world.put(gone, signal(SignalKind.VANISHED, 50, attempt_id=gone.id))
    world.tick(51)
    advice = world.advice(FAILED)
    assert (advice.generation, advice.status) == (2, None)
    world.tick(52)
    assert world.advice(FAILED).generation == 2


def test_who_ended_it_is_learnt_later_and_looked_at_again(world: World) -> None:
    target = ended(EndedBy.UNKNOWN)
    world.put(target, exception(20), end_signal(30))
    world.tick(31)
    assert world.store.advice(target.id) is None
    world.put(ended(EndedBy.FAILURE))
    world.tick(33)
    assert world.advice(target).basis is DecisionBasis.ATTEMPT_ENDED_IN_FAILURE


def test_an_attempt_whose_records_cannot_be_read_does_not_keep_others_waiting(
    world: World, tmp_path: Path
) -> None:
    broken = ended(EndedBy.FAILURE, job_id="1")
    good = ended(EndedBy.FAILURE, job_id="2")
    for target in (broken, good):
        world.put(
            target,
            exception(20, of=target),
            end_signal(30, of=target),
            progress=Progress(target.id, last_step=1),
        )
    database = sqlite3.connect(tmp_path / "state" / "state.db")
    with database:
        database.execute("UPDATE progress SET body = '{}' WHERE attempt_id = ?", (broken.id,))
    database.close()
    report = world.tick(31)
    assert report.failed == (broken.id,)
    assert report.advised == (good.id,)
    assert [what for what, _ in world.errors] == [broken.id]


def test_an_attempt_that_breaks_its_evaluation_does_not_keep_others_waiting(world: World) -> None:
    class Breaking(ToldScheduler):
        def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
            raise ValueError(f"nobody foresaw job {job_id}")

    whole = world.scheduler
    world.scheduler = Breaking()
    world.restarted()
    broken = ended(EndedBy.NODE_FAILURE, job_id="1")
    good = ended(EndedBy.FAILURE, job_id="2")
    world.put(broken, end_signal(30, "node_failure", of=broken))
    world.put(good, exception(20, of=good), end_signal(30, of=good))
    report = world.tick(31)
    assert report.failed == (broken.id,)
    assert report.advised == (good.id,)
    assert [what for what, _ in world.errors] == [broken.id]
    assert world.tick(32).failed == ()
    world.scheduler = whole
    assert world.tick(60).evaluated >= 1, "it is looked at again, by itself"


def test_a_decision_can_be_shown_and_made_again(world: World) -> None:
    world.put(FAILED, *CRASH)
    world.tick(31)
    (decision,) = world.store.decisions(FAILED.id)
    assert replay(decision).same
    assert inputs_of(decision).verdict.nodes == ("n1",)
    strict = replay(decision, Policy(attempts_without_checkpoint=0))
    assert not strict.same
    assert strict.outcome != outcome_of(decision)


def test_a_refusal_can_be_made_again_too(world: World) -> None:
    running = world.put(attempt(), *CRASH[:2])
    world.tick(22)
    (decision,) = world.store.decisions(running.id)
    assert replay(decision).same


def test_a_decision_that_cannot_be_read_says_so(world: World) -> None:
    world.put(FAILED, *CRASH)
    world.tick(31)
    (decision,) = world.store.decisions(FAILED.id)
    with pytest.raises(Unreadable, match=decision.id):
        replay(replace(decision, inputs='{"attempt": 1}'))
    with pytest.raises(Unreadable, match="outcome"):
        outcome_of(replace(decision, outcome="["))


def test_the_whole_story_is_explained(world: World) -> None:
    world.put(FAILED, *CRASH)
    world.tick(31)
    story = explain(world.store, FAILED.id)
    assert len(story.signals) == 3
    assert [told.same for told in story.decisions] == [True]
    assert story.advice == world.advice(FAILED)
    assert [m.kind for m in story.milestones][-1] is MilestoneKind.ADVISED


def test_an_attempt_that_moved_while_it_was_decided_about_is_decided_again(world: World) -> None:
    """The controller stores how attempt k ended at the very moment of the decision."""
    stored = world.put(FAILED, *CRASH)
    store = world.store
    moved = []

    class Between:
        """The store, with somebody else writing just before the first change."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def apply(self, change: Change) -> object:
            if not moved:
                moved.append(True)
                store.apply(Change(attempts=(replace(stored, reason="moved"),)))
            return store.apply(change)

    manager = Manager(
        store=Between(),  # type: ignore[arg-type]
        scheduler=world.scheduler,
        deployment=deployment(),
        policy=Policy(),
    )
    report = manager.tick(at(31))
    assert report.conflicts == 1
    assert report.advised == (FAILED.id,)
    (decision,) = store.decisions(FAILED.id)
    assert inputs_of(decision).attempt.reason == "moved"


def test_a_store_that_fails_in_the_middle_loses_nothing(world: World) -> None:
    targets = [ended(EndedBy.FAILURE, job_id=str(n)) for n in range(3)]
    for target in targets:
        world.put(target, exception(20, of=target), end_signal(30, of=target))
    store = world.store
    calls = []

    class Failing:
        """The store, whose second write gets no answer."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def apply(self, change: Change) -> object:
            calls.append(change)
            if len(calls) == 2:
                # It may have been written, and here it was.
                store.apply(change)
                raise Unreachable("the disk is full")
            return store.apply(change)

    manager = Manager(
        store=Failing(),  # type: ignore[arg-type]
        scheduler=world.scheduler,
        deployment=deployment(),
        policy=Policy(),
    )
    with pytest.raises(Unreachable):
        manager.tick(at(31))
    assert store.note(CURSOR) is None
    manager.tick(at(32))
    assert [len(store.decisions(target.id)) for target in targets] == [1, 1, 1]
    assert [world.advice(target).generation for target in targets] == [1, 1, 1]


def test_a_program_that_went_on_before_the_restart_can_fail_again(world: World) -> None:
    running = world.put(attempt(), watchdog(0), GRACE)
    world.tick(51)
    world.see(signal(SignalKind.RECOVERED, 52))
    world.tick(52)
    world.report(running, Disposition.ABANDONED, Reason.TARGET_RUNNING, at(53))
    world.tick(60)
    assert world.advice(running).generation == 1
    world.see(watchdog(100), signal(SignalKind.NO_PROGRESS_AFTER_FAILURE, 150))
    world.tick(151)
    advice = world.advice(running)
    assert (advice.generation, advice.active) == (2, True)


def test_a_flood_of_attempts_is_worked_off_in_turns(world: World) -> None:
    targets = [ended(EndedBy.FAILURE, job_id=str(n)) for n in range(AT_ONCE + 10)]
    for target in targets:
        world.put(target, end_signal(30, of=target))
    world.store.put_notes(((CURSOR, "1000000"),))
    world.restarted()
    first = world.tick(31)
    assert first.again
    second = world.tick(31)
    assert not second.again
    assert len(first.advised) + len(second.advised) == len(targets)


def test_what_is_decided_while_the_deployment_is_rolled_back_stays_not_permitted(
    world: World,
) -> None:
    rolled = Rollback(at(0), "oncall", "wrong restarts")
    world.store.put_notes(((rollback.NOTE, rollback.as_text(rolled)),))
    world.put(FAILED, *CRASH)
    world.tick(31)
    closed = world.advice(FAILED).gates.first_closed()
    assert closed is not None
    assert closed.name is GateName.DEPLOYMENT_MODE
    assert "by oncall" in closed.detail
    assert "wrong restarts" in closed.detail
    world.store.put_notes(((rollback.NOTE, ""),))
    world.tick(40)
    assert not world.advice(FAILED).gates.open
