"""The watchdog's rounds on the simulated cluster, in virtual time, with a real journal file."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.adapters.journal.file import FileJournal
from middlewatch.lab.simulated.faults import Doom, Fate
from middlewatch.lab.simulated.program import sleeper
from middlewatch.lab.simulated.records import SimulatedConfig
from middlewatch.lab.simulated.scheduler import SimulatedCommand, SimulatedScheduler
from middlewatch.lab.simulated.slurmctld import SimulatedCluster
from middlewatch.model.gates import Mode
from middlewatch.model.identity import ClusterId
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.scheduler import JobState
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.reconciliation.holds import standing
from middlewatch.services.watchdog.service import Round, Watchdog

CONFIG = WatchdogConfig(max_hold_s=300, interval_s=5, spacing_s=1, per_tick=2)


@dataclass
class World:
    """A cluster, its scheduler port, a journal and a watchdog, with the test as the controller."""

    folder: Path
    mode: Mode = Mode.ACTION
    cluster: SimulatedCluster = field(default_factory=SimulatedCluster)
    commands: list[SimulatedCommand] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = SimulatedScheduler(
            self.cluster, ClusterId("slurm", "test"), observer=self.commands.append
        )
        self.journal = FileJournal(self.folder)
        self.log = logging.getLogger("test.watchdog")
        self.watchdog = self.restarted()

    def restarted(self) -> Watchdog:
        self.watchdog = Watchdog(self.scheduler, self.journal, CONFIG, self.mode, self.log)
        return self.watchdog

    @property
    def now(self) -> datetime:
        return self.cluster.now

    def pass_time(self, seconds: float) -> None:
        self.cluster.advance(self.now + timedelta(seconds=seconds))

    def running_job(self, **options: object) -> str:
        job_id = self.cluster.submit(sleeper(), **options)  # type: ignore[arg-type]
        self.pass_time(2)
        assert self.cluster.jobs[job_id].state is JobState.RUNNING
        return job_id

    def note(self, kind: JournalKind, job_id: str, *, within_s: float, **more: object) -> None:
        job = self.cluster.jobs[job_id]
        turning = kind in (JournalKind.HOLD, JournalKind.WINDOW)
        self.journal.append(
            JournalEntry(
                kind,
                self.now,
                self.cluster.config.cluster_name,
                job_id,
                job.submitted_at,
                job.restarts + (1 if turning else 0),
                release_by=self.now + timedelta(seconds=within_s),
                **more,  # type: ignore[arg-type]
            )
        )

    def held_job(self, within_s: float = 60) -> str:
        """A running job that we requeue-hold, by the book."""
        job_id = self.running_job()
        self.note(JournalKind.HOLD, job_id, within_s=within_s)
        self.cluster.requeue(job_id, hold=True, special=True)
        self.pass_time(1)
        return job_id

    def rounds(self, seconds: float, *, leaving: bool = False) -> list[Round]:
        """Ticks every five seconds for that long."""
        found = []
        until = self.now + timedelta(seconds=seconds)
        while self.now < until:
            found.append(self.watchdog.tick(self.now, leaving=leaving))
            self.pass_time(5)
        return found

    def issued(self) -> list[str]:
        return [" ".join(command.argv) for command in self.commands]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_empty_journal_asks_the_scheduler_nothing(world: World) -> None:
    world.scheduler.faults.unreachable = True
    assert world.watchdog.tick(world.now) == Round()
    assert Round().quiet


def test_a_hold_that_nobody_lets_go_is_released_at_its_deadline_and_the_job_runs(
    world: World,
) -> None:
    job_id = world.held_job(within_s=60)
    world.rounds(45)
    assert world.commands == []
    world.rounds(30)
    assert world.issued() == [
        f"scontrol update jobid={job_id} StartTime=now",
        f"scontrol release {job_id}",
    ]
    assert world.cluster.jobs[job_id].state is JobState.RUNNING
    assert world.cluster.jobs[job_id].restarts == 1


def test_what_was_let_go_is_settled_and_never_touched_again(world: World) -> None:
    world.held_job(within_s=20)
    assert not any(found.quiet for found in world.rounds(20))
    last = world.rounds(40)[-1]
    assert last.quiet
    assert standing(world.journal.entries()) == ()
    before = len(world.commands)
    world.rounds(60)
    assert len(world.commands) == before


def test_an_operators_hold_on_top_is_left_and_does_not_keep_a_leaver(world: World) -> None:
    job_id = world.held_job(within_s=20)
    world.cluster.hold(job_id, by_operator=True)
    found = world.rounds(60)
    assert world.commands == []
    assert found[-1].left_to_others == 1
    assert not found[-1].quiet
    assert found[-1].may_leave


def test_an_operator_who_lifts_his_hold_gets_ours_lifted_too(world: World) -> None:
    job_id = world.held_job(within_s=20)
    world.cluster.hold(job_id, by_operator=True)
    world.rounds(60)
    world.cluster.jobs[job_id].hold = "user"  # scontrol uhold
    world.rounds(75)
    assert world.issued()[-1] == f"scontrol release {job_id}"


def test_somebody_elses_requeue_hold_is_left(world: World) -> None:
    ours = world.held_job(within_s=20)
    theirs = world.running_job()
    world.cluster.requeue(theirs, hold=True)
    marked = world.running_job()
    world.cluster.requeue(marked, hold=True, special=True)
    world.rounds(60)
    assert {command.argv[-1] for command in world.commands if "release" in command.argv} == {ours}
    assert world.cluster.jobs[theirs].held
    assert world.cluster.jobs[marked].held


def test_a_hold_that_its_owner_let_go_is_left(world: World) -> None:
    job_id = world.held_job(within_s=30)
    world.cluster.release(job_id, privileged=False)
    world.rounds(90)
    assert world.commands == []
    assert standing(world.journal.entries()) == ()


def test_monitor_mode_says_and_does_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.MONITOR)
    job_id = world.held_job(within_s=20)
    found = world.rounds(60)
    assert world.commands == []
    assert found[-1].would
    assert {action.job_id for action in found[-1].would} == {job_id}


def test_while_the_scheduler_cannot_be_seen_nothing_is_done(world: World) -> None:
    world.held_job(within_s=20)
    world.scheduler.faults.unreachable = True
    found = world.rounds(60)
    assert world.commands == []
    assert [(one.standing, one.may_leave) for one in found[1:]] == [(None, False)] * len(found[1:])
    world.scheduler.faults.unreachable = False
    world.rounds(15)
    assert len(world.commands) == 2


def test_a_lost_answer_is_not_repeated_before_the_time_out(world: World) -> None:
    job_id = world.held_job(within_s=200)
    world.pass_time(200)
    world.scheduler.faults.commands.append(Doom(Fate.NEVER))
    world.rounds(60)
    times = [command.at for command in world.commands]
    assert world.issued() == [f"scontrol release {job_id}"] * 2
    assert (times[1] - times[0]).total_seconds() >= 15
    assert world.cluster.jobs[job_id].state is JobState.RUNNING


def test_a_refused_command_is_not_hammered(world: World) -> None:
    world.held_job(within_s=200)
    world.pass_time(200)
    refusing = world.scheduler
    world.cluster.release = _refuse  # type: ignore[method-assign,assignment]
    world.rounds(119)
    assert len(world.commands) == 2
    assert refusing is world.scheduler


def _refuse(job_id: str, *, privileged: bool = True) -> None:
    from middlewatch.lab.simulated.slurmctld import NotDone

    raise NotDone(f"Access/permission denied for job {job_id}")


def test_many_are_let_go_one_after_the_other(world: World) -> None:
    jobs = [world.held_job(within_s=300 - 3 * number) for number in range(8)]
    world.pass_time(300)
    found = world.watchdog.tick(world.now)
    assert len(found.done) == CONFIG.per_tick
    world.rounds(60)
    assert all(world.cluster.jobs[job_id].state is JobState.RUNNING for job_id in jobs)
    releases = [command.at for command in world.commands if "release" in command.argv]
    assert len(releases) == len(jobs)
    assert max(releases.count(at) for at in releases) <= CONFIG.per_tick


def test_a_job_that_our_exclusions_made_impossible_loses_them(world: World) -> None:
    job_id = world.running_job(excluded=("gpu-001",))
    world.cluster.requeue(job_id)
    world.pass_time(2)
    ours = ("gpu-002", "gpu-003", "gpu-004")
    world.note(JournalKind.EXCLUDE, job_id, within_s=60, user_exclusions=("gpu-001",), ours=ours)
    world.cluster.update(job_id, excluded=("gpu-001", *ours), start_now=True)
    world.pass_time(2)
    assert world.cluster.jobs[job_id].reason == "BadConstraints"
    world.rounds(50)
    assert world.commands == []
    world.rounds(30)
    assert world.issued() == [f"scontrol update jobid={job_id} ExcNodeList=gpu-001"]
    assert world.cluster.jobs[job_id].state is JobState.RUNNING


def test_a_job_impossible_by_its_users_own_list_is_left(world: World) -> None:
    job_id = world.running_job()
    world.cluster.requeue(job_id)
    world.pass_time(2)
    world.note(JournalKind.EXCLUDE, job_id, within_s=20, ours=("gpu-001",))
    world.cluster.update(job_id, excluded=world.cluster.config.nodes, start_now=True)
    found = world.rounds(60)
    assert world.commands == []
    assert found[-1].left_to_others == 1


def test_a_fence_is_taken_away_from_the_running_successor(world: World) -> None:
    job_id = world.running_job()
    world.note(JournalKind.FENCE, job_id, within_s=30, owner_requeue=True)
    world.cluster.update(job_id, requeue=False)
    world.rounds(40)
    assert world.issued() == [f"scontrol update jobid={job_id} Requeue=1"]
    assert world.cluster.jobs[job_id].requeue
    assert world.rounds(30)[-1].quiet


def test_a_window_ends_by_itself_unless_its_deadline_is_earlier(tmp_path: Path) -> None:
    config = SimulatedConfig(begin_delay_s=7200)
    world = World(tmp_path, cluster=SimulatedCluster(config))
    job_id = world.running_job()
    world.note(JournalKind.WINDOW, job_id, within_s=120)
    world.cluster.requeue(job_id)
    world.rounds(110)
    assert world.commands == []
    world.rounds(20)
    assert world.issued() == [f"scontrol update jobid={job_id} StartTime=now"]
    assert world.cluster.jobs[job_id].state is JobState.RUNNING


def test_a_leaver_lets_holds_go_before_their_deadline(world: World) -> None:
    world.held_job(within_s=300)
    assert world.rounds(10)[-1].standing == 1
    found = world.rounds(45, leaving=True)
    assert world.issued()[-1].startswith("scontrol release")
    assert found[-1].may_leave


def test_an_exclusion_on_a_running_job_keeps_nobody(world: World) -> None:
    job_id = world.running_job()
    world.note(JournalKind.EXCLUDE, job_id, within_s=20, ours=("gpu-004",))
    assert world.rounds(30)[-1].quiet
    assert len(standing(world.journal.entries())) == 1


def test_a_new_watchdog_goes_on_from_the_journal_alone(world: World) -> None:
    job_id = world.held_job(within_s=60)
    world.rounds(61)
    assert world.issued() == [f"scontrol update jobid={job_id} StartTime=now"]
    world.restarted()
    world.rounds(10)
    assert world.issued()[1:] == [f"scontrol release {job_id}"]


def test_a_command_that_was_under_way_is_waited_for(world: World) -> None:
    job_id = world.running_job()
    world.note(JournalKind.HOLD, job_id, within_s=20)
    world.pass_time(21)
    world.cluster.after(12, lambda: world.cluster.requeue(job_id, hold=True, special=True))
    world.rounds(60)
    assert world.cluster.jobs[job_id].state is JobState.RUNNING
    assert world.cluster.jobs[job_id].restarts == 1


def test_another_clusters_lines_are_left_and_keep_the_watchdog(world: World) -> None:
    job_id = world.running_job()
    world.journal.append(
        JournalEntry(JournalKind.HOLD, world.now, "elsewhere", job_id, world.now, 1)
    )
    found = world.rounds(400)
    assert world.commands == []
    assert found[-1].standing == 1


def test_a_line_that_names_no_job_stops_nobody(world: World) -> None:
    job_id = world.held_job(within_s=20)
    world.journal.append(
        JournalEntry(JournalKind.HOLD, world.now, "simulated", "7;rm", world.now, 1)
    )
    world.rounds(60)
    assert world.issued()[-1] == f"scontrol release {job_id}"


def test_an_unreadable_journal_is_said_and_nothing_is_done(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.journal.path.mkdir()
    found = world.watchdog.tick(world.now)
    assert (found.standing, found.quiet, found.may_leave) == (None, False, False)
    assert found.problems
