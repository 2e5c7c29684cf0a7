"""Remarks and consequences that a program outlives, and who knows why it was told to stop."""

from __future__ import annotations

from middlewatch.attribution.issues import governing, issues_from, signals_of
from middlewatch.model.attempt import EndedBy
from middlewatch.model.issue import IssueState
from middlewatch.model.signal import SignalKind
from tests.unit.attribution.made import attempt, ended, signal

HOUR = 3600.0


def test_a_consequence_that_was_outlived_by_an_hour_of_steps_is_no_part_of_a_failure() -> None:
    early = signal(SignalKind.CASCADE_LINE, 0, "container_start", position="1")
    late = signal(SignalKind.FAILURE_LINE, HOUR, "gpu_oom", position="9", step=400)
    issues = issues_from((early, late), (), attempt())
    assert [issue.state for issue in issues] == [IssueState.RECOVERED, IssueState.OPEN]
    issue = governing(issues)
    assert issue is not None
    assert signals_of(issue, (early, late)) == (late,)


def test_a_remark_before_the_first_step_is_no_part_of_a_failure_hours_later() -> None:
    early = signal(SignalKind.HINT, 0, "container_start", position="1")
    late = signal(SignalKind.FAILURE_LINE, HOUR, "host_oom", position="9", step=1740)
    (issue,) = issues_from((early, late), (), attempt())
    assert signals_of(issue, (early, late)) == (late,)


def test_a_consequence_without_a_step_behind_it_stays_with_what_follows() -> None:
    early = signal(SignalKind.CASCADE_LINE, 0, "container_start", position="1", step=7)
    late = signal(SignalKind.FAILURE_LINE, HOUR, "host_oom", position="9", step=7)
    (issue,) = issues_from((early, late), (), attempt())
    assert signals_of(issue, (early, late)) == (early, late)


def test_a_failure_is_not_outlived_without_being_seen_to_recover() -> None:
    early = signal(SignalKind.FAILURE_LINE, 0, "gpu_oom", position="1", step=7)
    late = signal(SignalKind.FAILURE_LINE, HOUR, "host_oom", position="9", step=99)
    (issue,) = issues_from((early, late), (), attempt())
    assert issue.first_cause == early.key


def test_the_launcher_knows_why_the_program_was_told_to_stop() -> None:
    told = signal(SignalKind.CASCADE_LINE, 0, "preemption", position="1", excerpt="SIGTERM")
    said = signal(SignalKind.LAUNCHER_END, 2, "user_cancel", position="9", excerpt="was stopped")
    (issue,) = issues_from((told, said), (), attempt())
    assert (issue.failure_class, issue.first_cause) == ("user_cancel", said.key)


def test_what_a_launcher_says_of_no_stop_leaves_the_stop_as_it_was_told() -> None:
    told = signal(SignalKind.CASCADE_LINE, 0, "preemption", position="1", excerpt="SIGTERM")
    said = signal(SignalKind.LAUNCHER_END, 2, "", position="9", excerpt="failed")
    (issue,) = issues_from((told, said), (), attempt())
    assert issue.failure_class == "preemption"


def test_the_launcher_that_took_it_back_goes_before_a_bare_exit_code() -> None:
    said = signal(SignalKind.LAUNCHER_END, 0, "preemption", position="1", excerpt="Evict")
    end = signal(SignalKind.SCHEDULER_END, 2, "", position="9")
    (issue,) = issues_from((said, end), (), ended(EndedBy.FAILURE))
    assert issue.failure_class == "preemption"


def test_a_rank_that_the_others_waited_for_until_they_lost_it_is_the_cause() -> None:
    waits = signal(SignalKind.HINT, 0, "collective_missing_rank", position="1", ranks=(3,), step=4)
    lost = signal(SignalKind.FAILURE_LINE, 180, "peer_connection_lost", position="9", step=4)
    (issue,) = issues_from((waits, lost), (), attempt())
    assert issue.first_cause == waits.key


def test_a_wait_that_was_over_before_is_no_cause_of_a_lost_connection() -> None:
    waits = signal(SignalKind.HINT, 0, "collective_missing_rank", position="1", ranks=(3,), step=4)
    lost = signal(SignalKind.FAILURE_LINE, 180, "peer_connection_lost", position="9", step=90)
    (issue,) = issues_from((waits, lost), (), attempt())
    assert issue.first_cause == lost.key
