from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.audit import AuditEvent, AuditLevel
from middlewatch.model.change import Change
from middlewatch.ports.errors import Conflict
from middlewatch.ports.store import AuditFilter, Store
from tests.contract.store.records import at, attempt, attempt_id, event

ALL = AuditFilter()


def numbers(events: tuple[AuditEvent, ...]) -> list[int]:
    return [found.number for found in events]


def test_events_are_numbered_from_one_in_the_order_given(store: Store) -> None:
    assert store.last_audit_number() == 0
    first = store.apply(Change(audit=(event(1), event(2))))
    second = store.apply(Change(audit=(event(3),)))
    assert (first.last_audit_number, second.last_audit_number) == (2, 3)
    assert store.last_audit_number() == 3
    assert store.audit(ALL, 0, 10) == tuple(replace(event(n), number=n) for n in (1, 2, 3))


def test_number_that_a_caller_gives_means_nothing(store: Store) -> None:
    store.apply(Change(audit=(event(1, number=99),)))
    assert numbers(store.audit(ALL, 0, 10)) == [1]


def test_change_that_fails_takes_its_numbers_back(store: Store) -> None:
    store.apply(Change(attempts=(attempt(1),), audit=(event(1),)))
    for _ in range(3):
        with pytest.raises(Conflict):
            store.apply(Change(audit=(event(2), event(3)), attempts=(attempt(1),)))
    store.apply(Change(audit=(event(4),)))
    assert [(e.number, e.payload) for e in store.audit(ALL, 0, 10)] == [
        (1, '{"n": 1}'),
        (2, '{"n": 4}'),
    ]


def test_second_event_with_a_known_idempotency_key_is_no_event(store: Store) -> None:
    store.apply(Change(audit=(event(1, idempotency_key="a"), event(2, idempotency_key="a"))))
    again = store.apply(Change(audit=(event(3, idempotency_key="a"), event(4))))
    assert again.last_audit_number == 2
    assert [e.payload for e in store.audit(ALL, 0, 10)] == ['{"n": 1}', '{"n": 4}']


def test_events_without_a_key_are_never_the_same(store: Store) -> None:
    store.apply(Change(audit=(event(1), event(1))))
    assert numbers(store.audit(ALL, 0, 10)) == [1, 2]


def test_idempotency_keys_may_be_long_and_strange(store: Store) -> None:
    key = "k" * 5000 + "\x00ü"
    store.apply(Change(audit=(event(1, idempotency_key=key),)))
    store.apply(Change(audit=(event(1, idempotency_key=key),)))
    assert numbers(store.audit(ALL, 0, 10)) == [1]


@pytest.mark.parametrize("descending", [False, True])
def test_pages_forward_show_every_event_once(store: Store, descending: bool) -> None:
    store.apply(Change(audit=tuple(event(n) for n in range(10))))
    seen: list[int] = []
    while page := store.audit(ALL, seen[-1] if seen else 0, 3, descending=descending):
        seen += numbers(page)
    assert seen == sorted(range(1, 11), reverse=descending)


def test_page_backwards_is_the_one_before_in_the_same_order(store: Store) -> None:
    store.apply(Change(audit=tuple(event(n) for n in range(10))))
    assert numbers(store.audit(ALL, 7, 3, backwards=True)) == [4, 5, 6]
    assert numbers(store.audit(ALL, 4, 3, descending=True, backwards=True)) == [7, 6, 5]
    assert numbers(store.audit(ALL, 2, 3, backwards=True)) == [1]
    assert numbers(store.audit(ALL, 1, 3, backwards=True)) == []
    assert numbers(store.audit(ALL, 10, 3, descending=True, backwards=True)) == []


def test_backwards_from_nowhere_is_the_last_page(store: Store) -> None:
    store.apply(Change(audit=tuple(event(n) for n in range(5))))
    assert numbers(store.audit(ALL, 0, 2, backwards=True)) == [4, 5]
    assert numbers(store.audit(ALL, 0, 2, descending=True, backwards=True)) == [2, 1]


def test_what_is_appended_meanwhile_moves_no_page(store: Store) -> None:
    store.apply(Change(audit=tuple(event(n) for n in range(4))))
    first = store.audit(ALL, 0, 2, descending=True)
    store.apply(Change(audit=tuple(event(n) for n in range(3))))
    assert numbers(store.audit(ALL, first[-1].number, 2, descending=True)) == [2, 1]


def test_events_are_filtered_by_everything_at_once(store: Store) -> None:
    store.apply(
        Change(
            audit=(
                event(1),
                event(2, type="advice.written", level=AuditLevel.WARNING),
                event(3, producer="controller", attempt_index=4),
                event(1, type="advice.written", level=AuditLevel.ALARM),
                event(5, attempt_id=None, job_id="", attempt_index=None),
            )
        )
    )

    def found(**where: object) -> list[int]:
        return numbers(store.audit(AuditFilter(**where), 0, 10))  # type: ignore[arg-type]

    assert found(attempt_id=attempt_id(1)) == [1, 4]
    assert found(job_id="1002") == [2]
    assert found(attempt_index=4) == [3]
    assert found(type="advice.written") == [2, 4]
    assert found(level="warning") == [2]
    assert found(producer="controller") == [3]
    assert found(from_=at(2), to=at(3)) == [2, 3]
    assert found(type="advice.written", attempt_id=attempt_id(1)) == [4]
    assert found(job_id="nobody's") == []
