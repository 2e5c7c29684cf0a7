"""First cause and consequence, beyond what one depth for each class can tell."""

from __future__ import annotations

from middlewatch.attribution.causes import cause_of, first_cause
from middlewatch.attribution.issues import issues_from
from middlewatch.model.attempt import EndedBy
from middlewatch.model.signal import Signal, SignalKind
from tests.unit.attribution.made import attempt, end_signal, ended, lost_peer, signal


def named(*signals: Signal, by: EndedBy | None = None) -> str:
    of = attempt() if by is None else ended(by)
    (issue,) = issues_from(signals, (), of)
    return issue.failure_class


def line(seconds: float, failure_class: str, excerpt: str = "", **given: object) -> Signal:
    return signal(SignalKind.FAILURE_LINE, seconds, failure_class, excerpt=excerpt, **given)


def test_a_rank_that_died_by_itself_explains_the_peer_that_was_lost() -> None:
    lost = lost_peer(0, ranks=(1,))
    died = line(0.4, "user_exception", "[rank6]: KeyError: 'x'", ranks=(6,))
    assert named(lost, died) == "user_exception"


def test_an_exception_about_the_loss_explains_nothing() -> None:
    lost = lost_peer(0, ranks=(1,))
    told = line(0.4, "user_exception", "[rank6]: RuntimeError: NCCL error", ranks=(6,))
    assert named(lost, told) == "peer_connection_lost"


def test_an_abort_is_how_a_program_ends_that_has_said_why() -> None:
    said = signal(SignalKind.CASCADE_LINE, 0, "peer_connection_lost")
    assert named(said, line(1, "native_crash", "Fatal Python error: Aborted")) == (
        "peer_connection_lost"
    )
    assert named(said, line(1, "native_crash", "failed (exitcode: -11)")) == "native_crash"


def test_the_words_of_a_victim_are_better_than_nothing() -> None:
    told = signal(SignalKind.CASCADE_LINE, 0, "preemption")
    end = end_signal(30, "killed_unknown")
    assert named(told, end, by=EndedBy.FAILURE) == "preemption"


def test_a_hint_explains_a_failure_and_a_silence_and_is_no_trouble_alone() -> None:
    hint = signal(SignalKind.HINT, 0, "storage_io_error")
    assert issues_from([hint], (), attempt()) == ()
    assert named(hint, line(5, "user_exception", "x")) == "storage_io_error"
    assert named(hint, signal(SignalKind.SILENCE, 300, value=300.0)) == "storage_io_error"
    assert named(hint, signal(SignalKind.SILENCE, 9000, value=300.0)) == "silent_hang"


def test_hardware_that_speaks_later_explains_a_link_that_failed() -> None:
    assert named(line(0, "ib_link_error"), line(60, "ib_adapter_fatal")) == "ib_adapter_fatal"
    assert named(line(0, "gpu_oom"), line(60, "gpu_off_bus")) == "gpu_oom"


def test_slowness_and_a_later_crash_are_two_issues() -> None:
    slow = signal(SignalKind.SLOW, 0, "slow_node")
    found = issues_from([slow, line(60, "gpu_oom")], (), attempt())
    assert [issue.failure_class for issue in found] == ["slow_node", "gpu_oom"]


def test_a_speed_that_came_back_closes_slowness_alone() -> None:
    slow = signal(SignalKind.SLOW, 0, "slow_input")
    crash = line(30, "gpu_oom")
    back = signal(SignalKind.RECOVERED, 60, "slow_input")
    found = issues_from([slow, crash, back], (), attempt())
    assert [(i.failure_class, i.state.value) for i in found] == [
        ("slow_input", "recovered"),
        ("gpu_oom", "open"),
    ]


def test_a_jump_of_the_loss_is_a_remark_and_no_issue() -> None:
    assert issues_from([signal(SignalKind.NUMERIC, 0)], (), attempt()) == ()


def test_numbers_that_are_none_are_what_an_end_without_words_is_about() -> None:
    numbers = signal(SignalKind.NUMERIC, 0, "numerical_divergence")
    end = end_signal(60, "killed_unknown")
    assert named(numbers, end, by=EndedBy.FAILURE) == "numerical_divergence"


def test_a_ports_own_error_goes_before_those_who_lost_its_node() -> None:
    lost = line(0, "ib_link_error", nodes=("n1",), detail="gpu=2 peer=10.0.0.4<77>", position="a")
    own = line(2, "ib_link_error", nodes=("n2",), detail="gpu=2", position="b")
    later = line(90, "ib_link_error", nodes=("n2",), detail="gpu=2", position="c")
    assert first_cause((lost, own)) is own
    assert first_cause((lost, later)) is lost


def test_whom_a_report_of_lagging_ranks_names_is_missing() -> None:
    waits = [
        signal(
            SignalKind.WATCHDOG_LINE, rank, "collective_timeout_unattributed", ranks=(rank,),
            excerpt=f"[Rank {rank}] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1)", position=f"w{rank}",
        )
        for rank in (0, 1)
    ]  # fmt: skip
    named = line(3, "collective_missing_rank", ranks=(5,), pattern_id="x.lag", position="n")
    other = line(4, "collective_missing_rank", ranks=(6,), pattern_id="x.lag", position="o")

    assert cause_of((*waits, named), attempt()).signal is named
    assert cause_of((*waits, named, other), attempt()).signal is waits[0]
