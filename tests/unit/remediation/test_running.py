"""What may end an attempt that still runs, and what may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.advice import DecisionBasis, DesiredState
from middlewatch.model.attempt import Dependent
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Signal, SignalKind, SourceKind
from middlewatch.remediation import RefrainBasis, decide
from tests.unit.attribution.made import attempt, ecc, exception, lost_peer, signal, watchdog
from tests.unit.remediation.made import advised, ground, inputs, refrained

SILENCE = signal(SignalKind.SILENCE, 40)
OVERDUE = signal(SignalKind.OVERDUE, 30)
GRACE = signal(SignalKind.NO_PROGRESS_AFTER_FAILURE, 50)
LAUNCHER = signal(SignalKind.LAUNCHER_END, 20)
WITNESS = signal(SignalKind.SECOND_WITNESS, 45, identity="dcgm")


@pytest.mark.parametrize(
    "signals",
    [
        (exception(0),),
        (ecc(0, nodes=("n1",)),),
        (watchdog(0),),
        (lost_peer(0), exception(1), watchdog(2)),
        # The launcher's report is a line of the log as well: a shell loop may start it again.
        (exception(0), LAUNCHER),
        # Silence comes from the same log: it is no second witness of it.
        (exception(0), SILENCE),
        (signal(SignalKind.CASCADE_LINE, 0),),
        # A line cannot call itself a witness of another kind.
        (exception(0), signal(SignalKind.SECOND_WITNESS, 1, source=SourceKind.LOG)),
        # An outside report alone is one witness, not a second one.
        (signal(SignalKind.EXTERNAL, 0, "gpu_off_bus"),),
    ],
)
def test_lines_alone_do_not_end_a_running_attempt(signals: tuple[Signal, ...]) -> None:
    assert ground(inputs(attempt(), *signals)) is RefrainBasis.WAITING_FOR_WITNESS


def test_silence_alone_is_an_alarm() -> None:
    assert ground(inputs(attempt(), SILENCE)) is RefrainBasis.SILENCE_ALONE


def test_silence_alone_acts_where_the_policy_says_so() -> None:
    made = inputs(attempt(), SILENCE, policy=Policy(act_on_silence=True))
    assert ground(made) is DecisionBasis.SILENCE


def test_overdue_phase_is_an_alarm_and_nothing_acts_upon_it() -> None:
    made = inputs(attempt(), OVERDUE, policy=Policy(act_on_silence=True))
    assert ground(made) is RefrainBasis.SILENCE_ALONE
    assert ground(inputs(attempt(), OVERDUE, WITNESS)) is RefrainBasis.SILENCE_ALONE
    both = inputs(attempt(), OVERDUE, SILENCE, policy=Policy(act_on_silence=True))
    assert ground(both) is DecisionBasis.SILENCE


def test_silence_alone_acts_in_a_partition_where_the_policy_says_so() -> None:
    policy = Policy(act_on_silence_partitions=("gpu",))
    there = decide(inputs(attempt(partitions=("gpu",)), SILENCE, policy=policy))
    assert advised(there).intent.basis is DecisionBasis.SILENCE
    assert "in partition gpu" in advised(there).intent.explanation
    elsewhere = decide(inputs(attempt(partitions=("batch",)), SILENCE, policy=policy))
    assert elsewhere.basis is RefrainBasis.SILENCE_ALONE
    assert "not acted on in partition batch" in elsewhere.explanation


def test_silence_alone_does_not_act_where_only_some_partitions_of_the_job_allow_it() -> None:
    policy = Policy(act_on_silence_partitions=("gpu",))
    made = inputs(attempt(partitions=("gpu", "batch")), SILENCE, policy=policy)
    assert ground(made) is RefrainBasis.SILENCE_ALONE


@pytest.mark.parametrize("source", [SourceKind.API, SourceKind.METRICS, SourceKind.SCHEDULER])
def test_witness_from_any_source_but_the_log_counts(source: SourceKind) -> None:
    made = inputs(attempt(), SILENCE, signal(SignalKind.SECOND_WITNESS, 1, source=source))
    assert ground(made) is DecisionBasis.SECOND_WITNESS


def test_directory_that_does_not_grow_confirms_a_failure_and_no_mere_silence() -> None:
    directory = signal(SignalKind.SECOND_WITNESS, 1, source=SourceKind.FILES)
    assert ground(inputs(attempt(), SILENCE, directory)) is RefrainBasis.SILENCE_ALONE
    assert ground(inputs(attempt(), exception(0), directory)) is DecisionBasis.SECOND_WITNESS


def test_no_progress_without_any_failure_is_silence() -> None:
    assert ground(inputs(attempt(), SILENCE, GRACE)) is RefrainBasis.SILENCE_ALONE


@pytest.mark.parametrize("failure_class", ["preemption", "time_limit", "user_cancel"])
def test_program_that_says_that_it_is_being_stopped_is_left_to_end(failure_class: str) -> None:
    word = signal(SignalKind.LAUNCHER_END, 0, failure_class=failure_class)
    made = inputs(attempt(), word, GRACE)
    made = replace(made, issue=replace(made.issue, failure_class=failure_class))
    assert ground(made) is RefrainBasis.WAITING_FOR_END


@pytest.mark.parametrize(
    ("signals", "basis"),
    [
        ((exception(0), GRACE), DecisionBasis.FAILURE_LINE_AND_NO_PROGRESS),
        ((watchdog(0), GRACE), DecisionBasis.WATCHDOG_AND_NO_PROGRESS),
        ((watchdog(0), exception(1), GRACE), DecisionBasis.FAILURE_LINE_AND_NO_PROGRESS),
        ((exception(0), LAUNCHER, GRACE), DecisionBasis.LAUNCHER_REPORTED_END),
        ((exception(0), WITNESS), DecisionBasis.SECOND_WITNESS),
        ((watchdog(0), WITNESS), DecisionBasis.SECOND_WITNESS),
        ((SILENCE, WITNESS), DecisionBasis.SECOND_WITNESS),
        (
            (SILENCE, signal(SignalKind.EXTERNAL, 50, "gpu_off_bus")),
            DecisionBasis.SECOND_WITNESS,
        ),
        (
            (exception(0), signal(SignalKind.LAUNCHER_END, 9, source=SourceKind.API)),
            DecisionBasis.LAUNCHER_REPORTED_END,
        ),
    ],
)
def test_a_witness_or_the_grace_ends_a_running_attempt(
    signals: tuple[Signal, ...], basis: DecisionBasis
) -> None:
    outcome = advised(decide(inputs(attempt(), *signals)))
    assert outcome.intent.basis is basis
    assert outcome.intent.may_end_running
    assert outcome.intent.desired is DesiredState.RESTARTED


def test_a_program_that_went_on_by_itself_is_not_touched() -> None:
    signals = (exception(0), signal(SignalKind.RECOVERED, 20), exception(100))
    assert ground(inputs(attempt(), *signals)) is RefrainBasis.WAITING_FOR_WITNESS


def test_grace_before_a_recovery_does_not_speak_for_a_later_failure() -> None:
    signals = (exception(0), GRACE, signal(SignalKind.RECOVERED, 60), exception(100))
    assert ground(inputs(attempt(), *signals)) is RefrainBasis.WAITING_FOR_WITNESS


@pytest.mark.parametrize(
    ("state", "completing", "basis"),
    [
        (JobState.PENDING, False, RefrainBasis.NOT_RUNNING),
        (JobState.SUSPENDED, False, RefrainBasis.NOT_RUNNING),
        (JobState.UNREADABLE, False, RefrainBasis.NOT_RUNNING),
        (JobState.RUNNING, True, RefrainBasis.WAITING_FOR_END),
        (JobState.FAILED, True, RefrainBasis.WAITING_FOR_END),
    ],
)
def test_only_what_runs_is_ended(state: JobState, completing: bool, basis: RefrainBasis) -> None:
    target = attempt(state=state, completing=completing)
    assert ground(inputs(target, exception(0), GRACE)) is basis


def test_a_hung_attempt_with_dependents_is_restarted_while_it_runs() -> None:
    target = attempt(dependents=(Dependent("43", "afterany"), Dependent("44", "afterok")))
    assert ground(inputs(target, watchdog(0), GRACE)) is DecisionBasis.WATCHDOG_AND_NO_PROGRESS


def test_a_hung_attempt_that_cannot_be_requeued_is_told_how_to_allow_it() -> None:
    outcome = decide(inputs(attempt(requeueable=False), exception(0), GRACE))
    assert refrained(outcome) is RefrainBasis.NOT_REQUEUEABLE
    assert "--requeue" in outcome.explanation  # type: ignore[union-attr]


def test_an_unreadable_log_decides_nothing() -> None:
    assert ground(inputs(attempt(), signal(SignalKind.CANNOT_READ, 0))) is RefrainBasis.NO_FAILURE


def test_a_vanished_attempt_is_left_alone() -> None:
    target = attempt(vanished=True)
    assert ground(inputs(target, exception(0), GRACE)) is RefrainBasis.VANISHED
