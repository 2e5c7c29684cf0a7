"""One round's matched lines, in their order: what each of them changes, and what it is a sign of.

Most lines of a healthy job are the next step of one counter. Those are counted together, whatever
stands between them is weighed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from middlewatch.detection.advance import Advance, judged
from middlewatch.detection.attempts import another, began, noted
from middlewatch.detection.batch import Hit
from middlewatch.detection.checkpoints import after_checkpoint_line, confirmed, doubted
from middlewatch.detection.hang import recovery, with_pause
from middlewatch.detection.hits import SIGNALS, cut, with_failure, with_traceback
from middlewatch.detection.limits import silence_limit
from middlewatch.detection.pace import network_seen, planned
from middlewatch.detection.phases import BEFORE_STEPS, alive, in_phase, silent_s
from middlewatch.detection.progress import after_progress_line, figures, recovered
from middlewatch.detection.stamps import Moment, Times, when
from middlewatch.detection.state import DetectionState, aim
from middlewatch.detection.stride import Stride, plain
from middlewatch.model.copies import replace
from middlewatch.model.pattern import PatternKind
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Domain, Phase, Signal, SignalKind

_CHECKPOINTS = frozenset(
    {
        PatternKind.CHECKPOINT_SAVING,
        PatternKind.CHECKPOINT_SAVED,
        PatternKind.CHECKPOINT_LOADED,
    }
)
_PAUSE_S = 10.0
"""Shorter silences are nobody's alarm."""


