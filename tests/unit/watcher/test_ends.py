"""What accounting adds to an end, and what is made of a job that nobody lists."""

from __future__ import annotations

from datetime import timedelta

import pytest

from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.attempt import EndedBy
from middlewatch.model.scheduler import AccountingRecord, JobState
from middlewatch.services.watcher.ends import gone, record_of, with_accounting
from tests.unit.detection.given import T0, at, attempt, ended
from tests.unit.detection.test_facts import record

Records = Answer[tuple[AccountingRecord, ...]]


def known(*records: AccountingRecord) -> Records:
    return Known(records, T0)


def test_record_is_chosen_by_its_submit_time() -> None:
    other = record(JobState.COMPLETED, submitted_at=T0 - timedelta(days=30))
    ours = record(JobState.FAILED)
    assert record_of((other, ours, other), attempt()) == ours
    assert record_of((other,), attempt()) is None


def test_end_is_made_precise_and_final() -> None:
    answer = known(record(JobState.CANCELLED, cancelled_by="2001"))
    after = with_accounting(ended(EndedBy.SOMEBODY), answer, at(60), 600)
    assert after.end is not None
    assert (after.end.by, after.end.final) == (EndedBy.OWNER, True)


@pytest.mark.parametrize("answer", [known(), Unknown("down", T0), known(record(JobState.RUNNING))])
def test_end_waits_for_accounting_that_lags(answer: Records) -> None:
    after = with_accounting(ended(), answer, at(60), 600)
    assert after.end is not None
    assert not after.end.final


@pytest.mark.parametrize("answer", [known(), Unknown("down", T0)])
def test_end_does_not_wait_for_ever(answer: Records) -> None:
    after = with_accounting(ended(), answer, at(700), 600)
    assert after.end is not None
    assert after.end.final


def test_cluster_without_accounting_is_not_waited_for() -> None:
    after = with_accounting(ended(), Absent(T0), at(52), 600)
    assert after.end is not None
    assert after.end.final


def test_missing_job_ends_by_its_record() -> None:
    after = gone(attempt(), known(record(JobState.NODE_FAIL)), at(50), at(51))
    assert after.end is not None
    assert after.end.by is EndedBy.NODE_FAILURE
    assert after.state is JobState.NODE_FAIL


def test_missing_job_is_not_over_while_accounting_does_not_answer() -> None:
    assert gone(attempt(), Unknown("down", T0), at(0), at(100_000)).end is None


def test_missing_job_without_a_record_is_waited_for_and_then_unknown() -> None:
    assert gone(attempt(), known(), at(0), at(30)).end is None
    after = gone(attempt(), known(), at(0), at(90))
    assert after.end is not None
    assert after.end.by is EndedBy.UNKNOWN


def test_missing_job_on_a_cluster_without_accounting_is_unknown_at_once() -> None:
    after = gone(attempt(), Absent(T0), at(0), at(1))
    assert after.end is not None
    assert (after.end.by, after.end.final) == (EndedBy.UNKNOWN, True)
