"""Where a failure began: rank, local rank and node, from whatever says so."""

from __future__ import annotations

from typing import Any

import pytest

from middlewatch.attribution.culprit import Culprit, culprit_of
from middlewatch.attribution.issues import issues_from
from middlewatch.attribution.places import Places
from middlewatch.model.signal import Domain, Signal, SignalKind
from tests.unit.attribution.made import attempt, end_signal, signal

TWO = Places(nodes=("n1", "n2"), ordered=True, world=16)
ONE = Places(nodes=("n1",), ordered=True, world=8)
UNKNOWN = Places()


def begun(*signals: Signal, places: Places = TWO, **given: Any) -> Culprit:
    (issue,) = issues_from(signals, (), attempt())
    return culprit_of(issue, signals, places, **given)


def line(seconds: float, failure_class: str, excerpt: str = "", **given: Any) -> Signal:
    return signal(SignalKind.FAILURE_LINE, seconds, failure_class, excerpt=excerpt, **given)


def report(seconds: float, rank: int, local: int) -> Signal:
    return signal(
        SignalKind.CASCADE_LINE, seconds, ranks=(rank,), detail=f"local_rank={local}",
        position=f"report{rank}",
    )  # fmt: skip


def test_the_line_itself_names_the_rank() -> None:
    cause = line(0, "user_exception", "[rank11]: KeyError: 'x'", ranks=(11,))
    assert begun(cause) == Culprit(11, 3, "n2")


def test_a_second_line_of_the_same_failure_names_it() -> None:
    first = line(0, "gpu_ecc_uncorrectable", "RuntimeError: CUDA error: uncorrectable ECC error")
    second = line(1, "gpu_ecc_uncorrectable", "[Rank 5] watchdog thread terminated: ECC")
    assert begun(first, second, places=ONE) == Culprit(5, 5, "n1")


def test_of_a_kernels_line_the_symptom_on_its_node_names_the_rank() -> None:
    symptom = line(0, "gpu_memory_fault", "[rank11]: CUDA error", ranks=(11,))
    kernel = line(5, "gpu_off_bus", "NVRM: Xid 79", nodes=("n2",))
    assert begun(symptom, kernel) == Culprit(11, 3, "n2")


def test_a_gpus_number_on_a_node_is_a_rank() -> None:
    kernel = line(0, "gpu_firmware_hang", "n2 kernel: timeout of GPU7 GSP!", nodes=("n2",))
    assert begun(kernel) == Culprit(15, 7, "n2")


def test_the_launchers_root_cause_is_the_last_of_its_table() -> None:
    cause = line(0, "user_exception", "KeyError: 'x'")
    assert begun(cause, report(2, 3, 3), report(3, 13, 5)) == Culprit(13, 5, "n2")


def test_a_launcher_that_names_a_local_rank_picks_its_row() -> None:
    cause = line(0, "user_exception", "KeyError: 'x'")
    failed = line(1, "killed_unknown", "failed (exitcode: 1) local_rank: 3", detail="local_rank=3")
    assert begun(cause, failed, report(2, 3, 3), report(3, 8, 0)).rank == 3


def test_without_any_word_the_place_stays_open() -> None:
    assert begun(line(0, "user_exception", "KeyError: 'x'")) == Culprit()


def test_a_lost_peer_is_the_culprit_and_not_who_lost_it() -> None:
    lost = line(0, "peer_connection_lost", ranks=(1,), nodes=("n1",), detail="peer=n2.site<4711>")
    assert begun(lost) == Culprit(node="n2")
    address = line(0, "peer_connection_lost", ranks=(1,), detail="peer=10.0.0.7<4711>")
    assert begun(address) == Culprit()


def test_a_lost_node_is_the_schedulers_word_or_its_lines() -> None:
    end = end_signal(9, "node_failure")
    said = line(0, "node_failure", "srun: error: Node failure on n2", nodes=("n2",))
    assert begun(said, end) == Culprit(node="n2")
    assert begun(end, failed_nodes=("n1",)) == Culprit(node="n1")


def test_the_one_node_that_does_not_complain_is_the_one_waited_for() -> None:
    places = Places(nodes=("n1", "n2", "n3"), ordered=True)
    cause = line(0, "rendezvous_timeout")
    exits = [signal(SignalKind.CASCADE_LINE, 1, nodes=(n,), position=n) for n in ("n2", "n3")]
    assert begun(cause, *exits, places=places) == Culprit(node="n1")


@pytest.mark.parametrize("failure_class", ["time_limit", "preemption", "user_cancel"])
def test_what_ends_the_whole_job_has_no_place(failure_class: str) -> None:
    cause = line(0, failure_class, nodes=("n1",), ranks=(0,))
    assert begun(cause) == Culprit()


