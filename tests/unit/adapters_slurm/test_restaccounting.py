"""Accounting through slurmrestd, where it differs from what a record alone says."""

from __future__ import annotations

from typing import Any

from middlewatch.adapters.slurm.restaccounting import records_of


def job(state: str, submitted: int, ended: int = 0) -> dict[str, Any]:
    return {
        "job_id": 7,
        "state": {"current": [state]},
        "time": {"submission": submitted, "start": submitted + 1, "end": ended},
        "nodes": "n1",
        "steps": [],
    }


def test_a_job_that_shrank_keeps_the_submit_time_that_it_had() -> None:
    told = [
        job("RUNNING", 130),
        job("RESIZING", 105, 109),
        job("FAILED", 109, 120),
        job("RESIZING", 100, 105),
        job("NODE_FAIL", 50, 60),
    ]
    found = [record.submitted_at.timestamp() for record in records_of(told, "7")]
    assert found == [50.0, 100.0, 130.0]
