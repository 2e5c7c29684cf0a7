"""The book of recoveries, kept from what others have stored."""

from __future__ import annotations

from dataclasses import replace

from middlewatch.adapters.sql.store import SqlStore
from middlewatch.model.advice import Advice, Disposition, Reason
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.change import Change
from middlewatch.model.gates import Mode
from middlewatch.model.milestone import Milestone, MilestoneKind, MilestoneSource
from middlewatch.model.recovery import Recovery, RecoveryState
from middlewatch.model.signal import Progress
from middlewatch.model.steps import StepCounter
from middlewatch.ports.store import AuditFilter, RecoveryFilter
from middlewatch.services.manager import recovering
from tests.integration.manager.world import World, deployment
from tests.unit.attribution.made import at, attempt, ecc, ended

ALL = RecoveryFilter()


def book(store: SqlStore) -> list[Recovery]:
    return [one for _, one in reversed(store.recoveries(ALL, 0, 100))]


def failed(index: int, when: float, last: int, first: int = 1) -> tuple[Attempt, Progress]:
    made = ended(EndedBy.FAILURE, attempt_index=index, first_seen_at=at(when - 30))
    assert made.end is not None
    made = replace(made, end=replace(made.end, at=at(when), learned_at=at(when)))
    told = Progress(
        made.id,
        first_step=first,
        last_step=last,
        first_step_at=at(when - 20),
        last_step_at=at(when),
        step_time_s=1.0,
        last_output_at=at(when),
    )
    return made, told


def fails(
    world: World, index: int, when: float, last: int, counter: StepCounter | None = None
) -> Attempt:
    """An attempt ends by an ECC error, and the manager hears of it."""
    made, told = failed(index, when, last)
    told = replace(told, steps_of=counter)
    stored = world.put(made, ecc(when, attempt_id=made.id), progress=told)
    world.tick(when + 1)
    return stored


def runs(world: World, index: int, when: float, last: int | None = None) -> Attempt:
    running = attempt(attempt_index=index, started_at=at(when), first_seen_at=at(when))
    told = Progress(
        running.id,
        first_step=None if last is None else 31,
        last_step=last,
        first_step_at=None if last is None else at(when + 2),
        last_output_at=at(when + 2),
    )
    return world.put(running, progress=told)


def passes(world: World, advice: Advice, successor: Attempt, when: float) -> None:
    """What the watcher writes when a step lies beyond the lost one."""
    milestone = Milestone(
        advice.sequence_id,
        f"resumed/{successor.id}",
        at(when),
        at(when),
        MilestoneKind.RESUMED,
        step=41,
        source=MilestoneSource.LOG,
        past_step=40,
    )
    world.store.apply(Change(milestones=(milestone,)))


def test_recovery_is_entered_with_the_advice_and_verified_by_a_step(world: World) -> None:
    first = fails(world, 0, 30, 40)
    (begun,) = book(world.store)
    assert (begun.state, begun.settled) == (RecoveryState.UNDER_WAY, False)
    assert begun.id == world.advice(first).sequence_id
    world.report(first, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(35))
    second = runs(world, 1, 36, 34)
    world.tick(40)
    assert book(world.store)[0].state is RecoveryState.UNDER_WAY
    passes(world, world.advice(first), second, 45)
    world.tick(50)
    (done,) = book(world.store)
    assert (done.state, done.settled) == (RecoveryState.VERIFIED, True)
    assert (done.lost_step, done.resumed_step, done.total_s) == (40, 41, 15.0)
    kinds = {m.kind for m in world.store.milestones(done.id)}
    # The successor ran after the controller had reported: nobody else had written that.
    assert MilestoneKind.RUNNING in kinds
    told = world.store.audit(AuditFilter(type="recovery.verified"), 0, 9)
    assert len(told) == 1
    assert world.errors == []


def test_tick_that_finds_nothing_new_writes_nothing(world: World) -> None:
    fails(world, 0, 30, 40)
    for seconds in (32, 34, 36, 40):
        world.tick(seconds)
    assert book(world.store)[0].version == 1


