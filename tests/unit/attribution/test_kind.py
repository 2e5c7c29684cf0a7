"""The one word for what became of a job."""

from __future__ import annotations

import pytest

from middlewatch.attribution.issues import governing, issues_from, signals_of
from middlewatch.attribution.kind import CaseKind, kind_of
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.signal import Signal, SignalKind
from tests.unit.attribution.made import attempt, end_signal, ended, signal, watchdog


def kind(of: Attempt, *signals: Signal) -> CaseKind:
    issue = governing(issues_from(signals, (), of))
    own = () if issue is None else signals_of(issue, signals)
    return kind_of(issue, own, of)


def line(failure_class: str, excerpt: str = "", seconds: float = 0) -> Signal:
    return signal(SignalKind.FAILURE_LINE, seconds, failure_class, excerpt=excerpt)


@pytest.mark.parametrize(
    ("by", "word"),
    [
        (EndedBy.COMPLETION, CaseKind.COMPLETED),
        (EndedBy.TIME_LIMIT, CaseKind.PREEMPTED),
        (EndedBy.PREEMPTION, CaseKind.PREEMPTED),
        (EndedBy.OWNER, CaseKind.USER_STOP),
        (EndedBy.FAILURE, CaseKind.CRASH),
        (EndedBy.NODE_FAILURE, CaseKind.CRASH),
    ],
)
def test_an_end_without_any_line(by: EndedBy, word: CaseKind) -> None:
    assert kind(ended(by)) is word


def test_nothing_wrong_is_healthy_and_a_completed_job_is_whatever_it_printed() -> None:
    assert kind(attempt()) is CaseKind.HEALTHY
    assert kind(ended(EndedBy.COMPLETION), line("user_exception")) is CaseKind.COMPLETED


def test_waiting_for_a_collective_is_a_hang_though_a_watchdog_ended_it() -> None:
    assert kind(ended(EndedBy.FAILURE), watchdog(0), end_signal(5)) is CaseKind.HANG


def test_silence_is_a_hang_and_slowness_is_slow() -> None:
    assert kind(attempt(), signal(SignalKind.SILENCE, 0)) is CaseKind.HANG
    assert kind(attempt(), signal(SignalKind.SLOW, 0, "slow_input")) is CaseKind.SLOW


def test_bad_numbers_of_a_running_job_are_a_divergence_and_of_a_dead_one_a_crash() -> None:
    numbers = signal(SignalKind.NUMERIC, 0, "numerical_divergence")
    assert kind(attempt(), numbers) is CaseKind.DIVERGED
    assert kind(ended(EndedBy.FAILURE), numbers, end_signal(5)) is CaseKind.CRASH


def test_a_hardware_fault_that_stops_everybody_is_a_hang_unless_a_process_died_of_it() -> None:
    fault = line("gpu_off_bus", "kernel: NVRM: Xid 79")
    timeout = signal(
        SignalKind.WATCHDOG_LINE, 600, excerpt="Watchdog caught collective operation timeout"
    )
    over = ended(EndedBy.FAILURE)
    assert kind(over, fault, timeout) is CaseKind.HANG
    died = line("gpu_memory_fault", "[rank3]: RuntimeError: CUDA error", 1)
    assert kind(over, fault, died, timeout) is CaseKind.CRASH


def test_a_job_that_stood_still_until_somebody_stopped_it_has_hung() -> None:
    silent = signal(SignalKind.SILENCE, 0)
    stop = end_signal(3600, "user_cancel")
    assert kind(ended(EndedBy.OWNER), silent, stop) is CaseKind.HANG
    soon = end_signal(30, "user_cancel")
    assert kind(ended(EndedBy.OWNER), silent, soon) is CaseKind.USER_STOP


def test_exception_of_a_thread_is_a_hang_where_the_others_waited_for_it_in_vain() -> None:
    waits = watchdog(600, excerpt="[Rank 1] Watchdog caught collective operation timeout: Work")
    thread = line("data_error", "tarfile.ReadError: invalid header")
    assert kind(ended(EndedBy.FAILURE), thread, waits, end_signal(605)) is CaseKind.HANG
    soon = watchdog(20, excerpt="[Rank 1] Watchdog caught collective operation timeout: Work")
    assert kind(ended(EndedBy.FAILURE), thread, soon, end_signal(25)) is CaseKind.CRASH
