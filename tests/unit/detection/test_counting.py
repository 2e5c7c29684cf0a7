"""Counters that go back, begin anew, come from several processes or tell no step at all."""

from __future__ import annotations

from dataclasses import replace

from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.model.signal import Phase, SignalKind
from tests.unit.detection.given import (
    ATTEMPT,
    BAR,
    CASCADE,
    CRASH,
    EVALUATION,
    LAUNCHER,
    LOADED,
    METRIC,
    OTHER,
    RESTARTING,
    SAVED,
    SAVING,
    SAVING_SILENTLY,
    SHUTDOWN,
    STARTING,
    STEP,
    TICK,
    TOTAL,
    Story,
    at,
    hit,
)


def reached(story: Story) -> int | None:
    return story.state.progress.last_step


# -- going back --------------------------------------------------------------------------------


def test_process_that_lags_behind_does_not_take_the_count_back() -> None:
    story = Story()
    for step in range(2, 40):
        story.look(step, hit(STEP, step=step), hit(STEP, step=step - 1))
    assert reached(story) == 39
    assert story.state.advanced_at == at(39)


def test_lines_of_another_rank_do_not_take_the_count_back() -> None:
    story = Story()
    story.look(1, *(hit(STEP, step=step, rank=0) for step in range(1, 20)))
    story.look(2, *(hit(STEP, step=step, rank=1) for step in range(1, 20)))
    assert reached(story) == 19


def test_two_lower_steps_that_go_up_take_the_count_back() -> None:
    story = Story()
    story.steps(1, 40, 0)
    story.look(40, hit(STEP, step=11), hit(STEP, step=12))
    assert reached(story) == 12


def test_step_below_the_last_one_after_an_end_begins_another_attempt() -> None:
    story = Story()
    story.steps(1, 40, 0)
    story.look(41, hit(LAUNCHER, offset=90_000))
    story.look(300, hit(STEP, step=31, offset=95_000))
    assert reached(story) == 31
    (boundary,) = story.state.boundaries
    assert (boundary.offset, boundary.how) == (95_000, "step")
    assert story.state.progress.first_step == 31


def test_step_back_without_any_end_is_no_other_attempt() -> None:
    story = Story()
    story.steps(1, 40, 0)
    story.look(100, hit(STEP, step=31))
    assert reached(story) == 31
    assert story.state.boundaries == ()


# -- several attempts in one file --------------------------------------------------------------


def test_start_behind_an_end_begins_another_attempt_at_the_first_line_behind_the_end() -> None:
    story = Story()
    story.steps(1, 40, 0)
    story.look(41, hit(CASCADE, offset=90_000))
    story.look(42, hit(METRIC, offset=91_000), hit(STARTING, offset=92_000))
    (boundary,) = story.state.boundaries
    assert boundary.offset == 91_000
    assert story.state.progress.phase is Phase.STARTING
    assert reached(story) is None
    assert story.state.intervals == ()


def test_banner_begins_another_attempt_where_steps_were_seen() -> None:
    story = Story()
    story.look(1, hit(ATTEMPT), hit(ATTEMPT))
    assert story.state.boundaries == ()
    story.steps(1, 40, 2)
    story.look(50, hit(ATTEMPT), hit(ATTEMPT))
    assert len(story.state.boundaries) == 1


def test_failure_line_before_any_step_is_not_cut_off_by_a_late_banner() -> None:
    story = Story()
    story.look(1, hit(ATTEMPT), hit(CRASH), hit(ATTEMPT))
    assert story.state.boundaries == ()


def test_checkpoint_of_the_attempt_before_is_still_the_last_one() -> None:
    story = Story()
    story.steps(1, 40, 0)
    story.look(40, hit(SAVED, step=40))
    story.look(41, hit(LAUNCHER), hit(STARTING), hit(LOADED, step=40))
    assert story.state.progress.checkpoint_step == 40
    assert story.state.progress.loaded_step == 40


