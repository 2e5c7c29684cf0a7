"""Steps, checkpoints and pace."""

from __future__ import annotations

from dataclasses import replace

from middlewatch.detection.progress import any_loop
from middlewatch.detection.state import came_to
from middlewatch.model.attempt import EndedBy
from middlewatch.model.signal import Phase
from middlewatch.model.steps import Reached, StepCounter
from tests.unit.detection.given import (
    BAR,
    CRASH,
    EVALUATION,
    LAUNCHER,
    LOADED,
    OTHER,
    OWN,
    SAVED,
    SAVING,
    SAVING_SILENTLY,
    SHUTDOWN,
    STEP,
    TICK,
    TOTAL,
    Story,
    at,
    ended,
    hit,
)


def test_steps_are_counted_from_the_first_to_the_last() -> None:
    story = Story()
    story.steps(11, 15, 3)
    progress = story.state.progress
    assert (progress.first_step, progress.last_step, progress.total_steps) == (11, 15, 1000)
    assert (progress.first_step_at, progress.last_step_at) == (at(3), at(7))
    assert progress.phase is Phase.TRAINING


def test_step_time_is_the_median_of_what_the_lines_say() -> None:
    story = Story()
    for number, ms in enumerate((500, 500, 9000, 500), 1):
        story.look(number, hit(STEP, step=number, step_ms=ms))
    assert story.state.progress.step_time_s == 0.5


def test_step_time_is_measured_where_lines_do_not_say() -> None:
    story = Story()
    story.steps(1, 9, 0, every=2.0)
    assert story.state.progress.step_time_s == 2.0


def test_rates_are_turned_into_seconds_per_step() -> None:
    story = Story()
    story.look(1, hit(BAR, step=1, total=100, step_rate="4"))
    story.look(2, hit(BAR, step=5, total=100, step_rate="4"))
    assert story.state.progress.step_time_s == 0.25


def test_same_step_from_another_rank_is_no_step_forward() -> None:
    story = Story()
    story.steps(1, 4, 0)
    story.look(9, hit(STEP, step=4))
    assert story.state.advanced_at == at(3)


def test_count_that_goes_back_is_followed() -> None:
    story = Story()
    story.steps(1, 40, 0)
    story.look(60, hit(STEP, step=31))
    assert story.state.progress.last_step == 31
    assert story.state.progress.first_step == 1


def test_gap_of_a_restart_inside_the_job_is_a_start_up_and_no_interval() -> None:
    story = Story()
    story.steps(1, 40, 0)
    story.look(339, hit(STEP, step=31))
    assert max(story.state.intervals) == 1.0
    assert story.state.startup_s == 300.0


def test_start_up_is_measured_from_the_start_of_the_attempt() -> None:
    story = Story()
    story.look(25, hit(STEP, step=1))
    assert story.state.startup_s == 25.0


def test_first_step_of_a_bar_is_not_zero() -> None:
    story = Story()
    story.look(1, hit(BAR, step=0, total=100))
    assert story.state.progress.last_step is None


def test_shorter_bar_inside_the_training_is_an_evaluation() -> None:
    story = Story()
    story.look(1, hit(BAR, step=50, total=1000))
    story.look(2, hit(BAR, step=3, total=10))
    assert story.state.progress.last_step == 50
    assert story.state.progress.phase is Phase.EVALUATION


def test_bar_of_an_epoch_counts_over_all_epochs() -> None:
    story = Story()
    story.look(1, hit(BAR, step=99, total=100, epoch=0))
    story.look(2, hit(BAR, step=1, total=100, epoch=1))
    assert story.state.progress.last_step == 101


def test_printed_steps_are_preferred_to_a_bar() -> None:
    story = Story()
    story.look(1, hit(BAR, step=5, total=10))
    story.look(2, hit(STEP, step=700))
    story.look(3, hit(BAR, step=6, total=10))
    assert story.state.progress.last_step == 700


def test_our_own_line_is_preferred_to_all_others() -> None:
    story = Story()
    story.look(1, hit(STEP, step=700))
    story.look(2, hit(OWN, step=12))
    story.look(3, hit(STEP, step=701))
    assert story.state.progress.last_step == 12


def test_lines_without_a_step_show_life_and_pace() -> None:
    story = Story()
    for number in range(5):
        story.look(number * 10, hit(TICK))
    assert story.state.progress.last_step is None
    assert story.state.intervals == (10.0,) * 3 + (10.0,)


