"""The scheduler through a real slurmrestd with a token: what it shows is what the commands show, what
it can change it changes, and what it cannot is refused before it is sent."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.rest import RestScheduler, RestTarget
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.lab import packages
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.start import up
from middlewatch.model.action import Action, ActionKind, Answered, CommandResult
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import JobState, JobView
from tests.labfixture import require_slurm

pytestmark = pytest.mark.slurm
HERE = ClusterId("slurm", "rest")


class Rest:
    """A lab whose slurmctld takes tokens, and its slurmrestd on a Unix socket and a port."""

    def __init__(self, lab: Cluster, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.token = folder / "token"
        said = lab.run(["scontrol", "token", "username=root", "lifespan=3600"]).stdout
        self.token.write_text(said.strip().partition("=")[2])
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        nobody = pwd.getpwnam("nobody")
        self.socket = folder / "run" / "rest"
        self.socket.parent.mkdir()
        os.chown(self.socket.parent, nobody.pw_uid, nobody.pw_gid)
        program = packages.program("slurmrestd")
        assert program is not None
        listen = [f"127.0.0.1:{port}", f"unix:{self.socket}"]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [program, "-a", "rest_auth/jwt", *listen],
                env={**lab.env(logged=False), "SLURM_JWT": "daemon"},
                user=nobody.pw_uid,
                group=nobody.pw_gid,
                extra_groups=[],
                cwd="/",
                stderr=log,
                start_new_session=True,
            )
        self.target = RestTarget(
            f"http://127.0.0.1:{port}", "root", str(self.token), lab.spec.cluster
        )
        self.port = self.scheduler(self.target)
        commands = Commands(SystemClock(), environ=lab.env(logged=False))
        self.commands = SlurmScheduler(HERE, commands, SystemClock())
        eventually(lambda: isinstance(self.port.facts(), Known))

    def scheduler(self, target: RestTarget, deadline_s: float = 20.0) -> RestScheduler:
        return RestScheduler(HERE, target, SystemClock(), query_deadline_s=deadline_s)

    def submit(self, *extra: str, body: str = "sleep 600") -> str:
        return self.lab.submit(f"#!/bin/sh\n{body}\n", extra=extra)

    def view(self, job: str) -> JobView | None:
        look = self.port.look([job])
        return look.value.job(job) if isinstance(look, Known) else None

    def act(self, kind: ActionKind, job: str, **fields: object) -> CommandResult:
        return self.port.perform(Action(kind, job, "rest", **fields), 20.0)  # type: ignore[arg-type]


def eventually(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture(scope="module")
def rest() -> Iterator[Rest]:
    require_slurm()
    packages.install(bundle=packages.REST)
    with tempfile.TemporaryDirectory(prefix="mw-rest-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        key = folder / "jwt.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(32))
        shutil.chown(key, "slurm")
        extra = ("AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={key}")
        lab = up(LabSpec(name=f"test-{os.getpid()}-rest", nodes=3, extra=extra))
        made: Rest | None = None
        try:
            made = Rest(lab, folder)
            yield made
        finally:
            if made is not None:
                made.process.kill()
                made.process.wait()
            lab.down()


def test_it_shows_what_the_commands_show(rest: Rest) -> None:
    jobs = [
        rest.submit(),
        rest.submit("--hold"),
        rest.submit("--begin=now+1hour", "--time=10", "--no-requeue"),
        rest.submit(body="exit 3"),
        rest.submit("--array=0-1", "--hold"),
    ]
    jobs.append(rest.submit(f"--dependency=afterok:{jobs[0]}", "--comment=x\nJobId=1"))
    eventually(lambda: (v := rest.view(jobs[3])) is not None and v.ended)
    eventually(lambda: (v := rest.view(jobs[0])) is not None and v.state is JobState.RUNNING)
    # Reasons and priorities move with the scheduler's passes: both are asked until they agree.
    differing: list[tuple[JobView | None, JobView | None]] = []

    def agree() -> bool:
        ours, theirs = rest.port.listing(), rest.commands.listing()
        assert isinstance(ours, Known), ours
        assert isinstance(theirs, Known), theirs
        assert ours.value.cluster_name == theirs.value.cluster_name
        differing[:] = [
            (a, b)
            for job in jobs
            if (a := alike(ours.value.job(job))) != (b := alike(theirs.value.job(job)))
        ]
        return not differing and len(ours.value.jobs) == len(theirs.value.jobs)

    try:
        eventually(agree)
    except AssertionError:
        raise AssertionError(differing) from None
    for job in (jobs[0], jobs[3], jobs[5]):
        assert rest.port.detail(job).value == rest.commands.detail(job).value  # type: ignore[union-attr]
    assert isinstance(rest.port.detail("99999"), Absent)
    # slurmctld tells them in the order of its tables, which need not be the same twice.
    ours, theirs = rest.port.partitions(), rest.commands.partitions()
    assert set(ours.value) == set(theirs.value)  # type: ignore[union-attr]


def alike(view: JobView | None) -> JobView | None:
    """Without what the two ways spell differently: an expected start, and a dependency's words."""
    if view is None:
        return None
    started = view.started_at if view.state is not JobState.PENDING else None
    return replace(view, started_at=started, dependency=view.dependency.partition("(")[0])


