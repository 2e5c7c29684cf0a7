"""How far a program has come, as its lines tell, and the pace that is normal for it.

Programs count steps in many ways: printed steps, bars that are repainted when their process dies,
counts that begin anew in each epoch, dictionaries without a step, several of these at once, and
after a restart inside the job the count goes back. One of the counters is followed, the most
explicit one; the others only show that the program lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from middlewatch.detection.advance import Advance
from middlewatch.detection.attempts import another
from middlewatch.detection.batch import Hit, figure, real, whole
from middlewatch.detection.checkpoints import confirmed
from middlewatch.detection.habits import usual_interval
from middlewatch.detection.names import writer_of
from middlewatch.detection.phases import BEFORE_STEPS, alive, in_phase, phase_over, silent_s
from middlewatch.detection.stamps import Moment, Times
from middlewatch.detection.state import RECENT_INTERVALS, Counter, DetectionState
from middlewatch.detection.stride import Stride
from middlewatch.model.copies import replace
from middlewatch.model.pattern import LOOP, ProgressForm
from middlewatch.model.signal import Phase

RECOVERED_AFTER = 2
"""Different steps after a failure line that prove that the program goes on: one is also printed
by a rank that was ahead, and by a bar that is repainted while its process dies."""
LOWER_TIMES = 2
"""So many steps going up below the last one show that the count went back, and nobody lags."""
BACK_AFTER_TIMES = 3.0
BACK_AFTER_S = 10.0
OTHER_TIMES = 20
"""So many steps of another counter show that the followed one is printed no more."""
OTHER_LOOP_TIMES = 3
"""The same where the followed one may be a count of anything."""
_GIVEN = ("middlewatch.", "job.")
"""Patterns that were written for this very job: our own line, and what its owner gave."""
_PLAIN = "plain."
_EPOCH_ABOVE = "keras."
"""Patterns of programs that print the epoch on a line above its counts."""
_SAMPLED = "metrics."
"""A counter in the site's metrics: sampled now and then, so that any printed step is better."""

_Found = tuple[DetectionState, Sequence[Advance]]


@dataclass(frozen=True, slots=True)
class _Line:
    """A progress line with what was read of it already."""

    hit: Hit
    groups: dict[str, str]
    at: Moment
    times: Times


def after_progress_line(state: DetectionState, hit: Hit, times: Times) -> _Found:
    """The state after a progress line, and the steps and figures that it told of."""
    at = times.moment(hit)
    groups = dict(hit.groups)
    form = hit.pattern.form
    if form is ProgressForm.TICK:
        return _ticked(state, hit, groups, at, times)
    step, total = whole(groups.get("step", "")), whole(groups.get("total", ""))
    epoch = whole(groups.get("epoch", ""))
    if step is None:
        return alive(state, at), ()
    if epoch is None and hit.pattern.id.startswith(_EPOCH_ABOVE):
        epoch = state.counter.epoch
    if form is ProgressForm.BAR:
        known = state.progress.total_steps
        if total is None or (step == 0 and not epoch):
            return alive(_zero_seen(state, hit, step), at), ()
        each = state.counter.per_epoch if hit.pattern.id.startswith(_EPOCH_ABOVE) else None
        within = known is not None and total < known and epoch is None
        if within or (each is not None and total < each):
            # A shorter bar inside the training bar: an evaluation loop.
            return in_phase(confirmed(state, at), Phase.EVALUATION, at), ()
    followed = _followed(state, hit, step)
    if followed is None:
        return _other_counter(state, hit, step, at), figures(state, hit, groups, times)
    state = followed
    if epoch is not None and total:
        zero_based = state.counter.zero_based or step == 0
        first = _first_epoch(state, epoch)
        counter = replace(state.counter, per_epoch=total, zero_based=zero_based, first_epoch=first)
        state = replace(state, counter=counter)
        step, total = (epoch - first) * total + step, None
    return _stepped(state, _Line(hit, groups, at, times), step, total)


def any_loop(state: DetectionState) -> bool:
    """Whether no framework's pattern is known yet that finds this job's steps, so that those for
    loops of any kind are worth a search."""
    return not state.counter.pattern or state.counter.pattern.startswith((LOOP, _PLAIN))


def figures(
    state: DetectionState, hit: Hit, groups: dict[str, str], times: Times
) -> tuple[Advance, ...]:
    """What a line that is no step forward says about the last one."""
    last = state.progress.last_step
    data_ms = real(groups.get("data_ms", ""))
    found = Advance(
        step=0 if last is None else last,
        taken=0,
        throughput=real(groups.get("throughput", "")),
        data_s=real(groups.get("data_s", "")) if data_ms is None else data_ms / 1000,
        loss=figure(groups.get("loss", "")),
        grad_norm=figure(groups.get("grad_norm", "")),
        at_s=times.look(hit),
        own_clock=times.own_of,
        hit=hit,
    )
    return (found,)


