"""The scheduler's word, time stamps, unreadable files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from middlewatch.detection.batch import Unreadable
from middlewatch.detection.scheduler_facts import ended_by_record, refined_end
from middlewatch.detection.stamps import happened, learnt_zone, stamp_of
from middlewatch.model.attempt import EndedBy
from middlewatch.model.scheduler import AccountingRecord, JobState
from middlewatch.model.signal import Domain, Severity, SignalKind
from tests.unit.detection.given import CRASH, T0, Story, at, attempt, ended, hit


def record(state: JobState, **fields: object) -> AccountingRecord:
    made = AccountingRecord(
        job_id="7",
        submitted_at=T0,
        state=state,
        requeued=False,
        exit_code=1,
        exit_signal=None,
        started_at=T0,
        ended_at=at(50),
        node_list="n1",
        cancelled_by=None,
        batch_completed=False,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("by", "failure_class", "domain"),
    [
        (EndedBy.NODE_FAILURE, "node_failure", Domain.HARDWARE),
        (EndedBy.TIME_LIMIT, "time_limit", Domain.SCHEDULER),
        (EndedBy.OUT_OF_MEMORY, "host_oom", Domain.SYSTEM_SOFTWARE),
        (EndedBy.OWNER, "user_cancel", Domain.USER),
        (EndedBy.OPERATOR, "user_cancel", Domain.USER),
        (EndedBy.PREEMPTION, "preemption", Domain.SCHEDULER),
        (EndedBy.FAILURE, "killed_unknown", Domain.UNKNOWN),
        (EndedBy.COMPLETION, "", Domain.UNKNOWN),
    ],
)
def test_end_says_what_it_was(by: EndedBy, failure_class: str, domain: Domain) -> None:
    (signal,) = Story(of=ended(by)).look(52)
    assert signal.kind is SignalKind.SCHEDULER_END
    assert (signal.failure_class, signal.domain) == (failure_class, domain)
    assert signal.happened_at == at(50)


@pytest.mark.parametrize("fields", [{"exit_signal": 11}, {"exit_code": 139}, {"exit_code": 134}])
def test_native_signals_make_a_native_crash(fields: dict[str, int]) -> None:
    (signal,) = Story(of=ended(**fields)).look(52)
    assert signal.failure_class == "native_crash"


def test_a_script_that_its_node_refused_to_start_was_never_launched() -> None:
    refused = record(JobState.FAILED, never_ran=True, started_at=T0, ended_at=T0)
    assert ended_by_record(refused, attempt()) is EndedBy.LAUNCH
    seen = ended(EndedBy.FAILURE).end
    for told in (refused, replace(refused, requeued=True, ended_at=at(50))):
        refined = refined_end(seen, told, attempt(), at(60))
        assert refined is not None
        assert (refined.by, refined.final) == (EndedBy.LAUNCH, True)


def test_completion_is_no_alarm() -> None:
    (signal,) = Story(of=ended(EndedBy.COMPLETION)).look(52)
    assert signal.severity is Severity.INFO


def test_end_is_told_once() -> None:
    story = Story(of=ended())
    story.look(52)
    assert story.look(53) == []


def test_end_that_accounting_knows_better_is_told_again() -> None:
    story = Story(of=ended(EndedBy.SOMEBODY))
    (first,) = story.look(52)
    story.attempt = ended(EndedBy.OWNER)
    (second,) = story.look(55)
    assert first.key != second.key


def test_attempt_that_vanished_is_told_once() -> None:
    story = Story(of=attempt(vanished=True))
    assert [s.kind for s in story.look(1)] == [SignalKind.VANISHED]
    assert story.look(2) == []


def test_unreadable_file_is_told_once_per_reason() -> None:
    story = Story()
    fifo = Unreadable("/out", "fifo", "/out is a FIFO")
    assert [s.kind for s in story.look(1, unreadable=(fifo,))] == [SignalKind.CANNOT_READ]
    assert story.look(2, unreadable=(fifo,)) == []
    other = Unreadable("/out", "symlink", "/out is a link")
    assert [s.detail for s in story.look(3, unreadable=(other,))] == ["/out is a link"]


def test_drained_log_is_noted_once() -> None:
    story = Story(of=ended())
    story.look(52, drained=True)
    story.look(60, drained=True)
    assert story.state.progress.log_drained_at == at(52)


@pytest.mark.parametrize(
    ("fields", "by"),
    [
        ({"cancelled_by": "2001"}, EndedBy.OWNER),
        ({"cancelled_by": "alice"}, EndedBy.OWNER),
        ({"cancelled_by": "0"}, EndedBy.OPERATOR),
        ({"cancelled_by": "2003"}, EndedBy.OPERATOR),
        ({}, EndedBy.SOMEBODY),
        ({"requeued": True}, EndedBy.REQUEUE),
        (
            {"cancelled_by": "0", "ended_at": T0, "batch_completed": None},
            EndedBy.LAUNCH,
        ),
    ],
)
def test_accounting_tells_who_cancelled(fields: dict[str, object], by: EndedBy) -> None:
    assert ended_by_record(record(JobState.CANCELLED, **fields), attempt()) is by


@pytest.mark.parametrize(
    ("state", "by"),
    [
        (JobState.COMPLETED, EndedBy.COMPLETION),
        (JobState.FAILED, EndedBy.FAILURE),
        (JobState.NODE_FAIL, EndedBy.NODE_FAILURE),
        (JobState.TIMEOUT, EndedBy.TIME_LIMIT),
        (JobState.OUT_OF_MEMORY, EndedBy.OUT_OF_MEMORY),
        (JobState.PREEMPTED, EndedBy.PREEMPTION),
    ],
)
def test_accounting_tells_how_it_ended(state: JobState, by: EndedBy) -> None:
    assert ended_by_record(record(state), attempt()) is by


def test_job_that_slurmd_could_not_set_up_is_a_launch_failure() -> None:
    failed = record(JobState.FAILED, exit_code=0, exit_signal=53)
    assert ended_by_record(failed, attempt()) is EndedBy.LAUNCH


def test_end_becomes_final_with_its_record() -> None:
    end = refined_end(
        ended(EndedBy.SOMEBODY).end, record(JobState.CANCELLED, cancelled_by="0"), attempt(), at(60)
    )
    assert end is not None
    assert (end.by, end.final) == (EndedBy.OPERATOR, True)


def test_exit_code_of_the_listing_is_kept() -> None:
    before = ended(exit_code=137).end
    end = refined_end(before, record(JobState.FAILED, exit_code=None), attempt(), at(60))
    assert end is not None
    assert (end.exit_code, end.by, end.final) == (137, EndedBy.FAILURE, True)


def test_record_that_still_runs_says_nothing() -> None:
    assert refined_end(None, record(JobState.RUNNING), attempt(), at(60)) is None


def test_end_that_only_accounting_saw_is_taken_from_it() -> None:
    end = refined_end(None, record(JobState.NODE_FAIL), attempt(), at(60))
    assert end is not None
    assert (end.by, end.at, end.final) == (EndedBy.NODE_FAILURE, at(50), True)


def test_requeue_that_accounting_calls_a_node_failure_is_one() -> None:
    before = ended(EndedBy.REQUEUE).end
    end = refined_end(before, record(JobState.NODE_FAIL), attempt(), at(60))
    assert end is not None
    assert end.by is EndedBy.NODE_FAILURE


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            " [2025-11-12 11:27:16.753404] iteration",
            datetime.fromisoformat("2025-11-12T11:27:16.753404"),
        ),
        ("2025-02-11 03:52:34,385 INFO x", datetime.fromisoformat("2025-02-11T03:52:34.385000")),
        (
            f"slurmstepd: error: *** JOB 1 ON {'n' * 90} CANCELLED AT 2025-05-16T09:01:14 ***",
            datetime.fromisoformat("2025-05-16T09:01:14"),
        ),
        ("2026-01-01T10:00:00Z x", datetime(2026, 1, 1, 10, tzinfo=UTC)),
        ("2026-01-01T10:00:00+02:00 x", datetime(2026, 1, 1, 8, tzinfo=UTC)),
        ("W1112 11:27:20.804614297 x", None),
        ("2025-13-45 99:00:00 x", None),
        ("2026-01-01T10:00:00+99:00 x", None),
        ("9999-12-31T23:59:59-14:00 x", None),
        ("0001-01-01 00:00:00 x", None),
        ("no time", None),
    ],
)
def test_stamps_are_read(line: str, expected: datetime | None) -> None:
    assert stamp_of(line) == expected


def test_zone_is_learnt_from_a_line_just_written() -> None:
    written = datetime(2026, 3, 1, 12, 0, 3, tzinfo=UTC)
    assert learnt_zone(datetime.fromisoformat("2026-03-01T13:00:01"), written) == -3600
    assert learnt_zone(datetime.fromisoformat("2026-03-01T17:30:01"), written) == -19800


def test_zone_is_not_learnt_from_a_line_that_does_not_fit() -> None:
    written = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
    assert learnt_zone(datetime.fromisoformat("2026-03-01T12:10:00"), written) is None
    assert learnt_zone(datetime.fromisoformat("2024-03-01T12:00:00"), written) is None


def test_time_of_a_line_is_never_later_than_its_learning() -> None:
    assert happened(at(500).replace(tzinfo=None), 0, at(3)) == at(3)


def test_failure_happened_when_its_line_says() -> None:
    story = Story()
    local = (at(95) + timedelta(hours=2)).strftime("%Y-%m-%d %H:%M:%S")
    (signal,) = story.look(100, hit(CRASH, line=f"{local} RuntimeError"))
    assert signal.happened_at == at(95)
    assert signal.learned_at == at(100)


def test_failure_in_an_old_file_happened_when_the_file_was_written() -> None:
    (signal,) = Story().look(5000, hit(CRASH), output_at=at(40))
    assert signal.happened_at == at(40)
