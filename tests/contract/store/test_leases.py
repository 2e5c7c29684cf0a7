from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.action import Answered
from middlewatch.model.change import Change, Lease
from middlewatch.ports.errors import Conflict, Refused
from middlewatch.ports.store import Store, TokenRecord
from tests.contract.store.records import action, advice, at, attempt, attempt_id, event


def taken(store: Store, holder: str, when: float, ttl_s: float = 10) -> Lease:
    lease = store.acquire_lease("controller", holder, ttl_s, at(when))
    assert lease is not None
    return lease


def test_free_lease_is_given_with_its_first_token(store: Store) -> None:
    assert taken(store, "a", 0) == Lease("controller", "a", 1, at(10))


def test_lease_of_another_is_not_given_while_it_stands(store: Store) -> None:
    taken(store, "a", 0)
    assert store.acquire_lease("controller", "b", 10, at(9.999)) is None


def test_renewing_keeps_the_token_and_prolongs(store: Store) -> None:
    taken(store, "a", 0)
    assert taken(store, "a", 5) == Lease("controller", "a", 1, at(15))
    assert store.acquire_lease("controller", "b", 10, at(12)) is None


def test_expired_lease_goes_to_another_with_the_next_token(store: Store) -> None:
    taken(store, "a", 0)
    assert taken(store, "b", 10) == Lease("controller", "b", 2, at(20), taken_over_at=at(10))
    assert store.acquire_lease("controller", "a", 10, at(11)) is None


def test_late_holder_that_nobody_replaced_keeps_its_token(store: Store) -> None:
    taken(store, "a", 0)
    assert taken(store, "a", 60).token == 1


def test_lease_given_back_is_free_at_once_and_its_token_never_comes_again(store: Store) -> None:
    store.release_lease(taken(store, "a", 0))
    assert store.leases() == ()
    assert taken(store, "a", 1).token == 2


def test_lease_of_somebody_else_cannot_be_given_back(store: Store) -> None:
    old = taken(store, "a", 0)
    taken(store, "b", 10)
    store.release_lease(old)
    assert store.leases() == (Lease("controller", "b", 2, at(20), taken_over_at=at(10)),)


def test_a_lease_says_when_it_was_taken_from_a_holder_who_may_not_know_it(store: Store) -> None:
    assert taken(store, "a", 0).taken_over_at is None
    assert taken(store, "a", 60).taken_over_at is None
    taken(store, "b", 70)
    # It is remembered over renewals, the holder's own absence, and a hand-over in order.
    assert taken(store, "b", 75).taken_over_at == at(70)
    store.release_lease(taken(store, "b", 90))
    assert taken(store, "c", 91).taken_over_at == at(70)
    assert taken(store, "a", 200).taken_over_at == at(200)


def test_a_lease_given_back_by_its_only_holder_was_taken_from_nobody(store: Store) -> None:
    store.release_lease(taken(store, "a", 0))
    assert taken(store, "b", 1).taken_over_at is None


def test_leases_of_different_names_are_apart(store: Store) -> None:
    taken(store, "a", 0)
    other = store.acquire_lease("watcher", "b", 10, at(0))
    assert other is not None
    assert [lease.name for lease in store.leases()] == ["controller", "watcher"]


def test_holder_needs_a_name(store: Store) -> None:
    with pytest.raises(Refused, match="holder"):
        store.acquire_lease("controller", "", 10, at(0))


def test_change_under_a_standing_lease_is_written(store: Store) -> None:
    lease = taken(store, "a", 0)
    store.apply(Change(lease=lease, now=at(9), attempts=(attempt(1),)))
    assert store.attempt(attempt_id(1)) is not None


def test_change_under_a_lease_that_was_renewed_since_is_written(store: Store) -> None:
    lease = taken(store, "a", 0)
    taken(store, "a", 8)
    store.apply(Change(lease=lease, now=at(12), attempts=(attempt(1),)))
    assert store.attempt(attempt_id(1)) is not None


