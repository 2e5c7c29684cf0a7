"""`kill -9` of writers at random moments: what was acknowledged is there, whole, in order.

(A kill shows that nothing is kept in the process. That a commit has reached the disk by then is
what `synchronous=FULL` says; tests/integration/sql checks that it is set.)
"""

from __future__ import annotations

import random
import time
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

from middlewatch.ports.store import AuditFilter, Store
from tests.contract.store.backends import Backend
from tests.contract.store.records import attempt_id, sequence
from tests.contract.store.workers import write_for_ever

KILLS = 24
WRITERS = (1, 2)


def drained(answers: Connection) -> int:
    """The last version that a dead writer had said was written."""
    last = 0
    try:
        while answers.poll(0):
            last = answers.recv()
    except (EOFError, OSError):
        # The kill met it in the middle of a message: that one was not said.
        pass
    return last


def check_whole(store: Store, n: int) -> int:
    """That everything of attempt ``n`` fits together; the version that is stored."""
    found = store.advice(attempt_id(n))
    if found is None:
        return 0
    version = found.version
    assert [g.generation for g in store.generations(attempt_id(n))] == list(
        range(1, found.generation + 1)
    )
    assert len(store.statuses(attempt_id(n))) == version // 2
    assert len(store.signals(attempt_id(n), 0, 10**6)) == version
    assert len(store.milestones(sequence(n).id)) == version
    assert len(store.audit(AuditFilter(attempt_id=attempt_id(n)), 0, 10**6)) == 2 * version
    return version


def test_nothing_acknowledged_is_lost_by_kill_9(
    backend: Backend, processes: ForkServerContext
) -> None:
    chance = random.Random()
    written = 0
    for _ in range(KILLS):
        writers = []
        for n in WRITERS:
            here, there = processes.Pipe(duplex=False)
            writer = processes.Process(target=write_for_ever, args=(backend.address, n, there))
            writer.start()
            there.close()
            writers.append((n, writer, here))
        first = [here.recv() for _, _, here in writers]
        time.sleep(chance.uniform(0, 0.03))
        for _, writer, _ in writers:
            writer.kill()
        for _, writer, _ in writers:
            writer.join()
        store = backend.open()
        for (n, _, here), started in zip(writers, first, strict=True):
            acknowledged = max(started, drained(here))
            stored = check_whole(store, n)
            assert stored >= acknowledged
            # What was not acknowledged is one change at most.
            assert stored <= acknowledged + 1
            here.close()
        total = store.last_audit_number()
        assert [e.number for e in store.audit(AuditFilter(), 0, 10**6)] == list(range(1, total + 1))
        assert store.healthy()
        store.close()
        written = total
    assert written >= 2 * KILLS * len(WRITERS)
