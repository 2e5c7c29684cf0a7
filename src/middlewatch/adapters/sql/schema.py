"""The tables: what is searched for stands in columns, the record itself in ``body``.

A record grows new fields more often than anybody searches by them. So a row holds the key columns
that a query needs, and beside them the whole record as JSON text (see `codec`). Column values are
derived from the record at each write and never the other way round, except for row numbers.

Moments are integer microseconds since 1970 in UTC (``…_us``), the same on every database. Names
are compared byte by byte: MySQL and MariaDB are told so, elsewhere it is the rule. Long keys that
clients choose are stored as their SHA-256, so that an index on them has a width.

Rows are numbered from `counters`, inside the transaction that writes them. A sequence of the
database would leave gaps after a rollback and, with several writers, show number 8 before 7.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects import mysql

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)

ID = String(128)
NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""On SQLite only the word INTEGER makes the number the row's own address."""
NAME = String(256)
BODY = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
BLOB = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def _number() -> Column[int]:
    """A primary key that we number ourselves."""
    return Column("number", NUMBER, primary_key=True, autoincrement=False)


counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
    **_OPTIONS,
)

attempts = Table(
    "attempts",
    metadata,
    _number(),
    Column("id", ID, nullable=False, unique=True),
    Column("scheduler", NAME, nullable=False),
    Column("environment", NAME, nullable=False),
    Column("job_id", NAME, nullable=False),
    Column("attempt_index", BigInteger, nullable=False),
    Column("submitted_us", BigInteger, nullable=False),
    Column("first_seen_us", BigInteger, nullable=False),
    Column("workflow_id", NAME, nullable=False),
    Column("job_name", Text, nullable=False),
    Column("state", String(32), nullable=False),
    Column("final", Boolean, nullable=False),
    Column("eligible", Boolean, nullable=False),
    Column("started_us", BigInteger),
    Column("ended_us", BigInteger),
    Column("version", BigInteger, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_attempts_seen", "first_seen_us", "number"),
    Index("ix_attempts_job", "job_id", "submitted_us"),
    Index("ix_attempts_live", "final", "first_seen_us", "number"),
    Index("ix_attempts_workflow", "workflow_id", "number"),
    Index("ix_attempts_ended", "ended_us"),
    **_OPTIONS,
)

watch = Table(
    "watch",
    metadata,
    Column("attempt_id", ID, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("state", BLOB, nullable=False),
    **_OPTIONS,
)

progress = Table(
    "progress",
    metadata,
    Column("attempt_id", ID, primary_key=True),
    Column("body", BODY, nullable=False),
    **_OPTIONS,
)

signals = Table(
    "signals",
    metadata,
    _number(),
    Column("key", ID, nullable=False, unique=True),
    Column("attempt_id", ID, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_signals_attempt", "attempt_id", "number"),
    **_OPTIONS,
)

signal_counts = Table(
    "signal_counts",
    metadata,
    Column("attempt_id", ID, primary_key=True),
    Column("pattern", NAME, primary_key=True),
    Column("source", String(32), primary_key=True),
    Column("stored", BigInteger, nullable=False),
    Column("capped", BigInteger, nullable=False),
    **_OPTIONS,
)

issues = Table(
    "issues",
    metadata,
    _number(),
    Column("id", ID, nullable=False, unique=True),
    Column("attempt_id", ID, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_issues_attempt", "attempt_id", "number"),
    **_OPTIONS,
)

verdicts = Table(
    "verdicts",
    metadata,
    _number(),
    Column("attempt_id", ID, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_verdicts_attempt", "attempt_id", "number"),
    **_OPTIONS,
)

decisions = Table(
    "decisions",
    metadata,
    _number(),
    Column("id", ID, nullable=False, unique=True),
    Column("attempt_id", ID, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_decisions_attempt", "attempt_id", "number"),
    **_OPTIONS,
)

advice = Table(
    "advice",
    metadata,
    _number(),
    Column("attempt_id", ID, nullable=False, unique=True),
    Column("scheduler", NAME, nullable=False),
    Column("environment", NAME, nullable=False),
    Column("job_id", NAME, nullable=False),
    Column("submitted_us", BigInteger, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("body", BODY, nullable=False),
    # Work is found by reading only what is open, in the order of pages: as fast among a million
    # settled rows as among a thousand.
    Index("ix_advice_active", "active", "number"),
    Index("ix_advice_owner", "active", "environment", "scheduler", "number"),
    Index("ix_advice_job", "job_id", "submitted_us"),
    **_OPTIONS,
)

advice_generations = Table(
    "advice_generations",
    metadata,
    Column("attempt_id", ID, primary_key=True),
    Column("generation", BigInteger, primary_key=True, autoincrement=False),
    Column("body", BODY, nullable=False),
    **_OPTIONS,
)

statuses = Table(
    "statuses",
    metadata,
    Column("attempt_id", ID, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("body", BODY, nullable=False),
    **_OPTIONS,
)

actions = Table(
    "actions",
    metadata,
    _number(),
    Column("id", ID, nullable=False, unique=True),
    Column("attempt_id", ID, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_actions_attempt", "attempt_id", "number"),
    **_OPTIONS,
)

sequences = Table(
    "sequences",
    metadata,
    _number(),
    Column("id", ID, nullable=False, unique=True),
    Column("scheduler", NAME, nullable=False),
    Column("environment", NAME, nullable=False),
    Column("job_id", NAME, nullable=False),
    Column("attempt_index", BigInteger, nullable=False),
    Column("operation", String(32), nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_sequences_job", "job_id", "attempt_index"),
    **_OPTIONS,
)

milestones = Table(
    "milestones",
    metadata,
    _number(),
    Column("sequence_id", ID, nullable=False),
    Column("key_digest", ID, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_milestones_sequence", "sequence_id", "key_digest", unique=True),
    **_OPTIONS,
)

recoveries = Table(
    "recoveries",
    metadata,
    _number(),
    Column("id", ID, nullable=False, unique=True),
    Column("scheduler", NAME, nullable=False),
    Column("environment", NAME, nullable=False),
    Column("job_id", NAME, nullable=False),
    Column("state", String(32), nullable=False),
    Column("settled", BigInteger),
    Column("version", BigInteger, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_recoveries_job", "job_id", "number"),
    Index("ix_recoveries_state", "state", "number"),
    Index("ix_recoveries_settled", "settled", "number"),
    **_OPTIONS,
)
"""``settled`` is null while a recovery may still change, then its place in the order of settling."""

audit = Table(
    "audit",
    metadata,
    _number(),
    Column("key_digest", ID, unique=True),
    Column("attempt_id", ID),
    Column("job_id", NAME, nullable=False),
    Column("attempt_index", BigInteger),
    Column("type", NAME, nullable=False),
    Column("level", String(32), nullable=False),
    Column("producer", NAME, nullable=False),
    Column("happened_us", BigInteger, nullable=False),
    Column("body", BODY, nullable=False),
    Index("ix_audit_attempt", "attempt_id", "number"),
    Index("ix_audit_job", "job_id", "number"),
    Index("ix_audit_type", "type", "number"),
    Index("ix_audit_level", "level", "number"),
    Index("ix_audit_happened", "happened_us"),
    **_OPTIONS,
)

leases = Table(
    "leases",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("holder", NAME, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("taken_over_us", BigInteger, nullable=True),
    **_OPTIONS,
)

shards = Table(
    "shards",
    metadata,
    Column("pool", NAME, primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("holder", NAME, nullable=False),
    Column("token", BigInteger, nullable=False),
    **_OPTIONS,
)

tokens = Table(
    "tokens",
    metadata,
    _number(),
    Column("id", ID, nullable=False, unique=True),
    Column("digest", NAME, nullable=False, unique=True),
    Column("body", BODY, nullable=False),
    **_OPTIONS,
)

notes = Table(
    "notes",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("value", BODY, nullable=False),
    **_OPTIONS,
)
