"""The controller on the simulated Slurm: what it does, what it leaves, what it writes down."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from middlewatch.lab.simulated import (
    Doom,
    Exit,
    Fate,
    SimulatedConfig,
    SimulatedScheduler,
    sleeper,
)
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.advice import DesiredState
from middlewatch.model.answer import Answer, Unknown
from middlewatch.model.audit import AuditKind, AuditLevel
from middlewatch.model.change import Change
from middlewatch.model.gates import Mode
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.milestone import MilestoneKind, SchedulerAction
from middlewatch.model.scheduler import JobDetail, JobState
from middlewatch.model.signal import Signal, SignalKind, Source, SourceKind
from middlewatch.ports.store import AuditFilter
from middlewatch.reconciliation.holds import standing
from middlewatch.services.controller.controller import Controller
from middlewatch.services.controller.record import planned
from tests.integration.controller.world import CLUSTER, World

CRASHES = sleeper(3, Exit(1))
TRAINS = sleeper(36_000)


def failed(world: World, **options: object) -> str:
    job = world.submit(CRASHES, nodes=2, **options)
    world.wait(5)
    assert world.view(job).state is JobState.FAILED
    return job


def test_a_failed_job_is_restarted_by_two_commands(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    advice = world.advise(attempt, "gpu-001")
    world.run(30)
    assert world.verbs() == ["requeue", "update"]
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert world.excluded(job) == ("gpu-001",)
    assert world.view(job).restarts == 1
    milestones = {m.kind: m for m in world.store.milestones(advice.sequence_id) if m.kind}
    times = [
        milestones[kind].at
        for kind in (
            MilestoneKind.HELD,
            MilestoneKind.CONSTRAINED,
            MilestoneKind.RELEASED,
            MilestoneKind.RUNNING,
        )
    ]
    assert times == sorted(times)
    actions = {m.action for m in world.store.milestones(advice.sequence_id) if m.action}
    assert actions == {
        SchedulerAction.SLURM_REQUEUE_HOLD,
        SchedulerAction.SLURM_UPDATE_CONSTRAINTS,
        SchedulerAction.SLURM_RELEASE,
    }


def test_the_end_of_the_attempt_is_stored_before_it_is_requeued(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    assert attempt.end is None
    world.advise(attempt)
    world.run(30)
    stored = world.store.attempt(attempt.id)
    assert stored is not None
    assert stored.end is not None
    assert stored.end.state is JobState.FAILED
    requeue = world.store.actions(attempt.id)[0]
    assert stored.end.learned_at <= requeue.started_at


def test_the_journal_is_written_before_each_command_that_leaves_something(world: World) -> None:
    job = failed(world, excluded=("gpu-004",))
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.run(30)
    kinds = [entry.kind for entry in world.journal.entries()]
    assert kinds[:2] == [JournalKind.WINDOW, JournalKind.EXCLUDE]
    line = world.journal.entries()[1]
    assert line.user_exclusions == ("gpu-004",)
    assert line.ours == ("gpu-001",)
    assert line.restarts_expected == 1
    assert world.excluded(job) == ("gpu-001", "gpu-004")


def test_every_command_and_outcome_is_in_the_trail_to_the_letter(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.run(30)
    events = world.store.audit(AuditFilter(attempt_id=attempt.id), 0, 100)
    done = [e for e in events if e.kind is AuditKind.DONE]
    assert [e.type for e in done] == ["action.requeue", "action.update"]
    assert f'"{job}"' in done[0].payload
    assert any(e.type == "advice.outcome" and e.kind is AuditKind.CONFIRMED for e in events)
    numbers = [e.number for e in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@pytest.mark.parametrize(
    "shut",
    [
        {"mode": Mode.MONITOR},
        {"acknowledge_scheduler_actions": False},
        {"partitions": ()},
        {"owned_cluster_name": "other"},
    ],
)
def test_with_a_gate_closed_nothing_is_sent_and_nothing_follows_its_opening(
    world: World, shut: dict[str, object]
) -> None:
    closed = replace(world.deployment, **shut)  # type: ignore[arg-type]
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001", deployment=closed)
    world.controller = world.another(deployment=closed)
    world.run(5)
    assert world.outcome(attempt) == "ABANDONED NOT_PERMITTED"
    world.controller = world.another()
    for _ in range(10):
        world.turn()
    assert world.verbs() == []


def test_an_owner_who_opts_out_before_the_command_is_heard(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.cluster.jobs[job].comment = '{"middlewatch":{"environment":"sim","mode":"off"}}'
    world.run(5)
    assert world.outcome(attempt) == "ABANDONED NOT_PERMITTED"
    assert world.verbs() == []


def test_an_operators_hold_in_the_window_stays_and_is_waited_for(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.turn(0.2)
    world.cluster.hold(job, by_operator=True)
    for _ in range(30):
        world.turn()
    assert world.view(job).held
    assert world.outcome(attempt) == "PENDING OPERATOR_HOLD"
    assert world.excluded(job) == ("gpu-001",)
    world.cluster.release(job)
    world.run(30)
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert "release" not in world.verbs()


def test_a_lost_reply_is_not_followed_by_a_second_requeue(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.faults.commands = deque([Doom(Fate.REPLY_LOST)])
    world.advise(attempt, "gpu-001")
    world.run(90)
    assert world.view(job).restarts == 1
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert world.verbs().count("requeue") == 1


def test_a_lost_reply_in_a_short_window_is_fenced_and_the_fence_is_lifted(tmp_path: Path) -> None:
    world = World(tmp_path, SimulatedConfig(begin_delay_s=18.0))
    job = failed(world)
    world.cluster.jobs[job].start = sleeper(3_600)
    attempt = world.attempt(job)
    world.faults.commands = deque([Doom(Fate.REPLY_LOST)])
    world.advise(attempt, "gpu-001")
    world.run(90)
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert world.view(job).restarts == 1
    assert [argv[-1] for argv in (c.argv for c in world.issued) if "update" in argv] == [
        "Requeue=0",
        "Requeue=1",
    ]
    detail = world.scheduler.detail(job)
    assert detail.value.requeueable is True  # type: ignore[union-attr]
    world.store.close()


def test_a_requeue_that_takes_effect_late_does_not_kill_the_successor(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.faults.commands = deque([Doom(Fate.LATE, after_s=8.0)])
    world.advise(attempt, "gpu-001")
    world.run(120)
    assert world.view(job).restarts == 1
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"


def test_a_controller_killed_between_record_and_reply_leaves_a_recovery_that_goes_on(
    world: World,
) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.turn(0.1)
    first = world.store.actions(attempt.id)[0]
    killed = replace(first, answered=Answered.IN_FLIGHT, ended_at=None, exit_code=None)
    world.store.apply(Change(actions=(killed,)))
    world.controller = world.another()
    world.run(120)
    assert world.view(job).restarts == 1
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"


def test_two_controllers_do_not_act_for_one_cluster(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    other = world.another("c2")
    assert world.controller.tick(world.clock.now()).leader
    assert not other.tick(world.clock.now()).leader
    world.run(30)
    assert world.verbs() == ["requeue", "update"]
    world.wait(61)
    assert other.tick(world.clock.now()).leader


def test_exclusions_that_leave_no_node_are_shortened_again(world: World) -> None:
    job = failed(world, excluded=("gpu-004",))
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001", "gpu-002")
    world.run(60)
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert "gpu-004" in world.excluded(job)
    assert world.view(job).state is JobState.RUNNING


def test_a_job_that_completed_between_look_and_command_is_taken_back(world: World) -> None:
    job = world.submit(sleeper(20, Exit(0)), nodes=2)
    attempt = world.attempt(job)
    advice = world.advise(attempt, may_end_running=True)
    # The look shows it running; it completes; the requeue revives it.
    look = world.scheduler.look([job])
    world.wait(25)
    assert world.view(job).state is JobState.COMPLETED
    world.cluster.requeue(job)
    requeue = Action(ActionKind.REQUEUE, job, "restart")
    row = look.value.jobs[0]  # type: ignore[union-attr]
    world.store.apply(Change(actions=(planned(advice, requeue, 0, row, world.cluster.now),)))
    world.run(60)
    assert world.outcome(attempt) == "ABANDONED REVIVED_IN_ERROR"
    assert world.view(job).state is JobState.CANCELLED
    alarms = world.store.audit(AuditFilter(level=AuditLevel.ALARM.value), 0, 10)
    assert alarms


def test_a_short_window_takes_a_marked_requeue_hold_and_lets_it_go(tmp_path: Path) -> None:
    world = World(tmp_path, SimulatedConfig(begin_delay_s=6.0))
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.run(60)
    assert world.verbs() == ["requeuehold", "update", "release"]
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert JournalKind.HOLD in {entry.kind for entry in world.journal.entries()}
    world.store.close()


def test_advice_that_breaks_its_handling_does_not_keep_the_others_waiting(world: World) -> None:
    class Breaking(SimulatedScheduler):
        def detail(self, job_id: str) -> Answer[JobDetail]:
            if job_id == broken:
                raise ValueError(f"nobody foresaw job {job_id}")
            return super().detail(job_id)

    broken, good = failed(world), failed(world)
    world.scheduler = Breaking(world.cluster, CLUSTER, faults=world.faults)
    world.controller = world.another()
    first, second = world.attempt(broken), world.attempt(good)
    world.advise(first, "gpu-001")
    world.advise(second, "gpu-002")
    report = world.turn()
    assert f"{broken}: nobody foresaw" in report.problem
    world.run(30)
    assert world.outcome(second) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert world.view(broken).restarts == 0


def test_drain_starts_nothing_new_and_lets_go_what_is_held(world: World) -> None:
    waiting, held = failed(world), failed(world)
    first, second = world.attempt(waiting), world.attempt(held)
    world.advise(second, "gpu-001")
    world.turn(0.2)
    world.advise(first, "gpu-001")
    for _ in range(40):
        if world.controller.drain(world.clock.now()):
            break
        world.wait(0.5)
    else:
        pytest.fail("something of ours still stands")
    assert world.verbs() == ["requeue", "update"]
    assert world.view(waiting).state is JobState.FAILED
    obligations = standing(world.journal.entries())
    assert all(o.hold is None for o in obligations)


def test_the_watchdog_still_knows_our_exclusions_once_the_successor_runs(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.run(30)
    assert world.view(job).state is JobState.RUNNING
    (owed,) = standing(world.journal.entries())
    assert owed.exclude is not None
    assert owed.exclude.ours == ("gpu-001",)
    assert (owed.hold, owed.window, owed.fence) == (None, None, None)


def test_slurms_line_at_the_end_of_a_long_log_is_found_behind_a_thousand_others(
    world: World,
) -> None:
    job = world.submit(TRAINS, nodes=2)
    attempt = world.attempt(job)
    lines = [f"NaN in gradient {number}" for number in range(1200)]
    lines.append(f"slurmstepd: error: *** JOB {job} ON n1 CANCELLED AT 2026-11-30T03:00:00 ***")
    for number, line in enumerate(lines):
        source = Source(SourceKind.LOG, "/log", str(number))
        signal = Signal(
            key=f"{number:064x}",
            attempt_id=attempt.id,
            kind=SignalKind.CASCADE_LINE,
            source=source,
            happened_at=world.cluster.now,
            learned_at=world.cluster.now,
            pattern_id=f"p{number // 40}",
            excerpt=line,
        )
        world.store.apply(Change(signals=(signal,)))
    world.advise(attempt, "gpu-001", may_end_running=True)
    world.run(60)
    assert world.verbs() == ["requeue", "scancel"]
    assert world.outcome(attempt) == "ABANDONED REVIVED_IN_ERROR"


def test_a_requeue_that_a_hung_slurmctld_carries_out_after_its_first_answer_is_not_repeated(
    world: World,
) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.faults.commands = deque([Doom(Fate.LATE, after_s=206)])
    world.turn()
    world.faults.unreachable = True
    for _ in range(10):
        world.turn(20)
    world.faults.unreachable = False
    world.turn(1)
    assert world.verbs() == ["requeue"]
    world.run(120)
    assert world.verbs().count("requeue") == 1
    assert world.view(job).restarts == 1
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"


def test_terminated_cancels_and_is_confirmed(world: World) -> None:
    job = world.submit(TRAINS, nodes=2)
    attempt = world.attempt(job)
    world.advise(attempt, desired=DesiredState.TERMINATED, may_end_running=True)
    world.run(30)
    assert world.verbs() == ["scancel"]
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"


def test_released_lets_a_held_submission_go(world: World) -> None:
    job = world.submit(TRAINS, nodes=1, hold=True)
    attempt = world.attempt(job)
    world.advise(attempt, desired=DesiredState.RELEASED)
    world.run(30)
    assert world.verbs() == ["release"]
    assert world.view(job).state is JobState.RUNNING


def test_constraints_reach_a_pending_job_and_never_a_running_one(world: World) -> None:
    runs = world.submit(TRAINS, nodes=4, slots=8)
    waits = world.submit(TRAINS, nodes=2, slots=8, excluded=("gpu-004",))
    first, second = world.attempt(runs), world.attempt(waits)
    world.advise(first, "gpu-001", desired=DesiredState.CONSTRAINED)
    world.advise(second, "gpu-001", desired=DesiredState.CONSTRAINED)
    world.run(30)
    assert world.outcome(first) == "ABANDONED TARGET_RUNNING"
    assert world.outcome(second) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert world.excluded(waits) == ("gpu-001", "gpu-004")


def test_a_scheduler_that_cannot_be_seen_moves_nothing(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.turn()
    world.faults.unreachable = True
    world.advise(attempt, "gpu-001")
    for _ in range(10):
        world.turn()
    assert world.verbs() == []
    world.faults.unreachable = False
    world.run(60)
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"


def test_a_job_that_ended_by_a_person_meanwhile_is_left(world: World) -> None:
    job = world.submit(TRAINS, nodes=2)
    attempt = world.attempt(job)
    world.advise(attempt, may_end_running=True)
    world.cluster.cancel(job, by="1000")
    world.wait(2)
    world.run(30)
    assert world.outcome(attempt) == "ABANDONED TARGET_ENDED"
    assert world.verbs() == []


class SlowDisk:
    """A journal whose first lines take two seconds each."""

    def __init__(self, world: World, lines: int) -> None:
        self._world = world
        self._journal = world.journal
        self._left = lines

    def append(self, entry: JournalEntry) -> None:
        if self._left > 0:
            self._left -= 1
            self._world.wait(2)
        self._journal.append(entry)

    def entries(self) -> tuple[JournalEntry, ...]:
        return self._journal.entries()


def controller_with(world: World, **ports: Any) -> Controller:
    given: dict[str, Any] = {
        "store": world.store,
        "scheduler": world.scheduler,
        "journal": world.journal,
        "clock": world.clock,
        "deployment": world.deployment,
        "policy": world.policy,
        "holder": "c1",
    }
    return Controller(**{**given, **ports})


def test_a_requeue_is_not_sent_when_its_look_has_grown_old_on_a_slow_disk(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.controller = controller_with(world, journal=SlowDisk(world, 1))
    world.turn()
    assert world.verbs() == []
    (record,) = world.store.actions(attempt.id)
    assert record.answered is Answered.REFUSED
    assert "too old" in record.text
    world.run(30)
    assert world.verbs() == ["requeue", "update"]
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"


class Unreadable:
    """A scheduler that shows its jobs and not what their users wrote."""

    def __init__(self, world: World) -> None:
        self._scheduler = world.scheduler
        self._now = world.clock.now

    def detail(self, job_id: str) -> Answer[JobDetail]:
        return Unknown("squeue timed out", self._now())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)


@pytest.mark.parametrize("desired", [DesiredState.RESTARTED, DesiredState.TERMINATED])
def test_nothing_new_is_done_to_a_job_whose_opt_in_cannot_be_read(
    world: World, desired: DesiredState
) -> None:
    job = world.submit(TRAINS, nodes=2)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001", desired=desired, may_end_running=True)
    world.controller = controller_with(world, scheduler=Unreadable(world))
    world.run(5)
    assert world.verbs() == []
    assert world.outcome(attempt) == "PENDING UNKNOWN_STATE"
