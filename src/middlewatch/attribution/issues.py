"""From single signals to failures as a person would name them.

One failure makes many signals: the rank that died says so, its peers lose a connection, the
launcher reports, the scheduler ends the attempt. They are one issue with one first cause, and the
rest is its cascade. What a program healed by itself is an issue of its own, closed; what comes
afterwards is another one.

Signals are taken in the order in which they were stored: for one attempt that is the order of its
log as the watcher read it, and a *recovered* refers to everything before it. Within one issue the
first cause is sought by the time at which things happened, because two files of one attempt are
not read in step.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from middlewatch.attribution.classes import (
    CANNOT_READ,
    KILLED_UNKNOWN,
    NO_FAULT,
    NODE_FAILURE,
    SILENT_HANG,
    STOPPED_FROM_OUTSIDE,
    VANISHED,
    Depth,
    depth_of,
)
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.identity import AttemptId
from middlewatch.model.issue import Issue, IssueState
from middlewatch.model.signal import Severity, Signal, SignalKind

ISSUE_NAMESPACE = uuid.UUID("a4d4f0d2-5f0e-5a3b-9a55-1f6f0c7f6b21")

DEEPER_WITHIN = timedelta(minutes=10)
"""How long after a first symptom deeper evidence still explains it (kernel and epilog lines)."""

STOPPED_WITHIN = timedelta(seconds=90)
"""Slurm's KillWait is 30 s by default: symptoms this shortly before an end from outside are the
program being stopped."""

LINES_KEPT = 200
"""Lines named in one cascade. Kinds that permit something are kept beyond it."""

_LINES = frozenset({SignalKind.FAILURE_LINE, SignalKind.WATCHDOG_LINE, SignalKind.CASCADE_LINE})
_CLASSED = frozenset({SignalKind.EXTERNAL, SignalKind.SECOND_WITNESS})

# Without a line that names a cause, the most telling of what is left speaks for the group.
_FALLBACK = (
    SignalKind.SCHEDULER_END,
    SignalKind.LAUNCHER_END,
    SignalKind.CASCADE_LINE,
    SignalKind.SECOND_WITNESS,
    SignalKind.EXTERNAL,
    SignalKind.NO_PROGRESS_AFTER_FAILURE,
    SignalKind.SILENCE,
)


@dataclass(slots=True)
class _Group:
    signals: list[Signal] = field(default_factory=list)
    recovered: Signal | None = None

    @property
    def ended(self) -> bool:
        return any(s.kind is SignalKind.SCHEDULER_END for s in self.signals)


def issues_from(
    signals: Sequence[Signal], known: Sequence[Issue], attempt: Attempt
) -> tuple[Issue, ...]:
    """All issues of one attempt, oldest first.

    ``signals`` are those of this attempt in storage order; others are passed over. ``known`` are
    its issues as stored: one that nothing changed comes back equal to what was given, so that the
    caller writes what differs. The same signals again give the same issues.
    """
    groups = _groups(s for s in _once(signals) if s.attempt_id == attempt.id)
    found: list[Issue] = []
    taken: set[str] = set()
    for group in groups:
        if not _is_trouble(group, attempt):
            continue
        issue = _issue(group, known, taken, attempt)
        taken.add(issue.id)
        found.append(issue)
    keys = {key for issue in found for key in (issue.first_cause, *issue.cascade)}
    for issue in known:
        if issue.id in taken:
            continue
        merged = issue.first_cause in keys and issue.state is IssueState.OPEN
        found.append(replace(issue, state=IssueState.CLOSED) if merged else issue)
    return tuple(sorted(found, key=lambda issue: (issue.happened_at, issue.id)))


def governing(issues: Iterable[Issue]) -> Issue | None:
    """The issue that a decision is about: the newest open failure, if there is one."""
    standing = [
        issue
        for issue in issues
        if issue.state is IssueState.OPEN and issue.failure_class not in NO_FAULT
    ]
    return max(standing, key=lambda issue: (issue.happened_at, issue.id), default=None)


def signals_of(issue: Issue, signals: Iterable[Signal]) -> tuple[Signal, ...]:
    """The signals that an issue names, in the order given."""
    keys = {issue.first_cause, *issue.cascade}
    return tuple(signal for signal in signals if signal.key in keys)


def class_of(signal: Signal) -> str:
    """The failure class that a signal stands for; kinds without one have a class of their own."""
    if signal.failure_class:
        return signal.failure_class
    match signal.kind:
        case SignalKind.SILENCE:
            return SILENT_HANG
        case SignalKind.WATCHDOG_LINE:
            return "collective_timeout_unattributed"
        case SignalKind.CANNOT_READ:
            return CANNOT_READ
        case SignalKind.VANISHED:
            return VANISHED
        case _:
            return KILLED_UNKNOWN


def _once(signals: Iterable[Signal]) -> Iterable[Signal]:
    seen: set[str] = set()
    for signal in signals:
        if signal.key not in seen:
            seen.add(signal.key)
            yield signal


def _groups(signals: Iterable[Signal]) -> list[_Group]:
    """Cut the stream of one attempt into failures; unreadable logs and vanishing stand apart."""
    done: list[_Group] = []
    current = _Group()
    apart: dict[SignalKind, _Group] = {}
    blind: dict[str, _Group] = {}
    for signal in signals:
        if signal.kind in {SignalKind.CANNOT_READ, SignalKind.VANISHED}:
            apart.setdefault(signal.kind, _Group()).signals.append(signal)
        elif signal.kind is SignalKind.BLIND:
            blind.setdefault(signal.pattern_id, _Group()).signals.append(signal)
        elif signal.kind is SignalKind.SEEN_AGAIN:
            seen = blind.pop(signal.pattern_id, None)
            if seen is not None:
                seen.recovered = signal
                done.append(seen)
        elif signal.kind is SignalKind.RECOVERED:
            # What ended cannot recover: such a line was read late and lies before the end.
            if current.signals and not current.ended:
                current.recovered = signal
                done.append(current)
                current = _Group()
        else:
            current.signals.append(signal)
    if current.signals:
        done.append(current)
    return done + list(apart.values()) + list(blind.values())


def _is_trouble(group: _Group, attempt: Attempt) -> bool:
    """Whether a group is worth an issue: an end alone that is no failure is not."""
    return any(
        signal.kind is not SignalKind.SCHEDULER_END or _end_is_trouble(signal, attempt)
        for signal in group.signals
        if signal.kind is not SignalKind.HINT
    )


def _end_is_trouble(signal: Signal, attempt: Attempt) -> bool:
    if attempt.end is not None:
        return attempt.end.by is not EndedBy.COMPLETION
    return bool(signal.failure_class) or signal.severity is not Severity.INFO


def _issue(group: _Group, known: Sequence[Issue], taken: set[str], attempt: Attempt) -> Issue:
    requeued = attempt.end is not None and attempt.end.by is EndedBy.REQUEUE
    cause = first_cause(group.signals, requeued=requeued)
    cascade = _cascade(group, cause)
    keys = {cause.key, *cascade}
    before = next(
        (
            issue
            for issue in known
            if issue.id not in taken and (issue.first_cause in keys or keys & set(issue.cascade))
        ),
        None,
    )
    state = _state(group, before, attempt)
    return Issue(
        id=_issue_id(attempt.id, group.signals[0]) if before is None else before.id,
        attempt_id=attempt.id,
        failure_class=class_of(cause),
        state=state,
        first_cause=cause.key,
        cascade=cascade,
        happened_at=cause.happened_at,
        learned_at=cause.learned_at,
        summary=_summary(cause),
        version=0 if before is None else before.version,
    )


def _issue_id(attempt: AttemptId, opening: Signal) -> str:
    """Stable: the first signal stored of a failure names it, whatever its cause turns out to be."""
    return str(uuid.uuid5(ISSUE_NAMESPACE, f"{attempt}/{opening.key}"))


def _state(group: _Group, before: Issue | None, attempt: Attempt) -> IssueState:
    if before is not None and before.state is IssueState.CLOSED:
        return IssueState.CLOSED
    if group.recovered is not None:
        return IssueState.RECOVERED
    if attempt.end is not None and attempt.end.by is EndedBy.COMPLETION:
        return IssueState.CLOSED
    return IssueState.OPEN


def first_cause(signals: Sequence[Signal], *, requeued: bool = False) -> Signal:
    """The signal of a group that names the cause; the others are its cascade.

    The scheduler's word that a node failed outranks every line. Otherwise the earliest evidence
    speaks, unless it is a symptom that deeper evidence within `DEEPER_WITHIN` explains. With
    ``requeued`` the attempt's end was a requeue, perhaps our own: an answer to the failure and
    never its cause.
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
    if not candidates:
        return _most_telling(in_time, requeued=requeued)
    first = _deepest_at_one_place(candidates)
    if _depth(first) is not Depth.SYMPTOM:
        return first
    explaining = [s for s in candidates if _explains(s, first)]
    if not explaining:
        return first
    deepest = max(_depth(s) for s in explaining)
    return next(s for s in explaining if _depth(s) is deepest)


