"""Each gate closed in turn: the advice says what would have been done, and nothing is done; and
what was not allowed never becomes allowed by a later switch."""

from __future__ import annotations

import time
from typing import Any

import pytest

from middlewatch.model.advice import Disposition, Reason
from tests.e2e.stage import Stage

pytestmark = pytest.mark.slurm

CLOSED: dict[str, dict[str, dict[str, Any]]] = {
    "deployment_mode": {"deployment": {"mode": "monitor"}},
    "acknowledge_scheduler_actions": {"deployment": {"acknowledge_scheduler_actions": False}},
    "partition_allowlist": {"deployment": {"partitions": ["elsewhere"]}},
    "ownership": {"deployment": {"cluster_name": "another-cluster"}},
    "job_opt_in": {},
}


@pytest.mark.parametrize("gate", CLOSED)
def test_a_closed_gate_records_what_would_have_been_done(stage: Stage, gate: str) -> None:
    stage.begin(CLOSED[gate])
    mode = "observe" if gate == "job_opt_in" else "action"
    job = stage.submit(
        nodes=2,
        steps=200,
        fault="crash-cuda",
        fault_at=10,
        fault_rank=1,
        comment=stage.opt_in(mode),
    )
    advice = stage.wait("an outcome", lambda: stage.outcome(job))
    assert advice.status.disposition is Disposition.ABANDONED
    assert advice.status.reason is Reason.NOT_PERMITTED
    assert gate in advice.status.detail
    assert advice.exclusions, "what would have been done is recorded whole"
    assert stage.changing() == []

    # The gate opens. The trouble does not repeat itself, so nothing may follow.
    stage.end()
    if gate == "job_opt_in":
        stage.cluster.run(
            ["scontrol", "update", f"jobid={job}", f"comment={stage.opt_in()}"], check=False
        )
    open_settings = {"deployment": {"cluster_name": ""}} if gate == "ownership" else {}
    stage.begin(open_settings)
    time.sleep(6)
    assert stage.changing() == []
    after = stage.advice(job)
    assert after is not None
    assert after.generation == advice.generation
    assert after.status == advice.status
