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

from middlewatch.attribution.causes import DEEPER_WITHIN, Cause, cause_of
from middlewatch.attribution.classes import class_of
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.identity import AttemptId
from middlewatch.model.issue import NO_FAULT, Issue, IssueState
from middlewatch.model.signal import Domain, Severity, Signal, SignalKind

ISSUE_NAMESPACE = uuid.UUID("a4d4f0d2-5f0e-5a3b-9a55-1f6f0c7f6b21")

SLOW = "slow"
DIVERGED = "numerical_divergence"

LINES_KEPT = 200
"""Lines named in one cascade. Kinds that permit something are kept beyond it."""

_LINES = frozenset(
    {
        SignalKind.FAILURE_LINE,
        SignalKind.WATCHDOG_LINE,
        SignalKind.CASCADE_LINE,
        SignalKind.HINT,
    }
)

_REMARKS = frozenset({SignalKind.HINT, SignalKind.CASCADE_LINE})
"""Kinds that say of nobody that he has failed."""


@dataclass(slots=True)
class _Group:
    signals: list[Signal] = field(default_factory=list)
    recovered: Signal | None = None
    outlived: bool = False

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
    groups = _groups((s for s in _once(signals) if s.attempt_id == attempt.id), attempt)
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


def _once(signals: Iterable[Signal]) -> Iterable[Signal]:
    seen: set[str] = set()
    for signal in signals:
        if signal.key not in seen:
            seen.add(signal.key)
            yield signal


def _groups(signals: Iterable[Signal], attempt: Attempt) -> list[_Group]:
    """Cut the stream of one attempt into failures. What is no failure (unreadable, vanished,
    blind) stands apart, and so does what may last beside one: slowness, and numbers that are
    none."""
    done: list[_Group] = []
    current = _Group()
    apart: dict[str, _Group] = {}
    for signal in signals:
        match signal.kind:
            case SignalKind.CANNOT_READ | SignalKind.VANISHED:
                apart.setdefault(signal.kind, _Group()).signals.append(signal)
            case SignalKind.BLIND:
                apart.setdefault(signal.pattern_id, _Group()).signals.append(signal)
            case SignalKind.SLOW:
                apart.setdefault(SLOW, _Group()).signals.append(signal)
            case SignalKind.NUMERIC:
                # A jump has no class: it is a remark, and no failure.
                if signal.failure_class:
                    apart.setdefault(signal.kind, _Group()).signals.append(signal)
            case SignalKind.DEPENDENCY:
                # What a job waits for is no trouble of it.
                continue
            case SignalKind.SEEN_AGAIN:
                done.extend(_over(apart, signal.pattern_id, signal))
            case SignalKind.RECOVERED if signal.failure_class.startswith(SLOW):
                done.extend(_over(apart, SLOW, signal))
            case SignalKind.RECOVERED:
                # What ended cannot recover: such a line was read late and lies before the end.
                if current.signals and not current.ended:
                    current.recovered = signal
                    done.append(current)
                    current = _Group()
            case _:
                if _outlived(current, signal):
                    current.outlived = True
                    done.append(current)
                    current = _Group()
                current.signals.append(signal)
    slow = apart.get(SLOW)
    if slow is not None:
        for group in (*done, current):
            slow.signals.extend(_of_the_network(slow.signals[0], group))
    numeric = apart.get(SignalKind.NUMERIC)
    if numeric is not None and _is_trouble(current, attempt) and _of_numbers(current, attempt):
        current.signals[:0] = apart.pop(SignalKind.NUMERIC).signals
    if current.signals:
        done.append(current)
    return done + list(apart.values())


def _outlived(group: _Group, signal: Signal) -> bool:
    """Whether the program has gone on for long behind a group that only holds remarks and
    consequences: what comes then is another matter."""
    if not group.signals or any(s.kind not in _REMARKS for s in group.signals):
        return False
    last = group.signals[-1]
    stepped = signal.step is not None and (last.step is None or signal.step > last.step)
    return stepped and signal.happened_at - last.happened_at > DEEPER_WITHIN


def _of_the_network(slow: Signal, group: _Group) -> list[Signal]:
    """The lines about the network that were seen when a slowdown began: they say where."""
    return [
        replace(s, kind=SignalKind.HINT)
        for s in group.signals
        if s.kind in {SignalKind.HINT, SignalKind.FAILURE_LINE}
        and s.domain is Domain.NETWORK
        and slow.failure_class == "slow_fabric"
        and abs(slow.happened_at - s.happened_at) <= DEEPER_WITHIN
    ]


def _over(apart: dict[str, _Group], name: str, signal: Signal) -> tuple[_Group, ...]:
    """The group that ``signal`` says is over, if there is one."""
    group = apart.pop(name, None)
    if group is None:
        return ()
    group.recovered = signal
    return (group,)


def _of_numbers(group: _Group, attempt: Attempt) -> bool:
    """Whether numbers that were none are what a failure is about: it says so itself, or it is an
    end of which nothing else is known."""
    told = [s for s in group.signals if s.kind is SignalKind.FAILURE_LINE]
    if told:
        return any(s.failure_class == DIVERGED for s in told)
    return attempt.end is not None and attempt.end.by is EndedBy.FAILURE


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
    found = cause_of(group.signals, attempt)
    cause = found.signal
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
        failure_class=found.failure_class,
        state=state,
        first_cause=cause.key,
        cascade=cascade,
        happened_at=cause.happened_at,
        learned_at=cause.learned_at,
        summary=_summary(found),
        version=0 if before is None else before.version,
    )


def _issue_id(attempt: AttemptId, opening: Signal) -> str:
    """Stable: the first signal stored of a failure names it, whatever its cause turns out to be."""
    return str(uuid.uuid5(ISSUE_NAMESPACE, f"{attempt}/{opening.key}"))


def _state(group: _Group, before: Issue | None, attempt: Attempt) -> IssueState:
    if before is not None and before.state is IssueState.CLOSED:
        return IssueState.CLOSED
    if group.recovered is not None or group.outlived:
        return IssueState.RECOVERED
    if attempt.end is not None and (
        attempt.end.by is EndedBy.COMPLETION or all(class_of(s) in NO_FAULT for s in group.signals)
    ):
        # What was no failure of the attempt has nothing more to say once it is over.
        return IssueState.CLOSED
    return IssueState.OPEN


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


def _summary(found: Cause) -> str:
    cause = found.signal
    where = f" at step {cause.step}" if cause.step is not None else ""
    by = cause.pattern_id or cause.kind.value
    text = " ".join((found.why or cause.excerpt or cause.detail).split())[:200]
    return f"{found.failure_class}{where} ({by}){': ' + text if text else ''}"
