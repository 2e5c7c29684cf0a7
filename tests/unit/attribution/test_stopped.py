"""Words of being stopped: of a pre-emption, or of the peers of a rank that died."""

from __future__ import annotations

import pytest

from middlewatch.attribution import issues_from
from middlewatch.model.advice import DecisionBasis
from middlewatch.model.attempt import EndedBy
from middlewatch.model.signal import Signal, SignalKind
from middlewatch.remediation import RefrainBasis
from tests.unit.attribution.made import attempt, end_signal, ended, signal
from tests.unit.remediation.made import ground, inputs


def told(seconds: float, text: str) -> Signal:
    return signal(SignalKind.CASCADE_LINE, seconds, "preemption", excerpt=text)


def report(seconds: float, rank: int, text: str) -> Signal:
    return signal(SignalKind.CASCADE_LINE, seconds, "", excerpt=text, ranks=(rank,))


PEERS = tuple(told(rank / 10, f"[rank: {rank}] Received SIGTERM: 15") for rank in range(3))
END = end_signal(60, "killed_unknown")


def failure_class(*signals: Signal) -> str:
    (issue,) = issues_from((*signals, END), (), ended(EndedBy.FAILURE))
    return issue.failure_class


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2, "srun: error: node-3: task 3: Exited with exit code 1"),
        (31, "srun: error: node-3: task 3: Exited with exit code 127"),
        (2, "srun: error: node-3: task 3: Killed"),
        (2, "  exitcode  : -9 (pid: 368158)"),
    ],
)
def test_rank_that_died_without_a_word_is_why_its_peers_were_stopped(
    seconds: float, text: str
) -> None:
    signals = (*PEERS, report(seconds, 3, text), END)
    assert failure_class(*PEERS, report(seconds, 3, text)) == "killed_unknown"
    assert ground(inputs(ended(EndedBy.FAILURE), *signals)) is (
        DecisionBasis.ATTEMPT_ENDED_IN_FAILURE
    )


@pytest.mark.parametrize(
    ("seconds", "rank", "text"),
    [
        (2, 0, "srun: error: node-1: task 0: Exited with exit code 143"),
        (2, 3, "srun: error: node-3: task 3: Exited with exit code 143"),
        (2, 0, "srun: error: node-1: task 0: Exited with exit code 1"),
        (31, 3, "srun: error: node-3: task 3: Killed"),
        (400, 3, "srun: error: node-3: task 3: Exited with exit code 1"),
    ],
)
def test_ranks_that_ended_as_they_were_told_to_say_nothing_against_it(
    seconds: float, rank: int, text: str
) -> None:
    assert failure_class(*PEERS, report(seconds, rank, text)) == "preemption"


@pytest.mark.parametrize(
    "words",
    [
        "WARNING caught SIGTERM, checkpointing and requeueing job 61600",
        "Preemption detected, saving checkpoint and exiting",
        "Force saving checkpoint: ESI instance expiration",
    ],
)
def test_program_that_names_its_pre_emption_is_believed(words: str) -> None:
    exited = report(2, 3, "srun: error: node-3: task 3: Exited with exit code 1")
    assert failure_class(told(0, words), *PEERS, exited) == "preemption"
    signals = (told(0, words), *PEERS, exited, END)
    assert ground(inputs(ended(EndedBy.FAILURE), *signals)) is RefrainBasis.PREEMPTED


def test_scheduler_that_names_the_pre_emption_is_believed() -> None:
    exited = report(2, 3, "srun: error: node-3: task 3: Exited with exit code 1")
    signals = (*PEERS, exited, end_signal(60, "preemption"))
    (issue,) = issues_from(signals, (), ended(EndedBy.PREEMPTION))
    assert issue.failure_class == "preemption"
    assert attempt().end is None
