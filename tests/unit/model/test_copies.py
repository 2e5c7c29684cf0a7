"""Copies of records are those that `dataclasses.replace` makes."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from middlewatch.detection.series import Baseline, Numbers, Parts, Speed
from middlewatch.detection.state import Counter, DetectionState, fresh
from middlewatch.model.copies import replace
from middlewatch.model.identity import AttemptId
from middlewatch.model.signal import Progress

AT = datetime(2026, 1, 1, tzinfo=UTC)
ID = AttemptId("a")


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """A record whose constructor does more than to set its fields."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


@dataclasses.dataclass(frozen=True)
class Loose:
    """A record without slots."""

    one: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Wider(Counter):
    """A record some of whose fields are another class's."""

    more: int = 0


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (fresh(ID), {"progress": Progress(ID, last_step=3), "stamp_s": 1.5, "ended": True}),
        (fresh(ID), {}),
        (Progress(ID, last_step=1), {"last_step": None, "updated_at": AT}),
        (Counter("p", 2), {"taken": 4}),
        (Baseline(), {"sums": (1.0, 2.0)}),
        (Speed(), {"step": 9}),
        (Parts(), {"table": "t"}),
        (Numbers(), {"told": 1}),
        (Loose(), {"one": 2}),
        (Wider("p", more=1), {"rank": 5, "more": 2}),
        (Checked(1, 2), {"high": 3}),
    ],
)
def test_a_copy_is_the_record_with_the_changes(record: Any, changes: dict[str, Any]) -> None:
    before = dataclasses.astuple(record)
    copy = replace(record, **changes)
    assert copy == dataclasses.replace(record, **changes)
    assert type(copy) is type(record)
    assert hash(copy) == hash(dataclasses.replace(record, **changes))
    assert dataclasses.astuple(record) == before


def test_a_copy_is_as_frozen_as_its_record() -> None:
    copy: Any = replace(fresh(ID), ended=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.ended = False


def test_what_the_constructor_refuses_is_refused_of_a_copy() -> None:
    with pytest.raises(ValueError, match="low is above high"):
        replace(Checked(1, 2), low=3)


@pytest.mark.parametrize("record", [fresh(ID), Loose(), Checked(1, 2)])
def test_a_field_that_is_none_is_refused_by_name(record: Any) -> None:
    with pytest.raises(TypeError, match="no_such_field"):
        replace(record, no_such_field=1)


def test_what_is_no_record_is_refused() -> None:
    thing: Any = 7
    with pytest.raises(TypeError):
        replace(thing, real=1)


def test_the_state_of_an_attempt_is_copied_field_by_field() -> None:
    """Each field by itself: none is left out or put in another's place."""
    state: Any = fresh(ID)
    for field in dataclasses.fields(DetectionState):
        mark = object()
        copy = replace(state, **{field.name: mark})
        changed = [
            other.name
            for other in dataclasses.fields(DetectionState)
            if getattr(copy, other.name) is not getattr(state, other.name)
        ]
        assert changed == [field.name]
        assert getattr(copy, field.name) is mark