def test_number_with_separators_is_a_number() -> None:
    story = Story()
    story.look(1, hit(TOTAL, total="2,875"))
    assert story.state.progress.total_steps == 2875


def test_step_that_is_no_number_is_passed_over() -> None:
    story = Story()
    story.look(1, hit(STEP, step="9" * 40))
    assert story.state.progress.last_step is None


def test_counter_of_any_loop_gives_way_to_one_that_is_known() -> None:
    loop = replace(STEP, id="loop.step")
    story = Story()
    story.look(1, hit(loop, step=3))
    assert story.state.progress.last_step == 3
    assert any_loop(story.state)
    story.look(2, hit(STEP, step=120))
    story.look(3, hit(loop, step=4))
    assert story.state.progress.last_step == 120
    assert not any_loop(story.state)


def test_announced_checkpoint_does_not_count() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING, step=10))
    story.look(2, hit(STEP, step=11))
    assert story.state.progress.checkpoint_step is None


def test_completed_checkpoint_counts() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING, step=10))
    story.look(4, hit(SAVED, step=10))
    assert story.state.progress.checkpoint_step == 10
    assert story.state.progress.checkpoint_at == at(4)


def test_completion_without_a_step_takes_that_of_the_announcement() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING))
    story.look(2, hit(SAVED))
    assert story.state.progress.checkpoint_step == 10


def test_save_without_an_end_line_counts_with_the_next_step() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING_SILENTLY, step=10))
    assert story.state.progress.checkpoint_step is None
    story.look(2, hit(STEP, step=11))
    assert story.state.progress.checkpoint_step == 10


def test_save_without_an_end_line_does_not_count_when_the_program_dies_in_it() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING_SILENTLY, step=10), hit(CRASH))
    story.look(60, hit(STEP, step=1))
    assert story.state.progress.checkpoint_step is None


def test_loaded_checkpoint_is_remembered() -> None:
    story = Story()
    story.look(1, hit(LOADED, step=200))
    assert story.state.progress.loaded_step == 200


def test_evaluation_is_a_phase_until_the_next_step() -> None:
    story = Story()
    story.look(1, hit(STEP, step=1))
    story.look(2, hit(EVALUATION))
    assert story.state.progress.phase is Phase.EVALUATION
    story.look(30, hit(STEP, step=2))
    assert story.state.progress.phase is Phase.TRAINING
    assert story.state.phase_habits == (("evaluation", 28.0, 1),)


def test_phase_line_sets_the_phase() -> None:
    story = Story()
    story.look(1, hit(SHUTDOWN))
    assert story.state.progress.phase is Phase.SHUTDOWN


def test_resumed_is_told_once_at_the_first_step_beyond() -> None:
    story = Story(resume_above=25)
    story.steps(21, 30, 0)
    assert story.resumed == [(26, at(5))]


def test_resumed_is_the_first_of_several_steps_read_at_once() -> None:
    story = Story(resume_above=25)
    story.look(1, *(hit(STEP, step=step) for step in range(21, 31)))
    assert story.resumed == [(26, at(1))]


def test_first_attempt_has_nothing_to_resume_beyond() -> None:
    story = Story()
    story.steps(1, 30, 0)
    assert story.resumed == []


def test_an_epoch_of_the_attempt_before_is_counted_from_the_same_first_epoch() -> None:
    before = Story()
    for epoch in range(1, 5):
        before.look(epoch, hit(BAR, step=100, total=100, epoch=epoch))
    before.look(5, hit(BAR, step=50, total=100, epoch=5))
    lost = before.state.progress.last_step
    assert (lost, before.state.counter.first_epoch) == (450, 1)
    after = Story(resume_above=lost)
    after.state = replace(after.state, epochs_from=before.state.counter.first_epoch)
    after.look(1, hit(BAR, step=10, total=100, epoch=5))
    after.look(2, hit(BAR, step=50, total=100, epoch=5))
    assert after.resumed == []
    after.look(3, hit(BAR, step=51, total=100, epoch=5))
    assert after.resumed == [(451, at(3))]


