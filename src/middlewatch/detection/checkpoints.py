"""Which checkpoint is complete: announced is not saved.

Some programs print the end of a save, some only its beginning, some only its end; and the step
stands in the line, in the name of the file, or nowhere. A save without an end line is believed
when the program goes on behind it without a failure in between.
"""

from __future__ import annotations

from datetime import datetime

from middlewatch.detection.batch import Hit
from middlewatch.detection.numbers import DIVERGED, VANISHED
from middlewatch.detection.phases import alive, in_phase, phase_over, silent_s
from middlewatch.detection.stamps import Moment
from middlewatch.detection.state import DetectionState
from middlewatch.model.copies import replace
from middlewatch.model.pattern import PatternKind
from middlewatch.model.signal import Phase, Progress

FAILED = "save.failed"
"""The pattern of lines that say that a save came to nothing."""
SPOKEN_OF = "save.spoken_of"
"""The pattern of lines about checkpoints that are not being saved: deleted, skipped, the best one."""
PARTS = "save.unfinished"
"""The pattern of lines about a part of a save, or its beginning, in any program's words."""


_FAR = 10
"""Times the last step: further on no save of this attempt can be."""


def after_checkpoint_line(state: DetectionState, hit: Hit, at: Moment) -> DetectionState:
    """A save is announced, complete, or a checkpoint was loaded."""
    step = _step_of(state, hit)
    progress = state.progress
    match hit.pattern.kind:
        case PatternKind.CHECKPOINT_SAVING if hit.pattern.id == FAILED:
            return alive(doubted(state), at)
        case PatternKind.CHECKPOINT_SAVING if hit.pattern.id == SPOKEN_OF:
            return alive(state, at)
        case PatternKind.CHECKPOINT_SAVING if hit.pattern.id == PARTS and state.saving_step:
            return alive(state, at)  # of the save that is known already
        case PatternKind.CHECKPOINT_SAVING:
            if step is not None and step != state.saving_step:
                state = confirmed(state, at)
            state = in_phase(state, Phase.CHECKPOINT, at)
            return replace(
                state,
                saving_step=_step_reached(state) if step is None else step,
                saving_unconfirmed=hit.pattern.confirmed_by_progress,
            )
        case PatternKind.CHECKPOINT_SAVED:
            if step is None:
                step = state.saving_step if state.saving_step is not None else _step_reached(state)
            gap = silent_s(state, at)
            state = phase_over(alive(state, at), gap)
            state = replace(state, saving_step=None, saving_unconfirmed=False, interrupted=True)
            if step is None or not _worth_loading(state):
                return state
            progress = replace(
                state.progress,
                phase=_after_phase(state.progress),
                checkpoint_step=step,
                checkpoint_at=at.happened,
            )
            return replace(state, progress=progress)
        case _:
            state = alive(state, at)
            if step is None:
                return state
            return replace(state, progress=replace(progress, loaded_step=step))


def confirmed(state: DetectionState, at: Moment) -> DetectionState:
    """The program went on behind a save that prints no end: it is believed."""
    if not state.saving_unconfirmed:
        return state
    progress = state.progress
    if state.saving_step is not None and _worth_loading(state):
        progress = replace(progress, checkpoint_step=state.saving_step, checkpoint_at=at.happened)
    return replace(state, progress=progress, saving_step=None, saving_unconfirmed=False)


def finished(state: DetectionState, at: datetime) -> DetectionState:
    """The attempt has completed: the save that it began last is complete as well."""
    return confirmed(state, Moment(at, at))


def _worth_loading(state: DetectionState) -> bool:
    """Whether the numbers were numbers when it was saved: weights that are NaN lead to NaN."""
    numbers = state.numbers
    none = numbers.bad.since is not None and numbers.bad.what != VANISHED
    return not none and numbers.high.told != DIVERGED


def doubted(state: DetectionState) -> DetectionState:
    """A failure line behind a save that prints no end: it is not believed any more."""
    if not state.saving_unconfirmed:
        return state
    return replace(state, saving_step=None, saving_unconfirmed=False)


def _step_of(state: DetectionState, hit: Hit) -> int | None:
    """The step that the line names: itself, or as epochs."""
    step, epoch = _named(hit, state.progress.last_step), hit.number("epoch")
    per_epoch = state.counter.per_epoch
    if step is not None and epoch is not None:
        epoch -= state.counter.first_epoch
    if epoch is None or per_epoch is None or (step is not None and step > per_epoch):
        return step
    return epoch * per_epoch + (step or 0)


def _named(hit: Hit, last: int | None) -> int | None:
    """The step in the line; a pattern with several forms has it in one of several groups.

    ``updates`` may be no more than a number at the end of a path, and that of a job or a date as
    well: one far beyond the ``last`` step is none.
    """
    for name in ("step", "updates", "completed", "samples", "epochs", "tokens"):
        step = hit.number(name)
        if step is None:
            continue
        if name == "updates" and last is not None and step > _FAR * max(last, 100):
            continue
        return step
    return None


def _step_reached(state: DetectionState) -> int | None:
    """The last step, or the end of its epoch where no other line is printed before that."""
    last, per_epoch = state.progress.last_step, state.counter.per_epoch
    if last is None or not per_epoch:
        return last
    end = per_epoch - 1 if state.counter.zero_based else per_epoch
    within = last % per_epoch
    return last - within + end if 0 < end - within < state.counter.taken and within else last


def _after_phase(progress: Progress) -> Phase:
    return Phase.STARTING if progress.last_step is None else Phase.TRAINING
