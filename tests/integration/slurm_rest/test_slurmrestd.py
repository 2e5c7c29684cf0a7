"""The scheduler through a real slurmrestd with a token, on each release: what it shows is what the
commands show, what it can change it changes, and what it cannot is refused before it is sent.

The contract of the scheduler, as far as newer ones can keep it, is tried in `tests/contract`.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm import restdialect
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.rest import RestScheduler
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.releases import NEWEST
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.start import up
from middlewatch.model.action import Action, ActionKind, Answered, CommandResult
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.model.scheduler import JobState, JobView
from tests.identities import private_data
from tests.labfixture import ReleaseLab, require_slurm
from tests.slurmrestd import HERE, Server, serving

pytestmark = pytest.mark.slurm

STRANGER = "lp"
"""A user that every Debian has, and of whom a lab's accounting knows nothing."""


class Rest:
    """A lab, its slurmrestd, and its commands to compare with."""

    def __init__(self, lab: Cluster, server: Server) -> None:
        self.lab, self.server, self.target = lab, server, server.target
        self.port = server.scheduler()
        commands = Commands(SystemClock(), environ=lab.env(logged=False))
        self.commands = SlurmScheduler(HERE, commands, SystemClock())
        self.release = tuple(int(part) for part in lab.version.split(".")[:2])

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


@pytest.fixture(scope="module", params=["", "24.11", NEWEST], ids=["machine", "24.11", NEWEST])
def rest(request: pytest.FixtureRequest, release_labs: ReleaseLab) -> Iterator[Rest]:
    require_slurm()
    if request.param:
        lab = release_labs(request.param)
        lab.tidy()
        with serving(lab) as server:
            yield Rest(lab, server)
        lab.tidy()
        return
    lab = up(LabSpec(name=f"test-{os.getpid()}-rest", nodes=3, jwt=True))
    try:
        with serving(lab) as server:
            yield Rest(lab, server)
    finally:
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
    assert rest.act(ActionKind.RELEASE, "99999").answered is Answered.REFUSED
    # As scancel has it.
    assert rest.act(ActionKind.CANCEL, "99999").answered is Answered.DONE


@pytest.mark.parametrize("kind", [ActionKind.REQUEUE, ActionKind.REQUEUE_HOLD])
def test_a_requeue_is_done_where_it_can_be_and_refused_before_it_is_sent_elsewhere(
    rest: Rest, kind: ActionKind
) -> None:
    job = rest.submit()
    eventually(lambda: (v := rest.view(job)) is not None and v.state is JobState.RUNNING)
    done = rest.act(kind, job)
    if rest.release >= (26, 5):
        assert done.answered is Answered.DONE, done
        eventually(lambda: (v := rest.view(job)) is not None and v.restarts == 1)
    else:
        assert done.answered is Answered.REFUSED
        assert "cannot requeue" in done.text
        assert done.argv == ()


def test_a_fence_is_set_where_it_can_be_and_refused_where_it_would_be_answered_and_not_done(
    rest: Rest,
) -> None:
    job = rest.submit("--hold")
    done = rest.act(ActionKind.UPDATE, job, requeueable=False)
    if rest.release > (22, 5):
        assert done.answered is Answered.DONE, done
        assert rest.commands.detail(job).value.requeueable is False  # type: ignore[union-attr]
    else:
        assert done.answered is Answered.REFUSED
        assert "may be requeued" in done.text


def test_a_single_task_is_refused_before_its_array_could_be_hit(rest: Rest) -> None:
    job = rest.submit("--array=0-1", "--hold")
    done = rest.act(ActionKind.UPDATE, f"{job}_1", exclusions=("gpu-001",))
    assert done.answered is Answered.REFUSED
    assert "whole jobs" in done.text
    assert done.argv == ()


