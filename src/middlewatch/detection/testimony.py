"""Witnesses of another kind than the log, called while a job is silent and heard once.

Metrics are looked at only where there is something to witness: a silence alarm that stands, or a
failure line after which the program has not shown that it goes on. What was measured then becomes a
signal of its own, one for each kind and silence; what was not measured becomes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.habits import quantile
from middlewatch.detection.hang import silent_since, witnessed_since
from middlewatch.detection.state import DetectionState
from middlewatch.detection.witness import witnesses
from middlewatch.model.copies import replace
from middlewatch.model.pattern import PatternKind
from middlewatch.model.policy import Policy
from middlewatch.model.signal import (
    Domain,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
)

LOOK_BACK = timedelta(minutes=30)
"""So much of what the job did before its silence is compared with it."""
RECENT_SAVES = 8
LEAST_SAVES = 2
SAVES_MISSED = 3.0
DIRECTORY = "checkpoint_directory"
LONGEST_PATH = 1024
_SAVES = frozenset({PatternKind.CHECKPOINT_SAVING, PatternKind.CHECKPOINT_SAVED})


@dataclass(frozen=True, slots=True)
class Quiet:
    """A silence that lasts: since when, by which name, and from when on the job had trained."""

    name: str
    since: datetime
    trained_from: datetime

    @property
    def compare_from(self) -> datetime:
        return max(self.trained_from, self.since - LOOK_BACK)


def quiet(state: DetectionState) -> Quiet | None:
    """The silence in which a witness would count; None where there is none, or where the job has
    no past of its own that it could be compared with."""
    trained_from = state.progress.first_step_at
    if trained_from is None:
        return None
    suspicion = state.suspicion
    if suspicion is not None:
        known = (suspicion.since, state.advanced_at, state.alive_at, state.seen_since)
        return Quiet(suspicion.key, max(moment for moment in known if moment), trained_from)
    since_ = silent_since(state) if state.silence_reported else None
    if since_ is None:
        return None
    # A program that prints lives, though it may not step.
    return Quiet(since_.isoformat(), max(since_, state.alive_at or since_), trained_from)


def testimony(
    state: DetectionState, batch: Batch, now: datetime, policy: Policy
) -> tuple[DetectionState, tuple[Signal, ...]]:
    """The state and the new witnesses after one look at metrics and at the checkpoints' place."""
    silence = quiet(state)
    if silence is None:
        return (replace(state, witnessed=()) if state.witnessed else state), ()
    from_ = witnessed_since(state, policy)
    if from_ is None or now <= from_:
        return state, ()
    heard = tuple(word for word in state.witnessed if word.startswith(f"{silence.name}/"))
    signals: list[Signal] = []
    found = witnesses(
        batch.activity,
        batch.attempt.nodes,
        silence.compare_from.timestamp(),
        silence.since.timestamp(),
    )
    for one in found:
        word = f"{silence.name}/{one.kind.value}"
        if word not in heard:
            heard = (*heard, word)
            source = Source(SourceKind.METRICS, one.kind.value, silence.name)
            signals.append(_signal(state, source, one.nodes, one.sentence, now))
    missed = _no_growth(state, batch, silence, now)
    word = f"{silence.name}/{DIRECTORY}"
    if missed and word not in heard:
        heard = (*heard, word)
        path = batch.growth.path if batch.growth is not None else ""
        source = Source(SourceKind.FILES, DIRECTORY, silence.name, path)
        signals.append(_signal(state, source, (), missed, now))
    if heard != state.witnessed:
        state = replace(state, witnessed=heard)
    return state, tuple(signals)


def _no_growth(state: DetectionState, batch: Batch, silence: Quiet, now: datetime) -> str:
    """Why the checkpoint directory speaks against the job; empty where it does not.

    It must have grown while the job trained: another directory than the one that is written to
    grows never. And only what is learnt from several saves can be called late.
    """
    growth = batch.growth
    if growth is None or len(state.save_intervals) < LEAST_SAVES:
        return ""
    if not silence.trained_from <= growth.newest <= now:
        return ""
    usual = quantile(state.save_intervals, 0.9)
    waited = (now - max(growth.newest, silence.since)).total_seconds()
    if usual <= 0 or waited <= SAVES_MISSED * usual:
        return ""
    return (
        f"nothing was written to its checkpoint directory for {waited:.0f} s, "
        f"it used to save every {usual:.0f} s"
    )


def wants_growth(state: DetectionState, now: datetime) -> bool:
    """Whether the checkpoint directory could testify by now, if it has not grown."""
    last = state.progress.checkpoint_at
    if last is None or len(state.save_intervals) < LEAST_SAVES:
        return False
    usual = quantile(state.save_intervals, 0.9)
    return (now - last).total_seconds() > SAVES_MISSED * usual


def with_saves(
    before: DetectionState, after: DetectionState, hits: Sequence[Hit]
) -> DetectionState:
    """The state with the time that lay between two completed saves, and with their place."""
    was, is_now = before.progress.checkpoint_at, after.progress.checkpoint_at
    moved = was != is_now or before.saving_step != after.saving_step
    if moved:
        told = (hit for hit in reversed(hits) if hit.pattern.kind in _SAVES)
        place = next((found for hit in told if (found := _directory(hit))), "")
        if place and place != after.saved_in:
            after = replace(after, saved_in=place)
    if was is None or is_now is None or is_now <= was:
        return after
    took = (is_now - was).total_seconds()
    return replace(after, save_intervals=(*after.save_intervals, took)[-RECENT_SAVES:])


def _directory(hit: Hit) -> str:
    """Where a save line says that checkpoints go: a directory that is named after its step lies
    in the one that grows."""
    path = (hit.group("path") or "").rstrip("/")
    if not path.startswith("/") or len(path) > LONGEST_PATH:
        return ""
    parent, _, name = path.rpartition("/")
    step = hit.group("step") or ""
    return (parent or "/") if "." in name or (step and step in name) else path


def _signal(
    state: DetectionState, source: Source, nodes: tuple[str, ...], sentence: str, now: datetime
) -> Signal:
    pattern = f"witness.{source.identity}"
    return Signal(
        key=signal_key(state.attempt_id, source, pattern),
        attempt_id=state.attempt_id,
        kind=SignalKind.SECOND_WITNESS,
        source=source,
        happened_at=now,
        learned_at=now,
        pattern_id=pattern,
        # Behind a failure line it confirms that failure and is none of its own.
        failure_class="" if state.suspicion is not None else "silent_hang",
        domain=Domain.UNKNOWN,
        severity=Severity.ERROR,
        nodes=nodes,
        step=state.progress.last_step,
        detail=sentence,
    )
