"""The tables of a database, brought to what this version expects, whenever it is opened.

The scripts in `migrations` are the only thing that makes or changes tables; the schema module
says what their sum is, and a test compares the two. A database that is already right costs one
query: Alembic is not even imported.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from middlewatch.adapters.sql.engine import Database
from middlewatch.ports.errors import Unreadable

HEAD = "0004"
"""The newest script's revision."""
SCRIPTS = Path(__file__).parent / "migrations"
VERSIONS = "alembic_version"
_one_at_a_time = threading.Lock()
"""Alembic keeps the script that it runs in a variable of the module."""


def revision(connection: Connection) -> str | None:
    """The database's revision; None for a new one."""
    if not inspect(connection).has_table(VERSIONS):
        return None
    row = connection.execute(text(f"SELECT version_num FROM {VERSIONS}")).first()  # noqa: S608
    return None if row is None else str(row[0])


def bring_up_to_date(database: Database) -> None:
    """Run the scripts that are missing, in one transaction. Several processes may try at once.

    Raises `Unreadable` for a database that a newer version made, and for one that holds tables
    which are not ours.
    """
    with database.read() as connection:
        if revision(connection) == HEAD:
            return
    with _one_at_a_time, database.alone(), database.write() as connection:
        found = revision(connection)
        if found == HEAD:
            return
        if found is None and inspect(connection).get_table_names():
            raise Unreadable(f"{database.name} is a database of something else; name another file")
        _run(connection, database.name, found)


def _run(connection: Connection, name: str, found: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise Unreadable(
            f"{name} was made by a newer version (its tables are at {found}, this version knows "
            f"up to {HEAD}); start that version"
        )
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Unreadable(f"{name}: its tables could not be brought up to date: {error}") from error