def test_end_that_was_none_is_forgotten_with_the_next_step() -> None:
    story = Story()
    story.steps(1, 40, 0)
    story.look(41, hit(CASCADE))
    story.steps(41, 50, 42)
    story.look(60, hit(STARTING))
    assert story.state.boundaries == ()


def test_workers_that_are_started_again_begin_another_attempt_and_recover() -> None:
    story = Story()
    last = story.steps(1, 40, 0)
    story.look(last + 1, hit(CRASH), hit(RESTARTING), hit(STARTING), hit(LOADED, step=30))
    story.look(last + 60, hit(STEP, step=31), hit(STEP, step=32))
    assert reached(story) == 32
    assert story.kinds().count(SignalKind.RECOVERED) == 1


# -- epochs ------------------------------------------------------------------------------------


def test_checkpoint_that_is_told_in_epochs_is_told_in_steps() -> None:
    story = Story()
    story.look(1, hit(BAR, step=100, total=100, epoch=3))
    story.look(2, hit(SAVING_SILENTLY, epoch=4))
    story.look(3, hit(BAR, step=1, total=100, epoch=4))
    assert story.state.progress.checkpoint_step == 400


def test_shorter_bar_behind_a_save_shows_that_the_program_went_on() -> None:
    keras = replace(BAR, id="keras.bar")
    epoch = Pattern("keras.epoch", PatternKind.TOTAL, "")
    story = Story()
    for number in (1, 2):
        story.look(number, hit(epoch, epoch=number, epochs=2))
        story.look(number + 0.5, hit(keras, step=642, total=642))
    story.look(3, hit(SAVING_SILENTLY, epoch=2))
    story.look(4, hit(keras, step=88, total=88))
    assert story.state.progress.last_step == 1284
    assert story.state.progress.checkpoint_step == 1284


def test_checkpoint_in_the_middle_of_an_epoch_is_told_in_steps() -> None:
    story = Story()
    story.look(1, hit(BAR, step=50, total=100, epoch=3))
    story.look(2, hit(SAVED, epoch=3, step=60))
    assert story.state.progress.checkpoint_step == 360


def test_checkpoint_with_a_step_of_the_whole_training_needs_no_epoch() -> None:
    story = Story()
    story.look(1, hit(BAR, step=50, total=100, epoch=3))
    story.look(2, hit(SAVED, epoch=3, step=350))
    assert story.state.progress.checkpoint_step == 350


def test_checkpoint_at_the_end_of_an_epoch_is_at_its_last_step_though_that_was_not_printed() -> (
    None
):
    story = Story()
    story.look(1, *(hit(STEP, step=n, total=102, epoch=2) for n in range(0, 101, 10)))
    story.look(2, hit(EVALUATION), hit(SAVED))
    assert story.state.progress.checkpoint_step == 305


def test_counts_that_begin_anew_in_each_epoch_go_on_over_the_epochs() -> None:
    story = Story()
    for epoch in range(3):
        for step in range(1, 11):
            story.look(10 * epoch + step, hit(STEP, step=step, total=10, epoch=epoch))
    assert reached(story) == 30
    assert story.state.boundaries == ()


# -- lines without a step ----------------------------------------------------------------------


def test_step_follows_from_the_epochs_where_lines_tell_nothing_else() -> None:
    story = Story()
    story.look(0, hit(TOTAL, total="1,931", epochs=3))
    for line in range(1, 173):
        epoch = round(10 * line * 3 / 1931, 2)
        story.look(line * 20, hit(TICK, epoch=epoch, loss=2))
    assert reached(story) == 1720


def test_step_follows_from_the_epochs_of_a_training_that_was_resumed() -> None:
    story = Story()
    story.look(0, hit(TOTAL, total=1000, epochs=2), hit(LOADED, step=400))
    for line in range(1, 21):
        story.look(line, hit(TICK, epoch=round((400 + 10 * line) / 500, 2)))
    assert reached(story) == 600


