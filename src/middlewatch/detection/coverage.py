"""What cannot be seen of a live job, said aloud.

A watcher that sees nothing of a job and one that sees a healthy job look the same from outside,
so being blind is a fact of its own: with a signal when it begins, another when it ends, and a
place in the progress record for as long as it lasts. It says nothing about the job, and nothing
is ever done because of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from middlewatch.detection.batch import Batch
from middlewatch.detection.state import DetectionState
from middlewatch.model.copies import replace
from middlewatch.model.issue import NOT_VISIBLE
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import (
    Domain,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    Unseen,
    signal_key,
)

LOG = "log"
PROGRESS = "progress"
METRICS = "metrics"
LONGEST_SPAN = timedelta(minutes=30)
LINES = "lines"
SENTENCE = 300


MUTE = "log_mute"
ENOUGH = 10
"""So many lines of others are enough to know that there are any: where they wrote as many in three
times the span, that none of them writes in it by chance happens once in thirty times."""


@dataclass(frozen=True, slots=True)
class Others:
    """How many lines others than the job wrote in the last half of its silence (``lately``), and in
    three times that span before (``before``); `ENOUGH` at most."""

    before: int
    lately: int

    @property
    def fell_silent(self) -> bool:
        return self.lately == 0 and self.before >= ENOUGH


def spans(since: datetime, now: datetime) -> tuple[datetime, datetime, datetime]:
    """Of a silence since then: from when to when others wrote *before*, and until when *lately*. The
    end of the first is the beginning of the second."""
    half = min(now - since, LONGEST_SPAN) / 2
    return now - 4 * half, now - half, now


def mute(near: Others, anywhere: Others) -> str:
    """Why the silence of a job's log in a store says nothing of the job: whoever ships or keeps it
    fell silent, too. Empty where it may say something. ``near``: others whose lines come from the same
    nodes, through the same collectors."""
    if near.lately:
        return ""
    if anywhere.fell_silent:
        return "the log store has no new line from anybody: it, or what ships to it, stands still"
    if near.fell_silent:
        return (
            "no new line of anything on the nodes that wrote its log comes to the log store, though "
            "others' do: their collector stands still"
        )
    return ""


def coverage(
    state: DetectionState, batch: Batch, now: datetime, policy: Policy
) -> tuple[DetectionState, tuple[Signal, ...]]:
    """The state with what cannot be seen now, and a signal for each thing that changed.

    Where the watcher itself has not looked (it is behind, or the scheduler did not answer)
    nothing changes: that is its own trouble, which its health tells of.
    """
    attempt = batch.attempt
    if not attempt.live or attempt.completing or attempt.state is not JobState.RUNNING:
        ended = replace(state, progress=replace(state.progress, unseen=()))
        return (ended if state.progress.unseen else state), ()
    before = {u.what: u for u in state.progress.unseen}
    lost = before.get(LINES) or _lines(batch, now)
    if batch.caught_up:
        state = _read(state, batch, now)
        looks = (
            _log(state, batch, now, policy),
            _steps(state, now, policy),
            lost,
            _metrics(state, batch, now, policy),
        )
    elif batch.lost:
        looks = (before.get(LOG), before.get(PROGRESS), lost, before.get(METRICS))
    else:
        return state, ()
    unseen = tuple(u for u in looks if u)
    after = {u.what: u for u in unseen}
    signals = [
        _signal(state, SignalKind.BLIND, u, now)
        for what, u in after.items()
        if what not in before and what != METRICS
    ]
    signals += [
        _signal(state, SignalKind.SEEN_AGAIN, u, now)
        for what, u in before.items()
        if what not in after and what != METRICS
    ]
    # The first account stands while it lasts, so that a reason that flickers is no news.
    kept = tuple(before.get(u.what, u) for u in unseen)
    if kept == state.progress.unseen:
        return state, tuple(signals)
    return replace(state, progress=replace(state.progress, unseen=kept)), tuple(signals)


def _read(state: DetectionState, batch: Batch, now: datetime) -> DetectionState:
    if batch.readable:
        return replace(state, unread_since=None) if state.unread_since else state
    if state.unread_since is not None:
        return state
    # Where something was read before, it is from now on that nothing is.
    since = now if state.output_at is not None else state.started_at or now
    return replace(state, unread_since=since)


def _log(state: DetectionState, batch: Batch, now: datetime, policy: Policy) -> Unseen | None:
    since = state.unread_since
    if since is None or (now - since).total_seconds() <= policy.unseen_limit_s:
        return None
    reasons = "; ".join(dict.fromkeys(entry.reason for entry in batch.unreadable))
    why = reasons or "none of its output files is there"
    return Unseen(LOG, since, why[:SENTENCE])


def _steps(state: DetectionState, now: datetime, policy: Policy) -> Unseen | None:
    """It prints, and for longer than a first step may take nothing of that is progress. Once it
    printed a failure it is not the progress that is missing in the picture."""
    if state.advanced_at is not None or state.started_at is None or state.output_at is None:
        return None
    if state.suspicion is not None:
        return None
    if now - state.started_at <= timedelta(seconds=policy.first_step_limit_s):
        return None
    why = (
        "no line of its output is recognised as progress: a hang would be noticed only when all "
        "output stops (give its progress pattern in the job's comment or the site's settings)"
    )
    return Unseen(PROGRESS, state.started_at, why)


def _lines(batch: Batch, now: datetime) -> Unseen | None:
    """Lines that its log store has and that nobody will read. What was in them stays unknown for as
    long as the attempt lives."""
    if not batch.lost:
        return None
    why = (
        f"{batch.lost} lines of its log came too late, or too far out of order, to be told from those "
        "that were read, and were passed over (look at the collector's delay)"
    )
    return Unseen(LINES, now, why)


def _metrics(state: DetectionState, batch: Batch, now: datetime, policy: Policy) -> Unseen | None:
    """None of its nodes is measured. The job can be watched all the same: a line in its record and
    no issue. Where nobody looked in this round, what was known stands."""
    before = next((u for u in state.progress.unseen if u.what == METRICS), None)
    if batch.measured is None:
        return before
    since = state.started_at or now
    if batch.measured or (now - since).total_seconds() <= policy.unseen_limit_s:
        return None
    why = "the metrics server has nothing of its nodes: a hang would have no second witness there"
    return Unseen(METRICS, since, why)


def _signal(state: DetectionState, kind: SignalKind, unseen: Unseen, now: datetime) -> Signal:
    pattern = f"coverage.{unseen.what}"
    source = Source(SourceKind.CLOCK, "watcher", f"{kind.value}/{unseen.since.isoformat()}")
    blind = kind is SignalKind.BLIND
    return Signal(
        key=signal_key(state.attempt_id, source, pattern),
        attempt_id=state.attempt_id,
        kind=kind,
        source=source,
        happened_at=min(unseen.since, now) if blind else now,
        learned_at=now,
        pattern_id=pattern,
        failure_class=NOT_VISIBLE,
        domain=Domain.UNKNOWN,
        severity=Severity.WARNING if blind else Severity.INFO,
        step=state.progress.last_step,
        detail=unseen.why if blind else f"its {unseen.what} can be seen again",
    )
