"""slurmctld's state is wiped and its numbers begin anew: nothing of the old jobs reaches the new."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from middlewatch.lab.cluster import Cluster
from tests.e2e.kinds.parade import RUNS, Parade
from tests.e2e.stage import Stage

pytestmark = pytest.mark.slurm

GONE = {"ABANDONED TARGET_GONE", "ABANDONED TARGET_REPLACED"}


@pytest.fixture
def parade(fresh_lab: Callable[..., Cluster]) -> Iterator[Parade]:
    lab = fresh_lab(nodes=3)
    stage = Stage(lab, lab.folder / "again", "again")
    stage.begin()
    yield Parade(stage)
    stage.close()


def wipe(parade: Parade) -> None:
    """As an administrator does after a broken upgrade: the state directory is emptied."""
    lab = parade.lab
    lab.stop_daemon("slurmctld")
    for path in lab.layout.state.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    lab.start_daemon("slurmctld")
    idle = ["sinfo", "-h", "-N", "-p", "train", "-o", "%T"]
    parade.stage.wait("idle nodes", lambda: set(lab.run(idle).stdout.split()) == {"idle"}, 120)


def test_jobs_that_get_old_numbers_have_nothing_of_the_old_ones(parade: Parade) -> None:
    lab, stage = parade.lab, parade.stage
    kinds = ("restarted since", "of another user", "without an opt-in")
    for kind in kinds:
        job = lab.submit(RUNS, comment=stage.opt_in(), extra=("-N1",))
        parade.jobs[kind] = job
        lab.wait_state(job, "RUNNING")
        parade.by_operator("scontrol", "hold", job)
        parade.advise(kind, "gpu-001")
    for kind in kinds:
        parade.until(kind, lambda job: parade.outcome(job) == "PENDING OPERATOR_HOLD")
    old = {kind: parade.attempts(parade.jobs[kind])[0] for kind in kinds}
    # While nobody watches, the numbers come back, and one of the new jobs is restarted.
    assert stage.up is not None
    stage.end()
    for job in parade.jobs.values():
        # (slurmd would start no job under a number whose processes it still has.)
        parade.by_root("scancel", job)
        lab.wait_state(job, "CANCELLED")
    wipe(parade)
    other = lab.spec.job_users[1]
    new = (
        lab.submit(RUNS, comment=stage.opt_in(), extra=("-N1",)),
        lab.submit(RUNS, other, comment=stage.opt_in(), extra=("-N1",)),
        lab.submit(RUNS, extra=("-N1",)),
    )
    assert new == tuple(parade.jobs[kind] for kind in kinds)
    for job in new:
        lab.wait_state(job, "RUNNING")
    parade.by_root("scontrol", "requeue", new[0])
    lab.wait_state(new[0], "PENDING")
    stage.up.start()
    for kind in kinds:
        told = stage.store.advice
        parade.until(
            kind,
            lambda job: (
                (a := told(old[kind].id)) is not None  # noqa: B023 - called before kind moves on
                and a.status is not None
                and f"{a.status.disposition.value} {a.status.reason.value}" in GONE
            ),
        )
    parade.until(kinds[0], lambda job: len(parade.attempts(job)) == 2)
    parade.until(kinds[1], lambda job: len(parade.attempts(job)) == 2)
    for kind in kinds:
        job = parade.jobs[kind]
        assert parade.excluded(job) == ""
        assert parade.verbs(job) == []
    for kind in kinds[:2]:
        before, after = parade.attempts(parade.jobs[kind])
        assert before.id == old[kind].id
        assert after.numbered_again
    assert len(parade.attempts(parade.jobs["without an opt-in"])) == 1
    assert stage.changing() == []