def test_ranks_follow_the_order_of_nodes_unless_a_line_contradicts() -> None:
    assert TWO.node_of(9) == "n2"
    odd = Places(nodes=("n1", "n2"), ordered=True, world=16, pairs=((3, "n2"),))
    assert odd.node_of(9) is None
    assert odd.node_of(3) == "n2"


def test_one_named_node_is_not_the_only_one_where_there_are_more_ranks() -> None:
    many = Places(nodes=("n1",), ordered=True, world=48)
    assert many.node_of(22) is None
    assert ONE.node_of(6) == "n1"
    assert UNKNOWN.node_of(0) is None


def test_an_address_or_a_pod_in_the_line_is_its_node() -> None:
    places = Places(nodes=("n1", "n2"), ordered=True, aliases=(("10.4.2.12", "n2"), ("w-0", "n1")))
    told = line(0, "host_oom", "(raylet, ip=10.4.2.12) 1 Workers killed due to memory pressure")
    assert begun(told, places=places) == Culprit(node="n2")
    pod = line(0, "user_exception", "event/Pod w-0 Warning Failed")
    assert begun(pod, places=places).node == "n1"
    other = line(0, "user_exception", "event/Pod w-01 and 110.4.2.12 and 10.4.2.123")
    assert begun(other, places=places) == Culprit()


def test_one_stuck_watchdog_is_a_rank_and_several_are_a_node_at_best() -> None:
    def stuck(rank: int) -> Signal:
        text = f"[rank{rank}]:[E P.cpp:1] [Rank {rank}] watchdog got stuck for 480 seconds"
        return signal(
            SignalKind.WATCHDOG_LINE, rank, "watchdog_stuck", excerpt=text, position=f"w{rank}"
        )

    assert begun(stuck(6)) == Culprit(6, 6, "n1")
    assert begun(stuck(9), stuck(10)) == Culprit(node="n2")


def test_who_listens_for_the_others_is_their_first_rank() -> None:
    assert begun(line(0, "port_in_use", "errno: 98"), places=ONE) == Culprit(0, 0, "n1")


def test_a_hint_about_the_network_says_where_it_became_slow() -> None:
    hint = signal(SignalKind.HINT, 0, "ib_link_error", domain=Domain.NETWORK, nodes=("n2",))
    slow = signal(SignalKind.SLOW, 60, "slow_fabric", domain=Domain.NETWORK)
    assert begun(hint, slow) == Culprit(node="n2")


def test_a_process_of_ray_is_a_rank() -> None:
    places = Places(nodes=("10.0.0.7",), processes=(("10.0.0.7/881", 5),), pairs=((5, "10.0.0.7"),))
    cause = line(0, "storage_io_error", "(RayTrainWorker pid=881, ip=10.0.0.7) OSError: [Errno 5]")
    assert begun(cause, places=places).rank == 5


def test_a_task_that_is_a_launcher_is_no_rank() -> None:
    cause = line(0, "host_oom", "srun: error: n1: task 0: Out Of Memory", ranks=(0,), nodes=("n1",))
    places = Places(nodes=("n1",), ordered=True, world=4, launchers=True)
    symptom = line(-1, "killed_unknown", "[rank2]: RuntimeError: DataLoader worker", ranks=(2,))
    assert begun(symptom, cause, places=places) == Culprit(2, 2, "n1")


def test_the_host_whose_output_a_line_is_is_its_place() -> None:
    cause = line(0, "native_crash", "n2: Segmentation fault", detail="writer=n2")
    assert begun(cause).node == "n2"


def test_a_container_that_fails_on_one_of_several_nodes_is_that_nodes() -> None:
    pods = Places(nodes=("n1", "n2"), aliases=(("job-worker-1", "n2"),))
    failed = line(0, "container_start", "pod/job-worker-1 Failed to pull image")
    assert begun(failed, places=pods) == Culprit(node="n2")
    assert begun(line(0, "container_start", "Failed to pull image"), places=pods) == Culprit()


def test_the_task_that_jax_says_is_lost_is_the_culprit() -> None:
    places = Places(nodes=("n1", "n2"), pairs=((0, "n1"), (1, "n2")))
    lost = line(0, "peer_connection_lost", ranks=(1,), detail="ranks=1")
    assert begun(lost, places=places) == Culprit(1, None, "n2")


def test_who_noticed_that_others_are_lost_is_not_the_culprit() -> None:
    noticed = line(0, "peer_connection_lost", ranks=(1,))
    assert begun(noticed) == Culprit()