def test_an_update_a_release_and_a_cancel_take_effect(rest: Rest) -> None:
    job = rest.submit("--hold", "--begin=now+1hour")
    done = rest.act(ActionKind.UPDATE, job, exclusions=("gpu-001", "gpu-002"), start_now=True)
    assert done.answered is Answered.DONE, done
    assert rest.port.detail(job).value.excluded_nodes == ("gpu-001", "gpu-002")  # type: ignore[union-attr]
    assert rest.act(ActionKind.UPDATE, job, exclusions=()).answered is Answered.DONE
    assert rest.port.detail(job).value.excluded_nodes == ()  # type: ignore[union-attr]
    assert rest.act(ActionKind.RELEASE, job).answered is Answered.DONE
    eventually(lambda: (v := rest.view(job)) is not None and v.state is JobState.RUNNING)
    assert rest.act(ActionKind.CANCEL, job).answered is Answered.DONE
    eventually(lambda: (v := rest.view(job)) is not None and v.state is JobState.CANCELLED)


def test_what_slurmctld_declines_is_a_refusal(rest: Rest) -> None:
    job = rest.submit("--hold")
    unknown = rest.act(ActionKind.UPDATE, job, exclusions=("nosuch-1",))
    assert unknown.answered is Answered.REFUSED, unknown
    assert rest.act(ActionKind.CANCEL, "99999").answered is Answered.REFUSED


@pytest.mark.parametrize("kind", [ActionKind.REQUEUE, ActionKind.REQUEUE_HOLD])
def test_a_requeue_is_refused_before_it_is_sent(rest: Rest, kind: ActionKind) -> None:
    done = rest.act(kind, "1")
    assert done.answered is Answered.REFUSED
    assert "cannot requeue" in done.text
    assert done.argv == ()


def test_a_fence_is_refused_because_it_would_be_answered_and_not_done(rest: Rest) -> None:
    done = rest.act(ActionKind.UPDATE, "1", requeueable=False)
    assert done.answered is Answered.REFUSED
    assert "may be requeued" in done.text


def test_its_unix_socket_does_as_well(rest: Rest) -> None:
    by_socket = rest.scheduler(replace(rest.target, url=f"unix:{rest.socket}"))
    assert isinstance(by_socket.listing(), Known)


def test_a_wrong_token_and_another_cluster_show_nothing(rest: Rest, tmp_path: Path) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("eyJhbGciOiJIUzI1NiJ9.e30.x")
    assert isinstance(rest.scheduler(replace(rest.target, token_file=str(wrong))).facts(), Unknown)
    assert isinstance(rest.scheduler(replace(rest.target, token_file="/nowhere")).facts(), Unknown)
    rest.submit("--hold")
    other = rest.scheduler(replace(rest.target, cluster_name="another")).listing()
    assert isinstance(other, Unknown)
    assert "not of another" in other.why


def test_a_silent_slurmctld_is_no_answer_and_no_empty_listing(rest: Rest) -> None:
    job = rest.submit("--hold")
    rest.lab.freeze("slurmctld")
    try:
        assert isinstance(rest.scheduler(rest.target, 2.0).listing(), Unknown)
        done = rest.port.perform(Action(ActionKind.UPDATE, job, "r", start_now=True), 2.0)
        assert done.answered is Answered.NO_ANSWER
    finally:
        rest.lab.thaw("slurmctld")
