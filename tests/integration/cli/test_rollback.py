"""Hands off in one command: on the state directory itself, whether `up` runs or not."""

from __future__ import annotations

import json

from middlewatch.adapters.sql.store import open_store
from middlewatch.model.rollback import NOTE, from_text
from middlewatch.ports.store import AuditFilter
from tests.integration.cli.conftest import World


def made(world: World) -> None:
    open_store(world.state / "middlewatch.db").close()


def test_without_a_database_it_says_where_to_go(world: World) -> None:
    done = world.run("rollback", "--reason", "x")
    assert done.returncode == 3
    assert "--state-dir" in done.stderr


def test_it_stands_until_it_is_undone_and_the_trail_says_who_and_why(world: World) -> None:
    made(world)
    assert "not rolled back" in world.run("rollback").stdout
    done = world.run("rollback", "--reason", "wrong restarts on gpu-17")
    assert done.returncode == 0, done.stderr
    assert "wrong restarts on gpu-17" in done.stdout
    store = open_store(world.state / "middlewatch.db")
    standing = from_text(store.note(NOTE))
    assert standing is not None
    assert standing.reason == "wrong restarts on gpu-17"
    shown = json.loads(world.run("rollback", "--json").stdout)
    assert shown["rolledBack"]["by"] == standing.by
    assert world.run("rollback", "--undo").returncode == 2
    assert "not rolled back" in world.run("rollback", "--undo", "--reason", "mended").stdout
    assert from_text(store.note(NOTE)) is None
    assert "nothing to undo" in world.run("rollback", "--undo", "--reason", "again").stderr
    told = store.audit(AuditFilter(producer="cli"), 0, 10)
    assert [event.type for event in told] == [
        "deployment.rolled_back",
        "deployment.rollback_undone",
    ]
    assert json.loads(told[1].payload) == {"by": standing.by, "reason": "mended"}
    store.close()


def test_a_reason_that_is_none_is_refused_and_changes_nothing(world: World) -> None:
    made(world)
    for reason in (" ", "x" * 501, "a\x1b[2Jb"):
        done = world.run("rollback", "--reason", reason)
        assert done.returncode == 4, done.stdout
    assert "not rolled back" in world.run("rollback").stdout
