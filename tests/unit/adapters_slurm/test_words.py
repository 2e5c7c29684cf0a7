from __future__ import annotations

from datetime import UTC, datetime

import pytest

from middlewatch.adapters.slurm.words import (
    checked_job_id,
    checked_node,
    duration_s,
    exit_status,
    job_state,
    job_states,
    moment,
)
from middlewatch.model.scheduler import JobFlag, JobState
from middlewatch.ports.errors import Refused, Unreadable


def test_a_completing_job_still_has_its_nodes_whatever_it_will_be_next() -> None:
    assert job_state("COMPLETING") == (JobState.RUNNING, {JobFlag.COMPLETING})


def test_a_special_exit_is_a_pending_job() -> None:
    assert job_state("SPECIAL_EXIT") == (JobState.PENDING, {JobFlag.SPECIAL_EXIT})


def test_a_state_word_of_a_later_release_is_unreadable_and_not_guessed() -> None:
    assert job_state("EXPEDITING")[0] is JobState.UNREADABLE


@pytest.mark.parametrize(
    ("words", "state", "flags"),
    [
        (("RUNNING",), JobState.RUNNING, set()),
        (("PENDING", "SPECIAL_EXIT"), JobState.PENDING, {JobFlag.SPECIAL_EXIT}),
        (("COMPLETING", "CANCELLED"), JobState.CANCELLED, {JobFlag.COMPLETING}),
        (("COMPLETING",), JobState.RUNNING, {JobFlag.COMPLETING}),
        (("RUNNING", "FAILED"), JobState.UNREADABLE, set()),
        ((), JobState.UNREADABLE, set()),
    ],
)
def test_the_base_state_is_found_among_the_flags_in_any_order(
    words: tuple[str, ...], state: JobState, flags: set[JobFlag]
) -> None:
    assert job_states(words) == (state, flags)


def test_times_are_epoch_seconds_or_words_for_nothing() -> None:
    assert moment("1796000676") == datetime.fromtimestamp(1796000676, UTC)
    assert {moment(word) for word in ("N/A", "NONE", "Unknown", "", "None")} == {None}


@pytest.mark.parametrize("text", ["2026-11-30T01:04:35", "-5", "1e9", "٣", "9" * 20])
def test_a_time_of_another_form_is_an_error(text: str) -> None:
    with pytest.raises(Unreadable, match="not a time"):
        moment(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-00:10:00", 87000),
        ("2:03:04", 7384),
        ("10:00", 600),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
    ],
)
def test_a_time_limit_is_read_in_seconds(text: str, seconds: int | None) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "code", "signal"),
    [
        ("768", 3, None),
        ("15", 0, 15),
        ("0", 0, None),
        ("34944", 136, None),
        ("3:0", 3, None),
        ("0:9", 0, 9),
        ("137:0", 137, None),
    ],
)
def test_an_exit_code_is_a_wait_status_or_a_pair(text: str, code: int, signal: int | None) -> None:
    assert exit_status(text) == (code, signal)


@pytest.mark.parametrize("text", ["", "x", "1:x", ":", "-1"])
def test_an_exit_code_of_another_form_is_an_error(text: str) -> None:
    with pytest.raises(Unreadable, match="not an exit code"):
        exit_status(text)


@pytest.mark.parametrize("text", ["7", "7_2", "7+1", "4294967295"])
def test_job_numbers_pass(text: str) -> None:
    assert checked_job_id(text) == text


@pytest.mark.parametrize("text", ["", "7 8", "7,8", "-7", "7\n", "7_", "7_[1-2]", "abc", "７"])
def test_what_is_no_job_number_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="not a job number"):
        checked_job_id(text)


@pytest.mark.parametrize("text", ["", "a,b", "a[1-2]", "-a", "a b", "a\n", "a=b"])
def test_what_is_no_single_node_name_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="not the name of one node"):
        checked_node(text)