def test_successor_that_fails_again_stays_in_the_first_recovery(world: World) -> None:
    first = fails(world, 0, 30, 40)
    world.report(first, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(35))
    second = fails(world, 1, 60, 35)
    assert world.advice(second).active
    (one,) = book(world.store)
    assert (one.attempts, one.state) == ((1,), RecoveryState.UNDER_WAY)
    world.report(second, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(65))
    fails(world, 2, 90, 35)
    for seconds in (100, 130):
        world.tick(seconds)
    (one,) = book(world.store)
    assert (one.attempts, one.state, one.settled) == ((1, 2), RecoveryState.NOT_RECOVERED, True)
    assert "not restarted again (budget_spent)" in one.why
    refused = world.store.decisions(attempt(attempt_index=2).id)[-1]
    assert refused.result == "budget_spent"
    assert "restarts_without_progress: 2 of 2 used (restarted, not recovered" in refused.outcome


def test_successor_that_dies_in_its_start_up_loop_is_not_recovered(world: World) -> None:
    """It loads 2000 files: no step of training, and restarting it twice is all that is tried."""
    training, loop = StepCounter("megatron.step", 1), StepCounter("loop.step", -2)
    first = fails(world, 0, 30, 40, training)
    world.report(first, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(35))
    fault = next(m for m in world.store.milestones(world.advice(first).sequence_id) if m.step)
    assert (fault.step, fault.steps_of) == (40, training)
    second = fails(world, 1, 60, 2000, loop)
    world.report(second, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(65))
    third = fails(world, 2, 90, 2100, loop)
    for seconds in (100, 130):
        world.tick(seconds)
    (one,) = book(world.store)
    assert (one.attempts, one.state, one.settled) == ((1, 2), RecoveryState.NOT_RECOVERED, True)
    assert (one.lost_step, one.lost_of, one.resumed_step) == (40, "megatron.step", None)
    assert "restarts_without_progress: 2 of 2" in world.store.decisions(third.id)[-1].outcome


def test_after_a_settled_recovery_a_new_fault_begins_another(world: World) -> None:
    first = fails(world, 0, 30, 40)
    world.report(first, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(35))
    second = runs(world, 1, 36, 45)
    passes(world, world.advice(first), second, 45)
    world.tick(50)
    fails(world, 1, 60, 50)
    world.tick(70)
    assert [(r.attempt_index, r.state) for r in book(world.store)] == [
        (0, RecoveryState.VERIFIED),
        (1, RecoveryState.UNDER_WAY),
    ]


def test_what_is_only_would_have_begins_no_recovery(world: World) -> None:
    world.restarted(deployment(mode=Mode.MONITOR))
    fails(world, 0, 30, 40)
    world.tick(40)
    assert book(world.store) == []


def test_restarted_manager_enters_what_its_predecessor_did_not(world: World) -> None:
    first, told = failed(0, 30, 40)
    world.put(first, ecc(30, attempt_id=first.id), progress=told)
    world.manager._recoveries = _Dies()  # type: ignore[assignment]
    world.tick(31)
    assert [what for what, _ in world.errors] == ["recoveries"]
    assert world.advice(first).active
    assert book(world.store) == []
    world.restarted()
    world.tick(32)
    assert [r.attempt_id for r in book(world.store)] == [first.id]


class _Dies:
    def tick(self, *_: object) -> None:
        raise RuntimeError("killed")


def test_book_looks_at_few_recoveries_in_one_round(world: World) -> None:
    count = recovering.LOOKED_AT_ONCE + 5
    targets = []
    for number in range(count):
        made, told = failed(0, 30, 40)
        made = replace(attempt(job_id=str(5000 + number)), end=made.end, state=made.state)
        line = ecc(30, attempt_id=made.id, key=f"line-{number}")
        targets.append(world.put(made, line, progress=replace(told, attempt_id=made.id)))
    for seconds in (31, 33, 35):
        world.tick(seconds)
    assert len(book(world.store)) == count
    for target in targets:
        world.report(target, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, at(35))

    def changed() -> int:
        return sum("has not been seen yet" in one.why for one in book(world.store))

    world.tick(40)
    assert changed() == recovering.LOOKED_AT_ONCE
    world.tick(42)
    assert changed() == count
    assert world.errors == []
