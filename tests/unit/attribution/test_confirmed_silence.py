"""A witness confirms a failure and is none of its own."""

from __future__ import annotations

from middlewatch.attribution.issues import issues_from
from middlewatch.model.issue import Issue
from middlewatch.model.signal import Signal, SignalKind, SourceKind
from tests.unit.attribution.made import attempt, ecc, signal


def silence(seconds: float) -> Signal:
    return signal(SignalKind.SILENCE, seconds, "silent_hang")


def witness(
    seconds: float, failure_class: str = "silent_hang", nodes: tuple[str, ...] = ()
) -> Signal:
    return signal(
        SignalKind.SECOND_WITNESS,
        seconds,
        failure_class,
        source=SourceKind.METRICS,
        identity="gpu_power",
        nodes=nodes,
    )


def only_issue(*signals: Signal) -> Issue:
    (issue,) = issues_from(signals, (), attempt())
    return issue


def test_silence_stays_the_cause_when_all_nodes_stand_still() -> None:
    first, second = silence(100), witness(160)
    issue = only_issue(first, second)
    assert (issue.failure_class, issue.first_cause) == ("silent_hang", first.key)
    assert second.key in issue.cascade


def test_node_that_alone_stands_still_is_the_cause() -> None:
    first, second = silence(100), witness(160, nodes=("n1",))
    issue = only_issue(first, second)
    assert (issue.failure_class, issue.first_cause) == ("silent_hang", second.key)


def test_failure_line_stays_the_cause_beside_a_witness() -> None:
    line, confirmed = ecc(100), witness(160, "")
    issue = only_issue(line, confirmed)
    assert (issue.failure_class, issue.first_cause) == ("gpu_ecc_uncorrectable", line.key)
