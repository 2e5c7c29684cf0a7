"""Which of the signals of one failure names its cause.

Everything else is consequence: the ranks that waited for the one that died, the launcher that
killed the rest, Slurm's last lines. Order alone does not tell, for kernels and epilogs speak last;
loudness does not, for a thousand ranks lose their connection to one. What tells is how deep the
evidence reaches, when it was, and for watchdogs what they say about each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from middlewatch.attribution.classes import (
    KILLED_UNKNOWN,
    NODE_FAILURE,
    OPEN_TO_PROOF,
    SILENT_HANG,
    STOPPED_FROM_OUTSIDE,
    Depth,
    class_of,
    depth_of,
)
from middlewatch.attribution.collectives import (
    MISSING,
    UNATTRIBUTED,
    WAITING,
    finding_of,
    named_missing,
    rank_in,
)
from middlewatch.attribution.stacks import LOCATED, odd_one
from middlewatch.attribution.stopped import silent_death
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.signal import SILENT, Signal, SignalKind

DEEPER_WITHIN = timedelta(minutes=10)
"""How long after a first symptom deeper evidence still explains it (kernel and epilog lines)."""

RACE = timedelta(seconds=60)
"""Within this, the order in which processes of one failure print says little."""

STOPPED_WITHIN = timedelta(seconds=90)
"""Slurm's KillWait is 30 s by default: symptoms this shortly before an end from outside are the
program being stopped."""

LINK = "ib_link_error"
_PEER = "peer="

_CLASSED = frozenset(
    {SignalKind.EXTERNAL, SignalKind.SECOND_WITNESS, SignalKind.SLOW, SignalKind.NUMERIC}
)

# Without a line that names a cause, the most telling of what is left speaks for the group.
_FALLBACK = (
    SignalKind.SCHEDULER_END,
    SignalKind.LAUNCHER_END,
    SignalKind.CASCADE_LINE,
    SignalKind.SECOND_WITNESS,
    SignalKind.EXTERNAL,
    SignalKind.SILENCE,
    SignalKind.OVERDUE,
    SignalKind.NO_PROGRESS_AFTER_FAILURE,
)


_OWN_SIGNAL = re.compile(
    r"(?i)segmentation|segfault|bus error|SIGSEGV|SIGBUS|SIGILL|SIGFPE|signal:? (?:4|7|8|11)\b"
    r"|exit ?code:? -(?:4|7|8|11)\b|exit(?:ed with)? code (?:132|135|136|139)\b"
)
_OF_OTHERS = re.compile(
    r"(?i)nccl|gloo|mpi|c10d|collective|connection|socket|peer|broken ?pipe|store|communicator"
    r"|EOFError|remote|rendezvous|actor|worker died"
)
"""What is in the words of an exception that a rank raises because another one is gone."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The signal that names the cause, the class that it stands for among the others, and, where
    that follows from several signals, why."""

    signal: Signal
    failure_class: str
    why: str = ""


def cause_of(signals: Sequence[Signal], attempt: Attempt) -> Cause:
    """The cause of one failure, from its signals (at least one, in storage order)."""
    requeued = attempt.end is not None and attempt.end.by is EndedBy.REQUEUE
    first = first_cause(signals, requeued=requeued)
    if first.kind is SignalKind.SECOND_WITNESS and class_of(first) == SILENT_HANG:
        # It confirms a silence. What explains that is asked of the silence, unless it names a node.
        silences = (s for s in signals if s.kind in SILENT and not first.nodes)
        first = next(silences, first)
    if class_of(first) in WAITING and first.kind is SignalKind.WATCHDOG_LINE:
        found = finding_of(signals, world_of(attempt))
        located = odd_one(signals)
        if located is not None and (found is None or found.rank is None):
            return Cause(located, LOCATED, "one stack is unlike all the others")
        named = named_missing(signals)
        if named is not None and (found is None or found.failure_class == UNATTRIBUTED):
            return Cause(named, MISSING, f"rank {named.ranks[0]} is named as the missing one")
        if found is not None:
            return Cause(found.signal, found.failure_class, found.why)
    if first.kind in SILENT:
        located = odd_one(signals)
        if located is not None:
            return Cause(located, LOCATED, "one stack is unlike all the others")
        hint = _why_silent(first, signals)
        if hint is not None:
            return Cause(hint, class_of(hint), "it has been silent since")
    return Cause(first, class_of(first))


def _why_silent(silence: Signal, signals: Sequence[Signal]) -> Signal | None:
    """A line that explains a silence: of a cause, and not older than the silence by much."""
    lasted = timedelta(seconds=silence.value or 0.0)
    since = silence.learned_at - lasted - RACE
    return next(
        (
            s
            for s in sorted(signals, key=lambda signal: signal.happened_at)
            if s.kind is SignalKind.HINT
            and (depth_of(s.failure_class) >= Depth.CAUSE or (s.failure_class in WAITING and s.ranks))
            and s.happened_at >= since
        ),
        None,
    )  # fmt: skip


def world_of(attempt: Attempt) -> int | None:
    """How many ranks the attempt has, where the scheduler told enough to say so."""
    nodes = len(attempt.nodes) or attempt.node_count
    return nodes * attempt.gpus_per_node or None


def first_cause(signals: Sequence[Signal], *, requeued: bool = False) -> Signal:
    """The signal of a group that names the cause; the others are its cascade.

    The scheduler's word that a node failed outranks every line. Otherwise the earliest evidence
    speaks, unless deeper evidence explains it. With ``requeued`` the attempt's end was a requeue,
    perhaps our own: an answer to the failure and never its cause.
    """
    ends = [s for s in signals if s.kind is SignalKind.SCHEDULER_END]
    node_failed = next((s for s in ends if s.failure_class == NODE_FAILURE), None)
    if node_failed is not None:
        return node_failed
    in_time = sorted(signals, key=lambda signal: signal.happened_at)
    # The scheduler's word becomes more exact (who cancelled): the last one counts.
    heard = () if requeued else ends[-1:]
    candidates = [
        s
        for s in in_time
        if _names_a_cause(s) and (s.kind is not SignalKind.SCHEDULER_END or s in heard)
    ]
    victims = [
        s for s in in_time if s.kind is SignalKind.CASCADE_LINE and class_of(s) != KILLED_UNKNOWN
    ]
    if not candidates:
        # What the victims say of their own end is better than nothing.
        died = silent_death(victims, in_time)
        if died is not None:
            return died
        told = _who_stopped_it(victims, in_time)
        if told is not None:
            return told
        return victims[0] if victims else _most_telling(in_time, requeued=requeued)
    hints = [s for s in in_time if s.kind is SignalKind.HINT and s.failure_class]
    first = _deepest_at_one_place(candidates)
    if class_of(first) == "native_crash" and not _died_alone(first):
        # An abort is how many programs end once they have said why.
        said = [s for s in victims if timedelta() <= first.happened_at - s.happened_at <= RACE]
        if said:
            return said[0]
    stood_still = _silence_before(first, in_time)
    if stood_still is not None:
        return stood_still
    explaining = [s for s in (*candidates, *hints) if _explains(s, first)]
    if explaining:
        deepest = max(_depth(s) for s in explaining)
        first = min(
            (s for s in explaining if _depth(s) is deepest), key=lambda signal: signal.happened_at
        )
    accused = _own_port(first, (*candidates, *hints))
    if accused is not None:
        return accused
    foretold = [
        s
        for s in hints
        if (class_of(s) == class_of(first) or _awaited(s, first))
        and timedelta() <= first.happened_at - s.happened_at <= DEEPER_WITHIN
    ]
    return foretold[0] if foretold else first


def _own_port(first: Signal, others: Sequence[Signal]) -> Signal | None:
    """The line about a port's own error, where the others only say that they lost a peer: they
    notice it on both ends of the link, and before or after the port's owner."""
    if class_of(first) != LINK or _PEER not in first.detail:
        return None
    own = (
        s
        for s in others
        if class_of(s) == LINK
        and _PEER not in s.detail
        and s.nodes
        and s.step == first.step
        and abs(s.happened_at - first.happened_at) <= RACE
    )
    return min(own, key=lambda s: (s.kind is SignalKind.HINT, s.happened_at), default=None)


