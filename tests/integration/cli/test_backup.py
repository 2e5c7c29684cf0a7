"""A copy of the state is whole, private, and replaces nothing."""

from __future__ import annotations

import stat

from middlewatch.adapters.sql.store import open_store
from middlewatch.model.change import Change
from tests.contract.store.records import attempt, attempt_id, event
from tests.integration.cli.conftest import World


def test_a_copy_has_what_only_the_log_has_yet(world: World) -> None:
    store = open_store(world.state / "middlewatch.db")
    store.apply(Change(attempts=(attempt(1),), audit=(event(1),)))
    done = world.run("backup", str(world.folder / "copy.db"))
    assert done.returncode == 0, done.stderr
    store.close()
    assert stat.S_IMODE((world.folder / "copy.db").stat().st_mode) == 0o600
    into = world.folder / "elsewhere"
    into.mkdir(mode=0o700)
    (world.folder / "copy.db").rename(into / "middlewatch.db")
    copied = open_store(into / "middlewatch.db")
    assert copied.attempt(attempt_id(1)) is not None
    assert copied.last_audit_number() == 1
    copied.close()


def test_it_replaces_nothing_and_says_where_there_is_nothing(world: World) -> None:
    target = world.folder / "copy.db"
    assert world.run("backup", str(target)).returncode == 3
    open_store(world.state / "middlewatch.db").close()
    target.write_text("mine")
    assert world.run("backup", str(target)).returncode == 5
    assert target.read_text() == "mine"
    missing = world.folder / "no" / "copy.db"
    assert world.run("backup", str(missing)).returncode not in {0, 1}
    assert list(world.folder.glob("*.part")) == []


def test_a_database_that_is_none_is_the_one_that_is_named(world: World) -> None:
    world.state.mkdir(mode=0o700, exist_ok=True)
    (world.state / "middlewatch.db").write_bytes(b"garbage" * 1000)
    done = world.run("backup", str(world.folder / "copy.db"))
    assert done.returncode == 1
    assert str(world.state / "middlewatch.db") in done.stderr
    assert not (world.folder / "copy.db").exists()
