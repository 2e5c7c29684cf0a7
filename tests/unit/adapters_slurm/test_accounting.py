from __future__ import annotations

import json

import pytest

from middlewatch.adapters.slurm.accounting import (
    SEPARATOR,
    accounting_argv,
    fields_of,
    read_accounting,
)
from middlewatch.adapters.slurm.cluster import version_tuple
from middlewatch.model.scheduler import AccountingRecord, JobState
from middlewatch.ports.errors import Unreadable
from tests.unit.adapters_slurm.scripted import RELEASES, recording


def records(release: str, what: str, file: str | None = None) -> tuple[AccountingRecord, ...]:
    job_id = json.loads(recording(release, "jobs.json"))[what]
    text = recording(release, file or f"accounting_{what}.txt")
    return read_accounting(text, job_id, version_tuple(release))


def has_true_codes(release: str) -> bool:
    return release == "26.05.5"


@pytest.mark.parametrize("release", RELEASES)
class TestEachRelease:
    def test_each_attempt_has_its_record_oldest_first(self, release: str) -> None:
        found = records(release, "three_attempts", "accounting.txt")
        assert len(found) == 4
        times = [record.submitted_at for record in found]
        assert times == sorted(times)
        assert len(set(times)) == 4
        assert [r.state for r in found] == [JobState.FAILED] * 3 + [JobState.PENDING]
        # Releases before 26.05 write over the end of an attempt that is requeued.
        assert [r.requeued for r in found[:3]] == [not has_true_codes(release)] * 3
        assert {r.exit_code for r in found[:3]} == {3 if has_true_codes(release) else None}
        assert {r.batch_completed for r in found[:3]} == {False}
        assert found[3].batch_completed is None
        assert found[3].node_list == ""

    def test_who_cancelled_is_told_apart_from_the_state(self, release: str) -> None:
        (record,) = records(release, "cancelled")
        assert (record.state, record.cancelled_by) == (JobState.CANCELLED, "5")
        assert record.batch_completed is False
        assert record.user == "games"

    def test_exit_codes_are_believed_only_where_they_are_true(self, release: str) -> None:
        (record,) = records(release, "exit137")
        assert record.state is JobState.FAILED
        # "9:0" is what older releases make of 137.
        assert record.exit_code == (137 if has_true_codes(release) else None)
        assert record.exit_signal is None

    def test_a_completed_batch_step_is_noted_with_its_end(self, release: str) -> None:
        (record,) = records(release, "completed")
        assert (record.state, record.exit_code) == (JobState.COMPLETED, 0)
        assert record.batch_completed is True
        assert record.batch_ended_at is not None

    def test_a_heterogeneous_job_is_its_leader(self, release: str) -> None:
        (record,) = records(release, "het")
        assert record.state is JobState.RUNNING


def answer(*rows: tuple[str, ...]) -> str:
    lines = [fields_of(()), *rows]
    return "".join(SEPARATOR.join(cells) + "\n" for cells in lines)


def test_a_revived_completed_job_is_known_by_its_batch_step() -> None:
    text = answer(
        ("7", "REQUEUED", "0:0", "100", "101", "120", "n1", "u"),
        ("7.batch", "COMPLETED", "0:0", "101", "101", "110", "n1", ""),
        ("7", "PENDING", "0:0", "120", "Unknown", "Unknown", "None assigned", "u"),
    )
    first, second = read_accounting(text, "7", (22, 5, 8))
    assert (first.state, first.requeued, first.batch_completed) == (
        JobState.COMPLETED,
        True,
        True,
    )
    assert first.batch_ended_at is not None
    assert first.batch_ended_at.timestamp() == 110
    assert second.batch_completed is None


def test_an_attempt_that_a_requeue_killed_is_cancelled_by_nobody() -> None:
    text = answer(
        ("7", "REQUEUED", "0:0", "100", "101", "120", "n1", "u"),
        ("7.batch", "CANCELLED", "0:15", "101", "101", "120", "n1", ""),
    )
    (record,) = read_accounting(text, "7", (22, 5, 8))
    assert (record.state, record.requeued, record.cancelled_by) == (
        JobState.CANCELLED,
        True,
        None,
    )


def test_a_start_that_its_node_refused_has_a_batch_step_without_an_end() -> None:
    text = answer(
        ("7", "REQUEUED", "0:0", "100", "101", "102", "n1", "u"),
        ("7.batch", "CANCELLED", "0:15", "101", "101", "102", "n1", ""),
        ("7", "FAILED", "1:0", "102", "102", "102", "n1", "u"),
        ("7.batch", "CANCELLED", "", "102", "102", "102", "n1", ""),
    )
    killed, refused = read_accounting(text, "7", (22, 5, 8))
    assert not killed.never_ran
    assert (refused.state, refused.never_ran, refused.batch_completed) == (
        JobState.FAILED,
        True,
        False,
    )


def test_other_tasks_and_shrunken_records_are_no_attempts() -> None:
    text = answer(
        ("7_1", "RUNNING", "0:0", "100", "101", "Unknown", "n1", "u"),
        ("7_1.batch", "RUNNING", "0:0", "101", "101", "Unknown", "n1", ""),
        ("7_2", "RESIZING", "0:0", "100", "101", "105", "n[1-2]", "u"),
        ("7_2", "RUNNING", "0:0", "100", "101", "Unknown", "n1", "u"),
    )
    (record,) = read_accounting(text, "7_2", (22, 5, 8))
    assert (record.job_id, record.state) == ("7_2", JobState.RUNNING)
    assert record.ended_at is None


def test_a_job_that_shrank_keeps_the_submit_time_that_it_had() -> None:
    """Accounting gives what goes on the moment of the resizing; slurmctld keeps the job's own."""
    text = answer(
        ("7", "NODE_FAIL", "0:0", "50", "51", "60", "n1", "u"),
        ("7", "RESIZING", "0:0", "100", "101", "105", "n[1-2]", "u"),
        ("7.batch", "RESIZING", "0:0", "101", "101", "105", "n1", ""),
        ("7", "RESIZING", "0:0", "105", "105", "109", "n[1-2]", "u"),
        ("7", "FAILED", "1:0", "109", "109", "120", "n1", "u"),
        ("7", "RUNNING", "0:0", "130", "131", "Unknown", "n2", "u"),
    )
    records = read_accounting(text, "7", (22, 5, 8))
    assert [r.submitted_at.timestamp() for r in records] == [50.0, 100.0, 130.0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no header at all\n",
        answer(("7", "RUNNING")),
        answer(("7", "RUNNING", "0:0", "then", "", "", "", "")),
    ],
)
def test_an_answer_of_another_shape_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        read_accounting(text, "7", ())


def test_only_newer_releases_are_asked_for_the_node_that_failed() -> None:
    assert not any("FailedNode" in word for word in accounting_argv("7", (22, 5, 8)))
    assert any("FailedNode" in word for word in accounting_argv("7", (24, 11, 5)))
