"""Several threads and several processes at once: exactly one wins, and the trail has no gap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess

from middlewatch.model.change import Change
from middlewatch.ports.errors import Conflict
from middlewatch.ports.store import AuditFilter, Store
from tests.contract.store.backends import Backend
from tests.contract.store.records import advice, at, attempt, attempt_id, event
from tests.contract.store.workers import append_events, race_for_lease, race_for_version

RACERS = 4
ROUNDS = 15


def together(count: int, act: Callable[[int], bool]) -> int:
    """Let ``count`` threads start at one moment; how many said that it worked."""
    barrier = threading.Barrier(count)

    def run(n: int) -> bool:
        barrier.wait()
        return act(n)

    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(run, range(count)))


def wins(store: Store, change: Change) -> bool:
    try:
        store.apply(change)
    except Conflict:
        return False
    return True


def started(workers: list[ForkServerProcess], pipes: list[tuple[Connection, Connection]]) -> None:
    """Start them and let go of their ends of the pipes: one that dies is noticed at once."""
    for worker, (_, there) in zip(workers, pipes, strict=True):
        worker.start()
        there.close()


def test_of_threads_that_create_one_record_exactly_one_wins(backend: Backend) -> None:
    stores = [backend.open(), backend.open()]
    for n in range(ROUNDS):
        change = Change(advice=(advice(n),), audit=(event(n),))
        assert together(RACERS, lambda i, c=change: wins(stores[i % 2], c)) == 1  # type: ignore[misc]
    assert stores[0].last_audit_number() == ROUNDS


def test_of_threads_that_change_one_version_exactly_one_wins(store: Store) -> None:
    for version in range(ROUNDS):
        change = Change(attempts=(attempt(1, version=version),))
        assert together(RACERS, lambda _, c=change: wins(store, c)) == 1  # type: ignore[misc]


def test_of_threads_that_take_one_lease_exactly_one_gets_it(store: Store) -> None:
    for turn in range(ROUNDS):
        now = at(10 * turn)
        got = together(
            RACERS,
            lambda i, now=now, turn=turn: (  # type: ignore[misc]
                store.acquire_lease("controller", f"{turn}-{i}", 5, now) is not None
            ),
        )
        assert got == 1
    assert [lease.token for lease in store.leases()] == [ROUNDS]


def test_readers_see_whole_changes_while_others_write(store: Store) -> None:
    stop = threading.Event()
    torn: list[tuple[int, int]] = []

    def read() -> None:
        while not stop.is_set():
            page = store.audit(AuditFilter(), 0, 10_000)
            if len(page) % 3 or [e.number for e in page] != list(range(1, len(page) + 1)):
                torn.append((len(page), page[-1].number))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(40):
        store.apply(Change(audit=(event(n), event(n), event(n))))
    stop.set()
    for reader in readers:
        reader.join()
    assert torn == []


def test_of_processes_that_change_one_version_exactly_one_wins(
    backend: Backend, processes: ForkServerContext
) -> None:
    pipes = [processes.Pipe() for _ in range(RACERS)]
    racers = [
        processes.Process(target=race_for_version, args=(backend.address, there, ROUNDS))
        for _, there in pipes
    ]
    started(racers, pipes)
    for here, _ in pipes:
        assert here.recv() == "ready"
    for _ in range(ROUNDS):
        for here, _there in pipes:
            here.send("go")
        assert sum(here.recv() for here, _ in pipes) == 1
    for racer in racers:
        racer.join()
    store = backend.open()
    found = store.attempt(attempt_id(1))
    assert found is not None
    assert found.version == ROUNDS
    assert [e.number for e in store.audit(AuditFilter(), 0, 1000)] == list(range(1, ROUNDS + 1))


def test_of_processes_that_take_one_lease_exactly_one_gets_it(
    backend: Backend, processes: ForkServerContext
) -> None:
    pipes = [processes.Pipe() for _ in range(RACERS)]
    racers = [
        processes.Process(target=race_for_lease, args=(backend.address, f"h{n}", there, ROUNDS))
        for n, (_, there) in enumerate(pipes)
    ]
    started(racers, pipes)
    for here, _ in pipes:
        assert here.recv() == "ready"
    tokens: list[int] = []
    for _ in range(ROUNDS):
        for here, _there in pipes:
            here.send("go")
        got = [token for here, _there in pipes if (token := here.recv()) is not None]
        assert len(got) == 1
        tokens += got
    for racer in racers:
        racer.join()
    # The token stays with a holder that takes the lease twice running, and never goes back.
    assert tokens == sorted(tokens)


def test_trail_has_no_gap_under_racing_processes_and_failing_changes(
    backend: Backend, processes: ForkServerContext
) -> None:
    count = 40
    pipes = [processes.Pipe() for _ in range(3)]
    writers = [
        processes.Process(target=append_events, args=(backend.address, n, count, there))
        for n, (_, there) in enumerate(pipes)
    ]
    started(writers, pipes)
    assert [here.recv() for here, _ in pipes] == [count] * 3
    for writer in writers:
        writer.join()
    store = backend.open()
    trail = store.audit(AuditFilter(), 0, 10_000)
    assert [e.number for e in trail] == list(range(1, 3 * count + 1))
    for n in range(3):
        mine = [e.payload for e in trail if e.attempt_id == attempt_id(n)]
        assert mine == [str(turn) for turn in range(count)]