def test_bar_is_preferred_to_a_step_that_is_only_derived() -> None:
    story = Story()
    story.look(0, hit(TOTAL, total=1000, epochs=2))
    story.look(1, hit(TICK, epoch=0.02))
    story.look(2, hit(BAR, step=13, total=1000), hit(TICK, epoch=0.04))
    assert reached(story) == 13


def test_line_without_a_step_confirms_a_save_that_prints_no_end() -> None:
    story = Story()
    story.look(1, hit(TICK), hit(SAVING_SILENTLY, step=400))
    story.look(2, hit(TICK))
    assert story.state.progress.checkpoint_step == 400


# -- saves -------------------------------------------------------------------------------------


def test_end_of_the_training_confirms_a_save_that_prints_no_end() -> None:
    story = Story()
    story.look(1, hit(STEP, step=1000, total=1000), hit(SAVING_SILENTLY, step=1000))
    story.look(2, hit(SHUTDOWN))
    assert story.state.progress.checkpoint_step == 1000


def test_failure_line_between_a_save_and_the_next_step_makes_it_doubtful() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING_SILENTLY, step=10))
    story.look(2, hit(CRASH), hit(STEP, step=11), hit(STEP, step=12))
    assert story.state.progress.checkpoint_step is None


def test_announced_save_that_failed_does_not_hide_the_one_before() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING, step=10), hit(SAVED, step=10))
    story.look(2, hit(STEP, step=20), hit(SAVING, step=20), hit(CRASH))
    assert story.state.progress.checkpoint_step == 10


# -- several counters --------------------------------------------------------------------------


def test_counter_that_takes_over_is_followed_when_the_first_is_printed_no_more() -> None:
    story = Story()
    story.steps(1, 30, 0)
    for step in range(1, 40):
        story.look(30 + step, hit(OTHER, step=step))
    assert reached(story) == 39
    assert SignalKind.SILENCE not in story.kinds()


def test_second_counter_beside_the_first_changes_nothing() -> None:
    story = Story()
    for step in range(1, 60):
        story.look(step, hit(STEP, step=step), hit(OTHER, step=1000 + step))
    assert reached(story) == 59


# -- figures -----------------------------------------------------------------------------------


def test_figures_of_the_last_line_are_shown() -> None:
    story = Story()
    story.look(1, hit(STEP, step=1, loss="2.5", grad_norm="0.7", throughput="3.1K"))
    progress = story.state.progress
    assert (progress.loss, progress.grad_norm, progress.throughput) == (2.5, 0.7, 3100.0)


def test_loss_that_is_no_number_is_not_shown_as_one() -> None:
    story = Story()
    story.look(1, hit(STEP, step=1, loss="2.5"))
    story.look(2, hit(STEP, step=2, loss="nan"))
    assert story.state.progress.loss is None


def test_hundred_lines_at_once_and_one_by_one_come_to_the_same_step_and_pace() -> None:
    lines = [
        replace(hit(STEP, step=n, total=1000, step_ms=900 + n), written_at=at(n - 200.0))
        for n in range(1, 101)
    ]
    together, apart = Story(), Story()
    together.look(1, *lines)
    for line in lines:
        apart.look(1, line)
    assert replace(together.state.progress, updated_at=None) == replace(
        apart.state.progress, updated_at=None
    )
    assert together.state.intervals == apart.state.intervals
    assert together.state.step_times == apart.state.step_times


def test_next_save_confirms_one_that_prints_no_end() -> None:
    story = Story()
    story.look(1, hit(SAVING_SILENTLY, step=10), hit(SAVING_SILENTLY, step=10))
    assert story.state.progress.checkpoint_step is None
    story.look(2, hit(SAVING_SILENTLY, step=20))
    assert story.state.progress.checkpoint_step == 10