def test_each_interface_that_it_serves_and_we_know_shows_the_same(rest: Rest) -> None:
    job = rest.submit("--hold", "--exclude=gpu-001", '--comment=it\'s "so"')
    known = rest.commands.detail(job)
    assert isinstance(known, Known)
    served = []
    for interface in restdialect.KNOWN:
        port = rest.server.scheduler(interface=interface)
        listing = port.listing()
        if isinstance(listing, Unknown):
            assert f"we know {interface}" in listing.why
            continue
        served.append(interface)
        assert alike(listing.value.job(job)) == alike(rest.view(job))  # type: ignore[union-attr]
        detail = port.detail(job)
        assert isinstance(detail, Known)
        assert detail.value == known.value
        done = port.perform(Action(ActionKind.UPDATE, job, "r", exclusions=("gpu-002",)), 20.0)
        assert done.answered is Answered.DONE, done
        assert port.detail(job).value.excluded_nodes == ("gpu-002",)  # type: ignore[union-attr]
        done = port.perform(Action(ActionKind.UPDATE, job, "r", exclusions=("gpu-001",)), 20.0)
        assert done.answered is Answered.DONE, done
    assert len(served) >= (1 if rest.release == (22, 5) else 2)


def test_what_the_newest_tells_of_slurm_conf_is_what_the_commands_tell(rest: Rest) -> None:
    ours, theirs = rest.port.facts(), rest.commands.facts()
    assert isinstance(ours, Known)
    assert isinstance(theirs, Known)
    if rest.release >= (26, 5):
        assert ours.value == theirs.value
    assert (ours.value.name, ours.value.version) == (theirs.value.name, theirs.value.version)


def test_what_private_data_hides_from_a_token_is_not_taken_for_gone(
    rest: Rest, tmp_path: Path
) -> None:
    job = rest.submit("--hold")

    def listing(user: str, *, lists_all_shown: bool = False) -> tuple[bool, int | None]:
        token = tmp_path / user
        token.write_text(rest.lab.token(user))
        target = replace(rest.target, user=user, token_file=str(token))
        port = RestScheduler(
            HERE, target, SystemClock(), query_deadline_s=20.0, lists_all_shown=lists_all_shown
        )
        found = port.listing()
        assert isinstance(found, Known), found
        return found.value.job(job) is not None, found.value.only_uid

    stranger = pwd.getpwnam(STRANGER).pw_uid
    tells = rest.release >= (26, 5)
    assert listing(STRANGER, lists_all_shown=True) == (True, None if tells else stranger)
    assert listing(STRANGER) == (False, stranger)
    with private_data(rest.lab, "jobs"):
        assert listing("root") == (True, None)
        assert listing(rest.lab.spec.operator) == (True, None)
        assert listing(STRANGER, lists_all_shown=True) == (False, stranger)


def test_its_unix_socket_does_as_well(rest: Rest) -> None:
    by_socket = rest.server.scheduler(replace(rest.target, url=f"unix:{rest.server.socket}"))
    assert isinstance(by_socket.listing(), Known)


def test_a_wrong_token_and_another_cluster_show_nothing(rest: Rest, tmp_path: Path) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("eyJhbGciOiJIUzI1NiJ9.e30.x")
    assert isinstance(
        rest.server.scheduler(replace(rest.target, token_file=str(wrong))).facts(), Unknown
    )
    assert isinstance(
        rest.server.scheduler(replace(rest.target, token_file="/nowhere")).facts(), Unknown
    )
    rest.submit("--hold")
    other = rest.server.scheduler(replace(rest.target, cluster_name="another")).listing()
    assert isinstance(other, Unknown)
    assert "not of another" in other.why


def test_a_silent_slurmctld_is_no_answer_and_no_empty_listing(rest: Rest) -> None:
    job = rest.submit("--hold")
    rest.lab.freeze("slurmctld")
    try:
        assert isinstance(rest.server.scheduler(rest.target, 2.0).listing(), Unknown)
        done = rest.port.perform(Action(ActionKind.UPDATE, job, "r", start_now=True), 2.0)
        assert done.answered is Answered.NO_ANSWER
    finally:
        rest.lab.thaw("slurmctld")
