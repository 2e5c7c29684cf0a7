"""What a matched line means: failures become signals, quotations and repetitions do not.

A line can match several patterns: the most specific one counts. A line of the form of an exception
means something only where a traceback is open, and not behind "Exception ignored in", which Python
prints of programs that go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from middlewatch.detection.batch import Hit
from middlewatch.detection.names import nodes_of, ranks_of, short, writer_of
from middlewatch.detection.state import OPEN_TRACEBACKS, DetectionState, OpenTraceback, Suspicion
from middlewatch.detection.structured import told_as_error, with_fields
from middlewatch.model.copies import replace
from middlewatch.model.pattern import PatternKind
from middlewatch.model.signal import Signal, SignalKind, Source, SourceKind, signal_key

EXCERPT = 2000
TRACEBACK_BYTES = 262_144
"""A traceback that is longer than this was interrupted."""
IGNORED_BYTES = 2_048

UNNAMED = "user_exception"
"""What an exception is whose own words say no more."""

SIGNALS = {
    PatternKind.FAILURE: SignalKind.FAILURE_LINE,
    PatternKind.EXCEPTION: SignalKind.FAILURE_LINE,
    PatternKind.WATCHDOG: SignalKind.WATCHDOG_LINE,
    PatternKind.CASCADE: SignalKind.CASCADE_LINE,
    PatternKind.LAUNCHER_END: SignalKind.LAUNCHER_END,
    PatternKind.HINT: SignalKind.HINT,
    PatternKind.STACK: SignalKind.HINT,
}
SUSPICIOUS = frozenset({SignalKind.FAILURE_LINE, SignalKind.WATCHDOG_LINE, SignalKind.LAUNCHER_END})


def cut(group: Sequence[Hit]) -> Sequence[Hit]:
    """The hits of one line; the failures among them are cut down to the one that counts."""
    if len(group) == 1:
        return group
    rest = _quieter(tuple(hit for hit in group if hit.pattern.kind not in SIGNALS))
    if any(hit.pattern.kind is PatternKind.HARMLESS for hit in group):
        # Somebody wrote down that this very line means nothing.
        return rest
    loud = [hit for hit in group if hit.pattern.kind in SIGNALS]
    return (*rest, max(loud, key=lambda hit: hit.pattern.priority)) if loud else rest


_SAVES = frozenset({PatternKind.CHECKPOINT_SAVING, PatternKind.CHECKPOINT_SAVED})


def _quieter(rest: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """The hits of one line that are no failures: an evaluation's line is no step of the training,
    and what a framework's own pattern reads is not read again by one for any loop."""
    if len(rest) < 2:
        return rest
    evaluates = any(hit.pattern.kind is PatternKind.EVALUATION for hit in rest)
    kept: list[Hit] = []
    for kinds in (frozenset({PatternKind.PROGRESS}), _SAVES):
        same = [hit for hit in rest if hit.pattern.kind in kinds]
        if same and not (evaluates and PatternKind.PROGRESS in kinds):
            best = max(hit.pattern.priority for hit in same)
            kept.extend(hit for hit in same if hit.pattern.priority == best)
    return tuple(
        hit
        for hit in rest
        if (hit.pattern.kind is not PatternKind.PROGRESS and hit.pattern.kind not in _SAVES)
        or hit in kept
    )


def with_traceback(state: DetectionState, hit: Hit) -> DetectionState:
    """A traceback began, or the announcement of one that means nothing; or a frame of an open one
    says what it is about."""
    hit = with_fields(hit)
    writer = writer_of(hit)
    others = tuple(t for t in state.tracebacks if t.writer != writer)
    announced = _open(state, hit)
    about = hit.pattern.failure_class
    if about:
        if announced is None:
            return state
        return replace(state, tracebacks=(*others, replace(announced, about=about)))
    harmless = hit.pattern.kind is PatternKind.HARMLESS or (
        announced is not None
        and announced.harmless
        and hit.offset - announced.offset <= IGNORED_BYTES
    )
    opened = OpenTraceback(writer, short(hit.stream), hit.offset, harmless)
    return replace(state, tracebacks=(*others, opened)[-OPEN_TRACEBACKS:])


def _open(state: DetectionState, hit: Hit) -> OpenTraceback | None:
    writer = writer_of(hit)
    for opened in state.tracebacks:
        near = 0 <= hit.offset - opened.offset <= TRACEBACK_BYTES
        if opened.writer == writer and opened.stream == short(hit.stream) and near:
            return opened
    return None


def with_failure(
    state: DetectionState, hit: Hit, happened_at: datetime, learned_at: datetime
) -> tuple[DetectionState, Signal | None]:
    """The state and the signal after a line of one of the failure kinds."""
    about = ""
    hit = with_fields(hit)
    if hit.pattern.kind is PatternKind.EXCEPTION:
        opened = _open(state, hit)
        if opened is None and not told_as_error(hit.line):
            return state, None
        if opened is not None:
            state = replace(state, tracebacks=tuple(t for t in state.tracebacks if t != opened))
            if opened.harmless:
                return state, None
            about = opened.about
    signal = signal_of(state, hit, happened_at, learned_at)
    if about and signal.failure_class == UNNAMED:
        signal = replace(signal, failure_class=about)
    if signal.kind not in SUSPICIOUS:
        return state, signal
    before = state.suspicion
    if before is None or before.advances:
        # Steps between two failures say nothing about what comes after the second.
        watchdog = signal.kind is SignalKind.WATCHDOG_LINE
        suspicion = Suspicion(signal.key, signal.failure_class, learned_at, watchdog)
    else:
        watchdog = before.watchdog or signal.kind is SignalKind.WATCHDOG_LINE
        suspicion = replace(before, watchdog=watchdog)
    return replace(state, suspicion=suspicion), signal


def signal_of(
    state: DetectionState, hit: Hit, happened_at: datetime, learned_at: datetime
) -> Signal:
    """The signal of one line; its key is made of the place where the line stands."""
    pattern = hit.pattern
    source = Source(SourceKind.LOG, hit.stream, str(hit.offset), hit.path)
    return Signal(
        key=signal_key(state.attempt_id, source, pattern.id),
        attempt_id=state.attempt_id,
        kind=SIGNALS[pattern.kind],
        source=source,
        happened_at=happened_at,
        learned_at=learned_at,
        pattern_id=pattern.id,
        failure_class=pattern.failure_class,
        domain=pattern.domain,
        severity=pattern.severity,
        excerpt=hit.line[:EXCERPT],
        nodes=nodes_of(hit),
        ranks=ranks_of(hit),
        step=state.progress.last_step,
        detail=_detail(hit),
    )


def _detail(hit: Hit) -> str:
    """The other facts that the line gives, in a fixed form: ``name=value`` pairs."""
    told = (
        "local_rank", "ranks", "exit_code", "signal", "xid", "reason", "gpu", "peer", "host", "writer",
        "frame", "state",
    )  # fmt: skip
    return " ".join(f"{name}={value[:80]}" for name, value in hit.groups if name in told)
