"""Shared work: members, shards, tokens; each rule once, on the store's own clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from middlewatch.model.change import Change, Shard
from middlewatch.model.sharing import SHARDS, Sharing
from middlewatch.ports.errors import Conflict, Refused
from middlewatch.ports.store import Store
from tests.contract.store.backends import Backend
from tests.contract.store.records import at, attempt, attempt_id, event

POOL = "watcher/slurm/prod"
TERM = 30.0
ALL = range(SHARDS)


@dataclass
class Time:
    now: datetime = field(default_factory=lambda: at(0))

    def __call__(self) -> datetime:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(backend: Backend, time: Time) -> Store:
    return backend.open(time)


def held(sharing: Sharing, holder: str) -> set[int]:
    return {shard.number for shard in sharing.shards if shard.holder == holder}


def written(store: Store, shards: Iterable[Shard], number: int) -> bool:
    try:
        store.apply(
            Change(shards=tuple(shards), attempts=(attempt(number),), audit=(event(number),))
        )
    except Conflict:
        return False
    return True


def test_pool_that_nobody_joined_has_neither_members_nor_shards(store: Store, time: Time) -> None:
    assert store.sharing(POOL) == Sharing(POOL, time.now)


def test_first_member_makes_the_pool_and_takes_what_it_wants(store: Store) -> None:
    sharing = store.share_out(POOL, "a", TERM, take=range(10))
    assert [shard.number for shard in sharing.shards] == list(ALL)
    assert held(sharing, "a") == set(range(10))
    assert {shard.token for shard in sharing.shards} == {0, 1}
    assert sharing.live(TERM) == {"a"}
    assert store.sharing(POOL) == sharing


def test_members_are_leases_that_everybody_can_list(store: Store) -> None:
    store.share_out(POOL, "a", TERM)
    assert [(lease.name, lease.expires_at) for lease in store.leases()] == [(f"{POOL}/a", at(TERM))]


def test_shard_of_a_live_member_is_not_given_to_another(store: Store, time: Time) -> None:
    store.share_out(POOL, "a", TERM, take=ALL)
    time.passes(TERM - 0.001)
    assert held(store.share_out(POOL, "b", TERM, take=ALL), "b") == set()


def test_shards_of_a_dead_member_are_given_at_the_end_of_its_term(store: Store, time: Time) -> None:
    store.share_out(POOL, "a", TERM, take=ALL)
    time.passes(TERM)
    sharing = store.share_out(POOL, "b", TERM, take=range(100))
    assert held(sharing, "b") == set(range(100))
    assert {shard.token for shard in sharing.shards if shard.holder == "b"} == {2}
    assert sharing.live(TERM) == {"b"}


def test_one_renewal_keeps_every_shard(store: Store, time: Time) -> None:
    before = store.share_out(POOL, "a", TERM, take=ALL)
    for _ in range(5):
        time.passes(TERM - 1)
        assert store.share_out(POOL, "a", TERM).shards == before.shards
    assert held(store.share_out(POOL, "b", TERM, take=ALL), "b") == set()


def test_late_member_whose_shards_nobody_took_has_them_as_before(store: Store, time: Time) -> None:
    before = store.share_out(POOL, "a", TERM, take=ALL)
    time.passes(10 * TERM)
    assert written(store, before.shards, 1)
    assert store.share_out(POOL, "a", TERM).shards == before.shards


def test_shards_given_back_are_anybodys_and_come_with_another_token(store: Store) -> None:
    first = store.share_out(POOL, "a", TERM, take=range(4)).shards[3]
    sharing = store.share_out(POOL, "a", TERM, give=(2, 3))
    assert (held(sharing, "a"), held(sharing, "")) == ({0, 1}, set(range(2, SHARDS)))
    assert not written(store, [first], 1)
    again = store.share_out(POOL, "b", TERM, take=(3,)).shards[3]
    assert again.token == first.token + 1


def test_nobody_can_give_back_what_is_anothers(store: Store) -> None:
    store.share_out(POOL, "a", TERM, take=(1,))
    assert held(store.share_out(POOL, "b", TERM, give=(1,)), "a") == {1}


def test_process_of_the_same_name_takes_its_own_anew_and_fences_the_one_before(
    store: Store,
) -> None:
    before = store.share_out(POOL, "a", TERM, take=(7,)).shards[7]
    after = store.share_out(POOL, "a", TERM, take=(7,)).shards[7]
    assert after.token == before.token + 1
    assert not written(store, [before], 1)
    assert written(store, [after], 1)


def test_member_that_leaves_frees_all_its_shards_at_once(store: Store) -> None:
    mine = store.share_out(POOL, "a", TERM, take=ALL).shards[0]
    store.leave(POOL, "a")
    sharing = store.sharing(POOL)
    assert (held(sharing, ""), sharing.members) == (set(ALL), ())
    assert not written(store, [mine], 1)
    assert held(store.share_out(POOL, "b", TERM, take=ALL), "b") == set(ALL)


def test_change_for_shards_that_are_held_is_written_whatever_the_time(
    store: Store, time: Time
) -> None:
    shards = store.share_out(POOL, "a", TERM, take=ALL).shards
    time.passes(-1000)
    assert written(store, shards, 1)
    time.passes(9000)
    assert written(store, shards[:1], 2)


def test_frozen_writer_that_comes_back_writes_nothing(store: Store, time: Time) -> None:
    old = store.share_out(POOL, "a", TERM, take=(5, 6))
    time.passes(TERM)
    store.share_out(POOL, "b", TERM, take=(5,))
    with pytest.raises(Conflict, match=r"shard 5 of .* no longer that of 'a' with token 1: 'b'"):
        store.apply(
            Change(shards=(old.shards[6], old.shards[5]), attempts=(attempt(1),), audit=(event(1),))
        )
    assert store.attempt(attempt_id(1)) is None
    assert store.last_audit_number() == 0
    assert written(store, [old.shards[6]], 1)


def test_shard_that_came_back_to_its_first_holder_does_not_let_the_old_writes_in(
    store: Store, time: Time
) -> None:
    old = store.share_out(POOL, "a", TERM, take=(5,)).shards[5]
    time.passes(TERM)
    store.share_out(POOL, "b", TERM, take=(5,))
    store.leave(POOL, "b")
    new = store.share_out(POOL, "a", TERM, take=(5,)).shards[5]
    assert (old.holder, new.holder) == ("a", "a")
    assert not written(store, [old], 1)
    assert written(store, [new], 1)


def test_shard_that_was_never_made_permits_nothing(store: Store) -> None:
    assert not written(store, [Shard(POOL, 1, "a", 1)], 1)


def test_clock_set_forward_ends_terms_and_lets_nobody_write_twice(store: Store, time: Time) -> None:
    old = store.share_out(POOL, "a", TERM, take=(1,)).shards[1]
    time.passes(86_400)
    new = store.share_out(POOL, "b", TERM, take=(1,)).shards[1]
    time.passes(-86_400)
    assert [written(store, [old], 1), written(store, [new], 1)] == [False, True]


def test_clock_set_back_does_not_keep_a_dead_members_shards(store: Store, time: Time) -> None:
    store.share_out(POOL, "a", TERM, take=ALL)
    time.passes(-86_400)
    sharing = store.share_out(POOL, "b", TERM, take=ALL)
    assert held(sharing, "b") == set(ALL)
    assert sharing.live(TERM) == {"b"}


def test_live_member_stands_again_with_its_first_renewal_after_a_clock_was_set_back(
    store: Store, time: Time
) -> None:
    store.share_out(POOL, "a", TERM, take=ALL)
    time.passes(-86_400)
    store.share_out(POOL, "a", TERM)
    assert held(store.share_out(POOL, "b", TERM, take=ALL), "b") == set()


def test_pools_are_apart_also_where_one_name_begins_with_the_other(store: Store) -> None:
    store.share_out(POOL, "a", TERM, take=ALL)
    for other in (f"{POOL}/x", f"{POOL}0", "watcher/slurm/pro"):
        sharing = store.share_out(other, "b", TERM, take=ALL)
        assert held(sharing, "b") == set(ALL)
        assert sharing.live(TERM) == {"b"}
    sharing = store.sharing(POOL)
    assert held(sharing, "a") == set(ALL)
    assert sharing.live(TERM) == {"a"}


def test_member_needs_a_name(store: Store) -> None:
    with pytest.raises(Refused, match="name"):
        store.share_out(POOL, "", TERM, take=(1,))


def test_member_lost_for_a_day_is_forgotten_when_its_work_is_taken(
    store: Store, time: Time
) -> None:
    store.share_out(POOL, "a", TERM, take=ALL)
    time.passes(86_400 + TERM + 1)
    sharing = store.share_out(POOL, "b", TERM, take=ALL)
    assert [lease.holder for lease in sharing.members] == ["b"]


def test_the_databases_own_clock_is_this_hosts(backend: Backend) -> None:
    before = datetime.now(UTC)
    now = backend.open().sharing(POOL).now
    assert before - timedelta(minutes=1) < now < datetime.now(UTC) + timedelta(minutes=1)


def test_of_several_that_take_at_once_each_shard_has_one(backend: Backend) -> None:
    stores = [backend.open() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: stores[n].share_out(POOL, f"m{n}", TERM, take=ALL), range(4)))
    sharing = stores[0].sharing(POOL)
    assert list(Counter(shard.holder for shard in sharing.shards).values()) == [SHARDS]
    assert {shard.token for shard in sharing.shards} == {1}
