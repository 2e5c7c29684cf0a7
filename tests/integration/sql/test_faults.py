"""What the disk, other processes and damaged files do, and in which of the port's words it is told."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.model.change import Change
from middlewatch.ports.errors import PortError, Refused, Unreachable, Unreadable
from middlewatch.ports.store import AuditFilter
from tests.contract.store.records import advice, attempt_id, event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def pragma(store: SqlStore, name: str) -> object:
    with store.database.write() as connection:
        return connection.execute(text(f"PRAGMA {name}")).scalar()


def test_every_commit_reaches_the_disk_before_it_is_acknowledged(path: Path) -> None:
    store = open_store(path)
    assert pragma(store, "journal_mode") == "wal"
    assert pragma(store, "synchronous") == 2
    store.close()


def test_full_disk_is_unreachable_says_so_and_loses_nothing(path: Path) -> None:
    store = open_store(path)
    store.apply(Change(audit=(event(1),)))
    pages = pragma(store, "page_count")
    pragma(store, f"max_page_count = {pages}")
    big = event(2, payload="x" * 1_000_000)
    with pytest.raises(Unreachable, match="disk is full"):
        store.apply(Change(audit=(big,), advice=(advice(1),)))
    assert store.last_audit_number() == 1
    assert store.advice(attempt_id(1)) is None
    pragma(store, "max_page_count = 1000000")
    store.apply(Change(audit=(big,)))
    assert store.last_audit_number() == 2
    store.close()


def test_lock_of_another_process_is_waited_for_and_then_told(path: Path) -> None:
    store = open_store(path, wait_s=0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unreachable, match="another process"):
        store.apply(Change(audit=(event(1),)))
    assert not store.healthy()
    # Readers do not wait.
    assert store.last_audit_number() == 0
    other.execute("ROLLBACK")
    other.close()
    assert store.apply(Change(audit=(event(1),))).last_audit_number == 1
    store.close()


def test_thread_that_writes_for_too_long_is_told_to_the_next(path: Path) -> None:
    first, second = open_store(path), open_store(path, wait_s=0.05)
    with first.database.write():
        outcome: list[PortError] = []

        def write() -> None:
            try:
                second.apply(Change(audit=(event(1),)))
            except PortError as error:
                outcome.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert "another thread" in str(outcome[0])
    first.close()
    second.close()


def test_file_that_is_no_database_is_unreadable(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 1000)
    with pytest.raises(Unreadable, match="not a sound SQLite database"):
        open_store(path)
    assert path.read_bytes().startswith(b"not a database")


def test_torn_page_is_unreadable_and_not_an_empty_answer(path: Path) -> None:
    store = open_store(path)
    store.apply(Change(audit=tuple(event(n) for n in range(2000))))
    store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 4))
    store = open_store(path)
    with pytest.raises(Unreadable):
        store.audit(AuditFilter(), 0, 10_000)
    store.close()


def test_missing_table_is_unreadable(path: Path) -> None:
    store = open_store(path)
    with store.database.write() as connection:
        connection.execute(text("DROP TABLE statuses"))
    with pytest.raises(Unreadable, match="statuses"):
        store.statuses(attempt_id(1))
    store.close()


def test_place_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be made"):
        open_store(tmp_path / "file" / "below" / "state.db")


@pytest.mark.parametrize("where", ["", ":memory:", "sqlite:///", "postgresql://h/d", "mysql://h/d"])
def test_what_is_no_file_is_refused(where: str) -> None:
    with pytest.raises(Refused):
        open_store(where)


def test_url_of_a_file_is_a_path(path: Path) -> None:
    open_store(f"sqlite:///{path}").close()
    assert path.exists()


def test_strange_names_of_files_are_no_parts_of_a_url(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory&b #%41" / "ü state.db"
    store = open_store(path)
    store.apply(Change(audit=(event(1),)))
    store.close()
    assert path.stat().st_size > 0


def test_readers_cannot_write(path: Path) -> None:
    store = open_store(path)
    with pytest.raises(Unreachable), store.database.read() as connection:
        connection.execute(text("DELETE FROM counters"))
    store.close()


def test_child_of_a_fork_has_connections_of_its_own(path: Path) -> None:
    store = open_store(path)
    store.apply(Change(audit=(event(1),)))
    child = os.fork()
    if child == 0:
        try:
            store.apply(Change(audit=(event(2),)))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert store.apply(Change(audit=(event(3),))).last_audit_number == 3
    assert [e.payload for e in store.audit(AuditFilter(), 0, 10)] == [
        f'{{"n": {n}}}' for n in (1, 2, 3)
    ]
    store.close()
