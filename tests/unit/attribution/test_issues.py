"""Which signals are one failure, and which of them is its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.attribution.issues import LINES_KEPT, governing, issues_from, signals_of
from middlewatch.model.attempt import EndedBy
from middlewatch.model.issue import Issue, IssueState
from middlewatch.model.signal import Severity, Signal, SignalKind
from tests.unit.attribution.made import (
    at,
    attempt,
    ecc,
    end_signal,
    ended,
    exception,
    lost_peer,
    signal,
    watchdog,
)


def one(*signals: Signal, **given: object) -> Issue:
    found = issues_from(signals, (), attempt(**given))
    assert len(found) == 1
    return found[0]


def test_no_signals_make_no_issue() -> None:
    assert issues_from((), (), attempt()) == ()


def test_a_failure_and_its_consequences_are_one_issue_with_the_failure_as_cause() -> None:
    crash = exception(0)
    rest = (
        lost_peer(1),
        watchdog(2),
        signal(SignalKind.CASCADE_LINE, 3),
        signal(SignalKind.LAUNCHER_END, 4),
        end_signal(5),
    )
    issue = one(crash, *rest)
    assert issue.first_cause == crash.key
    assert issue.cascade == tuple(s.key for s in rest)
    assert issue.failure_class == "user_exception"
    assert issue.happened_at == at(0)


@pytest.mark.parametrize(
    ("symptom", "deeper", "cause"),
    [
        (lost_peer(0), ecc(60), "gpu_ecc_uncorrectable"),
        (watchdog(0), ecc(60), "gpu_ecc_uncorrectable"),
        (
            signal(SignalKind.FAILURE_LINE, 0, "gpu_memory_fault"),
            ecc(300),
            "gpu_ecc_uncorrectable",
        ),
        (
            exception(0),
            signal(SignalKind.FAILURE_LINE, 1, "storage_full"),
            "storage_full",
        ),
        (lost_peer(0), end_signal(5, "host_oom"), "host_oom"),
        # Too late to have caused it: another failure's evidence is not borrowed.
        (lost_peer(0), ecc(3600), "peer_connection_lost"),
        # A cause is not displaced by what came after it.
        (signal(SignalKind.FAILURE_LINE, 0, "storage_full"), ecc(5), "storage_full"),
        # Two symptoms: the earlier one.
        (lost_peer(0), exception(1), "peer_connection_lost"),
        (exception(0), lost_peer(1), "user_exception"),
        # Stopped from outside: what it prints meanwhile is not the cause ...
        (exception(0), end_signal(20, "time_limit"), "time_limit"),
        # A line about a signal is also printed by the peers of a crashed rank.
        (
            exception(0),
            signal(SignalKind.FAILURE_LINE, 2, "user_cancel"),
            "user_exception",
        ),
        (
            signal(SignalKind.FAILURE_LINE, 0, "user_cancel"),
            ecc(2),
            "gpu_ecc_uncorrectable",
        ),
        # ... but what happened long before is.
        (exception(0), end_signal(400, "time_limit"), "user_exception"),
    ],
)
def test_deeper_evidence_in_time_outranks_a_symptom(
    symptom: Signal, deeper: Signal, cause: str
) -> None:
    assert one(symptom, deeper).failure_class == cause


def test_deeper_evidence_counts_whatever_was_stored_first() -> None:
    early, late = lost_peer(0), ecc(10)
    assert one(late, early).first_cause == one(early, late).first_cause == late.key


def test_of_two_patterns_on_one_line_the_deeper_names_the_cause() -> None:
    line = {"position": "4096"}
    plain, deep = exception(0, **line), ecc(0, **line)
    assert one(plain, deep).first_cause == one(deep, plain).first_cause == deep.key


def test_node_failure_told_by_the_scheduler_outranks_every_line() -> None:
    fact = end_signal(30, "node_failure", nodes=("n2",))
    issue = one(exception(0), ecc(1), fact)
    assert (issue.first_cause, issue.failure_class) == (fact.key, "node_failure")


@pytest.mark.parametrize("failure_class", ["time_limit", "preemption", "user_cancel", "host_oom"])
def test_an_end_alone_is_an_issue_of_its_own(failure_class: str) -> None:
    assert one(end_signal(0, failure_class)).failure_class == failure_class


def test_an_end_in_failure_without_any_line_is_of_unknown_cause() -> None:
    assert one(end_signal(0)).failure_class == "killed_unknown"


def test_a_requeue_is_never_the_cause_of_the_failure_that_it_answers() -> None:
    requeued = ended(EndedBy.REQUEUE)
    signals = (watchdog(0), end_signal(40, "preemption"))
    (issue,) = issues_from(signals, (), requeued)
    assert issue.failure_class == "collective_timeout_unattributed"


def test_a_requeue_alone_is_told_as_what_it_is() -> None:
    (issue,) = issues_from((end_signal(40, "preemption"),), (), ended(EndedBy.REQUEUE))
    assert issue.failure_class == "preemption"


def test_the_schedulers_last_word_about_an_end_counts() -> None:
    by_somebody = end_signal(30, "user_cancel", position="CANCELLED/somebody")
    of_memory = end_signal(30, "host_oom", position="OUT_OF_MEMORY/out_of_memory")
    assert one(lost_peer(29), by_somebody, of_memory).failure_class == "host_oom"


def test_a_completion_alone_is_no_issue() -> None:
    done = ended(EndedBy.COMPLETION)
    assert issues_from((end_signal(0, severity=Severity.INFO),), (), done) == ()


def test_a_failure_line_of_an_attempt_that_completed_is_a_closed_issue() -> None:
    done = ended(EndedBy.COMPLETION)
    (issue,) = issues_from((exception(0), end_signal(9)), (), done)
    assert issue.state is IssueState.CLOSED


def test_recovery_closes_what_was_before_it_and_not_what_comes_after() -> None:
    first, healed, second = exception(0), signal(SignalKind.RECOVERED, 20), exception(100)
    before, after = issues_from((first, healed, second), (), attempt())
    assert (before.state, before.first_cause) == (IssueState.RECOVERED, first.key)
    assert healed.key in before.cascade
    assert (after.state, after.first_cause) == (IssueState.OPEN, second.key)
    assert before.id != after.id


def test_recovery_read_after_the_end_heals_nothing() -> None:
    issue = one(exception(0), end_signal(5), signal(SignalKind.RECOVERED, 3))
    assert issue.state is IssueState.OPEN


def test_recovery_of_nothing_is_no_issue() -> None:
    assert issues_from((signal(SignalKind.RECOVERED, 0),), (), attempt()) == ()


def test_silence_alone_is_a_hang_and_joins_a_failure_that_stands() -> None:
    assert one(signal(SignalKind.SILENCE, 0)).failure_class == "silent_hang"
    assert one(exception(0), signal(SignalKind.SILENCE, 90)).failure_class == "user_exception"


def test_an_unreadable_log_stands_apart_from_the_failure() -> None:
    unread, crash = signal(SignalKind.CANNOT_READ, 0), exception(1)
    found = issues_from((unread, crash), (), attempt())
    assert [issue.failure_class for issue in found] == ["cannot_read", "user_exception"]
    chosen = governing(found)
    assert chosen is not None
    assert chosen.first_cause == crash.key


def test_only_an_unreadable_log_governs_nothing() -> None:
    found = issues_from((signal(SignalKind.CANNOT_READ, 0),), (), attempt())
    assert governing(found) is None


def test_the_newest_open_failure_governs() -> None:
    found = issues_from(
        (exception(0), signal(SignalKind.RECOVERED, 20), lost_peer(100)), (), attempt()
    )
    chosen = governing(found)
    assert chosen is not None
    assert chosen.failure_class == "peer_connection_lost"


def test_the_same_signals_again_are_the_same_issue() -> None:
    signals = (lost_peer(0), end_signal(5))
    found = issues_from(signals, (), attempt())
    assert issues_from((*signals, *signals), found, attempt()) == found


def test_an_issue_keeps_its_id_and_version_when_its_cause_becomes_clear() -> None:
    (first,) = issues_from((lost_peer(0),), (), attempt())
    stored = replace(first, version=3)
    (later,) = issues_from((lost_peer(0), ecc(5)), (stored,), attempt())
    assert (later.id, later.version) == (first.id, 3)
    assert later.failure_class == "gpu_ecc_uncorrectable"


def test_the_id_does_not_depend_on_when_we_looked() -> None:
    (early,) = issues_from((lost_peer(0),), (), attempt())
    (late,) = issues_from((lost_peer(0), ecc(5), end_signal(9)), (), attempt())
    assert early.id == late.id


def test_a_closed_issue_stays_closed() -> None:
    (issue,) = issues_from((exception(0),), (), attempt())
    closed = replace(issue, state=IssueState.CLOSED)
    assert issues_from((exception(0), end_signal(3)), (closed,), attempt())[0].state is (
        IssueState.CLOSED
    )


def test_signals_of_another_attempt_are_passed_over() -> None:
    other = attempt(job_id="43")
    assert issues_from((exception(0, of=other),), (), attempt()) == ()


def test_a_known_issue_whose_signals_were_not_given_stays_as_it_is() -> None:
    (issue,) = issues_from((exception(0),), (), attempt())
    assert issues_from((), (issue,), attempt()) == (issue,)


def test_a_long_cascade_keeps_what_permits_something() -> None:
    lines = [lost_peer(1 + n / 1000, position=str(n)) for n in range(LINES_KEPT + 50)]
    grace = signal(SignalKind.NO_PROGRESS_AFTER_FAILURE, 60)
    issue = one(exception(0), *lines, grace)
    assert len(issue.cascade) == LINES_KEPT + 1
    assert grace.key in issue.cascade


def test_signals_of_an_issue_are_found_again() -> None:
    signals = (exception(0), lost_peer(1))
    issue = one(*signals)
    assert signals_of(issue, (*signals, exception(0, of=attempt(job_id="43")))) == signals


def test_the_summary_is_one_line() -> None:
    issue = one(exception(0, excerpt="ValueError:\n  shapes\tdo not match", step=120))
    assert issue.summary == (
        "user_exception at step 120 (python-exception): ValueError: shapes do not match"
    )
