"""When silence means something."""

from __future__ import annotations

from dataclasses import replace

from middlewatch.detection.habits import quantile
from middlewatch.detection.hang import due
from middlewatch.detection.limits import acting_limit, grace_s, silence_limit_s
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import SignalKind, SourceKind
from tests.unit.detection.given import (
    BAR,
    CASCADE,
    COMPILING,
    CRASH,
    EVALUATION,
    FIRST_STEP,
    LAUNCHER,
    PLAN,
    RESTARTING,
    SAVED,
    SAVING,
    SHUTDOWN,
    STACK,
    STEP,
    WATCHDOG,
    Story,
    at,
    attempt,
    ended,
    hit,
)


def familiar(every: float = 1.0) -> tuple[Story, float]:
    """A job that has stepped at a steady pace and has shown how long it saves."""
    story = Story()
    story.steps(1, 30, 0, every)
    story.look(30 * every, hit(SAVING, step=30))
    story.look(30 * every + 2, hit(SAVED, step=30))
    last = story.steps(31, 40, 31 * every + 2, every)
    return story, last


def test_quantile_is_a_value_that_was_seen() -> None:
    assert quantile((1.0, 2.0, 3.0, 4.0, 100.0), 0.5) == 3.0
    assert quantile((1.0, 2.0), 1.0) == 2.0
    assert quantile((), 0.9) == 0.0


def test_silence_beyond_the_limit_is_an_alarm() -> None:
    story, last = familiar()
    assert story.look(last + 54) == []
    (signal,) = story.look(last + 56)
    assert signal.kind is SignalKind.SILENCE
    assert signal.source.kind is SourceKind.CLOCK
    assert signal.step == 40
    assert signal.value == 56


def test_silence_is_told_once() -> None:
    story, last = familiar()
    story.look(last + 100)
    assert story.look(last + 1000) == []


def test_slow_job_has_a_long_limit() -> None:
    story, last = familiar(every=100.0)
    assert story.look(last + 240) == []
    assert [s.kind for s in story.look(last + 260)] == [SignalKind.SILENCE]


def test_limit_includes_the_longest_unannounced_pause_that_the_job_has_shown() -> None:
    story = Story()
    story.steps(1, 20, 0)
    last = story.steps(21, 30, 220)
    assert story.look(last + 390) == []
    assert len(story.look(last + 410)) == 1


def test_announced_pause_is_no_reason_to_wait_as_long_in_training() -> None:
    story = Story()
    last = story.steps(1, 20, 0)
    story.look(last + 1, hit(SAVING, step=20))
    story.look(last + 200, hit(SAVED, step=20))
    again = story.steps(21, 30, last + 201)
    assert len(story.look(again + 60)) == 1


def test_pauses_at_equal_distances_are_no_reason_to_wait_in_between() -> None:
    story = Story()
    when = 0.0
    for hundred in range(5):
        when = story.steps(100 * hundred + 1, 100 * hundred + 100, when) + 120
    when = story.steps(501, 533, when)
    assert len(story.look(when + 60)) == 1
    when = story.steps(534, 600, when + 61)
    assert story.look(when + 150) == []


def test_job_that_has_never_paused_is_given_more_time_at_a_round_step() -> None:
    story = Story()
    last = story.steps(71, 100, 0)
    assert story.look(last + 200) == []
    assert len(story.look(last + 301)) == 1


def test_job_that_has_never_paused_is_given_no_more_time_at_any_other_step() -> None:
    story = Story()
    last = story.steps(71, 103, 0)
    assert len(story.look(last + 60)) == 1


def test_unfamiliar_evaluation_is_overdue_long_before_its_silence_counts() -> None:
    story = Story()
    last = story.steps(1, 30, 0)
    story.look(last + 1, hit(EVALUATION))
    assert story.look(last + 300) == []
    (signal,) = story.look(last + 302)
    assert signal.kind is SignalKind.OVERDUE
    assert "1/12 of evaluation_limit_s" in signal.detail
    assert story.look(last + 3500) == []
    assert [s.kind for s in story.look(last + 3700)] == [SignalKind.SILENCE]
    assert story.look(last + 9000) == []


def test_familiar_evaluation_may_take_a_few_times_its_usual_length() -> None:
    story = Story()
    story.steps(1, 30, 0)
    story.look(30, hit(EVALUATION))
    story.look(130, hit(STEP, step=31))
    last = story.steps(32, 100, 131)
    story.look(last + 1, hit(EVALUATION))
    assert story.look(last + 400) == []
    assert [s.kind for s in story.look(last + 402)] == [SignalKind.OVERDUE]
    assert [s.kind for s in story.look(last + 900)] == [SignalKind.SILENCE]


