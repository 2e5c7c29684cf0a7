"""Whole recoveries on releases of Slurm other than the machine's, by the product as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from middlewatch.lab.releases import NEWEST
from middlewatch.model.advice import Disposition
from middlewatch.model.milestone import MilestoneKind
from tests.e2e.stage import Stage
from tests.labfixture import ReleaseLab
from tests.slurmrestd import serving

pytestmark = pytest.mark.slurm


@pytest.fixture(params=["24.11", NEWEST])
def elsewhen(request: pytest.FixtureRequest, release_lab: ReleaseLab) -> Iterator[Stage]:
    """A stage whose cluster is of that release."""
    lab = release_lab(request.param)
    name = f"e2e-{request.param.replace('.', '-')}"
    made = Stage(lab, lab.folder / name, name)
    yield made
    made.close()


def test_a_crashed_job_of_that_release_goes_on_beyond_the_fault_without_the_bad_node(
    elsewhen: Stage,
) -> None:
    elsewhen.begin()
    job = elsewhen.submit(nodes=2, steps=400, fault="crash-cuda", fault_at=15, fault_rank=1)
    advice = elsewhen.wait("an outcome", lambda: elsewhen.outcome(job))
    assert advice.status.disposition is Disposition.CONVERGED
    first = elsewhen.attempt(job, 0)
    assert first is not None
    assert advice.exclusions == (first.nodes[1],)

    elsewhen.wait(
        "the step beyond the fault",
        lambda: (
            MilestoneKind.RESUMED
            in {found.kind for found in elsewhen.store.milestones(advice.sequence_id)}
        ),
    )
    second = elsewhen.attempt(job, 1)
    assert second is not None
    assert not set(advice.exclusions) & set(second.nodes)
    assert [argv[:2] for argv in elsewhen.changing()] == [
        ("scontrol", "requeue"),
        ("scontrol", "update"),
    ]
    # What slurmctld itself shows, not what we stored of it.
    now = elsewhen.cluster.job(job)
    assert (now["JobState"], now["Restarts"]) == ("RUNNING", "1")
    assert now["ExcNodeList"] == first.nodes[1]
    # How the first attempt ended was stored before the requeue, whatever accounting says now.
    assert first.end is not None
    assert first.end.state.value == "FAILED"


def test_a_job_is_restarted_through_slurmrestd_without_any_command(
    release_lab: ReleaseLab,
) -> None:
    lab = release_lab(NEWEST)
    stage = Stage(lab, lab.folder / "e2e-rest", "e2e-rest")
    try:
        with serving(lab) as server:
            stage.begin(
                {
                    "deployment": {"cluster_name": server.target.cluster_name},
                    "slurm": {
                        "transport": "slurmrestd",
                        "rest_url": f"unix:{server.socket}",
                        "rest_user": server.target.user,
                        "rest_token_file": server.target.token_file,
                    },
                }
            )
            job = stage.submit(nodes=2, steps=400, fault="crash-cuda", fault_at=15, fault_rank=1)
            advice = stage.wait("an outcome", lambda: stage.outcome(job))
            assert advice.status.disposition is Disposition.CONVERGED
            stage.wait(
                "the step beyond the fault",
                lambda: (
                    MilestoneKind.RESUMED
                    in {found.kind for found in stage.store.milestones(advice.sequence_id)}
                ),
            )
            now = lab.job(job)
            assert (now["JobState"], now["Restarts"]) == ("RUNNING", "1")
            assert now["ExcNodeList"] == advice.exclusions[0]
            assert stage.changing() == []
    finally:
        stage.close()