def _explicitness(hit: Hit) -> int:
    """What was written for this job is meant; a printed step beats a bar, of which there may be
    several, and that a step that is only derived."""
    if hit.pattern.id.startswith(_GIVEN):
        return 2
    if hit.pattern.id.startswith(_SAMPLED):
        return 0
    if hit.pattern.id.startswith(LOOP):
        return -2
    return {ProgressForm.STEP: 1, ProgressForm.BAR: 0, ProgressForm.TICK: -1}[hit.pattern.form]


def _followed(state: DetectionState, hit: Hit, step: int) -> DetectionState | None:
    """The state in which this line's counter is the one that is followed; None where it is not."""
    counter = state.counter
    if counter.pattern == hit.pattern.id:
        return state
    rank = _explicitness(hit)
    other = counter.other_times if counter.other == hit.pattern.id else 0
    more = step > counter.other_step
    enough = OTHER_LOOP_TIMES if counter.pattern.startswith(LOOP) else OTHER_TIMES
    no_more = more and other + 1 >= enough
    if counter.pattern and rank <= counter.rank and not no_more and not _lost_by(state, hit, rank):
        return None
    known = Counter(hit.pattern.id, rank, epochs=counter.epochs, epoch=counter.epoch)
    if not counter.pattern:
        return replace(state, counter=known)
    if rank <= counter.rank and no_more:
        known = replace(known, instead_of=counter.pattern)
    return replace(
        state,
        progress=replace(state.progress, last_step=None),
        counter=known,
        intervals=(),
        step_times=(),
        pauses=(),
        step_s=None,
        step_of="",
    )


def _lost_by(state: DetectionState, hit: Hit, rank: int) -> bool:
    """Whether this counter goes before another that is as explicit: by it the attempt before was
    followed, and only its steps tell whether this one gets beyond that. Not where it was given up
    once, as it is printed too seldom: the two would take turns."""
    counter, lost = state.counter, state.resume_of
    if lost is None or state.resumed_step is not None or counter.instead_of == hit.pattern.id:
        return False
    return lost.name == hit.pattern.id and rank == counter.rank


def _other_counter(state: DetectionState, hit: Hit, step: int, at: Moment) -> DetectionState:
    """A counter that is not followed goes up: the program lives."""
    counter = state.counter
    if counter.other != hit.pattern.id:
        counter = replace(counter, other=hit.pattern.id, other_step=step, other_times=0)
    elif step != counter.other_step:
        more = counter.other_times + 1 if step > counter.other_step else 0
        counter = replace(counter, other_step=step, other_times=more)
    else:
        return state
    return alive(replace(state, counter=counter), at)


def _first_epoch(state: DetectionState, epoch: int) -> int:
    """What the program calls its first epoch: told by the first line of a fresh training."""
    if epoch == 0:
        return 0
    if state.counter.per_epoch is not None:
        return state.counter.first_epoch
    return 1 if epoch == 1 and state.progress.loaded_step is None else state.epochs_from


def _zero_seen(state: DetectionState, hit: Hit, step: int) -> DetectionState:
    if step != 0 or state.counter.pattern != hit.pattern.id or state.counter.zero_based:
        return state
    return replace(state, counter=replace(state.counter, zero_based=True))


# -- a step ------------------------------------------------------------------------------------


def _stepped(state: DetectionState, line: _Line, step: int, total: int | None) -> _Found:
    hit, at = line.hit, line.at
    if state.suspicion is not None:
        state = _suspected_step(state, step)
        # A repainted bar is not believed until a second step shows that the program goes on.
        if hit.pattern.form is ProgressForm.BAR and not recovered(state):
            return state, ()
    last = state.progress.last_step
    if step == last:
        return state, ()
    if last is not None and step < last:
        lower = _lower(state, hit, step, at)
        if not _went_back(state, lower, at):
            return lower, ()
        if state.ended:
            state = another(state, hit, at, "step")
            state = replace(state, counter=replace(lower.counter, lower=None, lower_times=0))
            last = None
    interrupted = state.interrupted or last is None or step < last
    if last is None or step < last:
        state = replace(state, startup_s=_startup_s(state, at))
    state = confirmed(phase_over(state, silent_s(state, at)), at)
    counter = replace(state.counter, lower=None, lower_times=0, other_times=0)
    state = replace(state, counter=counter, ended=False, after_end=None, interrupted=False)
    if total is not None and total != state.progress.total_steps:
        state = replace(state, progress=replace(state.progress, total_steps=total))
    stride = Stride(state, line.times)
    stride.count(hit, line.groups, step, interrupted=interrupted)
    return stride.done(), stride.advances


