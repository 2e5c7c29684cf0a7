from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.model.change import Lease
from middlewatch.model.identity import ClusterId
from middlewatch.model.sharing import (
    SHARDS,
    Sharing,
    member_name,
    pool_of,
    preferred,
    shard_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sets(st.text(min_size=1, max_size=12), min_size=1, max_size=6)


def test_pool_is_named_by_service_and_cluster() -> None:
    assert pool_of("watcher", ClusterId("slurm", "prod")) == "watcher/slurm/prod"
    assert member_name("watcher/slurm/prod", "host-x") == "watcher/slurm/prod/host-x"


def test_jobs_spread_over_all_shards() -> None:
    counts = Counter(shard_of(str(number), SHARDS) for number in range(100 * SHARDS))
    assert set(counts) == set(range(SHARDS))
    assert max(counts.values()) < 160
    assert min(counts.values()) > 50


def test_shard_of_a_job_is_the_same_in_every_process_and_version() -> None:
    assert [shard_of(job, 256) for job in ("1", "77_3", "100000")] == [118, 60, 164]


def test_one_member_ought_to_have_everything() -> None:
    assert preferred(["a"], SHARDS) == ("a",) * SHARDS


def test_no_member_is_nobody_to_prefer() -> None:
    with pytest.raises(ValueError, match="empty"):
        preferred([], SHARDS)


@pytest.mark.parametrize("members", [2, 3, 5])
def test_members_get_about_equal_parts(members: int) -> None:
    counts = Counter(preferred([f"host-{n}" for n in range(members)], SHARDS))
    assert len(counts) == members
    assert max(counts.values()) < 1.5 * SHARDS / members


@given(NAMES, st.text(min_size=1, max_size=12))
def test_member_that_joins_moves_only_what_it_gets(names: set[str], new: str) -> None:
    before, after = preferred(names, 64), preferred(names | {new}, 64)
    assert all(a in {b, new} for b, a in zip(before, after, strict=True))


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6, unique=True))
def test_order_of_the_members_does_not_matter(names: list[str]) -> None:
    assert preferred(names, 64) == preferred(reversed(names), 64)


@pytest.mark.parametrize(
    ("ends_in", "stands"), [(-1, False), (0, False), (0.001, True), (60, True), (60.001, False)]
)
def test_membership_stands_until_its_end_unless_the_clock_was_set_back(
    ends_in: float, stands: bool
) -> None:
    lease = Lease("p/a", "a", 1, NOW + timedelta(seconds=ends_in))
    assert Sharing("p", NOW, (lease,)).live(30) == ({"a"} if stands else set())
