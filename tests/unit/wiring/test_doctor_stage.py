"""A misspelt partition is found before the first failure, not by it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.scheduler import PartitionView
from middlewatch.wiring.doctor_stage import partitions_named
from middlewatch.wiring.loading import Loaded, load
from tests.unit.reconciliation.worlds import T0 as NOW

THERE: tuple[PartitionView, ...] = (
    PartitionView("train", ("n1",), ("n1",)),
    PartitionView("long", ("n2",), ("n2",)),
)


@dataclass
class Here:
    loaded: Loaded
    answer: Answer[tuple[PartitionView, ...]] = field(default_factory=lambda: Known(THERE, NOW))
    facts: object = object()

    @property
    def scheduler(self) -> Here:
        return self

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        return self.answer


def told(names: str, **changes: Any) -> list[tuple[str, str, str]]:
    flags: dict[str, object] = {"deployment.partitions": names}
    here = replace(Here(load({}, flags=flags, system_file=Path("/nonexistent"))), **changes)
    return [(f.level.value, f.text, f.mend) for f in partitions_named(cast(Any, here))]


def test_partitions_that_are_there_are_counted() -> None:
    assert told("train") == [("ok", "1 of 2 may be acted in", "")]


def test_one_that_is_none_is_named_with_those_there_are() -> None:
    ((level, text, mend),) = told("train,trian")
    assert level == "fail"
    assert text.endswith(": trian")
    assert mend == "there are long, train"


def test_all_of_them_and_none_of_them_need_no_look() -> None:
    assert told("*") == []
    assert told("") == []


def test_a_scheduler_that_does_not_say_is_said() -> None:
    ((level, _, _),) = told("train", answer=Unknown("no answer", NOW))
    assert level == "warn"
    assert told("train", facts=None) == []
