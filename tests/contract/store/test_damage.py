"""Rows that cannot be understood are reported by table and key, never guessed or left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from middlewatch.model.change import Change, WatchState
from middlewatch.model.milestone import Operation
from middlewatch.model.signal import Progress
from middlewatch.ports.errors import Unreadable
from middlewatch.ports.store import AttemptFilter, AuditFilter, Store, TokenRecord
from tests.contract.store.backends import Backend
from tests.contract.store.records import (
    PROD,
    action,
    advice,
    at,
    attempt,
    attempt_id,
    event,
    issue,
    milestone,
    sequence,
    signal,
    status,
    verdict,
)
from tests.contract.store.test_records import DECISION

ONE = attempt_id(1)
READS: list[tuple[str, Callable[[Store], object]]] = [
    ("attempts", lambda s: s.attempt(ONE)),
    ("attempts", lambda s: s.attempts(AttemptFilter(), 0, 10)),
    ("attempts", lambda s: s.live_attempts(PROD)),
    ("progress", lambda s: s.progress(ONE)),
    ("progress", lambda s: s.progress_of([ONE])),
    ("signals", lambda s: s.signals_after(0)),
    ("issues", lambda s: s.issues(None, 0, 10)),
    ("verdicts", lambda s: s.verdicts(ONE)),
    ("decisions", lambda s: s.decisions(ONE)),
    ("advice", lambda s: s.advice(ONE)),
    ("advice", lambda s: s.advice_of([ONE])),
    ("advice", lambda s: s.advice_page(True, 0, 10)),
    ("advice", lambda s: s.advice_of_job(PROD, "1001")),
    ("advice", lambda s: s.apply(Change(advice=(advice(1, version=2, generation=2),)))),
    ("statuses", lambda s: s.statuses(ONE)),
    ("actions", lambda s: s.actions(ONE)),
    ("sequences", lambda s: s.sequence("slurm", "prod", "1001", 0, Operation.RESTART)),
    ("milestones", lambda s: s.milestones(sequence(1).id)),
    ("audit", lambda s: s.audit(AuditFilter(), 0, 10)),
    ("tokens", lambda s: s.tokens()),
]
GARBAGE: list[object] = [
    "",
    "{",
    "[]",
    "null",
    '{"id": 7}',
    "\x00\x00",
    b"\xff\xfe\x00",
    17,
    "[" * 100_000,
]


@pytest.fixture
def filled(backend: Backend) -> Store:
    store = backend.open()
    store.apply(
        Change(
            attempts=(attempt(1),),
            watch=(WatchState(ONE, b"x"),),
            progress=(Progress(ONE),),
            signals=(signal(1),),
            issues=(issue(1),),
            verdicts=(verdict(1),),
            decisions=(DECISION,),
            sequences=(sequence(1),),
            advice=(advice(1),),
            actions=(action(1),),
            milestones=(milestone(1),),
            audit=(event(1),),
        )
    )
    pending = advice(1, version=1, explanation="again", status=None)
    store.apply(Change(advice=(pending,)))
    store.add_token(TokenRecord("t1", "d", ("read",), "n", at(0)))
    return store


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize(
    ("table", "read"), READS, ids=[f"{n}-{t}" for n, (t, _) in enumerate(READS)]
)
def test_damaged_body_is_unreadable_and_named(
    backend: Backend,
    filled: Store,
    table: str,
    read: Callable[[Store], object],
    garbage: object,
) -> None:
    if table == "statuses":
        filled.apply(Change(advice=(advice(1, version=2, status=status()),)))
    backend.damage(table, "body", garbage)
    with pytest.raises(Unreadable) as raised:
        read(filled)
    assert isinstance(garbage, bytes) or table in str(raised.value)


def test_word_of_a_newer_version_is_unreadable(backend: Backend, filled: Store) -> None:
    body = '{"kind": "guessed", "type": "x", "producer": "p", "happened_at": "2026-01-01T00:00:00Z", "learned_at": "2026-01-01T00:00:00Z"}'
    backend.damage("audit", "body", body)
    with pytest.raises(Unreadable, match=r"table audit, row number=1: .*guessed"):
        filled.audit(AuditFilter(), 0, 10)


def test_time_without_a_zone_is_unreadable(backend: Backend, filled: Store) -> None:
    backend.damage(
        "progress", "body", f'{{"attempt_id": "{ONE}", "updated_at": "2026-01-01T00:00:00"}}'
    )
    with pytest.raises(Unreadable, match="zone"):
        filled.progress(ONE)


def test_row_of_an_older_version_takes_the_defaults(backend: Backend, filled: Store) -> None:
    backend.damage("progress", "body", f'{{"attempt_id": "{ONE}", "last_step": 4}}')
    assert filled.progress(ONE) == Progress(ONE, last_step=4)


@pytest.mark.parametrize("column", ["state", "version"])
def test_damaged_watch_state_is_unreadable(backend: Backend, filled: Store, column: str) -> None:
    backend.damage("watch", column, "text")
    with pytest.raises(Unreadable, match=f"table watch, row attempt_id={ONE}"):
        filled.watch_state(ONE)


def test_row_under_the_wrong_key_is_unreadable(backend: Backend, filled: Store) -> None:
    backend.damage("advice", "attempt_id", attempt_id(2))
    with pytest.raises(Unreadable, match="table advice"):
        filled.advice(attempt_id(2))


def test_lost_counter_stops_writing_and_does_not_start_again_at_one(
    backend: Backend, filled: Store
) -> None:
    backend.damage("counters", "value", "not a number")
    with pytest.raises(Unreadable, match="counter"):
        filled.apply(Change(audit=(event(2),)))
    assert [e.number for e in filled.audit(AuditFilter(), 0, 10)] == [1]
