"""What the doctor tells the owner of one job."""

from __future__ import annotations

from typing import Any, cast

from middlewatch.model.answer import Known
from middlewatch.model.optin import directive
from middlewatch.model.scheduler import JobDetail, JobState, JobView
from middlewatch.wiring.doctor_jobs import job_findings
from tests.unit.reconciliation.worlds import detail, target

ACTION = directive("prod", "action").removeprefix("#SBATCH --comment='").removesuffix("'")


class Here:
    environment = "prod"


def told(view: JobView, **changes: Any) -> list[str]:
    known = detail(comment=ACTION, stdout="/dev/null", stderr="/dev/null", **changes)
    assert isinstance(known, Known)
    written: JobDetail = known.value
    _, found = job_findings(cast(Any, Here()), view, written)
    return [f"{finding.text} {finding.mend}" for finding in found if finding.check == "requeue"]


def test_an_ordinary_job_can_be_requeued() -> None:
    assert told(target()) == []


def test_a_job_that_forbids_requeueing_is_named_with_the_remedy() -> None:
    (text,) = told(target(), requeueable=False)
    assert "123 cannot be requeued" in text
    assert "Requeue=1" in text


def test_a_job_whose_components_exclude_different_nodes_is_named_as_watched_only() -> None:
    assert told(target(heterogeneous=True)) == []
    (text,) = told(target(heterogeneous=True), uneven=True)
    assert "exclude different nodes" in text


def test_a_held_array_that_declares_what_it_waits_for_is_named() -> None:
    comment = '{"middlewatch":{"environment":"prod","mode":"action","dependsOn":["7"]}}'
    known = detail(comment=comment, stdout="/dev/null", stderr="/dev/null")
    assert isinstance(known, Known)
    for array in (True, False):
        view = target(JobState.PENDING, array_pending=array, priority=0, reason="JobHeldUser")
        _, found = job_findings(cast(Any, Here()), view, known.value)
        texts = [f"{one.text} {one.mend}" for one in found if one.check == "workflow"]
        assert len(texts) == int(array)
        assert all("scontrol release 123" in text for text in texts)