def test_a_lost_task_is_named_by_a_line_below_the_one_that_tells_of_it() -> None:
    noticed = line(0, "peer_connection_lost", ranks=(0,))
    named = line(1, "collective_missing_rank", ranks=(9,), detail="ranks=9")
    assert begun(noticed, named) == Culprit(9, None, "n2")


def test_of_several_lost_tasks_none_is_the_culprit() -> None:
    one = line(0, "peer_connection_lost", ranks=(1,), detail="ranks=1")
    two = line(1, "peer_connection_lost", ranks=(9,), detail="ranks=9")
    assert begun(one, two) == Culprit()


def test_whom_a_stall_names_is_whom_the_others_wait_for() -> None:
    stall = signal(
        SignalKind.HINT, 0, "collective_missing_rank", ranks=(11,), excerpt="11: [HorovodAllreduce]"
    )
    silence = signal(SignalKind.SILENCE, 30, value=30.0)
    assert begun(stall, silence) == Culprit(11, 3, "n2")


def test_a_line_names_its_writer_by_the_head_that_the_log_has() -> None:
    heads = Places(nodes=("n1", "n2"), ordered=True, world=16, heads=(r"\[r(?P<rank>\d{1,6})\] ",))
    cause = line(0, "user_exception", "[r11] cannot go on: KeyError")
    assert begun(cause, places=heads) == Culprit(11, 3, "n2")


def test_a_kernels_line_is_about_the_rank_whose_process_it_names() -> None:
    known = Places(nodes=("n1", "n2"), ordered=True, world=16, pids=(("n2/778", 14), ("n1/778", 2)))
    said = "n2 kernel: NVRM: Xid (PCI:0000:d2:00): 74, pid=778, name=python"
    cause = line(0, "gpu_nvlink_fabric", said, nodes=("n2",))
    assert begun(cause, places=known) == Culprit(14, 6, "n2")


def test_the_rank_that_never_spoke_is_whom_a_rendezvous_waits_for() -> None:
    absent = Places(nodes=("n1", "n2"), ordered=True, world=16, absent=13)
    cause = line(0, "rendezvous_timeout", "timed out", ranks=(0,))
    assert begun(cause, places=absent) == Culprit(13, 5, "n2")


def test_the_one_rank_of_several_that_resolves_no_name_has_a_place() -> None:
    one = line(0, "dns_failure", "[rank12]: no such name", ranks=(12,))
    assert begun(one) == Culprit(12, 4, "n2")
    other = line(1, "dns_failure", "[rank3]: no such name", ranks=(3,), position="b")
    assert begun(one, other) == Culprit()


def test_ranks_that_follow_each_other_on_their_nodes_have_local_numbers() -> None:
    block = Places(pairs=((0, "b"), (1, "b"), (2, "a"), (3, "a")), world=4)
    assert block.local_of(3) == 1
    assert Places(pairs=((0, "b"), (2, "b"), (1, "a"), (3, "a")), world=4).local_of(2) is None
    assert Places(pairs=((0, "b"), (1, "b")), world=4).local_of(1) is None


def test_of_several_accused_the_one_whom_most_accuse_is_the_culprit() -> None:
    said = [
        line(n, "peer_connection_lost", ranks=(n,), detail=f"ranks={whom}", position=f"p{n}")
        for n, whom in enumerate((5, 5, 1, 5))
    ]
    assert begun(*said).rank == 5
    assert begun(*said[1:3]).rank is None


def test_a_node_that_several_others_lost_over_the_network_is_to_blame() -> None:
    known = Places(
        nodes=("n1", "n2", "n3"), ordered=True, world=12,
        aliases=(("10.0.0.1", "n1"), ("10.0.0.2", "n2"), ("10.0.0.3", "n3")),
    )  # fmt: skip
    lost = [
        line(0, "ib_link_error", nodes=(n,), detail="gpu=2 peer=10.0.0.2<7>", position=n)
        for n in ("n1", "n3")
    ]
    assert begun(*lost, places=known) == Culprit(6, 2, "n2")
    back = line(1, "ib_link_error", nodes=("n2",), detail="gpu=2 peer=10.0.0.1<7>", position="b")
    assert begun(*lost, back, places=known).node == "n1"


def test_a_silence_is_placed_where_one_rank_said_less_than_all_others() -> None:
    still = signal(SignalKind.SILENCE, 60, "silent_hang", value=60.0)
    assert begun(still, places=Places(nodes=("n1", "n2"), ordered=True, world=16)) == Culprit()
    absent = Places(nodes=("n1", "n2"), ordered=True, world=16, absent=9)
    assert begun(still, places=absent) == Culprit(9, 1, "n2")
