"""Which rank the others wait for, told from the messages of a communication watchdog.

When one rank does not come to a collective, all the others say after the same time that it timed
out, and the one at fault may say nothing at all. Who is missing, who is behind, and who called
something else can still be read from what the others name: the sequence number, the operation, its
size, and what was enqueued and completed last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from middlewatch.model.signal import Signal, SignalKind

MISSING = "collective_missing_rank"
MISMATCH = "collective_mismatch"
UNATTRIBUTED = "collective_timeout_unattributed"
WAITING = frozenset({MISSING, MISMATCH, UNATTRIBUTED})
"""Classes that this module tells apart."""

_TIMEOUT = re.compile(
    r"collective operation timeout|timed? ?out.{0,80}\bSeqNum=|SeqNum=.{0,400}timed? ?out"
)
_WORK = re.compile(r"SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?(?:, NumelOut=(\d+))?")
_GROUP = re.compile(r"\[PG (?:ID )?(\d+)")
_RANKS = (
    re.compile(r"^\s*(?:\[\w+\]:)?\s*\[?rank\s?(\d+)\]?:", re.IGNORECASE),
    re.compile(r"\[(?:PG[^\]]*)?Rank (\d+)\]"),
)
_LAST = re.compile(r"last enqueued (?:NCCL )?work: (-?\d+), last completed (?:NCCL )?work: (-?\d+)")
_ONLY_FEW = 8
"""One in so many ranks may be silent for the silent ones to be the culprits."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One rank's word: what it waits in."""

    rank: int
    seq: int
    op: str
    size: tuple[str, str]
    signal: Signal


@dataclass(frozen=True, slots=True)
class Finding:
    """The class, the rank at fault (None where it is not told), the signal that tells it."""

    failure_class: str
    rank: int | None
    signal: Signal
    why: str


def finding_of(signals: Sequence[Signal], world: int | None) -> Finding | None:
    """What the watchdogs' messages of one failure amount to; None where there are none.

    ``world`` is the number of ranks, None where nobody knows it.
    """
    lines = [s for s in signals if s.kind is SignalKind.WATCHDOG_LINE]
    waits = _waits(lines)
    if not waits:
        return None
    first = waits[0].signal
    odd = _odd_one(waits)
    if odd is not None:
        return odd
    behind = _behind(lines)
    if behind is not None:
        rank, signal = behind
        return Finding(MISSING, rank, signal, f"rank {rank} has enqueued less than the others")
    silent = _silent(waits, world)
    if silent:
        missing = silent[0] if len(silent) == 1 else None
        spoken = _answer_of(missing, signals)
        names = ", ".join(map(str, silent[:8]))
        return Finding(
            MISSING, missing, spoken or first, f"all ranks but {names} wait in the same collective"
        )
    return Finding(UNATTRIBUTED, None, first, "every rank that speaks waits in the same collective")


def named_missing(signals: Iterable[Signal]) -> Signal | None:
    """The first line that names one rank which did not come, where no other line of its form names
    another one: a report of desynchronised ranks, or of a barrier with a list of who is missing."""
    lines = [s for s in signals if s.kind is SignalKind.FAILURE_LINE and s.failure_class == MISSING]
    alike = [s for s in lines if s.pattern_id == lines[0].pattern_id]
    named = {s.ranks for s in alike}
    return alike[0] if len(named) == 1 and len(alike[0].ranks) == 1 else None


def _answer_of(rank: int | None, signals: Iterable[Signal]) -> Signal | None:
    """What the missing rank itself said when the others gave up: it had not waited."""
    return next(
        (
            s
            for s in signals
            if rank is not None and s.kind is SignalKind.CASCADE_LINE
            and "dump signal" in s.excerpt and rank_in(s.excerpt) == rank
        ),
        None,
    )  # fmt: skip


def waits_for_others(signal: Signal) -> bool:
    """Whether a watchdog's message says that a collective has not come to its end in time."""
    return _TIMEOUT.search(signal.excerpt) is not None


