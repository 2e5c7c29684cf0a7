"""What a program says at level error before it leaves of its own will."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from middlewatch.attribution import Places
from middlewatch.attribution.culprit import Culprit
from middlewatch.wiring.analysis.lastwords import last_words
from middlewatch.wiring.analysis.timeline import Timeline

PLACES = Places(nodes=("n1", "n2"), ordered=True, world=16)
CALM = tuple(b"%d r00     step %d rel.err 0.03" % (n, n) for n in range(5))
SAID = (
    b"6 r00 ERR digest SPLIT (31:1)",
    b"6 r11 ERR mine is 8d11",
    b"6 r00 ERR odd one out is r11 (n2)",
)
LEFT = tuple(b"7 r%02d WRN told to leave by r00" % n for n in range(8))
REPORT = b"srun: error: n1: tasks 0-7: Exited with exit code 41"


def told(*lines: bytes, apart_s: float = 1.0) -> tuple[tuple[int, int], Culprit] | None:
    seconds = tuple(apart_s * n for n in range(len(lines)))
    starts = tuple(range(len(lines)))
    timeline = Timeline(starts, seconds, datetime(2026, 1, 1, tzinfo=UTC), "times")
    found = last_words(lines, timeline, len(lines), 1, PLACES)
    return None if found is None else ((found.first, found.last), found.culprit)


def test_errors_before_the_end_are_the_first_cause_and_name_the_culprit() -> None:
    assert told(*CALM, *SAID, *LEFT, REPORT) == ((6, 8), Culprit(11, 3, "n2"))


def test_without_an_error_nothing_is_told() -> None:
    assert told(*CALM, *LEFT, REPORT) is None


def test_an_error_long_before_the_end_explains_nothing() -> None:
    assert told(*SAID, *CALM, REPORT, apart_s=60.0) is None


@pytest.mark.parametrize(
    "line",
    [
        b"2026-01-01 10:00:00 ERROR trainer: replicas disagree",
        b'{"level":"error","msg":"replicas disagree"}',
        b"[FATAL] replicas disagree",
        b'time=10:00 level=fatal msg="replicas disagree"',
    ],
)
def test_level_is_read_in_many_forms(line: bytes) -> None:
    assert told(*CALM, line, REPORT) == ((6, 6), Culprit())


def test_the_word_error_in_a_sentence_is_no_level() -> None:
    assert told(*CALM, b"the ERRORS of step 3 are small", REPORT) is None


def test_several_accused_are_no_culprit() -> None:
    both = b"6 r00 ERR odd one out is r11, bad rank 4"
    assert told(*CALM, both, REPORT) == ((6, 6), Culprit())
