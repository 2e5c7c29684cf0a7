"""Where the last of several attempts begins in one file.

A requeued job goes on writing to the file of the attempt before, and so does a launcher that
starts its workers again. What the first attempt died of is settled; the question is about the last
one. No line says reliably "here begins a new attempt", but two things together do: something
ended, and then a start-up, known by its own words, by the log's own first lines coming again, or by
steps that are counted a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from middlewatch.model.pattern import Pattern, PatternKind

_FIRST_LINES = 48
_NUMBERS = re.compile(rb"0x[0-9a-fA-F]+|[0-9a-f]{12,}|\d+(?:[.,:_-]\d+)*")
_PREFIX = re.compile(rb"^(?:\[?rank\s?\d+\]?:|\d+:)\s*")
_SHORTEST = 12

_STRONG = frozenset({PatternKind.LAUNCHER_END, PatternKind.RESTARTING})
_FELL = frozenset({PatternKind.FAILURE, PatternKind.EXCEPTION})
_LOUD = _STRONG | {
    PatternKind.FAILURE,
    PatternKind.EXCEPTION,
    PatternKind.WATCHDOG,
    PatternKind.CASCADE,
    PatternKind.TRACEBACK,
}
_QUIET = frozenset({PatternKind.PHASE, PatternKind.ATTEMPT, PatternKind.PLACEMENT})


@dataclass(frozen=True, slots=True)
class Found:
    """One line that one pattern matched: what is needed to tell attempts apart."""

    line: int
    pattern: Pattern
    step: int | None = None


def attempt_starts(
    lines: Sequence[bytes], found: Sequence[Found], known: Iterable[int] = ()
) -> tuple[int, ...]:
    """The numbers (from 1) of the lines with which attempts begin; the first is always 1.

    ``known`` are those that the fold knows by their words. Besides, an attempt begins where,
    behind an end, two of the log's own first lines come again, or steps are counted again."""
    ends = sorted({f.line for f in found if f.pattern.kind in _STRONG or _put_back(f, lines)})
    fell = sorted({f.line for f in found if f.pattern.kind in _FELL})
    if not ends and not fell:
        return tuple(sorted({1, *known}))
    starts = [1]
    first = _known_first(lines, found)
    opening = next(iter(first), b"")
    loud = frozenset(f.line for f in found if f.pattern.kind is not PatternKind.PHASE)
    earliest = min((*ends, *fell))
    for number in range(earliest + 1, len(lines) + 1):
        text = _normal(lines[number - 1])
        if number in loud or first.get(text, number) >= earliest:
            continue
        # A failure alone is an end only where the log begins again with its very first line.
        over = ends if text != opening else [*ends, *fell]
        if _between(over, starts[-1], number) and _two_again(lines, number, first):
            starts.append(number)
    every = sorted({*starts, *known, *_counted_again(found, ends, starts)})
    # What begins twice without an end in between has begun once.
    told = set(known)
    return tuple(
        start
        for place, start in enumerate(every)
        if place == 0
        or _between([*ends, *fell], every[place - 1], start)
        or {every[place - 1], start} <= told
    )


def _put_back(found: Found, lines: Sequence[bytes]) -> bool:
    """Slurm's word that a job step or the job is over."""
    if found.pattern.kind not in {PatternKind.CASCADE, PatternKind.FAILURE}:
        return False
    text = lines[found.line - 1]
    return b"CANCELLED AT" in text or b"srun: error:" in text or b"JOB REQUEUE" in text


def _between(places: Sequence[int], after: int, before: int) -> bool:
    return any(after <= place < before for place in places)


def _normal(line: bytes) -> bytes:
    text = _PREFIX.sub(b"", line[:300].strip())
    return _NUMBERS.sub(b"0", text)


def _known_first(lines: Sequence[bytes], found: Sequence[Found]) -> dict[bytes, int]:
    """The words of the log's first lines, and where they stand."""
    hits = {f.line for f in found if f.pattern.kind not in _QUIET}
    bad = min((f.line for f in found if f.pattern.kind in _LOUD), default=len(lines) + 1)
    kept: dict[bytes, int] = {}
    twice: set[bytes] = set()
    for number, line in enumerate(lines[: min(_FIRST_LINES, bad - 1)], 1):
        text = _normal(line)
        if number in hits or len(text) < _SHORTEST or not any(c > 64 for c in text):
            continue
        if text in kept:
            twice.add(text)
        kept.setdefault(text, number)
    # What is printed several times while starting (by each rank) says nothing when it comes again.
    return {text: number for text, number in kept.items() if text not in twice}


def _two_again(lines: Sequence[bytes], number: int, first: dict[bytes, int]) -> bool:
    near = {_normal(line) for line in lines[number - 1 : number + 7]}
    return len(near & first.keys()) >= 2


def _counted_again(
    found: Sequence[Found], strong: Sequence[int], starts: Sequence[int]
) -> tuple[int, ...]:
    """Beginnings that only the steps betray: counted again behind an end."""
    more: list[int] = []
    reached: int | None = None
    ended = counted = 0
    loud = {f.line for f in found if f.pattern.kind is not PatternKind.PROGRESS}
    begun = set(starts)
    for one in found:
        if one.line in strong:
            ended = one.line
        if any(ended < start <= one.line for start in begun):
            ended, reached = 0, None if one.step is None else one.step
        if one.pattern.kind is not PatternKind.PROGRESS or one.step is None or one.line == counted:
            continue
        counted = one.line
        if ended and reached is not None and one.step <= reached and one.line > ended:
            start = max((n for n in loud if ended <= n < one.line), default=ended) + 1
            more.append(start)
            ended, reached = 0, one.step
        else:
            reached = one.step if reached is None else max(reached, one.step)
    return tuple(more)