def test_the_more_often_a_phase_was_seen_the_sooner_it_is_overdue() -> None:
    limits = []
    story, when = Story(), 0.0
    for number in range(4):
        when = story.steps(100 * number + 1, 100 * number + 37, when) + 1
        story.look(when, hit(SAVING, step=100 * number + 37))
        limits.append(silence_limit_s(story.state, story.policy))
        when += 100
        story.look(when, hit(SAVED, step=100 * number + 37))
    assert limits == [180, 400, 300, 250]


def test_first_save_of_a_job_that_took_long_to_load_may_take_longer() -> None:
    story = Story()
    story.look(1000, hit(STEP, step=1))
    last = story.steps(2, 37, 1001)
    story.look(last + 1, hit(SAVING, step=37))
    assert story.look(last + 501) == []
    assert [s.kind for s in story.look(last + 503)] == [SignalKind.OVERDUE]


def test_first_evaluation_of_a_job_with_long_steps_may_take_longer() -> None:
    story = Story()
    last = story.steps(1, 30, 0, every=13.0)
    story.look(last + 1, hit(EVALUATION))
    assert silence_limit_s(story.state, story.policy) == 1300


def test_steps_that_become_others_by_plan_may_be_compiled_anew_in_silence() -> None:
    story, last = familiar()
    story.look(last + 1, hit(PLAN))
    assert story.look(last + 700) == []
    assert [s.kind for s in story.look(last + 722)] == [SignalKind.OVERDUE]


def test_alarm_never_comes_after_the_silence_counts() -> None:
    story = Story(policy=Policy(checkpoint_limit_s=200.0))
    story.look(1000, hit(STEP, step=1))
    last = story.steps(2, 37, 1001)
    story.look(last + 1, hit(SAVING, step=37))
    assert [s.kind for s in story.look(last + 203)] == [SignalKind.SILENCE]


def test_limit_that_a_site_makes_longer_makes_the_alarm_later() -> None:
    story = Story(policy=Policy(checkpoint_limit_s=7200.0))
    last = story.steps(1, 37, 0)
    story.look(last + 1, hit(SAVING, step=37))
    assert silence_limit_s(story.state, story.policy) == 720


def test_job_that_runs_and_never_prints_is_an_alarm() -> None:
    story = Story()
    assert story.look(299) == []
    (signal,) = story.look(301)
    assert signal.kind is SignalKind.OVERDUE
    assert "printed nothing" in signal.detail
    assert story.look(899) == []
    assert [s.kind for s in story.look(901)] == [SignalKind.SILENCE]


def test_before_the_first_step_another_limit_holds() -> None:
    story = Story()
    story.look(0, hit(CASCADE))
    assert SignalKind.OVERDUE in {signal.kind for signal in story.look(601)}
    assert SignalKind.SILENCE in {signal.kind for signal in story.look(1801)}


def test_first_line_of_a_job_that_says_that_it_steps_may_stand_for_many_steps() -> None:
    story = Story()
    story.look(0, hit(FIRST_STEP))
    assert story.look(1199) == []
    assert SignalKind.OVERDUE in {signal.kind for signal in story.look(1201)}


def test_first_lines_promise_how_far_the_next_ones_are() -> None:
    story = Story()
    story.look(1040, hit(STEP, step=10))
    assert story.look(1641) != []
    story = Story()
    story.look(1040, hit(STEP, step=10, step_s=104.0))
    assert silence_limit_s(story.state, story.policy) == 1560


def test_output_before_the_first_step_is_life() -> None:
    story = Story()
    story.look(1700, hit(CASCADE))
    assert [s.kind for s in story.look(1900)] == [SignalKind.BLIND]


def test_output_before_the_first_step_ends_a_silence_and_the_next_is_another_alarm() -> None:
    story = Story()
    assert [s.kind for s in story.look(301)] == [SignalKind.OVERDUE]
    assert [s.kind for s in story.look(400, hit(CASCADE))] == [
        SignalKind.CASCADE_LINE,
        SignalKind.RECOVERED,
    ]
    assert SignalKind.OVERDUE in {s.kind for s in story.look(1001)}


def test_few_steps_are_no_habit() -> None:
    story = Story()
    story.steps(1, 2, 0)
    assert silence_limit_s(story.state, story.policy) == 600
    assert acting_limit(story.state, story.policy).seconds == 1800