def test_a_loop_before_training_passes_no_step_that_a_better_counter_lost() -> None:
    loop = replace(STEP, id="loop.of_anything")
    story = Story(resume_above=25)
    story.state = replace(story.state, resume_by=1)
    story.look(1, hit(loop, step=1000), hit(loop, step=2000))
    assert story.resumed == []
    story.steps(21, 27, 2)
    assert story.resumed == [(26, at(7))]
    alike = Story(resume_above=25)
    alike.state = replace(alike.state, resume_by=-2)
    alike.look(1, hit(loop, step=26))
    assert alike.resumed == [(26, at(1))]


def test_last_step_is_kept_with_its_counter() -> None:
    story = Story()
    assert story.state.progress.steps_of is None
    story.look(1, hit(BAR, step=5, total=100))
    assert story.state.progress.reached == Reached(5, StepCounter(BAR.id, 0))
    story.look(2, hit(STEP, step=3))
    assert story.state.progress.reached == Reached(3, StepCounter(STEP.id, 1))


def after_a_fault(step: int, of: StepCounter) -> Story:
    story = Story(resume_above=step)
    story.state = replace(story.state, resume_of=of, resume_by=of.rank)
    return story


def test_step_of_another_counter_passes_nothing() -> None:
    story = after_a_fault(25, StepCounter(STEP.id, 1))
    for number, step in enumerate((500, 1000, 1500, 2000)):
        story.look(number, hit(OTHER, step=step))
    assert story.state.progress.reached == Reached(2000, StepCounter(OTHER.id, 1))
    assert story.resumed == []


def test_counter_that_was_lost_is_followed_as_soon_as_it_is_printed() -> None:
    story = after_a_fault(25, StepCounter(STEP.id, 1))
    story.look(1, hit(OTHER, step=2000))
    story.steps(21, 27, 2)
    assert story.state.counter.pattern == STEP.id
    assert story.resumed == [(26, at(7))]
    # Without a fault before it the first of two that are alike explicit is followed.
    fresh = Story()
    fresh.look(1, hit(OTHER, step=2000))
    fresh.steps(21, 27, 2)
    assert fresh.state.counter.pattern == OTHER.id


def test_two_counters_do_not_take_turns_though_one_of_them_was_lost() -> None:
    story = after_a_fault(25, StepCounter(STEP.id, 1))
    story.look(0, hit(STEP, step=1))
    for number in range(1, 30):
        story.look(number, hit(OTHER, step=100 + number))
    assert story.state.counter.pattern == OTHER.id
    story.look(30, hit(STEP, step=2))
    story.look(31, hit(OTHER, step=131))
    assert story.state.progress.reached == Reached(131, StepCounter(OTHER.id, 1))
    assert len(story.state.intervals) > 5


def test_counter_of_the_last_step_is_known_where_the_count_begins_anew() -> None:
    story = Story()
    story.steps(1, 9, 0)
    story.look(10, hit(LAUNCHER))
    story.look(11, hit(LOADED, step=5))
    assert came_to(story.state) == Reached(9, StepCounter(STEP.id, 1))
    assert story.state.progress.last_step is None


def test_state_of_a_long_job_stays_small() -> None:
    story = Story()
    story.steps(1, 300, 0)
    assert len(story.state.intervals) == 64
    assert len(story.state.step_times) == 31


def test_stamped_lines_read_in_one_piece_keep_their_intervals() -> None:
    story = Story()
    lines = [
        hit(STEP, step=n, line=f"[2026-03-01 11:{n:02d}:00] iteration {n}") for n in range(1, 6)
    ]
    story.look(1, *lines)
    assert story.state.intervals == (60.0,) * 4


def test_save_of_numbers_that_are_none_is_no_checkpoint_to_go_on_from() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10, loss="2.1"), hit(SAVED, step=10))
    story.look(2, hit(STEP, step=20, loss="nan"), hit(SAVED, step=20))
    assert story.state.progress.checkpoint_step == 10
    story.look(3, hit(STEP, step=30, loss="2.0"), hit(SAVED, step=30))
    assert story.state.progress.checkpoint_step == 30


def test_last_save_without_an_end_line_counts_where_the_job_completes() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING_SILENTLY, step=10))
    story.attempt = ended(EndedBy.COMPLETION)
    story.look(60, drained=True)
    assert story.state.progress.checkpoint_step == 10


def test_last_save_without_an_end_line_does_not_count_where_the_job_fails() -> None:
    story = Story()
    story.look(1, hit(STEP, step=10), hit(SAVING_SILENTLY, step=10))
    story.attempt = ended(EndedBy.FAILURE)
    story.look(60, drained=True)
    assert story.state.progress.checkpoint_step is None
