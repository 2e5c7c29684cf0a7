from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.advice import DesiredState, Disposition, Reason
from middlewatch.model.change import Change
from middlewatch.ports.errors import Conflict, Refused
from middlewatch.ports.store import AuditFilter, Store
from tests.contract.store.records import PROD, TEST, advice, at, attempt_id, event, status

PENDING = status(disposition=Disposition.PENDING, reason=Reason.IN_PROGRESS)


def test_advice_is_read_as_it_was_written_with_the_next_version(store: Store) -> None:
    store.apply(Change(advice=(advice(1),)))
    assert store.advice(attempt_id(1)) == advice(1, version=1)
    assert store.advice(attempt_id(2)) is None


def test_second_decision_that_did_not_see_the_first_is_a_conflict(store: Store) -> None:
    store.apply(Change(advice=(advice(1),)))
    with pytest.raises(Conflict, match="version 1"):
        store.apply(Change(advice=(advice(1),)))


def test_report_on_an_old_version_is_a_conflict_and_writes_no_audit_event(store: Store) -> None:
    store.apply(Change(advice=(advice(1),)))
    store.apply(Change(advice=(advice(1, version=1, status=PENDING),)))
    with pytest.raises(Conflict, match="version 1 was expected, version 2 is stored"):
        store.apply(Change(advice=(advice(1, version=1, status=status()),), audit=(event(1),)))
    assert store.audit(AuditFilter(), 0, 10) == ()
    assert store.statuses(attempt_id(1)) == (PENDING,)


def test_advice_that_was_never_written_cannot_be_changed(store: Store) -> None:
    with pytest.raises(Conflict, match="there is none"):
        store.apply(Change(advice=(advice(1, version=4),)))


def test_grown_generation_leaves_the_old_one_in_history_with_its_last_status(store: Store) -> None:
    store.apply(Change(advice=(advice(1),)))
    store.apply(Change(advice=(advice(1, version=1, status=PENDING),)))
    second = advice(1, version=2, generation=2, exclusions=("n1", "n2"))
    store.apply(Change(advice=(second,)))
    store.apply(Change(advice=(replace(second, version=3, status=status(2)),)))
    assert store.generations(attempt_id(1)) == (
        advice(1, version=2, status=PENDING),
        replace(second, version=4, status=status(2)),
    )
    current = store.advice(attempt_id(1))
    assert current is not None
    assert (current.generation, current.status) == (2, status(2))


def test_every_report_that_changed_something_is_kept_in_order(store: Store) -> None:
    store.apply(Change(advice=(advice(1),)))
    store.apply(Change(advice=(advice(1, version=1, status=PENDING),)))
    store.apply(Change(advice=(advice(1, version=2, status=PENDING, explanation="x"),)))
    store.apply(Change(advice=(advice(1, version=3, status=status()),)))
    store.apply(Change(advice=(advice(1, version=4, generation=2),)))
    abandoned = status(2, Disposition.ABANDONED, Reason.NOT_PERMITTED)
    store.apply(Change(advice=(advice(1, version=5, generation=2, status=abandoned),)))
    assert store.statuses(attempt_id(1)) == (PENDING, status(), abandoned)


def test_advice_written_with_a_status_has_that_report(store: Store) -> None:
    store.apply(Change(advice=(advice(1, status=status()),)))
    assert store.statuses(attempt_id(1)) == (status(),)


@pytest.mark.parametrize("generation", [0, 1, 4])
def test_generation_follows_its_predecessor(store: Store, generation: int) -> None:
    store.apply(Change(advice=(advice(1),)))
    store.apply(Change(advice=(advice(1, version=1, generation=2),)))
    with pytest.raises(Refused, match="generation"):
        store.apply(Change(advice=(advice(1, version=2, generation=generation),)))


def test_first_generation_is_one(store: Store) -> None:
    with pytest.raises(Refused, match="generation 1"):
        store.apply(Change(advice=(advice(1, generation=2),)))


