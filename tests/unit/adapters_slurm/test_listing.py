"""The listing, on what three releases printed for the adapter's own question."""

from __future__ import annotations

import json

import pytest

from middlewatch.adapters.slurm.listing import (
    COLUMNS,
    SEPARATOR,
    TITLES,
    Row,
    listing_argv,
    read_listing,
)
from middlewatch.model.scheduler import JobFlag, JobState
from middlewatch.ports.errors import Unreadable
from tests.unit.adapters_slurm.scripted import RELEASES, recording


def rows(release: str) -> dict[str, Row]:
    """By what the job is, from the recording's own table."""
    jobs = json.loads(recording(release, "jobs.json"))
    listed = read_listing(recording(release, "listing.txt"))
    by_id = {row.view.job_id: row for row in listed if not row.component}
    return {what: by_id[job_id] for what, job_id in jobs.items()}


@pytest.mark.parametrize("release", RELEASES)
class TestEachRelease:
    def test_a_requeued_job_shows_its_restarts_window_and_old_exit_code(self, release: str) -> None:
        view = rows(release)["three_attempts"].view
        assert (view.state, view.restarts, view.reason) == (JobState.PENDING, 3, "BeginTime")
        assert view.eligible_at is not None
        assert (view.eligible_at - view.submitted_at).total_seconds() == 121
        assert (view.exit_code, view.exit_signal) == (3, None)
        assert view.ended_at is None

    def test_ended_jobs_show_how_they_ended(self, release: str) -> None:
        found = rows(release)
        assert found["completed"].view.state is JobState.COMPLETED
        cancelled = found["cancelled"].view
        assert (cancelled.state, cancelled.exit_signal) == (JobState.CANCELLED, 15)
        assert cancelled.node_count == 2
        assert cancelled.ended_at is not None
        signalled = found["signalled"].view
        assert (signalled.state, signalled.exit_code, signalled.exit_signal) == (
            JobState.FAILED,
            0,
            9,
        )
        assert found["exit137"].view.exit_code == 137

    def test_a_requeue_hold_is_a_special_exit_with_priority_zero(self, release: str) -> None:
        view = rows(release)["requeue_held"].view
        assert view.flags == {JobFlag.SPECIAL_EXIT}
        assert view.state is JobState.PENDING
        assert view.held

    def test_a_completing_job_is_neither_ended_nor_pending(self, release: str) -> None:
        view = rows(release)["completing"].view
        assert view.completing
        assert not view.ended
        assert view.state is JobState.RUNNING
        assert view.restarts == 1

    def test_requeue_dependency_limit_and_partitions_are_read(self, release: str) -> None:
        found = rows(release)
        assert found["norequeue"].view.requeueable is False
        assert found["forged"].view.requeueable is True
        dependency = found["dependent"].view.dependency
        assert dependency == f"afterany:{found['norequeue'].view.job_id}(unfulfilled)"
        limited = found["limited"].view
        assert limited.time_limit_s == 26 * 3600 + 4 * 60
        assert limited.partitions == ("train", "spare")
        assert limited.node_count == 2
        assert limited.held

    def test_an_arrays_waiting_tasks_are_one_row_and_the_running_one_its_own(
        self, release: str
    ) -> None:
        array = rows(release)["array"].view
        assert array.array_pending
        listed = read_listing(recording(release, "listing.txt"))
        task = next(row for row in listed if row.view.job_id == f"{array.job_id}_0")
        assert task.view.state is JobState.RUNNING
        assert task.raw_id != array.job_id

    def test_a_heterogeneous_job_is_its_leader_and_components_are_told_apart(
        self, release: str
    ) -> None:
        leader = rows(release)["het"]
        assert leader.view.heterogeneous
        listed = read_listing(recording(release, "listing.txt"))
        both = [row for row in listed if row.view.job_id == leader.view.job_id]
        assert [row.component for row in both] == [False, True]

    def test_nothing_that_a_user_wrote_is_in_the_listing(self, release: str) -> None:
        text = recording(release, "listing.txt")
        assert "999999" not in text
        assert "a|b" not in text

    def test_a_look_at_one_job_is_read_like_the_listing(self, release: str) -> None:
        (row,) = read_listing(recording(release, "look_one.txt"))
        assert row == rows(release)["requeue_held"]

    def test_a_listing_cut_anywhere_is_never_a_shorter_one(self, release: str) -> None:
        text = recording(release, "listing.txt")
        whole = len(read_listing(text))
        for end in range(0, len(text), 7):
            cut = text[:end]
            if cut.endswith("\n"):
                continue  # whole lines: squeue's exit code tells that it did not end well
            with pytest.raises(Unreadable):
                read_listing(cut)
        assert whole > 10


