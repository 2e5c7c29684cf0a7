"""The smallest rights with which the watchdog does each of the things that it does, on a real Slurm:
those of the jobs' owner, or an Operator's. With fewer it says what is missing. See docs/watchdog.md."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.lab import commandlog
from middlewatch.lab.cluster import Cluster
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.wiring import presence
from middlewatch.wiring.watchdog_process import WatchdogSpec
from tests.identities import private_data, runnable_by
from tests.integration.watchdog.guarding import eventually
from tests.integration.watchdog.test_on_slurm import Holder
from tests.labfixture import ReleaseLab
from tests.slurmrestd import serving
from tests.sshd import running

pytestmark = pytest.mark.slurm
PATIENCE_S = 400.0
"""A look at one job takes ten commands on the oldest release, each an interpreter behind a gate."""
_numbers = itertools.count(1)


class Alone:
    """A watchdog run by one user over a state directory of that user's, and nothing beside it."""

    def __init__(self, lab: Cluster, user: str, acting: str = "") -> None:
        """``acting``: who runs the watchdog, where it is not the directory's owner."""
        self.lab, self.user, self.acting = lab, user, acting or user
        self.folder = lab.folder / f"alone-{next(_numbers)}"
        self.folder.mkdir()
        self.state = self.folder / "state"
        self.state.mkdir(mode=0o700)
        self.holder = Holder(lab, self.state)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def spec(self) -> WatchdogSpec:
        config = WatchdogConfig(max_hold_s=300, interval_s=0.5, spacing_s=0.2)
        return WatchdogSpec(self.state, environment="test", config=config)

    def popen(self, argv: list[str], **more: Any) -> subprocess.Popen[bytes]:
        runnable = runnable_by(self.acting)
        return subprocess.Popen(
            [runnable.python, *argv],
            env={**self.lab.env(), **runnable.env, "HOME": str(self.folder)},
            cwd="/",
            user=self.acting,
            group=self.folder.stat().st_gid,
            extra_groups=[],
            **more,
        )

    def begin(self, spec: WatchdogSpec | None = None) -> subprocess.Popen[bytes]:
        argv = ["-m", "middlewatch.wiring.watchdog_process", *(spec or self.spec).argv()]
        for path in (self.folder, self.state, *self.state.iterdir()):
            shutil.chown(path, self.user)
        with (self.folder / "said").open("ab") as said:
            self._process = self.popen(argv, stderr=said)
        return self._process

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def doctor(self) -> list[dict[str, Any]]:
        argv = ["-m", "middlewatch", "doctor", "--json", "--state-dir", str(self.state)]
        out, _ = self.popen(argv, stdout=subprocess.PIPE).communicate()
        return list(json.loads(out)["findings"])

    def end(self) -> None:
        print(self.said() if (self.folder / "said").exists() else "")  # shown where a test fails
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder)


@pytest.fixture(params=["22.05", "24.11", "newest"])
def dead(request: pytest.FixtureRequest, release_lab: ReleaseLab) -> Iterator[Cluster]:
    """A lab without slurmdbd, and with whatever can be hidden hidden."""
    lab = release_lab(request.param)
    with private_data(lab, "jobs", "users", "accounts", "usage", "nodes", "partitions"):
        lab.stop_daemon("slurmdbd")
        try:
            yield lab
        finally:
            lab.start_daemon("slurmdbd")
            lab.start_daemon("slurmctld")


class Owed(NamedTuple):
    """What a watchdog is to let go: a hold, a fence, exclusions that leave no node."""

    alone: Alone
    held: str
    fenced: str
    impossible: str
    users_own: str


def owed_to(alone: Alone) -> Owed:
    holder = alone.holder
    impossible, users_own = holder.made_impossible(within_s=0)
    held, fenced = holder.running(), holder.running()
    holder.hold(held, within_s=1)
    holder.fence(fenced, within_s=0)
    return Owed(alone, held, fenced, impossible, users_own)