def _depth(signal: Signal) -> Depth:
    """That somebody stopped the attempt is a cause only where the scheduler says so: a line about
    a signal received is also what the peers of a crashed rank print while they are killed."""
    kind = class_of(signal)
    if kind in STOPPED_FROM_OUTSIDE and signal.kind is not SignalKind.SCHEDULER_END:
        return Depth.SYMPTOM
    return depth_of(kind)


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
    return (
        signal.kind is SignalKind.SCHEDULER_END
        and depth_of(signal.failure_class) is not Depth.SYMPTOM
    )


def _deepest_at_one_place(candidates: Sequence[Signal]) -> Signal:
    """The earliest; of several patterns that matched the very same line, the deepest."""
    first = candidates[0]
    place = (first.source.identity, first.source.position)
    same = [s for s in candidates if (s.source.identity, s.source.position) == place]
    return max(same, key=lambda s: (_depth(s), -same.index(s)))


def _explains(deeper: Signal, symptom: Signal) -> bool:
    if _depth(deeper) is Depth.SYMPTOM:
        return False
    window = STOPPED_WITHIN if class_of(deeper) in STOPPED_FROM_OUTSIDE else DEEPER_WITHIN
    return abs(deeper.happened_at - symptom.happened_at) <= window


def _cascade(group: _Group, cause: Signal) -> tuple[str, ...]:
    rest = [s for s in group.signals if s.key != cause.key]
    if group.recovered is not None:
        rest.append(group.recovered)
    kept: list[str] = []
    lines = 0
    for signal in rest:
        if signal.kind in _LINES:
            lines += 1
            if lines > LINES_KEPT:
                continue
        kept.append(signal.key)
    return tuple(kept)


def _summary(cause: Signal) -> str:
    where = f" at step {cause.step}" if cause.step is not None else ""
    by = cause.pattern_id or cause.kind.value
    text = " ".join((cause.excerpt or cause.detail).split())[:200]
    return f"{class_of(cause)}{where} ({by}){': ' + text if text else ''}"
