"""Held jobs that wait for others, from the store to the advice and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from middlewatch.model.advice import Advice, DecisionBasis, DesiredState, Disposition, Reason
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.audit import AuditLevel
from middlewatch.model.change import Change
from middlewatch.model.dependency import Condition, Dependency
from middlewatch.model.gates import Mode
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.milestone import MilestoneKind, Operation
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.scheduler import AccountingRecord, JobState, JobView, Snapshot
from middlewatch.model.signal import Progress, Signal
from middlewatch.ports.store import AuditFilter
from middlewatch.remediation.release import AwaitBasis
from middlewatch.services.manager.explain import explain
from middlewatch.services.manager.frozen import replay
from middlewatch.services.manager.parents import Parents
from middlewatch.services.watcher.declared import declared_signal
from tests.integration.manager.world import ToldScheduler, World, deployment, successor
from tests.unit.attribution.made import CLUSTER, at, attempt, ecc, end_signal, ended

SOON = 4.0
"""Two looks at a waiting job are never further apart here, in seconds."""


@dataclass
class SeesStrangers(ToldScheduler):
    """Shows jobs that nobody watches; counts how often it is asked."""

    views_of: dict[str, JobView] = field(default_factory=dict)
    silent: bool = False
    no_accounting: bool = False

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        told = super().accounting(job_id)
        return Unknown("down", at(0)) if self.no_accounting else told

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        self.asked.append("look")
        if self.silent:
            return Unknown("no answer", at(0))
        jobs = tuple(self.views_of[j] for j in job_ids if j in self.views_of)
        return Known(Snapshot("cluster", at(0), jobs), at(0))


@pytest.fixture
def world(world: World) -> World:
    world.scheduler = SeesStrangers()
    world.restarted()
    return world


def strangers(world: World) -> SeesStrangers:
    assert isinstance(world.scheduler, SeesStrangers)
    return world.scheduler


def child(*declared: str, job_id: str = "50", wrong: tuple[str, ...] = (), **given: Any) -> Attempt:
    """A job held by its owner, submitted after job 42."""
    made = []
    for text in declared or ("42",):
        condition, _, job = text.rpartition(":")
        made.append(Dependency(job, Condition(condition or "afterok")))
    opt_in = OptIn(
        JobMode.ACTION,
        "prod",
        "middlewatch",
        depends_on=() if wrong and not declared else tuple(made),
        depends_on_wrong=wrong,
    )
    base = attempt(
        job_id=job_id,
        submitted_at=at(-100),
        state=JobState.PENDING,
        held=True,
        reason="JobHeldUser",
        uid=7,
        nodes=(),
        node_count=0,
        started_at=None,
        opt_in=opt_in,
    )
    return replace(base, **given)


def declare(world: World, target: Attempt) -> Attempt:
    """Store it as the watcher does: with the signal that tells of its declaration."""
    signal = declared_signal(OptIn(), target, at(0))
    assert signal is not None
    return world.put(target, signal)


def runs(**given: Any) -> Attempt:
    return attempt(uid=7, **given)


def done(by: EndedBy = EndedBy.COMPLETION, seconds: float = 30, **given: Any) -> Attempt:
    made = ended(by, at(seconds), uid=7, **given)
    assert made.end is not None
    return replace(made, end=replace(made.end, final=True))


def tick(world: World, seconds: float) -> None:
    """The last ticks up to that time: what lies before them brings nothing."""
    for before in (SOON, SOON / 2, 0):
        world.tick(seconds - before)


def released(world: World, target: Attempt) -> Advice | None:
    return world.store.advice(target.id)


def says(world: World, target: Attempt) -> str:
    stored = world.store.attempt(target.id)
    assert stored is not None
    return stored.waits_for


def grounds(world: World, target: Attempt) -> list[str]:
    return [decision.result for decision in world.store.decisions(target.id)]


def crash(of: Attempt, seconds: float) -> tuple[Signal, ...]:
    return (ecc(seconds, nodes=("n1",), of=of), end_signal(seconds + 1, of=of))


def test_a_held_job_waits_for_its_parent_and_is_let_go_when_it_completes(world: World) -> None:
    world.put(runs())
    target = declare(world, child())
    tick(world, 10)
    assert released(world, target) is None
    assert says(world, target) == "It waits for afterok:42: attempt 0 is RUNNING."
    world.put(done(seconds=12))
    tick(world, 12 + SOON)
    advice = released(world, target)
    assert advice is not None
    assert (advice.desired, advice.basis, advice.generation) == (
        DesiredState.RELEASED,
        DecisionBasis.DAG,
        1,
    )
    assert advice.gates.open
    assert says(world, target) == ""
    assert grounds(world, target) == ["parents_not_done", "release"]
    sequence = world.store.sequence("slurm", "prod", "50", 0, Operation.DAG_RELEASE)
    assert sequence is not None
    assert sequence.id == advice.sequence_id
    (milestone,) = world.store.milestones(sequence.id)
    assert (milestone.kind, milestone.operation) == (MilestoneKind.ADVISED, Operation.DAG_RELEASE)


def test_a_parent_that_crashes_is_recovered_first(world: World) -> None:
    parent = world.put(runs())
    target = declare(world, child())
    tick(world, 10)
    failed = done(EndedBy.FAILURE, 12)
    world.put(failed, *crash(parent, 11))
    tick(world, 40)
    assert world.advice(failed).desired is DesiredState.RESTARTED
    assert released(world, target) is None
    assert "being recovered" in says(world, target)
    again = world.put(successor(parent, 50, uid=7, state=JobState.RUNNING))
    world.report(failed, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(55))
    tick(world, 300)
    assert released(world, target) is None
    assert says(world, target) == "It waits for afterok:42: attempt 1 is RUNNING."
    assert again.end is None
    world.put(replace(again, state=JobState.COMPLETED, end=done(seconds=305).end))
    tick(world, 305 + SOON)
    advice = released(world, target)
    assert advice is not None
    assert "attempt 1 ended COMPLETED" in advice.explanation


def test_a_parent_that_failed_for_good_keeps_it_and_raises_an_alarm_once(world: World) -> None:
    parent = world.put(runs(requeueable=False))
    target = declare(world, child())
    failed = done(EndedBy.FAILURE, 12, requeueable=False)
    world.put(failed, *crash(parent, 11), progress=Progress(failed.id, log_drained_at=at(20)))
    tick(world, 60)
    assert grounds(world, target) == ["parents_not_done"], "late evidence may still come"
    tick(world, 400)
    assert released(world, target) is None
    assert grounds(world, target)[-1] == AwaitBasis.PARENT_FAILED.value
    assert len(grounds(world, target)) == len(set(grounds(world, target)))
    assert "stays held for good" in says(world, target)
    where = AuditFilter(attempt_id=target.id, type="release.refrained")
    levels = [event.level for event in world.store.audit(where, 0, 100)]
    assert levels.count(AuditLevel.ALARM) == 1
    # Its owner runs the parent again by hand: it is waited for, and then it is done.
    again = world.put(successor(parent, 500, uid=7))
    tick(world, 520)
    assert says(world, target) == "It waits for afterok:42: attempt 1 is RUNNING."
    world.put(replace(again, state=JobState.COMPLETED, end=done(seconds=525).end))
    tick(world, 525 + SOON)
    assert released(world, target) is not None


def test_a_job_let_go_by_a_failure_is_its_successor_and_nothing_restarts_beside_it(
    world: World,
) -> None:
    parent = world.put(runs(requeueable=False))
    target = declare(world, child("afternotok:42"))
    failed = done(EndedBy.FAILURE, 12, requeueable=False)
    world.put(failed, *crash(parent, 11), progress=Progress(failed.id, log_drained_at=at(20)))
    tick(world, 200)
    advice = released(world, target)
    assert advice is not None
    assert "ended FAILED" in advice.explanation
    stored = world.store.attempt(failed.id)
    assert stored is not None
    assert [(d.job_id, d.kind) for d in stored.dependents] == [("50", "afternotok")]
    # It may be requeued now, and new evidence comes: it is too late for a restart.
    world.put(replace(stored, requeueable=True))
    world.see(ecc(210, nodes=("n2",), of=parent))
    tick(world, 240)
    assert world.store.advice(failed.id) is None
    assert world.store.decisions(failed.id)[-1].result == "succeeded_by_dependent"


def test_monitor_mode_records_what_would_have_been_done_and_takes_nothing_over(
    world: World,
) -> None:
    world.restarted(deployment(mode=Mode.MONITOR))
    parent = world.put(runs(requeueable=False))
    target = declare(world, child("afterany:42"))
    failed = done(EndedBy.FAILURE, 12, requeueable=False)
    world.put(failed, *crash(parent, 11), progress=Progress(failed.id, log_drained_at=at(20)))
    tick(world, 200)
    advice = released(world, target)
    assert advice is not None
    assert not advice.gates.open
    stored = world.store.attempt(failed.id)
    assert stored is not None
    assert stored.dependents == ()
    world.report(target, Disposition.ABANDONED, Reason.NOT_PERMITTED, at(201))
    world.restarted()
    tick(world, 260)
    after = released(world, target)
    assert after is not None
    assert after.generation == 1, "a switch of the mode is nothing that happened"


def test_what_its_owner_declares_after_the_decision_is_waited_for(world: World) -> None:
    world.put(done(seconds=12))
    target = declare(world, child())
    tick(world, 20)
    stored = world.store.attempt(target.id)
    assert stored is not None
    assert stored.let_go_after == (Dependency("42"),)
    # Its owner writes another parent, and the controller reads that before it sends the command.
    detail = "gate dependencies has closed: its comment declares afterok:43"
    world.put(runs(job_id="43"))
    world.report(target, Disposition.ABANDONED, Reason.NOT_PERMITTED, at(21), detail)
    tick(world, 24)
    assert generation(world, target) == 1
    world.put(replace(stored, opt_in=child("43").opt_in, version=0))
    tick(world, 30)
    assert generation(world, target) == 1
    assert "afterok:43" in says(world, target)
    world.put(done(seconds=40, job_id="43"))
    tick(world, 50)
    assert generation(world, target) == 2
    stored = world.store.attempt(target.id)
    assert stored is not None
    assert stored.let_go_after == (Dependency("43"),)
    advice = released(world, target)
    assert advice is not None
    assert advice.gates.open


def generation(world: World, target: Attempt) -> int:
    advice = released(world, target)
    return 0 if advice is None else advice.generation


def test_a_killed_manager_goes_on_where_it_was(world: World) -> None:
    world.put(runs())
    target = declare(world, child())
    tick(world, 10)
    world.restarted()
    world.put(done(seconds=12))
    tick(world, 12 + SOON)
    assert released(world, target) is not None
    number = world.store.last_audit_number()
    world.restarted()
    tick(world, 60)
    assert world.store.last_audit_number() == number
    assert len(world.store.decisions(target.id)) == 2


def test_every_decision_comes_out_the_same_again(world: World) -> None:
    world.put(runs())
    target = declare(world, child("42", "afterany:43"))
    strangers(world).views_of["43"] = view("43", JobState.RUNNING)
    tick(world, 10)
    world.put(done(seconds=12))
    tick(world, 20)
    strangers(world).views_of["43"] = view("43", JobState.FAILED)
    tick(world, 40)
    decisions = world.store.decisions(target.id)
    assert [d.result for d in decisions] == ["parents_not_done", "parents_not_done", "release"]
    assert all(replay(decision).same for decision in decisions)
    told = explain(world.store, target.id)
    assert all(t.same for t in told.decisions)
    assert told.advice is not None


def view(job_id: str, state: JobState, seconds: float = -500, **given: Any) -> JobView:
    made = JobView(
        job_id, state, frozenset(), "None", 100, 0, at(seconds), partitions=("batch",), uid=7
    )
    return replace(made, **given)


def record(job_id: str, state: JobState, seconds: float = -500, **given: Any) -> AccountingRecord:
    made = AccountingRecord(
        job_id=job_id,
        submitted_at=at(seconds),
        state=state,
        requeued=False,
        exit_code=0,
        exit_signal=None,
        started_at=None,
        ended_at=None,
        node_list="",
        cancelled_by=None,
        batch_completed=None,
        user="alice",
    )
    return replace(made, **given)


def test_a_parent_that_nobody_watches_is_looked_at_sparingly(world: World) -> None:
    strangers(world).views_of["42"] = view("42", JobState.RUNNING)
    target = declare(world, child())
    others = [declare(world, child(job_id=str(60 + n))) for n in range(5)]
    for second in range(20):
        world.tick(float(second))
    assert says(world, target) == "It waits for afterok:42: it is RUNNING."
    assert strangers(world).asked.count("look") <= 20 / 5 + 1
    strangers(world).views_of["42"] = view("42", JobState.COMPLETED)
    tick(world, 70)
    assert all(released(world, one) is not None for one in (target, *others))


def test_a_parent_that_slurm_has_forgotten_is_known_to_accounting(world: World) -> None:
    world.scheduler.records = (record("42", JobState.COMPLETED),)
    target = declare(world, child(user="alice"))
    tick(world, 5)
    assert released(world, target) is not None


def test_a_watched_parent_outlives_the_schedulers_memory(world: World) -> None:
    world.put(done())
    target = declare(world, child())
    tick(world, 40)
    assert released(world, target) is not None
    assert "look" not in strangers(world).asked


@pytest.mark.parametrize("what", ["look", "accounting"])
def test_whoever_does_not_answer_lets_nothing_go(world: World, what: str) -> None:
    if what == "look":
        strangers(world).silent = True
        world.scheduler.records = (record("42", JobState.COMPLETED),)
    else:
        strangers(world).no_accounting = True
    target = declare(world, child(user="alice"))
    tick(world, 60)
    assert released(world, target) is None
    assert grounds(world, target) == [AwaitBasis.PARENT_UNKNOWN.value]


def test_many_parents_that_nobody_watches_are_looked_at_together(world: World) -> None:
    seen = strangers(world)
    numbers = [str(1000 + number) for number in range(320)]
    seen.views_of.update((number, view(number, JobState.RUNNING)) for number in numbers)
    parents = Parents(world.store, world.scheduler, CLUSTER)
    children = [child(*numbers[first : first + 32]) for first in range(0, 320, 32)]
    for one in children:
        told = parents.of(one, lambda *_: "", at(0))
        assert {facts.state for facts in told} == {JobState.RUNNING}
    assert seen.asked.count("look") <= len(children)
    before = seen.asked.count("look")
    for one in children:
        parents.of(one, lambda *_: "", at(6))
    assert seen.asked.count("look") - before <= 2


def test_a_long_chain_is_followed_by_each_of_its_jobs_and_read_once(world: World) -> None:
    chain = [child(str(999 + number), job_id=str(1000 + number)) for number in range(40)]
    for one in chain:
        world.store.apply(Change(attempts=(one,)))
    read = world.store.attempts_of_job
    asked: list[str] = []

    def counted(cluster: ClusterId, job_id: str) -> tuple[Attempt, ...]:
        asked.append(job_id)
        return read(cluster, job_id)

    world.store.attempts_of_job = counted  # type: ignore[method-assign]
    parents = Parents(world.store, world.scheduler, CLUSTER)
    for one in chain:
        assert not any(facts.cycle for facts in parents.of(one, lambda *_: "", at(0)))
    assert len(asked) <= 2 * len(chain) + 1


def test_accounting_that_does_not_answer_is_not_asked_about_each_parent(world: World) -> None:
    strangers(world).no_accounting = True
    waiting = [child(str(90 + n), job_id=str(60 + n), user="alice") for n in range(5)]
    made = [declare(world, one) for one in waiting]
    before = strangers(world).asked.count("accounting")
    tick(world, 2)
    assert strangers(world).asked.count("accounting") == before + 1
    assert [grounds(world, one) for one in made] == [[AwaitBasis.PARENT_UNKNOWN.value]] * 5


@pytest.mark.parametrize(
    ("restarts", "done"), [(1, False), (0, True)], ids=["requeued", "another job"]
)
def test_a_parent_that_waits_behind_its_requeue_is_not_over(
    world: World, restarts: int, done: bool
) -> None:
    """Nobody watches it, and accounting has no record of the attempt that waits."""
    world.scheduler.records = (record("42", JobState.NODE_FAIL, -300),)
    shown = view("42", JobState.PENDING, restarts=restarts, submitted_at=at(-5))
    strangers(world).views_of["42"] = shown
    target = declare(world, child("afterany:42", user="alice"))
    tick(world, 70)
    assert (released(world, target) is not None) is done


def test_a_number_that_came_back_is_another_job(world: World) -> None:
    old = world.put(done(submitted_at=at(-900)))
    fresh = world.put(runs(submitted_at=at(-50)))
    assert old.id != fresh.id
    target = declare(world, child())
    tick(world, 6)
    advice = released(world, target)
    assert advice is not None, "the parent is the one that had the number at the submission"
    late = declare(world, child(job_id="51", submitted_at=at(-950)))
    tick(world, 20)
    assert released(world, late) is None
    assert grounds(world, late) == [AwaitBasis.WRONG_PARENT.value]
    assert "submitted after this one" in says(world, late)


def test_a_job_that_was_first_seen_late_is_recognised_by_its_restarts(world: World) -> None:
    seen_late = world.put(done(submitted_at=at(-50), attempt_index=2))
    target = declare(world, child())
    tick(world, 6)
    assert released(world, target) is None
    world.scheduler.records = (
        record("42", JobState.CANCELLED, -300, requeued=True),
        record("42", JobState.CANCELLED, -200, requeued=True),
        record("42", JobState.COMPLETED, -50),
    )
    tick(world, 60)
    advice = released(world, target)
    assert advice is not None
    assert f"attempt {seen_late.attempt_index} ended COMPLETED" in advice.explanation


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (("50",), "wait for itself"),
        (("999",), "no such job"),
        (("43",), "another user's"),
    ],
)
def test_a_parent_that_cannot_be_meant_is_told(
    world: World, declared: tuple[str, ...], said: str
) -> None:
    strangers(world).views_of["43"] = view("43", JobState.COMPLETED, uid=8)
    target = declare(world, child(*declared))
    tick(world, 10)
    assert released(world, target) is None
    assert grounds(world, target) == [AwaitBasis.WRONG_PARENT.value]
    assert said in says(world, target)


def test_jobs_that_wait_for_each_other_are_told_the_circle(world: World) -> None:
    ring = [child("51"), child("52", job_id="51"), child("50", job_id="52")]
    made = [declare(world, one) for one in ring]
    tick(world, 10)
    for one in made:
        assert released(world, one) is None
        assert grounds(world, one) == [AwaitBasis.WRONG_PARENT.value]
    assert "50 -> 51 -> 52 -> 50" in says(world, made[0])


def test_a_declaration_that_cannot_be_read_is_told_until_it_is_mended(world: World) -> None:
    world.put(done())
    target = declare(world, child(wrong=('"nope" is no job number',)))
    tick(world, 10)
    assert "nope" in says(world, target)
    assert grounds(world, target) == [AwaitBasis.BAD_DECLARATION.value]
    mended = declare(world, child())
    tick(world, 20)
    assert released(world, mended) is not None


def test_a_job_that_was_not_submitted_held_is_told_that_it_waits_for_nothing(world: World) -> None:
    world.put(runs())
    target = declare(world, child(held=False, reason="Priority"))
    tick(world, 10)
    assert grounds(world, target) == [AwaitBasis.NOT_HELD.value]
    assert "sbatch --hold" in says(world, target)


def test_a_job_that_its_owner_lets_go_is_not_nagged(world: World) -> None:
    world.put(runs())
    target = declare(world, child())
    tick(world, 10)
    stored = world.store.attempt(target.id)
    assert stored is not None
    world.put(replace(stored, held=False, reason="None", state=JobState.RUNNING))
    tick(world, 20)
    assert says(world, target) == ""
    assert released(world, target) is None


def test_after_its_release_it_is_restarted_like_any_other_job(world: World) -> None:
    world.put(done())
    target = declare(world, child())
    tick(world, 40)
    first = released(world, target)
    assert first is not None
    world.report(target, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(41))
    crashed = replace(
        target,
        held=False,
        state=JobState.FAILED,
        nodes=("n1", "n2"),
        node_count=2,
        end=done(EndedBy.FAILURE, 62).end,
    )
    world.put(crashed, *crash(target, 61))
    tick(world, 80)
    advice = released(world, target)
    assert advice is not None
    assert (advice.desired, advice.generation) == (DesiredState.RESTARTED, 2)
    assert advice.sequence_id != first.sequence_id
    restart = world.store.sequence("slurm", "prod", "50", 0, Operation.RESTART)
    assert restart is not None
    assert restart.id == advice.sequence_id
    kinds = [m.kind for m in world.store.milestones(restart.id)]
    assert kinds == [MilestoneKind.FAULT, MilestoneKind.DETECTED, MilestoneKind.ADVISED]
    story = [(g.desired, g.generation) for g in world.store.generations(target.id)]
    assert (DesiredState.RELEASED, 1) in story


def test_a_parent_that_moves_while_it_is_decided_is_looked_at_again(world: World) -> None:
    parent = world.put(done())
    target = declare(world, child())
    apply = world.store.apply
    moved: list[object] = []

    def meanwhile(change: Change) -> Any:
        if change.advice and not moved:
            moved.append(apply(Change(attempts=(successor(parent, 20, uid=7),))))
            moved.append(apply(Change(attempts=(replace(parent, reason="x"),))))
        return apply(change)

    world.store.apply = meanwhile  # type: ignore[method-assign]
    tick(world, 40)
    world.store.apply = apply  # type: ignore[method-assign]
    assert moved
    assert released(world, target) is None
    assert says(world, target) == "It waits for afterok:42: attempt 1 is RUNNING."


def test_the_declaration_is_one_signal_and_no_issue(world: World) -> None:
    world.put(runs())
    target = declare(world, child())
    declare(world, child())
    tick(world, 10)
    assert len(world.store.signals(target.id)) == 1
    assert world.store.issues(target.id, 0, 10) == ()
    (decision,) = world.store.decisions(target.id)
    frozen = json.loads(decision.inputs)
    assert frozen["parents"][0]["attempt"]["job_id"] == "42"
    assert AttemptKey(CLUSTER, "50", at(-100)).attempt_id() == target.id
