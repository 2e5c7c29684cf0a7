"""However hostile a log is, little is remembered of it."""

from __future__ import annotations

from middlewatch.adapters.logs import RecordCodec
from middlewatch.detection.batch import Unreadable
from middlewatch.detection.state import DetectionState
from tests.unit.detection.given import (
    ATTEMPT,
    CRASH,
    EVALUATION,
    LAUNCHER,
    METRIC,
    SAVED,
    SAVING,
    STACK,
    STARTING,
    STEP,
    TRACEBACK,
    Story,
    hit,
)

MOST_BYTES = 20_000
CODEC = RecordCodec(DetectionState)
LONG = "n" * 4000


def test_state_stays_small_whatever_a_long_log_holds() -> None:
    story = Story()
    when = 0.0
    for step in range(400):
        when += 1 + step % 7 * 40
        story.look(
            when,
            hit(STEP, stream=LONG, step=10**14 + step, total=10**15 - 1, step_ms=1 / 3, loss=1 / 7),
            hit(TRACEBACK, stream=LONG, rank=LONG + str(step)),
            hit(METRIC, stream=LONG, throughput=1e17 / 3, data_s=1 / 3, timer=LONG, max_ms=1 / 3),
            hit(SAVING, stream=LONG, step=step),
            hit(SAVED, stream=LONG, step=step),
            hit(EVALUATION, stream=LONG),
            unreadable=(Unreadable(LONG + str(step), "word", LONG),),
        )
        if step % 50 == 9:
            story.look(when + 1, *(hit(kind, stream=LONG) for kind in (CRASH, STACK, LAUNCHER)))
            story.look(when + 2, hit(ATTEMPT, stream=LONG), hit(STARTING, stream=LONG))
    assert len(CODEC.encode(story.state)) <= MOST_BYTES


def test_tracebacks_of_many_writers_are_told_apart_in_a_stream_with_a_long_name() -> None:
    story = Story()
    story.look(1, *(hit(TRACEBACK, stream=LONG, rank=rank) for rank in range(40)))
    assert len({opened.writer for opened in story.state.tracebacks}) == 32
