"""What the simulated Slurm does when something breaks, and how a recovery looks on it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from middlewatch.lab.simulated import (
    Doom,
    Exit,
    Fate,
    SimulatedCluster,
    SimulatedConfig,
    SimulatedScheduler,
    SimulatedTrainer,
    sleeper,
)
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import JobState, JobView

REQUEUE, UPDATE, CANCEL = ActionKind.REQUEUE, ActionKind.UPDATE, ActionKind.CANCEL


class Lab:
    def __init__(self, **config: object) -> None:
        self.cluster = SimulatedCluster(SimulatedConfig(**config))  # type: ignore[arg-type]
        self.port = SimulatedScheduler(self.cluster, ClusterId("slurm", "sim"))

    def wait(self, seconds: float) -> None:
        self.cluster.advance(self.cluster.now + timedelta(seconds=seconds))

    def view(self, job: str) -> JobView:
        answer = self.port.look([job])
        assert isinstance(answer, Known)
        found = answer.value.job(job)
        assert found is not None
        return found

    def do(self, kind: ActionKind, job: str, **fields: object) -> Answered:
        return self.port.perform(Action(kind, job, "", **fields), 10.0).answered  # type: ignore[arg-type]


def test_a_trainer_resumes_from_its_checkpoint_and_passes_the_step_at_which_it_died() -> None:
    lab = Lab()
    trainer = SimulatedTrainer(steps=40, fault_at=25)
    job = lab.cluster.submit(trainer, nodes=2)
    lab.wait(30)
    assert lab.view(job).state is JobState.FAILED
    assert trainer.checkpoint == 20
    assert lab.do(REQUEUE, job) is Answered.DONE
    lab.wait(1.5)
    assert lab.do(UPDATE, job, exclusions=("gpu-002",), start_now=True) is Answered.DONE
    lab.wait(60)
    view = lab.view(job)
    assert (view.state, view.restarts) == (JobState.COMPLETED, 1)
    assert "gpu-002" not in view.node_list
    assert [step for restarts, step in trainer.history if restarts == 1] == list(range(21, 41))


def test_left_alone_a_requeued_job_starts_at_the_end_of_its_begin_time() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper())
    lab.wait(2)
    lab.do(REQUEUE, job)
    lab.wait(120)
    assert lab.view(job).state is JobState.PENDING
    lab.wait(3)
    assert lab.view(job).state is JobState.RUNNING


@pytest.mark.parametrize(("release", "fails"), [("22.05.8", True), ("26.05.5", False)])
def test_a_start_within_the_second_of_the_kill_fails_on_older_releases(
    release: str, fails: bool
) -> None:
    lab = Lab(release=release, sched_interval_s=0.1)
    job = lab.cluster.submit(sleeper(dies_after_s=0.1))
    lab.wait(3)
    lab.do(REQUEUE, job)
    lab.wait(0.15)
    lab.do(UPDATE, job, start_now=True)
    lab.wait(0.5)
    view = lab.view(job)
    assert (view.state is JobState.FAILED) is fails
    assert view.restarts == 1


def test_a_lost_reply_takes_effect_all_the_same() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper())
    lab.wait(2)
    lab.port.faults.commands.append(Doom(Fate.REPLY_LOST))
    assert lab.do(REQUEUE, job) is Answered.NO_ANSWER
    lab.wait(1)
    assert lab.view(job).restarts == 1


def test_a_late_command_takes_effect_after_its_client_has_gone() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper())
    lab.wait(2)
    lab.port.faults.commands.append(Doom(Fate.LATE, 5.0))
    assert lab.do(REQUEUE, job) is Answered.NO_ANSWER
    lab.wait(4)
    assert lab.view(job).restarts == 0
    lab.wait(2)
    assert lab.view(job).restarts == 1


def test_a_command_may_also_never_take_effect() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper())
    lab.wait(2)
    lab.port.faults.commands.append(Doom(Fate.NEVER))
    assert lab.do(REQUEUE, job) is Answered.NO_ANSWER
    lab.wait(60)
    assert lab.view(job).restarts == 0


def test_a_hung_slurmctld_answers_nothing_and_does_everything_when_it_goes_on() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper())
    lab.wait(2)
    lab.port.faults.hung = True
    assert isinstance(lab.port.listing(), Unknown)
    assert isinstance(lab.port.detail(job), Unknown)
    assert lab.do(REQUEUE, job) is Answered.NO_ANSWER
    lab.port.thaw()
    assert lab.view(job).restarts == 1


def test_a_stopped_slurmctld_does_nothing_of_what_it_was_asked() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper())
    lab.wait(2)
    lab.port.faults.unreachable = True
    assert isinstance(lab.port.facts(), Unknown)
    assert lab.do(REQUEUE, job) is Answered.NO_ANSWER
    lab.port.faults.unreachable = False
    lab.wait(1)
    assert lab.view(job).restarts == 0


def test_a_slurmctld_that_comes_back_from_an_older_state_has_forgotten_the_requeue() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper())
    lab.wait(2)
    saved = lab.cluster.remember()
    before = lab.view(job)
    lab.do(REQUEUE, job)
    lab.wait(2)
    assert lab.view(job).restarts == 1
    lab.cluster.roll_back(saved)
    view = lab.view(job)
    assert (view.restarts, view.submitted_at, view.state) == (
        0,
        before.submitted_at,
        JobState.RUNNING,
    )
    facts = lab.port.facts()
    assert isinstance(facts, Known)
    assert facts.value.started_at == lab.cluster.now


def test_a_dead_node_requeues_its_job_and_its_old_processes_write_on(tmp_path: Path) -> None:
    lab = Lab()
    log = tmp_path / "job-%j.out"
    trainer = SimulatedTrainer(steps=1000, fault=None)
    job = lab.cluster.submit(trainer, stdout=log)
    lab.wait(5)
    lab.cluster.kill_node("gpu-001")
    lab.wait(45)
    view = lab.view(job)
    assert (view.state, view.restarts, view.reason) == (JobState.PENDING, 1, "BeginTime")
    steps = len(trainer.history)
    lab.wait(10)
    assert len(trainer.history) > steps
    lab.cluster.mend_node("gpu-001")
    steps = len(trainer.history)
    lab.wait(10)
    assert len(trainer.history) == steps


def test_a_job_that_must_not_be_requeued_ends_with_its_node() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper(), requeue=False)
    lab.wait(2)
    lab.cluster.set_down("gpu-001")
    assert lab.view(job).state is JobState.NODE_FAIL


def test_a_log_is_truncated_by_the_next_attempt_unless_it_is_appended_to(tmp_path: Path) -> None:
    for append in (False, True):
        lab = Lab()
        log = tmp_path / f"{append}.out"
        job = lab.cluster.submit(SimulatedTrainer(), stdout=log, append=append)
        lab.wait(30)
        assert b"ECC" in log.read_bytes()
        lab.do(REQUEUE, job)
        lab.wait(1.5)
        lab.do(UPDATE, job, start_now=True)
        lab.wait(5)
        assert (b"ECC" in log.read_bytes()) is append


def test_an_ended_job_is_forgotten_but_not_by_accounting() -> None:
    lab = Lab(min_job_age_s=10.0)
    job = lab.cluster.submit(sleeper(1.0, Exit(3)))
    lab.wait(20)
    answer = lab.port.look([job])
    assert isinstance(answer, Known)
    assert answer.value.jobs == ()
    assert lab.do(REQUEUE, job) is Answered.REFUSED
    records = lab.port.accounting(job)
    assert isinstance(records, Known)
    assert [record.state for record in records.value] == [JobState.FAILED]


def test_a_time_limit_ends_a_job() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper(), time_limit_s=60)
    lab.wait(70)
    assert lab.view(job).state is JobState.TIMEOUT


def test_a_requeue_of_a_suspended_job_ends_in_an_administrators_hold() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper())
    lab.wait(2)
    lab.cluster.suspend(job)
    lab.do(REQUEUE, job)
    lab.wait(2)
    view = lab.view(job)
    assert (view.state, view.reason, view.priority) == (JobState.PENDING, "JobHeldAdmin", 0)


def test_a_cancel_that_comes_while_the_requeue_is_under_way_wins() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper(dies_after_s=3.0))
    lab.wait(2)
    lab.do(REQUEUE, job)
    lab.do(CANCEL, job)
    lab.wait(5)
    view = lab.view(job)
    assert (view.state, view.restarts) == (JobState.CANCELLED, 1)


def test_a_requeue_undoes_a_cancel_that_is_under_way() -> None:
    lab = Lab()
    job = lab.cluster.submit(sleeper(dies_after_s=3.0))
    lab.wait(2)
    lab.do(CANCEL, job)
    assert lab.do(REQUEUE, job) is Answered.DONE
    lab.wait(5)
    assert (lab.view(job).state, lab.view(job).restarts) == (JobState.PENDING, 1)


def test_the_same_story_is_told_twice_in_the_same_words() -> None:
    told = []
    for _ in range(2):
        lab = Lab()
        lab.cluster.submit(SimulatedTrainer(), nodes=2)
        lab.wait(60)
        told.append(lab.cluster.printed)
    assert told[0] == told[1]
    assert len(told[0]) > 20


def test_a_command_log_shows_what_was_asked_and_what_came_of_it() -> None:
    seen = []
    lab = Lab()
    port = SimulatedScheduler(lab.cluster, ClusterId("slurm", "sim"), observer=seen.append)
    port.perform(Action(REQUEUE, "77", ""), 5.0)
    assert [(c.argv, c.exit_code, c.changing) for c in seen] == [
        (("scontrol", "requeue", "77"), 1, True)
    ]
