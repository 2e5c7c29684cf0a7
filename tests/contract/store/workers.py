"""What other processes do to the store under test. Imported by them, so free of pytest."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing.connection import Connection

from middlewatch.adapters.sql.store import open_store
from middlewatch.model.advice import Advice, Disposition, Reason
from middlewatch.model.change import Change
from middlewatch.ports.errors import Conflict
from tests.contract.store.records import (
    advice,
    at,
    attempt,
    attempt_id,
    event,
    milestone,
    signal,
    status,
)


def following(before: Advice | None, n: int) -> Advice:
    """The next row of advice number ``n``: in turn a report and a new generation."""
    if before is None:
        return advice(n)
    if before.status is None:
        return replace(
            before,
            status=status(before.generation, Disposition.ABANDONED, Reason.NOT_PERMITTED),
        )
    return replace(before, generation=before.generation + 1, status=None)


def write_for_ever(address: str, n: int, answers: Connection) -> None:
    """Write change after change about attempt ``n``, and say each one's version once `apply` has
    returned. Each change has one row of advice, two audit events, a signal and a milestone."""
    store = open_store(address)
    current = store.advice(attempt_id(n))
    while True:
        version = 0 if current is None else current.version
        store.apply(
            Change(
                advice=(following(current, n),),
                signals=(signal(version, n),),
                signal_cap=10**9,
                milestones=(milestone(version, n),),
                audit=(event(n), event(n)),
            )
        )
        answers.send(version + 1)
        current = store.advice(attempt_id(n))


def race_for_version(address: str, start: Connection, rounds: int) -> None:
    """At each call try to be the one who writes that version; answer whether it worked."""
    store = open_store(address)
    start.send("ready")
    for version in range(rounds):
        start.recv()
        try:
            store.apply(Change(attempts=(attempt(1, version=version),), audit=(event(version),)))
        except Conflict:
            start.send(False)
        else:
            start.send(True)


def race_for_lease(address: str, holder: str, start: Connection, rounds: int) -> None:
    """At each call try to take a lease that has just expired; answer its token, or None."""
    store = open_store(address)
    start.send("ready")
    for turn in range(rounds):
        start.recv()
        lease = store.acquire_lease("controller", holder, 5, at(10 * turn))
        start.send(None if lease is None else lease.token)


def append_events(address: str, n: int, count: int, done: Connection) -> None:
    """Append ``count`` events, every third time in a change that fails as well."""
    store = open_store(address)
    for turn in range(count):
        if turn % 3 == 0:
            try:
                store.apply(Change(audit=(event(n), event(n)), attempts=(attempt(1, version=77),)))
            except Conflict:
                pass
        store.apply(Change(audit=(event(n, payload=str(turn)),)))
    done.send(count)
