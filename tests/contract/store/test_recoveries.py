"""Recoveries in the store: compared before they are written, listed newest first, settled once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.change import Change
from middlewatch.model.identity import ClusterId
from middlewatch.model.milestone import MilestoneSource
from middlewatch.model.recovery import Mark, Moment, Part, PartName, Recovery, RecoveryState
from middlewatch.ports.errors import Conflict
from middlewatch.ports.store import RecoveryFilter, Store
from tests.contract.store.backends import Backend
from tests.contract.store.records import PROD, TEST, at, attempt_id

ALL = RecoveryFilter()


def recovery(n: int = 1, cluster: ClusterId = PROD) -> Recovery:
    return Recovery(
        id=f"recovery-{n}",
        cluster=cluster,
        job_id=str(1000 + n),
        attempt_id=attempt_id(n),
        attempt_index=0,
        state=RecoveryState.UNDER_WAY,
        why="attempt 0 is to be restarted",
        began_at=at(n),
        lost_step=37,
        lost_of="megatron.step",
        moments=(Moment(Mark.FAULT, 0, at(n), at(n + 1), MilestoneSource.LOG, 37),),
        parts=(Part(PartName.DETECT, 0.5),),
        unsplit=(PartName.HOLD, PartName.RELEASE),
        unsplit_s=2.5,
        total_s=3.0,
    )


def settled(n: int) -> Recovery:
    return replace(recovery(n), state=RecoveryState.VERIFIED, settled=True)


def ids(found: tuple[tuple[int, Recovery], ...]) -> list[str]:
    return [one.id for _, one in found]


def test_recovery_is_read_back_as_it_was_written(backend: Backend) -> None:
    backend.open().apply(Change(recoveries=(recovery(),)))
    assert backend.open().recovery("recovery-1") == replace(recovery(), version=1)
    assert backend.open().recovery("recovery-2") is None


def test_recovery_that_moved_is_not_overwritten(store: Store) -> None:
    store.apply(Change(recoveries=(recovery(),)))
    for version in (0, 2):
        with pytest.raises(Conflict):
            store.apply(Change(recoveries=(replace(recovery(), version=version, why="late"),)))
    store.apply(Change(recoveries=(replace(recovery(), version=1, why="new"),)))
    found = store.recovery("recovery-1")
    assert found is not None
    assert (found.version, found.why) == (2, "new")


def test_recoveries_are_paged_newest_first_and_filtered(store: Store) -> None:
    store.apply(Change(recoveries=tuple(recovery(n) for n in (1, 2, 3))))
    store.apply(Change(recoveries=(replace(settled(2), version=1), recovery(4, TEST))))
    first = store.recoveries(ALL, 0, 2)
    assert ids(first) == ["recovery-4", "recovery-3"]
    assert ids(store.recoveries(ALL, first[-1][0], 9)) == ["recovery-2", "recovery-1"]
    assert ids(store.recoveries(RecoveryFilter(cluster=TEST), 0, 9)) == ["recovery-4"]
    assert ids(store.recoveries(RecoveryFilter(job_id="1003"), 0, 9)) == ["recovery-3"]
    verified = RecoveryFilter(state=RecoveryState.VERIFIED)
    assert ids(store.recoveries(verified, 0, 9)) == ["recovery-2"]
    still = RecoveryFilter(cluster=PROD, settled=False)
    assert ids(store.recoveries(still, 0, 9)) == ["recovery-3", "recovery-1"]
    assert ids(store.recoveries(RecoveryFilter(settled=True), 0, 9)) == ["recovery-2"]


def test_settled_recoveries_are_counted_in_the_order_in_which_they_settled(store: Store) -> None:
    store.apply(Change(recoveries=(recovery(1), recovery(2))))
    store.apply(Change(recoveries=(settled(3),)))
    store.apply(Change(recoveries=(replace(settled(1), version=1),)))
    first = store.settled_recoveries(0, 1)
    assert ids(first) == ["recovery-3"]
    assert ids(store.settled_recoveries(first[-1][0], 9)) == ["recovery-1"]
    assert store.settled_recoveries(0, 9, TEST) == ()


def test_settled_recovery_is_never_written_again(store: Store) -> None:
    store.apply(Change(recoveries=(settled(1),)))
    with pytest.raises(Conflict, match="settled before"):
        store.apply(Change(recoveries=(replace(settled(1), version=1, why="other"),)))