class Lines:
    """Folds the hits of one round into ``state``; ``signals`` and ``resumed`` are what came of
    them. ``resumed`` is the first step beyond the attempt before."""

    def __init__(
        self, state: DetectionState, seen: datetime, now: datetime, policy: Policy
    ) -> None:
        self.state = state
        self.signals: list[Signal] = []
        self.resumed: tuple[int, datetime] | None = None
        self._times = Times(seen, state.zone_s)
        self._seen = seen
        self._now = now
        self._policy = policy

    def read(self, hits: Sequence[Hit]) -> None:
        """All hits of the round; those of one line stand together."""
        stride: Stride | None = None
        at, end = 0, len(hits)
        while at < end:
            hit = hits[at]
            following = at + 1
            while following < end and _same_line(hit, hits[following]):
                following += 1
            if following == at + 1:
                if stride is None and hit.pattern.kind is PatternKind.PROGRESS:
                    fit = plain(self.state)
                    stride = Stride(self.state, self._times, _PAUSE_S) if fit else None
                if stride is not None and stride.takes(hit):
                    at = following
                    continue
                group: Sequence[Hit] = (hit,)
            else:
                group = hits[at:following]
            if stride is not None:
                self._finish(stride)
                stride = None
            self.weigh(group)
            at = following
        if stride is not None:
            self._finish(stride)

    def weigh(self, group: Sequence[Hit]) -> None:
        """The hits of one line, whatever they are."""
        for one in cut(group):
            self._read(one)

    def _finish(self, stride: Stride) -> None:
        if stride.advances:
            self.state = stride.done()
            self._judge(stride.advances)

    def _judge(self, advances: Sequence[Advance]) -> None:
        if advances:
            self.state, found = judged(self.state, advances, self._now, self._policy)
            self.signals.extend(found)

    def _paused(self, before: DetectionState, since: datetime, gap: float) -> None:
        limit = silence_limit(before, self._policy)
        self.state = with_pause(self.state, since, gap, limit, lasts=False)

    # -- one line --------------------------------------------------------------------------------

    def _read(self, hit: Hit) -> None:
        before = self.state
        at = self._times.moment(hit)
        self._begin(hit, at)
        if hit.pattern.kind in SIGNALS:
            self._fail(hit, at)
        elif hit.pattern.kind is PatternKind.PROGRESS:
            self._step(hit)
        elif hit.pattern.kind in _CHECKPOINTS:
            self.state = after_checkpoint_line(self.state, hit, at)
        else:
            self._remark(hit, at)
        if before.alive_at is not None and _life(self.state) != _life(before):
            gap = silent_s(before, at)
            if gap > _PAUSE_S:
                self._paused(before, when(at.happened.timestamp() - gap), gap)
        if hit.pattern.domain is Domain.NETWORK:
            self.state = network_seen(self.state, hit, at.happened)
        self._resume()

    def _begin(self, hit: Hit, at: Moment) -> None:
        """Where the line belongs to another attempt than those before it."""
        state = noted(self.state, hit)
        kind, phase = hit.pattern.kind, hit.pattern.phase
        if kind is PatternKind.ATTEMPT:
            if began(state):
                state = another(state, hit, at, "attempt")
        elif state.ended:
            loads = kind is PatternKind.CHECKPOINT_LOADED
            if loads or (kind is PatternKind.PHASE and phase in BEFORE_STEPS):
                state = another(state, hit, at, "start")
        self.state = state

    def _fail(self, hit: Hit, at: Moment) -> None:
        state, signal = with_failure(self.state, hit, at.happened, self._now)
        if signal is not None:
            self.signals.append(signal)
            if signal.kind is not SignalKind.HINT:
                state = doubted(state)
        self.state = state

    def _step(self, hit: Hit) -> None:
        before = self.state
        state, advances = after_progress_line(before, hit, self._times)
        moved = state.advanced_at is not before.advanced_at or (
            state.progress.last_step != before.progress.last_step
        )
        self.state = state
        self._judge(advances)
        state = self.state
        if recovered(state) or (state.silence_reported and moved and state.suspicion is None):
            self.state, signal = recovery(state, self._seen, self._now)
            if signal is not None:
                self.signals.append(signal)

    def _remark(self, hit: Hit, at: Moment) -> None:
        """Lines that are neither failures nor progress, but change how others are read."""
        state = self.state
        match hit.pattern.kind:
            case PatternKind.TRACEBACK:
                self.state = with_traceback(state, hit)
            case PatternKind.HARMLESS:
                self.state = with_traceback(state, hit) if hit.pattern.opens else state
            case PatternKind.RESTARTING:
                state = alive(state, at)
                if state.suspicion is not None:
                    state = replace(state, suspicion=replace(state.suspicion, restarting=True))
                self.state = state
            case PatternKind.METRIC:
                self._judge(figures(state, hit, dict(hit.groups), self._times))
            case PatternKind.PLACEMENT | PatternKind.STACK | PatternKind.ATTEMPT:
                pass
            case PatternKind.EVALUATION:
                self.state = in_phase(confirmed(state, at), Phase.EVALUATION, at)
            case PatternKind.PLAN:
                # Other shapes are compiled anew, mostly without another word.
                self.state = planned(in_phase(state, Phase.COMPILE, at))
            case PatternKind.TOTAL:
                self.state = _with_total(state, hit)
            case _:
                phase = hit.pattern.phase
                if phase is Phase.SHUTDOWN:
                    state = confirmed(state, at)
                self.state = alive(state, at) if phase is None else in_phase(state, phase, at)

    def _resume(self) -> None:
        state = self.state
        last, at = state.progress.last_step, state.progress.last_step_at
        if state.resume_above is None or state.resumed_step is not None:
            return
        if last is None or at is None or not state.progress.reached.beyond(aim(state)):
            return
        if state.resume_by is not None and state.counter.rank < min(state.resume_by, 0):
            # A bar of the data or of the shards of a checkpoint, before training has begun.
            return
        self.state = replace(state, resumed_step=last)
        self.resumed = self.resumed or (last, at)


def _life(state: DetectionState) -> tuple[datetime | None, float | None, str]:
    """When it last showed life, by our clock and by its own."""
    return state.alive_at, state.stamp_s, state.stamp_of


def _same_line(one: Hit, other: Hit) -> bool:
    return one.offset == other.offset and one.stream == other.stream


def _with_total(state: DetectionState, hit: Hit) -> DetectionState:
    """How many steps there will be, of how many epochs, and where the training starts from."""
    total, step = hit.number("total"), hit.number("step")
    epochs = hit.number("epochs")
    progress = state.progress
    if total is not None:
        progress = replace(progress, total_steps=total)
    if step is not None:
        progress = replace(progress, loaded_step=step)
    if epochs is not None:
        epoch = hit.number("epoch")
        state = replace(state, counter=replace(state.counter, epochs=epochs, epoch=epoch))
    return replace(state, progress=progress)