HEADER = SEPARATOR.join(TITLES) + SEPARATOR + "\n"
GOOD = dict(
    zip(
        (name for name, _ in COLUMNS),
        [
            "lab",
            "7",
            "7",
            "N/A",
            "RUNNING",
            "None",
            "1",
            "0",
            "100",
            "100",
            "101",
            "NONE",
            "n1",
            "1",
            "p",
            "5",
            "games",
            "0:0",
            "10:00",
            "(null)",
            "1",
        ],
        strict=True,
    )
)


def line(**changes: str) -> str:
    return SEPARATOR.join((GOOD | changes).values()) + SEPARATOR + "\n"


def test_the_header_alone_is_an_empty_cluster() -> None:
    assert read_listing(HEADER) == ()


def test_no_header_is_no_answer() -> None:
    with pytest.raises(Unreadable, match="no header"):
        read_listing("")


def test_a_missing_column_is_noticed_by_its_title() -> None:
    with pytest.raises(Unreadable, match="RESTART_COUNT"):
        read_listing(HEADER.replace("RESTART_COUNT", "") + line())


@pytest.mark.parametrize(
    "changes",
    [
        {"JobID": "x"},
        {"JobArrayID": "7 8"},
        {"SubmitTime": "N/A"},
        {"SubmitTime": "2026-11-30T00:00:00"},
        {"PriorityLong": "high"},
        {"RestartCnt": ""},
        {"UserID": "games"},
        {"exit_code": "?"},
        {"Requeue": "yes"},
        {"NumNodes": "two"},
        {"Reason": "a\nb"},
        {"Reason": f"a{SEPARATOR}b"},
    ],
)
def test_one_row_of_another_shape_spoils_the_whole_listing(changes: dict[str, str]) -> None:
    assert len(read_listing(HEADER + line() + line())) == 2
    with pytest.raises(Unreadable, match=r"line 3|columns"):
        read_listing(HEADER + line() + line(**changes))


def test_a_state_of_a_later_release_spoils_only_its_own_job() -> None:
    one, two = read_listing(HEADER + line() + line(State="EXPEDITING"))
    assert (one.view.state, two.view.state) == (JobState.RUNNING, JobState.UNREADABLE)


def test_node_counts_may_be_ranges_or_thousands() -> None:
    counts = [
        row.view.node_count
        for row in read_listing(
            HEADER + line(NumNodes="2-4") + line(NumNodes="1.5K") + line(NumNodes="")
        )
    ]
    assert counts == [2, 1536, 0]


def test_many_waiting_tasks_shortened_with_dots_are_still_one_array() -> None:
    (row,) = read_listing(HEADER + line(JobArrayID="7_[1,3,5,...%2]", State="PENDING"))
    assert (row.view.job_id, row.view.array_pending) == ("7", True)


def test_the_question_names_jobs_only_where_some_are_asked_for() -> None:
    assert "-j" not in listing_argv()
    argv = listing_argv(["7", "8_1"])
    assert argv[argv.index("-j") + 1] == "7,8_1"
