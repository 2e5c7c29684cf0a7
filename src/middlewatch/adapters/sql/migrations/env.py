"""Alembic's entry: run the scripts on the connection, and in the transaction, that were given."""

from __future__ import annotations

from alembic import context

from middlewatch.adapters.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