def _who_stopped_it(victims: Sequence[Signal], in_time: Sequence[Signal]) -> Signal | None:
    """The launcher's word why the program was told to stop: those that were told do not know."""
    if victims and class_of(victims[0]) not in STOPPED_FROM_OUTSIDE:
        return None
    return next(
        (
            s
            for s in in_time
            if s.kind is SignalKind.LAUNCHER_END and class_of(s) in STOPPED_FROM_OUTSIDE
        ),
        None,
    )


def _awaited(hint: Signal, first: Signal) -> bool:
    """Whether the ranks waited for one that is named, and have not stepped until they lost it."""
    lost = class_of(first) == "peer_connection_lost"
    return lost and class_of(hint) in WAITING and bool(hint.ranks) and hint.step == first.step


def _depth(signal: Signal) -> Depth:
    """That somebody stopped the attempt is a cause only where the scheduler says so: a line about
    a signal received is also what the peers of a crashed rank print while they are killed."""
    kind = class_of(signal)
    if kind in STOPPED_FROM_OUTSIDE and signal.kind is not SignalKind.SCHEDULER_END:
        return Depth.SYMPTOM
    return depth_of(kind)


def _silence_before(first: Signal, in_time: Sequence[Signal]) -> Signal | None:
    """A job that stood still until somebody stopped it: the standstill is the cause."""
    stopped = first.kind is SignalKind.SCHEDULER_END and class_of(first) in STOPPED_FROM_OUTSIDE
    if not stopped:
        return None
    return next(
        (
            s
            for s in in_time
            if s.kind is SignalKind.SILENCE and first.happened_at - s.happened_at > STOPPED_WITHIN
        ),
        None,
    )


