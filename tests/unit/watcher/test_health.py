"""What a watcher tells of itself adds up, is left now and then, and can be read again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.adapters.sql.store import open_store
from middlewatch.model.health import BOUNDS_S, PREFIX, Present, Totals, WatcherHealth, from_text
from middlewatch.services.watcher import WatcherReport
from middlewatch.services.watcher.health import Health

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
PLACES = len(BOUNDS_S) + 1


def test_rounds_add_up_and_an_account_is_left_every_ten_seconds(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state" / "store.db")
    health = Health(store, "one")
    for second in range(12):
        report = WatcherReport(bytes_read=100, lines_read=3, watched=7, errors=["no"])
        report.listing_unknown = "away" if second == 4 else None
        health.add(report, took_s=0.2 if second else 40.0, now=NOW + timedelta(seconds=second))
    ((name, text),) = store.notes(PREFIX)
    told = from_text(text)
    assert name == "health/watcher/one"
    assert (told.started_at, told.at) == (NOW, NOW + timedelta(seconds=10))
    assert told.totals == Totals(
        rounds=11, bytes_read=1100, lines_read=33, job_errors=11, unlisted_rounds=1
    )
    assert told.present == Present(watched=7)
    assert told.seconds == pytest.approx(42.0)
    assert sum(told.classes) == 11
    assert told.classes[BOUNDS_S.index(0.25)] == 10
    assert told.classes[-1] == 1
    store.close()


def test_account_of_a_version_with_other_numbers_is_read_as_far_as_it_goes() -> None:
    classes = "[" + ",".join("0" * PLACES) + "]"
    text = (
        '{"started_at":"2026-11-30T08:00:00+00:00","at":"2026-11-30T09:00:00+00:00",'
        '"totals":{"bytes_read":5,"of_another_version":1},'
        f'"present":{{"oldest_unread_s":1.5}},"seconds":2,"classes":{classes}}}'
    )
    assert from_text(text) == WatcherHealth(
        started_at=NOW - timedelta(hours=1),
        at=NOW,
        totals=Totals(bytes_read=5),
        present=Present(oldest_unread_s=1.5),
        seconds=2.0,
        classes=(0,) * PLACES,
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"at": 7}', '{"started_at":"2026-11-30","at":"2026-11-30"}']
)
def test_what_is_no_account_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="account"):
        from_text(text)
