"""Where the last of several attempts in one file begins, beside what launchers say of it."""

from __future__ import annotations

from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.wiring.analysis.attempts import Found, attempt_starts

START = (
    b"Python 3.11.9 on aa-01",
    b"loading tokenizer from /data/tok",
    b"building model with 7.2 B parameters",
)


def found(line: int, kind: PatternKind, step: int | None = None) -> Found:
    return Found(line, Pattern(id=kind.value, kind=kind, regex="x"), step)


def test_one_attempt_begins_with_its_first_line() -> None:
    assert attempt_starts(START, ()) == (1,)
    assert attempt_starts((), ()) == (1,)


def test_behind_a_failure_the_logs_very_first_lines_begin_another_one() -> None:
    lines = (*START, b"Traceback", b"KeyError: 'x'", *START, b"Traceback", b"KeyError: 'x'")
    hits = [found(n, PatternKind.EXCEPTION) for n in (5, 10)]
    assert attempt_starts(lines, hits) == (1, 6)


def test_without_an_end_the_same_lines_again_are_another_rank() -> None:
    assert attempt_starts((*START, *START), ()) == (1,)


def test_a_line_that_each_rank_prints_while_starting_says_nothing() -> None:
    lines = (*START, *START, b"KeyError: 'x'", *START)
    assert attempt_starts(lines, [found(7, PatternKind.EXCEPTION)]) == (1,)


def test_a_line_of_the_middle_begins_nothing_behind_a_mere_failure() -> None:
    lines = (*START, b"KeyError: 'x'", START[1], START[2])
    assert attempt_starts(lines, [found(4, PatternKind.EXCEPTION)]) == (1,)
    assert attempt_starts(lines, [found(4, PatternKind.LAUNCHER_END)]) == (1, 5)


def test_steps_that_are_counted_again_behind_an_end_are_another_attempt() -> None:
    lines = tuple(b"line %d" % n for n in range(1, 9))
    hits = [
        found(1, PatternKind.PROGRESS, 10),
        found(2, PatternKind.PROGRESS, 20),
        found(3, PatternKind.LAUNCHER_END),
        found(6, PatternKind.PROGRESS, 10),
        found(7, PatternKind.PROGRESS, 20),
    ]
    assert attempt_starts(lines, hits) == (1, 4)
    on = [*hits[:3], found(6, PatternKind.PROGRESS, 30)]
    assert attempt_starts(lines, on) == (1,)


def test_what_the_fold_knows_is_believed_once() -> None:
    lines = (*START, b"end", b"banner", *START)
    hits = [found(4, PatternKind.LAUNCHER_END)]
    assert attempt_starts(lines, hits, known=(5,)) == (1, 5)