def test_end_of_a_job_that_has_shown_short_pauses_is_overdue_soon() -> None:
    story, last = familiar()
    story.look(last + 1, hit(SHUTDOWN))
    assert story.look(last + 55) == []
    assert [s.kind for s in story.look(last + 57)] == [SignalKind.OVERDUE]
    assert story.look(last + 1200) == []
    assert [s.kind for s in story.look(last + 1202)] == [SignalKind.SILENCE]


def test_end_of_a_job_that_has_shown_long_saves_may_take_as_long() -> None:
    story = Story()
    last = story.steps(1, 37, 0)
    story.look(last + 1, hit(SAVING, step=37))
    story.look(last + 101, hit(SAVED, step=37))
    last = story.steps(38, 60, last + 102)
    story.look(last + 1, hit(SHUTDOWN))
    assert silence_limit_s(story.state, story.policy) == 250


def test_end_of_a_job_that_has_shown_no_pause_is_overdue_after_minutes() -> None:
    story = Story()
    last = story.steps(1, 40, 0)
    story.look(last + 1, hit(SHUTDOWN))
    assert silence_limit_s(story.state, story.policy) == 120


def test_total_that_was_reached_is_an_end_and_more_may_follow_unannounced() -> None:
    story = Story()
    last = story.steps(990, 1000, 0)
    assert story.look(last + 299) == []
    assert [s.kind for s in story.look(last + 301)] == [SignalKind.OVERDUE]


def test_site_may_lower_the_floor() -> None:
    story = Story(policy=Policy(silence_floor_s=4.0))
    last = story.steps(1, 30, 0, every=0.5)
    assert len(story.look(last + 21)) == 1


def test_silence_of_a_suspended_job_means_nothing() -> None:
    story, last = familiar()
    story.attempt = attempt(state=JobState.SUSPENDED)
    assert story.look(last + 1000) == []
    story.attempt = attempt()
    assert story.look(last + 1001) == []


def test_silence_of_a_completing_job_means_nothing() -> None:
    story, last = familiar()
    story.attempt = attempt(completing=True)
    assert story.look(last + 1000) == []


def test_silence_of_an_ended_job_means_nothing() -> None:
    story, last = familiar()
    story.attempt = ended()
    assert story.look(last + 1000) != []
    assert SignalKind.SILENCE not in story.kinds()


def test_nothing_is_concluded_from_files_that_were_not_read_to_their_end() -> None:
    story, last = familiar()
    assert story.look(last + 1000, caught_up=False) == []


def test_what_cannot_be_read_is_not_silent() -> None:
    assert [s.kind for s in Story().look(5000, readable=False)] == [SignalKind.BLIND]


def test_step_after_a_silence_is_a_recovery() -> None:
    story, last = familiar()
    story.look(last + 100)
    (signal,) = story.look(last + 110, hit(STEP, step=41))
    assert signal.kind is SignalKind.RECOVERED


def test_second_silence_is_an_alarm_of_its_own_at_a_longer_limit() -> None:
    story, last = familiar()
    story.look(last + 100)
    story.look(last + 110, hit(STEP, step=41))
    again = story.steps(42, 60, last + 111)
    assert story.look(again + 100) == []
    assert [s.kind for s in story.look(again + 300)] == [SignalKind.SILENCE]


def test_failure_line_without_progress_for_the_grace_is_evidence() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    assert story.look(last + 30) == []
    (signal,) = story.look(last + 40)
    assert signal.kind is SignalKind.NO_PROGRESS_AFTER_FAILURE
    assert signal.failure_class == "gpu_ecc_uncorrectable"


def test_evidence_is_given_once() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    story.look(last + 40)
    assert story.look(last + 4000) == []


def test_watchdogs_hang_message_is_followed_by_the_same_evidence() -> None:
    story, last = familiar()
    story.look(last + 1, hit(WATCHDOG))
    (signal,) = story.look(last + 60)
    assert signal.kind is SignalKind.NO_PROGRESS_AFTER_FAILURE
    assert "watchdog" in signal.detail


def test_launchers_report_is_followed_by_the_same_evidence() -> None:
    story, last = familiar()
    story.look(last + 1, hit(LAUNCHER))
    assert [s.kind for s in story.look(last + 60)] == [SignalKind.NO_PROGRESS_AFTER_FAILURE]


def test_cascade_line_alone_arms_nothing() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CASCADE))
    assert story.look(last + 45) == []


def test_silence_alone_never_becomes_that_evidence() -> None:
    story, last = familiar()
    story.look(last + 100_000)
    assert SignalKind.NO_PROGRESS_AFTER_FAILURE not in story.kinds()


