"""The watchdog on a real Slurm: what we hold is let go, what others hold is left alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.journal.file import FileJournal
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.lab import commandlog
from middlewatch.lab.cluster import Cluster
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.answer import Known
from middlewatch.model.identity import ClusterId
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.scheduler import JobView
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.wiring import presence
from middlewatch.wiring.watchdog_process import WatchdogSpec
from middlewatch.wiring.watchdog_supervision import Guard, WatchdogSupervisor
from tests.integration.watchdog.guarding import eventually, runs

SCRIPT = "#!/bin/sh\nexec sleep 600\n"


class Holder:
    """The controller's part, played by the test: journal first, then the command."""

    def __init__(self, lab: Cluster, state_dir: Path, commands: Commands | None = None) -> None:
        self.lab = lab
        clock = SystemClock()
        commands = commands or Commands(clock, environ=lab.env(logged=False))
        self.scheduler = SlurmScheduler(ClusterId("slurm", "test"), commands, clock)
        self.journal = FileJournal(state_dir)

    def running(self, *extra: str) -> str:
        job_id = self.lab.submit(SCRIPT, extra=[*extra, "--requeue"])
        self.lab.wait_state(job_id, "RUNNING")
        return job_id

    def view(self, job_id: str) -> JobView:
        look = self.scheduler.look((job_id,))
        assert isinstance(look, Known), look
        found = look.value.job(job_id)
        assert found is not None
        return found

    def note(self, kind: JournalKind, job_id: str, within_s: float, **more: object) -> None:
        view, now = self.view(job_id), datetime.now(UTC)
        self.journal.append(
            JournalEntry(
                kind,
                now,
                self.lab.spec.cluster,
                job_id,
                view.submitted_at,
                view.restarts + (1 if kind is JournalKind.HOLD else 0),
                release_by=now + timedelta(seconds=within_s),
                **more,  # type: ignore[arg-type]
            )
        )

    def do(self, action: Action) -> None:
        done = self.scheduler.perform(action, 15)
        assert done.answered is Answered.DONE, done

    def hold(self, job_id: str, within_s: float) -> None:
        self.note(JournalKind.HOLD, job_id, within_s)
        self.do(Action(ActionKind.REQUEUE_HOLD, job_id, "test"))
        self.lab.wait_state(job_id, "SPECIAL_EXIT")

    def made_impossible(self, within_s: float) -> tuple[str, str]:
        """A job that our exclusions keep from every node, and the node that its user excluded."""
        users_own, *ours = self.lab.nodes[:5]
        job_id = self.running(f"--exclude={users_own}")
        self.do(Action(ActionKind.REQUEUE, job_id, "test"))
        self.lab.wait_state(job_id, "PENDING")
        eventually(lambda: self.view(job_id).reason == "BeginTime")
        self.note(
            JournalKind.EXCLUDE, job_id, within_s, user_exclusions=(users_own,), ours=tuple(ours)
        )
        everything = (users_own, *ours)
        self.do(Action(ActionKind.UPDATE, job_id, "test", exclusions=everything, start_now=True))
        eventually(lambda: self.view(job_id).reason == "BadConstraints")
        return job_id, users_own

    def fence(self, job_id: str, within_s: float) -> None:
        self.note(JournalKind.FENCE, job_id, within_s, owner_requeue=True)
        self.do(Action(ActionKind.UPDATE, job_id, "test", requeueable=False))
        assert self.lab.job(job_id)["Requeue"] == "0"


@pytest.fixture
def holder(lab: Cluster, tmp_path: Path) -> Iterator[Holder]:
    state_dir = tmp_path / "state"
    yield Holder(lab, state_dir)
    seen = presence.read(state_dir / presence.WATCHDOG_ALIVE)
    if seen is not None:
        presence.kill(seen)


def guard(holder: Holder, state_dir: Path) -> int:
    config = WatchdogConfig(max_hold_s=300, interval_s=0.5, spacing_s=0.5)
    spec = WatchdogSpec(
        state_dir,
        environment="test",
        config=config,
        bin_dir=str(holder.lab.layout.bin),
        slurm_conf=str(holder.lab.layout.slurm_conf),
    )
    found = WatchdogSupervisor(spec).ensure(datetime.now(UTC))
    assert (found.guard, found.problem) == (Guard.STARTED, "")
    assert found.pid is not None
    return found.pid


@pytest.mark.slurm
@pytest.mark.slow
def test_holds_of_ours_are_let_go_and_those_of_others_are_not(
    holder: Holder, tmp_path: Path
) -> None:
    lab, state_dir = holder.lab, tmp_path / "state"
    ours = holder.running()
    under_operator = holder.running()
    theirs = holder.running()
    marked_by_others = holder.running()
    fenced = holder.running()
    holder.hold(ours, within_s=10)
    holder.hold(under_operator, within_s=5)
    lab.run(["scontrol", "hold", under_operator])
    lab.run(["scontrol", "requeuehold", theirs], user=lab.spec.job_users[0])
    lab.run(["scontrol", "requeuehold", "State=SpecialExit", marked_by_others])
    holder.fence(fenced, within_s=5)

    pid = guard(holder, state_dir)
    lab.wait_state(ours, "RUNNING", timeout=60)
    assert lab.job(ours)["Restarts"] == "1"
    eventually(lambda: lab.job(fenced)["Requeue"] == "1")
    eventually(lambda: "an operator holds it" in (state_dir / presence.WATCHDOG_LOG).read_text())

    for left in (under_operator, theirs, marked_by_others):
        fields = lab.job(left)
        assert (fields["Priority"], fields["Reason"]) == ("0", "job_requeued_in_held_state")
    changed = [" ".join(one.argv) for one in commandlog.commands(lab.folder) if one.changing]
    about_ours = [text for text in changed if text != f"scontrol update jobid={fenced} Requeue=1"]
    assert about_ours == [
        f"scontrol update jobid={ours} StartTime=now",
        f"scontrol release {ours}",
    ]
    assert len(changed) == 3

    # Nothing of ours is left but what an operator decides about: told to leave, it leaves.
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not runs(pid), 60)


@pytest.mark.slurm
@pytest.mark.slow
def test_a_job_that_our_exclusions_made_impossible_runs_again(
    holder: Holder, tmp_path: Path
) -> None:
    lab = holder.lab
    job_id, users_own = holder.made_impossible(within_s=8)

    guard(holder, tmp_path / "state")
    lab.wait_state(job_id, "RUNNING", timeout=60)
    assert lab.job(job_id)["ExcNodeList"] == users_own
