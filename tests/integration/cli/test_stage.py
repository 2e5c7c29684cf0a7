"""What `doctor` says of how far the site has gone, of a rollback and of the store's size."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

import pytest

from middlewatch.adapters.sql.store import open_store
from middlewatch.model.advice import Disposition, Reason
from middlewatch.model.change import Change
from middlewatch.model.rollback import NOTE
from tests.contract.store.records import advice, attempt, event, status
from tests.integration.cli.conftest import World


def found(world: World, *settings: str) -> dict[str, list[tuple[str, str, str]]]:
    """doctor's findings by check: level, text, mend."""
    words = [word for setting in settings for word in ("--set", setting)]
    told: dict[str, list[tuple[str, str, str]]] = {}
    for one in json.loads(world.run("doctor", "--json", *words).stdout)["findings"]:
        told.setdefault(one["check"], []).append((one["level"], one["text"], one["mend"]))
    return told


ACTING = ("deployment.mode=action", "deployment.acknowledge_scheduler_actions=true")


def test_a_new_site_is_in_monitor_and_has_seen_nothing(world: World) -> None:
    told = found(world)
    assert told["stage"] == [("ok", "monitor: nothing is changed; nothing was seen yet", "")]
    assert "store" not in told
    assert told["holds"][0][0] == "ok"


def test_in_monitor_it_counts_what_it_would_have_done(world: World) -> None:
    store = open_store(world.state / "middlewatch.db")
    would = status(disposition=Disposition.ABANDONED, reason=Reason.NOT_PERMITTED)
    store.apply(Change(attempts=(attempt(1), attempt(2)), audit=(event(1),)))
    store.apply(Change(advice=(advice(1), advice(2))))
    store.apply(Change(advice=(replace(advice(1), version=1, status=would),)))
    store.close()
    ((_, text, _),) = found(world)["stage"]
    assert "2 attempts" in text
    assert "would have acted on 1 " in text


def test_acting_in_one_partition_too_early_is_said(world: World) -> None:
    store = open_store(world.state / "middlewatch.db")
    store.apply(Change(attempts=(attempt(1),), audit=(event(1),)))
    with sqlite3.connect(world.state / "middlewatch.db") as database:
        database.execute("UPDATE audit SET happened_us = unixepoch() * 1000000 - 86400000000")
    store.close()
    told = found(world, *ACTING, "deployment.partitions=train")["stage"]
    assert [level for level, _, _ in told] == ["ok", "warn"]
    assert "action, in train alone" in told[0][1]
    assert "after 1.0 days" in told[1][1]


@pytest.mark.parametrize(("note", "level"), [("garbage", "fail"), (None, "warn")])
def test_a_rollback_is_said_and_how_to_undo_it(world: World, note: str | None, level: str) -> None:
    store = open_store(world.state / "middlewatch.db")
    if note is not None:
        store.put_notes(((NOTE, note),))
    else:
        world.run("rollback", "--reason", "two wrong restarts")
    store.close()
    ((found_level, text, mend),) = found(world)["rollback"]
    assert found_level == level
    assert note is not None or "two wrong restarts" in text
    assert "mw rollback --undo" in mend


def test_a_store_of_another_version_is_left_as_it_is(world: World) -> None:
    open_store(world.state / "middlewatch.db").close()
    with sqlite3.connect(world.state / "middlewatch.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '0001'")
    ((level, text, _),) = found(world)["store"]
    assert level == "info"
    assert "0001" in text
    with sqlite3.connect(world.state / "middlewatch.db") as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)


def test_a_file_that_is_no_database_is_a_finding_and_ends_nothing(world: World) -> None:
    world.state.mkdir(mode=0o700, exist_ok=True)
    (world.state / "middlewatch.db").write_bytes(b"garbage" * 1000)
    told = found(world)
    assert told["store"][0][0] == "warn"
    assert "up" in told