def test_two_steps_after_a_failure_line_are_a_recovery() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    assert story.look(last + 2, hit(STEP, step=41)) == []
    (signal,) = story.look(last + 3, hit(STEP, step=42))
    assert signal.kind is SignalKind.RECOVERED
    assert story.look(last + 50) == []


def test_one_step_of_a_rank_that_was_ahead_is_no_recovery() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    story.look(last + 2, hit(STEP, step=41))
    assert [s.kind for s in story.look(last + 60)] == [SignalKind.NO_PROGRESS_AFTER_FAILURE]


def test_bar_repainted_by_a_dying_process_is_neither_step_nor_recovery() -> None:
    story = Story()
    for step in range(1, 31):
        story.look(step, hit(BAR, step=step, total=1000))
    story.look(31, hit(CRASH))
    assert story.look(32, hit(BAR, step=34, total=1000)) == []
    assert story.state.progress.last_step == 30


def test_job_that_starts_again_inside_recovers_with_its_second_step() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    story.look(last + 20, hit(STEP, step=31))
    assert [s.kind for s in story.look(last + 21, hit(STEP, step=32))] == [SignalKind.RECOVERED]


def test_grace_covers_another_start_up() -> None:
    story = Story()
    story.look(200, hit(STEP, step=1))
    last = story.steps(2, 40, 201)
    story.look(last + 1, hit(CRASH))
    assert grace_s(story.state, story.policy) == 300


def test_grace_is_longer_where_the_launcher_says_that_it_restarts() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    before = grace_s(story.state, story.policy)
    story.look(last + 2, hit(RESTARTING))
    assert grace_s(story.state, story.policy) > before


def test_grace_has_an_upper_bound() -> None:
    story = Story()
    story.look(90_000, hit(STEP, step=1))
    story.steps(2, 40, 90_001)
    assert grace_s(story.state, story.policy) == 600


def test_program_that_prints_no_steps_but_prints_is_not_proven_stuck() -> None:
    story = Story()
    story.look(10, hit(CRASH))
    for minute in range(1, 60):
        story.look(10 + 60 * minute, hit(CASCADE))
    assert SignalKind.NO_PROGRESS_AFTER_FAILURE not in story.kinds()


def test_program_that_fails_before_its_first_step_and_falls_silent_is() -> None:
    story = Story()
    story.look(10, hit(CRASH))
    assert story.look(300) == []
    assert [s.kind for s in story.look(320)] == [SignalKind.NO_PROGRESS_AFTER_FAILURE]


def test_ended_attempt_needs_no_such_evidence() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    story.attempt = ended()
    story.look(last + 100)
    assert SignalKind.NO_PROGRESS_AFTER_FAILURE not in story.kinds()


def test_second_failure_after_a_recovery_is_judged_anew() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    again = story.steps(41, 60, last + 2)
    story.look(again + 1, hit(CRASH))
    assert [s.kind for s in story.look(again + 60)] == [SignalKind.NO_PROGRESS_AFTER_FAILURE]


def test_dump_of_stacks_in_a_silence_is_no_more_than_the_silence() -> None:
    story, last = familiar()
    story.look(last + 20, hit(STACK))
    assert [s.kind for s in story.look(last + 60)] == [SignalKind.SILENCE]
    story.look(last + 100, hit(STACK), hit(STACK))
    story.look(last + 2000)
    assert SignalKind.NO_PROGRESS_AFTER_FAILURE not in story.kinds()


def test_time_in_which_the_output_could_not_be_read_is_no_silence() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    story.look(last + 5, readable=False)
    story.look(last + 600, readable=False)
    assert SignalKind.NO_PROGRESS_AFTER_FAILURE not in [s.kind for s in story.look(last + 601)]
    assert SignalKind.NO_PROGRESS_AFTER_FAILURE in [s.kind for s in story.look(last + 640)]


def test_time_in_which_the_job_was_suspended_is_no_lack_of_progress() -> None:
    story, last = familiar()
    story.look(last + 1, hit(CRASH))
    running = story.attempt
    story.attempt = replace(running, state=JobState.SUSPENDED)
    story.look(last + 5)
    story.look(last + 3600)
    story.attempt = running
    assert story.look(last + 3601) == []
    assert [s.kind for s in story.look(last + 3640)] == [SignalKind.NO_PROGRESS_AFTER_FAILURE]


