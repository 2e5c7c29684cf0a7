"""What matched lines mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.signal import SignalKind, SourceKind, signal_key
from tests.unit.detection.given import (
    CASCADE,
    CRASH,
    EXCEPTION,
    HARMLESS,
    IGNORED,
    LAUNCHER,
    TRACEBACK,
    VAGUE,
    WATCHDOG,
    Story,
    at,
    hit,
)


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        (CRASH, SignalKind.FAILURE_LINE),
        (WATCHDOG, SignalKind.WATCHDOG_LINE),
        (CASCADE, SignalKind.CASCADE_LINE),
        (LAUNCHER, SignalKind.LAUNCHER_END),
    ],
)
def test_each_failure_kind_becomes_its_signal(pattern, kind) -> None:
    (signal,) = Story().look(1, hit(pattern))
    assert signal.kind is kind


def test_signal_carries_the_meaning_of_its_pattern_and_the_line() -> None:
    (signal,) = Story().look(1, hit(CRASH, line="RuntimeError: CUDA error"))
    assert signal.failure_class == "gpu_ecc_uncorrectable"
    assert signal.domain is CRASH.domain
    assert signal.excerpt == "RuntimeError: CUDA error"
    assert signal.learned_at == at(1)


def test_signal_key_is_made_of_the_place_of_the_line() -> None:
    story = Story()
    (signal,) = story.look(1, hit(CRASH, offset=4096))
    assert (signal.source.kind, signal.source.identity) == (SourceKind.LOG, "f#0")
    assert signal.source.position == "4096"
    assert signal.key == signal_key(story.attempt.id, signal.source, CRASH.id)


def test_reading_the_same_place_again_gives_the_same_key() -> None:
    first = Story().look(1, hit(CRASH, offset=10))
    second = Story().look(99, hit(CRASH, offset=10))
    assert [s.key for s in first] == [s.key for s in second]


def test_same_offset_of_a_file_that_began_anew_is_another_place() -> None:
    story = Story()
    (one,) = story.look(1, hit(CRASH, offset=10, stream="f#0"))
    (two,) = story.look(2, hit(CRASH, offset=10, stream="f#1"))
    assert one.key != two.key


def test_excerpt_is_at_most_two_thousand_characters() -> None:
    (signal,) = Story().look(1, hit(CRASH, line="x" * 4096))
    assert len(signal.excerpt) == 2000


def test_most_specific_pattern_of_a_line_counts_alone() -> None:
    (signal,) = Story().look(1, hit(VAGUE, offset=5), hit(CRASH, offset=5))
    assert signal.pattern_id == CRASH.id


def test_failures_on_two_lines_are_two_signals() -> None:
    found = Story().look(1, hit(VAGUE, offset=5), hit(CRASH, offset=50))
    assert [s.pattern_id for s in found] == [VAGUE.id, CRASH.id]


def test_line_that_is_known_to_be_harmless_is_no_failure() -> None:
    assert Story().look(1, hit(CRASH, offset=5), hit(HARMLESS, offset=5)) == []


def test_exception_line_without_a_traceback_is_a_quotation() -> None:
    assert Story().look(1, hit(EXCEPTION)) == []


def test_exception_line_behind_a_traceback_is_a_failure() -> None:
    (signal,) = Story().look(1, hit(TRACEBACK), hit(EXCEPTION))
    assert signal.failure_class == "user_exception"


def test_traceback_may_begin_in_one_round_and_end_in_the_next() -> None:
    story = Story()
    assert story.look(1, hit(TRACEBACK)) == []
    assert len(story.look(2, hit(EXCEPTION))) == 1


def test_traceback_ends_with_its_first_exception_line() -> None:
    found = Story().look(1, hit(TRACEBACK), hit(EXCEPTION), hit(EXCEPTION))
    assert len(found) == 1


def test_tracebacks_of_two_ranks_do_not_end_each_other() -> None:
    found = Story().look(
        1,
        hit(TRACEBACK, rank=0),
        hit(TRACEBACK, rank=3),
        hit(EXCEPTION, rank=3),
        hit(EXCEPTION, rank=0),
    )
    assert [s.ranks for s in found] == [(3,), (0,)]


def test_exception_of_another_rank_is_not_that_tracebacks_end() -> None:
    assert Story().look(1, hit(TRACEBACK, rank=0), hit(EXCEPTION, rank=3)) == []


def test_traceback_behind_exception_ignored_means_nothing() -> None:
    found = Story().look(1, hit(IGNORED), hit(TRACEBACK), hit(EXCEPTION))
    assert found == []


def test_traceback_long_after_an_ignored_one_means_what_it_says() -> None:
    found = Story().look(
        1,
        hit(IGNORED, offset=100),
        hit(TRACEBACK, offset=100_000),
        hit(EXCEPTION, offset=100_500),
    )
    assert len(found) == 1


def test_traceback_that_was_interrupted_is_given_up() -> None:
    found = Story().look(1, hit(TRACEBACK, offset=100), hit(EXCEPTION, offset=10_000_000))
    assert found == []


def test_traceback_of_another_file_is_not_this_ones() -> None:
    found = Story().look(
        1, hit(TRACEBACK, offset=1, stream="a#0"), hit(EXCEPTION, offset=90, stream="b#0")
    )
    assert found == []


def test_many_open_tracebacks_are_bounded() -> None:
    story = Story()
    story.look(1, *(hit(TRACEBACK, rank=rank) for rank in range(500)))
    assert len(story.state.tracebacks) <= 32


def test_signal_names_the_last_step_before_it() -> None:
    story = Story()
    story.steps(1, 7, 0)
    (signal,) = story.look(9, hit(CRASH))
    assert signal.step == 7


def test_facts_of_the_line_are_kept_as_pairs() -> None:
    (signal,) = Story().look(1, hit(CRASH, exit_code="-9", local_rank=2, loss="1.0"))
    assert signal.detail == "exit_code=-9 local_rank=2"


def test_pattern_without_priority_of_its_own_loses_to_none_on_another_line() -> None:
    low = replace(CRASH, id="test.low", priority=1)
    (signal,) = Story().look(1, hit(low))
    assert signal.pattern_id == "test.low"


def test_frame_says_what_an_exception_without_a_better_name_is_about() -> None:
    frame = replace(TRACEBACK, id="test.frame", failure_class="config_error")
    story = Story()
    (signal,) = story.look(1, hit(TRACEBACK), hit(frame), hit(EXCEPTION))
    assert signal.failure_class == "config_error"
    (signal,) = story.look(2, hit(TRACEBACK), hit(EXCEPTION))
    assert signal.failure_class == "user_exception"


def test_frame_without_a_traceback_means_nothing() -> None:
    frame = replace(TRACEBACK, id="test.frame", failure_class="config_error")
    assert Story().look(1, hit(frame), hit(EXCEPTION)) == []