def test_owner_and_operator_let_go_all_that_is_ours_with_everything_else_dead(
    dead: Cluster,
) -> None:
    lab = dead
    both = [Alone(lab, user) for user in (lab.spec.job_users[0], lab.spec.operator)]
    try:
        owed = [owed_to(alone) for alone in both]
        lab.stop_daemon("slurmctld")
        for alone in both:
            alone.begin()
        for alone in both:
            eventually(lambda alone=alone: "cannot be seen" in alone.said(), PATIENCE_S)
        lab.start_daemon("slurmctld")
        for one in owed:
            lab.wait_state(one.held, "RUNNING", timeout=PATIENCE_S)
            lab.wait_state(one.impossible, "RUNNING", timeout=PATIENCE_S)
            eventually(lambda one=one: lab.job(one.fenced)["Requeue"] == "1", PATIENCE_S)
            assert lab.job(one.impossible)["ExcNodeList"] == one.users_own
        for one in owed:
            jobs = {one.held, one.fenced, one.impossible}
            about = [
                command
                for command in commandlog.commands(lab.folder)
                if command.changing and command.argv[2].removeprefix("jobid=") in jobs
            ]
            assert {command.uid for command in about} == {one.alone.state.stat().st_uid}
            assert {command.argv[1] for command in about} == {"update", "release"}
    finally:
        for alone in both:
            alone.end()


def test_somebody_else_is_refused_and_it_says_which_right_is_missing(lab: Cluster) -> None:
    alone = Alone(lab, lab.spec.job_users[1])
    try:
        held = alone.holder.running()
        alone.holder.hold(held, within_s=0)
        alone.begin()
        eventually(lambda: "as the job's owner or as an Operator" in alone.said(), PATIENCE_S)
        assert lab.job(held)["Priority"] == "0"
        seen = eventually(lambda: presence.read(alone.state / presence.WATCHDOG_ALIVE))
        eventually(
            lambda: (
                (seen := presence.read(alone.state / presence.WATCHDOG_ALIVE)) is not None
                and f"refused={held}" in seen.note
            ),
            PATIENCE_S,
        )
        assert presence.alive(seen)
        found = alone.doctor()
        said = {one["text"]: one["level"] for one in found if one["check"] == "watchdog"}
        assert said[f"Slurm refuses to let it let go: job {held}"] == "fail"
        assert said[f"the journal holds jobs that this user may not change: {held}"] == "fail"
    finally:
        alone.end()


def test_a_state_directory_of_somebody_else_is_refused_with_its_name(lab: Cluster) -> None:
    alone = Alone(lab, lab.spec.job_users[0], acting=lab.spec.operator)
    try:
        assert alone.begin().wait(60) == 1
        assert f"state directory {alone.state} cannot be used" in alone.said()
    finally:
        alone.end()


def test_a_gate_of_its_own_lets_it_let_go_and_nothing_more(lab: Cluster) -> None:
    alone = Alone(lab, "root")
    conf = ("--conf", lab.env()["SLURM_CONF"], "--bin", str(lab.layout.bin))
    try:
        with running("--watchdog-only", *conf) as server:
            owed = owed_to(alone)
            alone.begin(replace(alone.spec, ssh=server.target.to_json()))
            for job in (owed.held, owed.impossible):
                lab.wait_state(job, "RUNNING", timeout=PATIENCE_S)
            eventually(lambda: lab.job(owed.fenced)["Requeue"] == "1", PATIENCE_S)
            gate = SshCommands(SystemClock(), server.target)
            try:
                done = gate.run(("scontrol", "requeue", owed.held), 60.0)
                assert gate.reach() == ""
                assert gate.watchdog_only
            finally:
                gate.close()
            assert "--watchdog-only" in done.said
            assert lab.job(owed.held)["Restarts"] == "1"
            assert lab.job(owed.impossible)["ExcNodeList"] == owed.users_own
    finally:
        alone.end()


def test_through_a_slurmrestd_that_can_it_lets_go_without_a_command(
    release_lab: ReleaseLab,
) -> None:
    lab = release_lab("newest")
    alone = Alone(lab, "root")
    try:
        with serving(lab) as server:
            owed = owed_to(alone)
            commandlog.clear(lab.folder)
            alone.begin(replace(alone.spec, rest=server.target.to_json()))
            lab.wait_state(owed.held, "RUNNING", timeout=PATIENCE_S)
            lab.wait_state(owed.impossible, "RUNNING", timeout=PATIENCE_S)
            eventually(lambda: lab.job(owed.fenced)["Requeue"] == "1", PATIENCE_S)
            assert lab.job(owed.impossible)["ExcNodeList"] == owed.users_own
            assert commandlog.commands(lab.folder) == ()
    finally:
        alone.end()