def test_dump_of_stacks_of_a_job_that_goes_on_is_nothing() -> None:
    story, last = familiar()
    story.look(last + 20, hit(STACK))
    again = story.steps(41, 80, last + 21)
    story.look(again + 200)
    assert SignalKind.NO_PROGRESS_AFTER_FAILURE not in story.kinds()


def test_failure_line_in_an_evaluation_is_given_the_time_of_the_evaluation() -> None:
    story, last = familiar()
    story.look(last + 1, hit(EVALUATION))
    story.look(last + 2, hit(CRASH))
    assert story.look(last + 3000) == []
    assert [s.kind for s in story.look(last + 3700)] == [SignalKind.NO_PROGRESS_AFTER_FAILURE]


def test_compilation_before_the_first_step_may_take_longer() -> None:
    story = Story()
    story.look(1, hit(COMPILING))
    assert story.look(3590) == [] or SignalKind.SILENCE not in story.kinds()
    story.look(3700)
    assert SignalKind.SILENCE in story.kinds()


def test_process_that_does_not_end_after_its_training_is_an_alarm() -> None:
    story, last = familiar()
    story.look(last + 1, hit(SHUTDOWN))
    (signal,) = story.look(last + 1300)
    assert "after the end of the training" in signal.detail


def test_process_that_does_not_end_after_its_last_step_is_an_alarm() -> None:
    story = Story()
    story.steps(990, 1000, 0)
    (signal,) = story.look(1300)
    assert "after the last step" in signal.detail


def test_save_that_hangs_is_an_alarm_by_the_length_of_the_saves_before() -> None:
    story = Story()
    when = 0.0
    for ten in range(4):
        when = story.steps(10 * ten + 1, 10 * ten + 10, when + 1)
        story.look(when + 1, hit(SAVING, step=10 * ten + 10))
        when += 21
        story.look(when, hit(SAVED, step=10 * ten + 10))
    when = story.steps(41, 50, when + 1)
    story.look(when + 1, hit(SAVING, step=50))
    assert story.look(when + 55) == []
    (signal,) = story.look(when + 57)
    assert "in a save" in signal.detail
    assert [s.kind for s in story.look(when + 90)] == [SignalKind.SILENCE]


def test_lines_that_keep_coming_while_the_step_does_not_move_are_silence() -> None:
    story, last = familiar()
    for second in range(1, 54):
        assert story.look(last + second, hit(STEP, step=40, total=1000)) == []
    assert [s.kind for s in story.look(last + 57, hit(STEP, step=40))] == [SignalKind.SILENCE]


def test_growing_steps_are_no_hang() -> None:
    story = Story()
    when, every = 0.0, 2.0
    for step in range(1, 120):
        story.look(when, hit(STEP, step=step, total=1000))
        every *= 1.04
        when += every
        for look in range(1, 10):
            story.look(when - every + every * look / 10)
    assert SignalKind.SILENCE not in story.kinds()


def test_pace_is_learnt_from_stamps_of_lines_that_were_read_at_once() -> None:
    story = Story()
    lines = [
        hit(STEP, step=n, total=1000, line=f"2026-03-01 11:{n:02d}:00 step {n}")
        for n in range(1, 41)
    ]
    story.look(1, *lines)
    assert story.look(140) == []
    assert [s.kind for s in story.look(155)] == [SignalKind.SILENCE]


def test_pace_is_learnt_from_the_times_of_a_log_store() -> None:
    story = Story()
    lines = [replace(hit(STEP, step=n, total=1000), written_at=at(n - 50.0)) for n in range(1, 48)]
    story.look(1, *lines)
    assert [s.kind for s in story.look(60)] == [SignalKind.SILENCE]


def test_moment_of_the_next_alarm_is_known_before() -> None:
    story, last = familiar()
    assert due(story.state, story.policy) == at(last + 55)
    story.look(last + 1, hit(CRASH))
    assert due(story.state, story.policy) == at(last + 1 + grace_s(story.state, story.policy))


def test_silences_that_come_near_their_limit_are_kept() -> None:
    story, last = familiar()
    story.look(last + 40)
    (pause,) = story.state.progress.pauses
    assert pause.lasts
    assert (pause.limit, pause.limit_s, pause.length_s) == ("silence_floor_s", 55, 40)
    story.look(last + 45, hit(STEP, step=41, total=1000))
    (pause,) = story.state.progress.pauses
    assert not pause.lasts
    assert pause.length_s == 45


def test_short_silences_are_not_kept() -> None:
    story, last = familiar()
    story.look(last + 12)
    story.look(last + 13, hit(STEP, step=41, total=1000))
    assert story.state.progress.pauses == ()