def rank_in(text: str) -> int | None:
    """The global rank that a line names as its writer, or as the one that it is about."""
    for pattern in _RANKS:
        match = pattern.search(text[:400])
        if match is not None and len(match.group(1)) < 8:
            return int(match.group(1))
    return None


def _waits(lines: Iterable[Signal]) -> list[Wait]:
    """One for each rank: its first message of a timeout."""
    found: dict[tuple[int, str], Wait] = {}
    for signal in lines:
        if _TIMEOUT.search(signal.excerpt) is None:
            continue
        work = _WORK.search(signal.excerpt)
        rank = rank_in(signal.excerpt)
        if rank is None and len(signal.ranks) == 1:
            rank = signal.ranks[0]
        if work is None or rank is None:
            continue
        group = _GROUP.search(signal.excerpt)
        place = rank, "" if group is None else group.group(1)
        if place not in found:
            size = work.group(3) or "", work.group(4) or ""
            found[place] = Wait(rank, int(work.group(1)[:15]), work.group(2), size, signal)
    return list(found.values())


def _odd_one(waits: Sequence[Wait]) -> Finding | None:
    """The one (or the few) among many that waits in something else."""
    if len(waits) < 3:
        return _of_two(waits)
    groups: dict[str, list[Wait]] = {}
    for wait in waits:
        match = _GROUP.search(wait.signal.excerpt)
        groups.setdefault("" if match is None else match.group(1), []).append(wait)
    main = max(groups.values(), key=len)
    calls = Counter((w.seq, w.op, w.size) for w in main)
    if len(calls) < 2:
        return None
    (seq, op, size), most = calls.most_common(1)[0]
    others = [w for w in main if (w.seq, w.op, w.size) != (seq, op, size)]
    if len(others) >= most:
        return None
    odd = min(others, key=lambda w: (w.seq, w.rank))
    rank = odd.rank if len({w.rank for w in others}) == 1 else None
    if odd.seq < seq:
        why = f"rank {odd.rank} is in {odd.op} {odd.seq}, the others in {op} {seq}"
        return Finding(MISSING, rank if rank is not None else odd.rank, odd.signal, why)
    what = "calls" if odd.op != op or odd.seq > seq else "sends another size than the others in"
    why = f"rank {odd.rank} {what} {odd.op} {odd.seq}, the others {op} {seq}"
    return Finding(MISMATCH, rank, odd.signal, why)


def _of_two(waits: Sequence[Wait]) -> Finding | None:
    if len(waits) != 2:
        return None
    one, other = sorted(waits, key=lambda w: w.seq)
    if one.seq < other.seq:
        why = (
            f"rank {one.rank} is in {one.op} {one.seq}, rank {other.rank} in {other.op} {other.seq}"
        )
        return Finding(MISSING, one.rank, one.signal, why)
    if (one.op, one.size) != (other.op, other.size):
        why = f"ranks {one.rank} and {other.rank} call different operations at {one.seq}"
        return Finding(MISMATCH, None, other.signal, why)
    return None


def _behind(lines: Iterable[Signal]) -> tuple[int, Signal] | None:
    """The one rank whose last enqueued work is older than everybody else's."""
    last: dict[int, tuple[int, Signal]] = {}
    for signal in lines:
        match = _LAST.search(signal.excerpt)
        rank = rank_in(signal.excerpt)
        if match is not None and rank is not None and rank not in last:
            last[rank] = int(match.group(1)), signal
    enqueued = Counter(number for number, _ in last.values())
    if len(last) < 3 or len(enqueued) != 2:
        return None
    least = min(enqueued)
    if enqueued[least] != 1:
        return None
    return next((rank, signal) for rank, (number, signal) in last.items() if number == least)


def _silent(waits: Sequence[Wait], world: int | None) -> tuple[int, ...]:
    """The few ranks that say nothing while all the others do."""
    if world is None or len({(w.seq, w.op) for w in waits}) != 1:
        return ()
    spoken = {w.rank for w in waits}
    if max(spoken) >= world or len(spoken) < 2:
        return ()
    silent = tuple(rank for rank in range(world) if rank not in spoken)
    return silent if silent and len(silent) * _ONLY_FEW <= max(world, _ONLY_FEW) else ()
