"""Where the last of several attempts begins in one file.

A requeued job goes on writing to the file of the attempt before, and so does a launcher that
starts its workers again. What the first attempt died of is settled; the question is about the last
one. No line says reliably "here begins a new attempt", but two things together do: something
ended, and then a start-up, known by its own words, by the log's own first lines coming again, or by
steps that are counted a second time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from middlewatch.model.pattern import Pattern, PatternKind

_STARTS = re.compile(
    rb"(?i)"
    rb"^\W{0,8}[=*#-]{2,}.{0,20}\b(?:re-?start|attempt|retry|requeue|resum\w+)\W{0,4}(?:no\.?|number)?\W{0,3}\d"
    rb"|^\W{0,8}[=*#-]{2,}\s*(?:starting\s+)?job\s+\d+.{0,60}\bnodes?\b"
    rb"|\brestart_count=[1-9]"
    rb"|Rendezvous complete for workers"
    rb"|Setting OMP_NUM_THREADS environment variable for each process"
    rb"|SLURM_RESTART_COUNT\W{1,3}[1-9]"
)
_FIRST_LINES = 16
_NUMBERS = re.compile(rb"0x[0-9a-fA-F]+|[0-9a-f]{12,}|\d+(?:[.,:_-]\d+)*")
_PREFIX = re.compile(rb"^(?:\[?rank\s?\d+\]?:|\d+:)\s*")
_SHORTEST = 12

_STRONG = frozenset({PatternKind.LAUNCHER_END, PatternKind.RESTARTING})
_WEAK = frozenset({PatternKind.FAILURE, PatternKind.EXCEPTION, PatternKind.WATCHDOG})


@dataclass(frozen=True, slots=True)
class Found:
    """One line that one pattern matched: what is needed to tell attempts apart."""

    line: int
    pattern: Pattern
    step: int | None = None


def attempt_starts(lines: Sequence[bytes], found: Sequence[Found]) -> tuple[int, ...]:
    """The numbers (from 1) of the lines with which attempts begin; the first is always 1."""
    strong = sorted({f.line for f in found if f.pattern.kind in _STRONG or _put_back(f, lines)})
    weak = sorted({f.line for f in found if f.pattern.kind in _WEAK})
    starts = [1]
    first = _known_first(lines, found)
    quiet = frozenset(f.line for f in found if f.pattern.kind is PatternKind.PROGRESS)
    for number in range(2, len(lines) + 1):
        if number in quiet:
            continue
        told = _STARTS.search(lines[number - 1][:400]) is not None
        again = _normal(lines[number - 1]) in first
        if not told and not again:
            continue
        if _between(strong, starts[-1], number) or (
            _between(weak, starts[-1], number) and _two_again(lines, number, first)
        ):
            starts.append(number)
    counted = _counted_again(found, strong, starts)
    return tuple(sorted({*starts, *counted}))


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


def _known_first(lines: Sequence[bytes], found: Sequence[Found]) -> frozenset[bytes]:
    hits = {f.line for f in found}
    kept: list[bytes] = []
    for number, line in enumerate(lines[: _FIRST_LINES * 3], 1):
        text = _normal(line)
        if number not in hits and len(text) >= _SHORTEST and any(c > 64 for c in text):
            kept.append(text)
        if len(kept) >= _FIRST_LINES:
            break
    # What is printed several times while starting (by each rank) says nothing when it comes again.
    return frozenset(text for text in kept if kept.count(text) == 1)


def _two_again(lines: Sequence[bytes], number: int, first: frozenset[bytes]) -> bool:
    near = {_normal(line) for line in lines[number - 1 : number + 5]}
    return len(near & first) >= 2


def _counted_again(
    found: Sequence[Found], strong: Sequence[int], starts: Sequence[int]
) -> tuple[int, ...]:
    """Beginnings that only the steps betray: counted again behind an end."""
    more: list[int] = []
    reached: int | None = None
    ended = 0
    loud = {f.line for f in found if f.pattern.kind is not PatternKind.PROGRESS}
    begun = set(starts)
    for one in found:
        if one.line in strong:
            ended = one.line
        if any(ended < start <= one.line for start in begun):
            ended, reached = 0, None if one.step is None else one.step
        if one.pattern.kind is not PatternKind.PROGRESS or one.step is None:
            continue
        if ended and reached is not None and one.step <= reached and one.line > ended:
            start = max((n for n in loud if ended <= n < one.line), default=ended) + 1
            more.append(start)
            ended, reached = 0, one.step
        else:
            reached = one.step if reached is None else max(reached, one.step)
    return tuple(more)