def test_target_of_advice_never_changes(store: Store) -> None:
    store.apply(Change(advice=(advice(1),)))
    with pytest.raises(Refused, match="cannot become"):
        store.apply(Change(advice=(advice(1, version=1, job_id="4711"),)))


def test_pages_show_all_advice_in_the_order_of_first_writing(store: Store) -> None:
    store.apply(Change(advice=tuple(advice(n) for n in (3, 1, 2))))
    store.apply(Change(advice=(advice(3, version=1, generation=2),)))
    page = store.advice_page(False, 0, 2)
    assert [a.job_id for _, a in page] == ["1003", "1001"]
    rest = store.advice_page(False, page[-1][0], 2)
    assert [a.job_id for _, a in rest] == ["1002"]
    assert store.advice_page(False, rest[-1][0], 2) == ()


def test_only_active_leaves_out_what_has_an_outcome_and_keeps_positions(store: Store) -> None:
    store.apply(Change(advice=tuple(advice(n) for n in range(1, 5))))
    everything = store.advice_page(False, 0, 10)
    store.apply(Change(advice=(advice(2, version=1, status=status()),)))
    store.apply(Change(advice=(advice(3, version=1, status=PENDING),)))
    active = store.advice_page(True, 0, 10)
    assert [a.job_id for _, a in active] == ["1001", "1003", "1004"]
    assert {position for position, _ in active} < {position for position, _ in everything}
    assert [a.job_id for _, a in store.advice_page(True, active[0][0], 1)] == ["1003"]


def test_new_generation_is_active_again_at_its_old_position(store: Store) -> None:
    store.apply(Change(advice=(advice(1), advice(2))))
    before = store.advice_page(True, 0, 10)
    store.apply(Change(advice=(advice(1, version=1, status=status()),)))
    store.apply(Change(advice=(advice(1, version=2, generation=2),)))
    after = store.advice_page(True, 0, 10)
    assert [position for position, _ in after] == [position for position, _ in before]


def test_page_of_one_owner_shows_nobody_elses(store: Store) -> None:
    store.apply(Change(advice=(advice(1), advice(1, TEST), advice(2))))
    assert [a.owner for _, a in store.advice_page(True, 0, 10, TEST)] == [TEST]
    assert len(store.advice_page(False, 0, 10, PROD)) == 2


def test_rerouted_advice_changes_its_owner(store: Store) -> None:
    store.apply(Change(advice=(advice(1),)))
    store.apply(Change(advice=(replace(advice(1, version=1, generation=2), owner=TEST),)))
    assert store.advice_page(True, 0, 10, PROD) == ()
    assert [a.attempt_id for _, a in store.advice_page(True, 0, 10, TEST)] == [attempt_id(1)]


def test_advice_of_a_job_comes_oldest_attempt_first(store: Store) -> None:
    later = advice(5, job_id="1001", attempt_index=1, submitted_at=at(5))
    store.apply(Change(advice=(later, advice(1), advice(1, TEST), advice(2))))
    assert [a.attempt_id for a in store.advice_of_job(PROD, "1001")] == [
        attempt_id(1),
        later.attempt_id,
    ]


@pytest.mark.parametrize("desired", list(DesiredState))
@pytest.mark.parametrize("reason", [Reason.STALE_ATTEMPT, Reason.OPERATOR_HOLD])
def test_every_word_survives(store: Store, desired: DesiredState, reason: Reason) -> None:
    written = advice(
        1, desired=desired, status=status(disposition=Disposition.ABANDONED, reason=reason)
    )
    store.apply(Change(advice=(written,)))
    assert store.advice(attempt_id(1)) == replace(written, version=1)


def test_advice_of_several_attempts_is_read_at_once_without_those_that_have_none(
    store: Store,
) -> None:
    store.apply(Change(advice=(advice(1), advice(3))))
    wanted = [attempt_id(number) for number in range(1, 400)]
    assert store.advice_of(wanted) == {
        attempt_id(1): advice(1, version=1),
        attempt_id(3): advice(3, version=1),
    }
    assert store.advice_of([]) == {}
