"""Ranks, hosts, devices and processes, learnt from the forms of a log's own lines."""

from __future__ import annotations

from middlewatch.wiring.analysis.places import places_in
from middlewatch.wiring.analysis.seats import seats_in


def _log(form: str, ranks: int = 8, per: int = 4) -> bytes:
    lines = [
        form.format(r=r, h=f"box{r // per + 1}", d=r % per, p=700 + 13 * r) for r in range(ranks)
    ]
    return "\n".join(lines).encode()


def test_a_host_and_device_at_the_head_are_joined_with_a_rank_behind_them() -> None:
    seats = seats_in(_log("box-a{h}/gpu{d} | 10:00:0{d} | start | global rank 0{r} of 8"), {}, 8)

    assert seats.pairs[5] == "box-abox2"
    assert seats.locals[5] == 1


def test_fields_of_an_object_name_rank_and_host() -> None:
    data = _log('{{"lvl": "info", "rank": {r}, "host": "{h}", "msg": "up", "dev": "cuda:{d}"}}')
    seats = seats_in(data, {"box1": "box1", "box2": "box2"}, 8)

    assert seats.pairs[7] == "box2"


def test_a_process_of_the_kernels_line_is_found_by_its_number_on_its_host() -> None:
    places = places_in(_log("{h} up: rank {r} of 8, gpu {d}, pid {p}") + b"\nworld_size=8\n")

    assert places.rank_in_kernel("NVRM: Xid (PCI:0000:d2:00): 74, pid=778, name=p", "box2") == 6
    assert places.rank_in_kernel("NVRM: Xid (PCI:0000:d2:00): 74, pid=778, name=p", "box1") is None
    assert places.rank_in_kernel("NVRM: Xid (PCI:0000:d2:00): 74, pid=999, name=p", "box2") is None


def test_a_gpu_of_the_kernels_line_is_found_by_its_bus() -> None:
    lines = [
        f"nd{r // 2}:{500 + r}:{600 + r} [{r % 2}] NCCL INFO comm 0x7f{r} rank {r} nranks 4 "
        f"cudaDev {r % 2} busId {'1b000' if r % 2 else 'd2000'} - Init COMPLETE"
        for r in range(4)
    ]
    places = places_in("\n".join(lines).encode())

    assert places.rank_in_kernel("NVRM: Xid (PCI:0000:1b:00): 79, GPU is lost", "nd1") == 3


def test_a_number_in_the_head_of_lines_is_the_writers_rank_where_it_takes_their_values() -> None:
    data = _log("2026-01-02 03:04:0{d} INFO (r{r}) warm") + b"\nworld_size=8\n"
    places = places_in(data)

    assert places.rank_at_head("2026-01-02 03:09:44 WARNING (r6) cannot read") == 6
    assert places.rank_at_head("2026-01-02 03:09:44 WARNING (r9) cannot read") is None
    assert places.rank_at_head("loaded (r6) shards") is None


def test_numbers_that_go_beyond_the_ranks_are_no_heads() -> None:
    data = "\n".join(f"[{n}] loss 2.{n}" for n in range(40)).encode() + b"\nworld_size=8\n"

    assert places_in(data).rank_at_head("[3] loss 2.3") is None


def test_the_one_rank_that_never_said_what_the_others_did_is_absent() -> None:
    said = [f"10:00:0{r} rank {r}: entered the barrier" for r in range(8) if r != 5]

    assert seats_in("\n".join(said).encode(), {}, 8).absent == 5


def test_nobody_is_absent_where_forms_miss_different_ranks() -> None:
    said = [f"rank {r}: tokens ready" for r in range(8) if r != 5]
    said += [f"rank {r}: weights ready" for r in range(8) if r != 2]

    assert seats_in("\n".join(said).encode(), {}, 8).absent is None


def test_accusers_of_one_host_do_not_sit_on_it() -> None:
    data = _log("rank {r}: lost box9, giving up")

    assert seats_in(data, {"box9": "box9"}, 8).pairs == {}


def test_a_rank_that_comes_with_two_hosts_tells_nothing() -> None:
    lines = [f"rank {r} sends to box{(r + n) % 4}" for r in range(8) for n in range(2)]

    assert (
        seats_in("\n".join(lines).encode(), {f"box{n}": f"box{n}" for n in range(4)}, 8).pairs == {}
    )


def test_ranks_of_groups_and_of_nodes_are_no_ranks_of_the_job() -> None:
    data = _log("{h} local rank {d}") + b"\n" + _log("{h} node rank {r}") + _log("{h} tp rank {r}")

    assert seats_in(data, {"box1": "box1", "box2": "box2"}, 8).pairs == {}


def test_a_larger_form_goes_before_one_that_contradicts_it() -> None:
    pods = "\n".join(f"box{n + 1} entry: RANK={n} of the pods" for n in range(4)).encode()
    data = _log("{h} worker rank={r} ready", 32, 8) + b"\n" + pods

    assert seats_in(data, {}, 32).pairs[1] == "box1"


def test_hours_and_minutes_are_no_heads() -> None:
    data = "\n".join(f"{n:02d}:{n % 60:02d}:00 step" for n in range(8)).encode()

    assert places_in(data + b"\nworld_size=8\n").heads == ()


def test_devices_that_count_with_the_ranks_are_no_hosts() -> None:
    places = places_in(_log(" {r}: {h} gpu{d} rank={r} world_size=8"))

    assert places.node_of(6) == "box2"
    assert places.local_of(6) == 2


def test_a_rank_that_did_not_say_it_the_last_time_is_absent() -> None:
    said = [f"round {n}: rank {r} wrote its part" for n in range(3) for r in range(8)]

    assert seats_in("\n".join(said).encode(), {}, 8).absent is None
    said.remove("round 2: rank 6 wrote its part")
    assert seats_in("\n".join(said).encode(), {}, 8).absent == 6
    said.remove("round 2: rank 1 wrote its part")
    assert seats_in("\n".join(said).encode(), {}, 8).absent is None


def test_a_rank_whose_part_of_a_save_was_not_written_is_absent() -> None:
    form = "[{n}] Saved /out/step{n}/bf16_zero_pp_rank_{r}_mp_rank_00_optim_states.pt"
    said = [form.format(n=n, r=r) for n in range(3) for r in range(8)]
    said.remove(form.format(n=2, r=3))

    assert seats_in("\n".join(said).encode(), {}, 8).absent == 3


def test_a_rank_that_never_came_is_absent_however_often_the_others_wait() -> None:
    said = [f"waiting, rank: {r}" for r in range(8) for _ in range(1 + r % 3) if r != 4]

    assert seats_in("\n".join(said).encode(), {}, 8).absent == 4


def test_what_was_said_once_less_counts_only_where_every_line_was_read() -> None:
    said = [f"round {n}: rank {r} wrote its part" for n in range(3000) for r in range(8)]

    assert seats_in("\n".join(said[:-1]).encode(), {}, 8).absent is None
