"""Who is missing when everybody waits."""

from __future__ import annotations

from typing import Any

from middlewatch.attribution.collectives import MISMATCH, MISSING, UNATTRIBUTED, finding_of
from middlewatch.attribution.issues import issues_from
from middlewatch.model.signal import Signal, SignalKind
from tests.unit.attribution.made import attempt, signal


def wait(rank: int, seq: int = 7, op: str = "ALLREDUCE", size: int = 100, **given: Any) -> Signal:
    text = (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={size}, NumelOut={size}, "
        "Timeout(ms)=600000) ran for 600009 milliseconds before timing out."
    )
    return signal(SignalKind.WATCHDOG_LINE, 600 + rank / 10, excerpt=text, ranks=(rank,), **given)


def details(rank: int, enqueued: int, completed: int) -> Signal:
    text = (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0 Rank {rank}] Exception "
        f"(either an error or timeout) detected by watchdog at work: 7, last enqueued NCCL work: "
        f"{enqueued}, last completed NCCL work: {completed}."
    )
    return signal(SignalKind.WATCHDOG_LINE, 601 + rank / 10, excerpt=text)


def test_the_one_rank_that_is_behind_is_missing() -> None:
    found = finding_of([wait(0), wait(1), wait(2, 6, "BROADCAST"), wait(3)], None)
    assert found is not None
    assert (found.failure_class, found.rank) == (MISSING, 2)
    assert found.signal.ranks == (2,)


def test_the_one_rank_that_sends_another_size_does_not_match() -> None:
    found = finding_of([wait(0), wait(1), wait(2), wait(3, size=200)], None)
    assert found is not None
    assert (found.failure_class, found.rank) == (MISMATCH, 3)


def test_the_one_rank_that_calls_another_operation_does_not_match() -> None:
    found = finding_of([wait(0), wait(1), wait(2), wait(3, op="ALLGATHER")], None)
    assert found is not None
    assert (found.failure_class, found.rank) == (MISMATCH, 3)


def test_the_one_rank_that_says_nothing_is_missing_where_their_number_is_known() -> None:
    spoken = [wait(rank) for rank in range(8) if rank != 5]
    found = finding_of(spoken, 8)
    assert found is not None
    assert (found.failure_class, found.rank) == (MISSING, 5)
    unknown = finding_of(spoken, None)
    assert unknown is not None
    assert (unknown.failure_class, unknown.rank) == (UNATTRIBUTED, None)


def test_the_one_rank_that_enqueued_less_is_missing() -> None:
    said = [wait(rank) for rank in range(4)]
    said += [details(rank, 6 if rank == 1 else 7, 6) for rank in range(4)]
    found = finding_of(said, 4)
    assert found is not None
    assert (found.failure_class, found.rank) == (MISSING, 1)


def test_where_all_wait_alike_nobody_is_blamed() -> None:
    found = finding_of([wait(rank) for rank in range(8)], 8)
    assert found is not None
    assert (found.failure_class, found.rank) == (UNATTRIBUTED, None)


def test_half_of_the_ranks_being_silent_says_nothing_about_them() -> None:
    found = finding_of([wait(rank) for rank in range(4)], 8)
    assert found is not None
    assert found.failure_class == UNATTRIBUTED


def test_without_a_watchdogs_message_nothing_is_found() -> None:
    assert finding_of([signal(SignalKind.FAILURE_LINE, 0, "gpu_oom")], 8) is None


def test_the_issue_bears_the_class_that_follows_from_all_messages() -> None:
    (issue,) = issues_from([wait(0), wait(1), wait(2, size=9), wait(3)], (), attempt())
    assert issue.failure_class == MISMATCH
    assert "rank 2" in issue.summary


def test_what_the_missing_rank_answers_to_the_others_is_its_line() -> None:
    answer = signal(
        SignalKind.CASCADE_LINE, 601, ranks=(3,),
        excerpt="[rank3]:[E ProcessGroupNCCL.cpp:1682] [PG ID 0 Rank 3] Observed flight recorder "
        "dump signal from another rank via TCPStore.",
    )  # fmt: skip
    found = finding_of([wait(0), wait(1), wait(2), answer], 4)
    assert found is not None
    assert (found.rank, found.signal) == (3, answer)