@pytest.mark.parametrize("when", [10, 11])
def test_change_under_an_expired_lease_writes_nothing(store: Store, when: float) -> None:
    lease = taken(store, "a", 0)
    with pytest.raises(Conflict, match="expired"):
        store.apply(Change(lease=lease, now=at(when), attempts=(attempt(1),), audit=(event(1),)))
    assert store.attempt(attempt_id(1)) is None
    assert store.last_audit_number() == 0


def test_late_writer_with_an_old_token_writes_nothing(store: Store) -> None:
    old = taken(store, "a", 0)
    taken(store, "b", 10)
    with pytest.raises(Conflict, match="no longer held by 'a'"):
        store.apply(Change(lease=old, now=at(5), attempts=(attempt(1),)))
    again = taken(store, "a", 20)
    with pytest.raises(Conflict, match="token"):
        store.apply(Change(lease=old, now=at(21), attempts=(attempt(1),)))
    store.apply(Change(lease=again, now=at(21), attempts=(attempt(1),)))


def test_lease_that_was_never_taken_permits_nothing(store: Store) -> None:
    with pytest.raises(Conflict):
        store.apply(Change(lease=Lease("x", "a", 1, at(10)), now=at(1), audit=(event(1),)))


def test_lease_without_a_moment_is_refused(store: Store) -> None:
    with pytest.raises(Refused, match="moment"):
        store.apply(Change(lease=taken(store, "a", 0)))


TOKEN = TokenRecord("t1", "sha256:aa", ("read", "admin"), "first", at(0))


def test_tokens_are_listed_in_the_order_of_making(store: Store) -> None:
    second = replace(TOKEN, id="t0", digest="sha256:bb")
    store.add_token(TOKEN)
    store.add_token(second)
    assert store.tokens() == (TOKEN, second)


def test_token_is_revoked_by_storing_it_again_and_stays_so(store: Store) -> None:
    store.add_token(TOKEN)
    store.add_token(replace(TOKEN, revoked=True))
    assert store.tokens() == (replace(TOKEN, revoked=True),)
    with pytest.raises(Refused, match="revoked"):
        store.add_token(TOKEN)


def test_secret_of_a_token_cannot_be_exchanged_nor_used_twice(store: Store) -> None:
    store.add_token(TOKEN)
    with pytest.raises(Conflict):
        store.add_token(replace(TOKEN, digest="sha256:cc"))
    with pytest.raises(Conflict):
        store.add_token(replace(TOKEN, id="t2"))
    assert store.tokens() == (TOKEN,)


def test_notes_are_kept_by_name_and_replaced(store: Store) -> None:
    assert store.note("cursor") is None
    store.put_notes((("cursor", "1"), ("cluster", "lab \x00ü")))
    store.put_notes((("cursor", "2"),))
    assert (store.note("cursor"), store.note("cluster")) == ("2", "lab \x00ü")


def test_sound_store_is_healthy(store: Store) -> None:
    assert store.healthy()


def test_command_for_a_generation_that_has_passed_is_not_announced(store: Store) -> None:
    store.apply(Change(advice=(advice(1),)))
    lease = taken(store, "a", 0)
    store.apply(Change(lease=lease, now=at(1), actions=(action(1),)))
    store.apply(Change(advice=(advice(1, version=1, generation=2, exclusions=("n2",)),)))
    with pytest.raises(Conflict, match="generation 1 of advice that is at generation 2"):
        store.apply(Change(lease=lease, now=at(2), actions=(action(2),)))
    assert [record.id for record in store.actions(attempt_id(1))] == [action(1).id]
    store.apply(Change(lease=lease, now=at(2), actions=(action(2, generation=2),)))
    # What became of the one that was sent before is a fact.
    done = replace(action(1), answered=Answered.DONE, ended_at=at(3))
    store.apply(Change(actions=(done,)))
    assert store.actions(attempt_id(1))[0].answered is Answered.DONE