def _lower(state: DetectionState, hit: Hit, step: int, at: Moment) -> DetectionState:
    """A step below the last one was seen: of a process that lags, or of a count that went back."""
    counter = state.counter
    writer = writer_of(hit)
    if counter.writer != writer and not state.ended:
        # Somebody else's lines come later; that they come shows life.
        return alive(state, at)
    if counter.lower is None or step <= counter.lower:
        known = replace(counter, lower=step, lower_times=1)
    else:
        known = replace(counter, lower=step, lower_times=counter.lower_times + 1)
    return replace(state, counter=known, alive_at=at.seen)


def _went_back(state: DetectionState, lower: DetectionState, at: Moment) -> bool:
    counter = lower.counter
    if counter.lower is None:
        return False
    if counter.lower_times >= LOWER_TIMES or state.ended:
        return True
    if state.progress.phase in BEFORE_STEPS or state.suspicion is not None:
        return True
    usual = usual_interval(state.intervals) or 0.0
    return silent_s(state, at) > max(BACK_AFTER_S, BACK_AFTER_TIMES * usual)


def _startup_s(state: DetectionState, at: Moment) -> float | None:
    """How long it took until this step, from the last one or from the attempt's start, seconds."""
    since = state.advanced_at or state.started_at
    if since is None:
        return state.startup_s
    took = (at.happened - since).total_seconds()
    return took if took > 0 else state.startup_s


def _suspected_step(state: DetectionState, step: int) -> DetectionState:
    suspicion = state.suspicion
    if suspicion is None or step == suspicion.step:
        return state
    if suspicion.step is None and step == state.progress.last_step:
        return state
    advances = suspicion.advances + 1
    return replace(state, suspicion=replace(suspicion, advances=advances, step=step))


def recovered(state: DetectionState) -> bool:
    """Whether the steps since the failure line show that the program goes on."""
    return state.suspicion is not None and state.suspicion.advances >= RECOVERED_AFTER


# -- lines without a step ----------------------------------------------------------------------


def _ticked(
    state: DetectionState, hit: Hit, groups: dict[str, str], at: Moment, times: Times
) -> _Found:
    """A line that is printed per logging interval but names no step."""
    counter = state.counter
    if counter.pattern not in {"", hit.pattern.id}:
        return confirmed(alive(state, at), at), figures(state, hit, groups, times)
    counter = replace(counter, ticks=counter.ticks + 1)
    state = replace(state, counter=counter)
    step = _derived(state, groups)
    if step is not None and step > (state.progress.last_step or 0):
        rank = _explicitness(hit)
        state = replace(state, counter=replace(counter, pattern=hit.pattern.id, rank=rank))
        return _stepped(state, _Line(hit, groups, at, times), step, None)
    if state.suspicion is not None:
        suspicion = replace(state.suspicion, advances=state.suspicion.advances + 1)
        state = replace(state, suspicion=suspicion)
    gap = silent_s(state, at)
    intervals = state.intervals
    if not state.interrupted and state.advanced_at is not None and gap > 0:
        intervals = (*intervals, gap)[-RECENT_INTERVALS:]
    state = confirmed(phase_over(alive(state, at), gap), at)
    state = replace(
        state,
        progress=replace(state.progress, phase=Phase.TRAINING),
        intervals=intervals,
        interrupted=False,
        advanced_at=at.seen,
    )
    return state, figures(state, hit, groups, times)


def _derived(state: DetectionState, groups: dict[str, str]) -> int | None:
    """The step of a line that tells only how many epochs lie behind it.

    An epoch is printed with few digits, but the lines come at equal distances: the distance that
    fits all lines so far gives the step itself.
    """
    total, epochs = state.progress.total_steps, state.counter.epochs
    epoch = real(groups.get("epoch", ""))
    if not total or not epochs or epoch is None or epoch < 0:
        return None
    told = total * epoch / epochs
    first, ticks = state.progress.loaded_step or 0, state.counter.ticks
    distance = round((told - first) / ticks)
    step = first + distance * ticks
    fits = distance > 0 and abs(step - told) <= max(distance / 2, total / epochs * 0.005)
    return min(total, step if fits else round(told))