def _most_telling(in_time: Sequence[Signal], *, requeued: bool) -> Signal:
    """Who speaks where no line names a cause: the first of the most telling kind."""
    order = _FALLBACK[1:] + _FALLBACK[:1] if requeued else _FALLBACK
    return min(in_time, key=lambda s: order.index(s.kind) if s.kind in order else len(order))


def _names_a_cause(signal: Signal) -> bool:
    if signal.kind in {SignalKind.FAILURE_LINE, SignalKind.WATCHDOG_LINE}:
        return True
    if signal.kind in _CLASSED:
        return bool(signal.failure_class)
    # The scheduler's reason counts among the causes where it is one (memory, time, a person).
    return signal.kind is SignalKind.SCHEDULER_END and depth_of(signal.failure_class) >= Depth.CAUSE


def _deepest_at_one_place(candidates: Sequence[Signal]) -> Signal:
    """The earliest; of several patterns that matched the very same line, the deepest."""
    first = candidates[0]
    place = (first.source.identity, first.source.position)
    same = [s for s in candidates if (s.source.identity, s.source.position) == place]
    return max(same, key=lambda s: (_depth(s), -same.index(s)))


def _explains(deeper: Signal, first: Signal) -> bool:
    """Whether ``deeper`` is why ``first`` was seen."""
    if first.kind is SignalKind.SLOW:
        return False  # it goes on: what explains its slowness is told with it
    depth, of_first = _depth(deeper), _depth(first)
    apart = abs(deeper.happened_at - first.happened_at)
    if depth <= of_first:
        return False
    if depth is Depth.FAULT and first.kind is SignalKind.WATCHDOG_LINE:
        return False  # it waited for minutes: whatever explains that came before
    if depth is Depth.FAULT:
        # A process that died by itself is why another one lost it, if it is another one.
        return apart <= RACE and _died_alone(deeper) and _others(deeper, first)
    if of_first is Depth.CAUSE and not (depth is Depth.PROOF and class_of(first) in OPEN_TO_PROOF):
        return False
    stopped = class_of(deeper) in STOPPED_FROM_OUTSIDE
    return apart <= (STOPPED_WITHIN if stopped else DEEPER_WITHIN)


def _died_alone(signal: Signal) -> bool:
    """Whether a process died of itself: not by losing others, and not by aborting for them."""
    if class_of(signal) == "native_crash":
        return _OWN_SIGNAL.search(signal.excerpt) is not None
    return _OF_OTHERS.search(signal.excerpt) is None


def _others(one: Signal, other: Signal) -> bool:
    """Whether two lines are known to come from different ranks."""
    ranks = [s.ranks[0] if len(s.ranks) == 1 else rank_in(s.excerpt) for s in (one, other)]
    return None not in ranks and ranks[0] != ranks[1]
