from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, create_engine, text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.event import listen
from sqlalchemy.schema import CreateIndex, CreateTable

from middlewatch.adapters.sql import upgrade
from middlewatch.adapters.sql.schema import metadata
from middlewatch.adapters.sql.store import open_store
from middlewatch.model.change import Change
from middlewatch.ports.errors import Unreadable
from middlewatch.ports.store import AttemptFilter
from tests.contract.store.records import PROD, advice, attempt, event


def statements(path: Path) -> dict[str, str]:
    """Every table and index of a database by name, in its own words."""
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version'"
    ).fetchall()
    connection.close()
    return {name: "".join(sql.split()).replace('"', "") for name, sql in rows}


def test_schema_is_the_sum_of_the_scripts(tmp_path: Path) -> None:
    open_store(tmp_path / "scripts.db").close()
    engine = create_engine(URL.create("sqlite", database=str(tmp_path / "schema.db")))
    metadata.create_all(engine)
    engine.dispose()
    assert statements(tmp_path / "scripts.db") == statements(tmp_path / "schema.db")


def test_alembic_finds_nothing_left_to_do(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    with store.database.write() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    store.close()


def test_newest_script_is_the_one_that_the_program_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(upgrade.SCRIPTS))
    assert ScriptDirectory.from_config(config).get_heads() == [upgrade.HEAD]


def test_every_counter_that_is_taken_from_exists(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    with store.database.read() as connection:
        names = {row[0] for row in connection.execute(text("SELECT name FROM counters"))}
    store.close()
    numbered = {table.name for table in metadata.tables.values() if "number" in table.c}
    assert names == numbered | {"health", "settled"}


@pytest.mark.parametrize("dialect", [mysql.dialect(), postgresql.dialect()], ids=lambda d: d.name)  # type: ignore[no-untyped-call]
def test_tables_can_be_written_in_the_words_of_other_databases(dialect: object) -> None:
    for table in metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))  # type: ignore[arg-type]
        for index in table.indexes:
            assert "INDEX" in str(CreateIndex(index).compile(dialect=dialect))  # type: ignore[arg-type]


def test_indexes_fit_into_what_mysql_allows() -> None:
    widths: dict[str, int] = {}
    for table in metadata.sorted_tables:
        keys = [(str(index.name), list(index.columns)) for index in table.indexes]
        keys.append((str(table.primary_key.name), list(table.primary_key.columns)))
        for name, columns in keys:
            widths[name] = sum(
                4 * (getattr(column.type, "length", None) or 2) for column in columns
            )
    assert {name: width for name, width in widths.items() if width > 3072} == {}


def test_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    with store.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(Unreadable, match=r"newer version .*9999"):
        open_store(tmp_path / "state.db")


def test_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.execute("CREATE TABLE songs (name)")
    connection.close()
    with pytest.raises(Unreadable, match="something else"):
        open_store(tmp_path / "state.db")
    assert set(statements(tmp_path / "state.db")) == {"songs"}


def test_database_may_be_made_by_several_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: open_store(tmp_path / "state.db"), range(4)))
    stores[0].apply(Change(audit=(event(1),)))
    assert [store.last_audit_number() for store in stores] == [1] * 4
    for store in stores:
        store.close()


def test_several_databases_may_be_made_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda n: open_store(tmp_path / f"{n}.db"), range(4)))
    for store in stores:
        assert store.healthy()
        store.close()


def plan(path: Path, query: str) -> str:
    connection = sqlite3.connect(path)
    rows = connection.execute("EXPLAIN QUERY PLAN " + query).fetchall()
    connection.close()
    return " / ".join(str(row[3]) for row in rows)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("SELECT body FROM advice WHERE active = 1 AND number > 5 ORDER BY number LIMIT 9", "ix_advice_active"),
        (
            "SELECT body FROM advice WHERE number > 5 AND active = 1 AND environment = 'e' AND scheduler = 's' ORDER BY number LIMIT 9",
            "ix_advice_owner",
        ),
        ("SELECT body FROM attempts WHERE final = 0 AND scheduler = 's' ORDER BY first_seen_us, number", "ix_attempts_live"),
        ("SELECT body FROM audit WHERE attempt_id = 'a' AND number > 5 ORDER BY number LIMIT 9", "ix_audit_attempt"),
        ("SELECT body FROM audit WHERE type = 't' ORDER BY number DESC LIMIT 9", "ix_audit_type"),
        ("SELECT body FROM signals WHERE attempt_id = 'a' AND number > 5 ORDER BY number", "ix_signals_attempt"),
    ],
)  # fmt: skip
def test_what_is_asked_at_every_tick_reads_an_index_and_sorts_nothing(
    tmp_path: Path, query: str, index: str
) -> None:
    store = open_store(tmp_path / "state.db")
    store.apply(Change(attempts=(attempt(1),), advice=(advice(1),), audit=(event(1),)))
    assert store.advice_page(True, 0, 10, PROD)
    store.close()
    told = plan(tmp_path / "state.db", query)
    assert index in told
    assert "TEMP B-TREE" not in told


def test_what_ended_lately_is_found_by_its_end_and_not_among_all_that_ever_ended(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "state.db")
    asked: list[str] = []
    with store.database.read() as connection:
        engine = connection.engine
    listen(engine, "before_cursor_execute", lambda _c, _u, told, *_: asked.append(told))
    where = AttemptFilter(cluster=PROD, final=True, ended_from=datetime(2026, 1, 1, tzinfo=UTC))
    assert store.attempts(where, 0, 250) == ()
    store.close()
    query = next(one for one in asked if "FROM attempts" in one)
    assert "SEARCH attempts USING INDEX ix_attempts_ended" in plan(
        tmp_path / "state.db", query.replace("?", "1")
    )
