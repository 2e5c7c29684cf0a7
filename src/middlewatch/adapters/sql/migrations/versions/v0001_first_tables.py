"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(length=128)
NAME = sa.String(length=256)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
BODY = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
BLOB = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}
COUNTED = (
    "audit", "signals", "attempts", "issues", "verdicts", "decisions", "sequences", "milestones",
    "advice", "actions", "tokens", "health",
)  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "actions",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_actions"),
        sa.UniqueConstraint("id", name="uq_actions_id"),
        **OPTIONS,
    )
    op.create_index("ix_actions_attempt", "actions", ["attempt_id", "number"], unique=False)
    op.create_table(
        "advice",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("scheduler", NAME, nullable=False),
        sa.Column("environment", NAME, nullable=False),
        sa.Column("job_id", NAME, nullable=False),
        sa.Column("submitted_us", sa.BigInteger(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_advice"),
        sa.UniqueConstraint("attempt_id", name="uq_advice_attempt_id"),
        **OPTIONS,
    )
    op.create_index("ix_advice_active", "advice", ["active", "number"], unique=False)
    op.create_index("ix_advice_job", "advice", ["job_id", "submitted_us"], unique=False)
    op.create_index(
        "ix_advice_owner", "advice", ["active", "environment", "scheduler", "number"], unique=False
    )
    op.create_table(
        "advice_generations",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "generation", name="pk_advice_generations"),
        **OPTIONS,
    )
    op.create_table(
        "attempts",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("scheduler", NAME, nullable=False),
        sa.Column("environment", NAME, nullable=False),
        sa.Column("job_id", NAME, nullable=False),
        sa.Column("attempt_index", sa.BigInteger(), nullable=False),
        sa.Column("submitted_us", sa.BigInteger(), nullable=False),
        sa.Column("first_seen_us", sa.BigInteger(), nullable=False),
        sa.Column("workflow_id", NAME, nullable=False),
        sa.Column("job_name", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("eligible", sa.Boolean(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_attempts"),
        sa.UniqueConstraint("id", name="uq_attempts_id"),
        **OPTIONS,
    )
    op.create_index("ix_attempts_ended", "attempts", ["ended_us"], unique=False)
    op.create_index("ix_attempts_job", "attempts", ["job_id", "submitted_us"], unique=False)
    op.create_index(
        "ix_attempts_live", "attempts", ["final", "first_seen_us", "number"], unique=False
    )
    op.create_index("ix_attempts_seen", "attempts", ["first_seen_us", "number"], unique=False)
    op.create_index("ix_attempts_workflow", "attempts", ["workflow_id", "number"], unique=False)
    op.create_table(
        "audit",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("key_digest", ID, nullable=True),
        sa.Column("attempt_id", ID, nullable=True),
        sa.Column("job_id", NAME, nullable=False),
        sa.Column("attempt_index", sa.BigInteger(), nullable=True),
        sa.Column("type", NAME, nullable=False),
        sa.Column("level", sa.String(length=32), nullable=False),
        sa.Column("producer", NAME, nullable=False),
        sa.Column("happened_us", sa.BigInteger(), nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit"),
        sa.UniqueConstraint("key_digest", name="uq_audit_key_digest"),
        **OPTIONS,
    )
    op.create_index("ix_audit_attempt", "audit", ["attempt_id", "number"], unique=False)
    op.create_index("ix_audit_happened", "audit", ["happened_us"], unique=False)
    op.create_index("ix_audit_job", "audit", ["job_id", "number"], unique=False)
    op.create_index("ix_audit_level", "audit", ["level", "number"], unique=False)
    op.create_index("ix_audit_type", "audit", ["type", "number"], unique=False)
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
        **OPTIONS,
    )
    op.create_table(
        "decisions",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_decisions"),
        sa.UniqueConstraint("id", name="uq_decisions_id"),
        **OPTIONS,
    )
    op.create_index("ix_decisions_attempt", "decisions", ["attempt_id", "number"], unique=False)
    op.create_table(
        "issues",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_issues"),
        sa.UniqueConstraint("id", name="uq_issues_id"),
        **OPTIONS,
    )
    op.create_index("ix_issues_attempt", "issues", ["attempt_id", "number"], unique=False)
    op.create_table(
        "leases",
        sa.Column("name", NAME, nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
        **OPTIONS,
    )
    op.create_table(
        "milestones",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("sequence_id", ID, nullable=False),
        sa.Column("key_digest", ID, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_milestones"),
        **OPTIONS,
    )
    op.create_index(
        "ix_milestones_sequence", "milestones", ["sequence_id", "key_digest"], unique=True
    )
    op.create_table(
        "notes",
        sa.Column("name", NAME, nullable=False),
        sa.Column("value", BODY, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_notes"),
        **OPTIONS,
    )
    op.create_table(
        "progress",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_progress"),
        **OPTIONS,
    )
    op.create_table(
        "sequences",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("scheduler", NAME, nullable=False),
        sa.Column("environment", NAME, nullable=False),
        sa.Column("job_id", NAME, nullable=False),
        sa.Column("attempt_index", sa.BigInteger(), nullable=False),
        sa.Column("operation", sa.String(length=32), nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_sequences"),
        sa.UniqueConstraint("id", name="uq_sequences_id"),
        **OPTIONS,
    )
    op.create_index("ix_sequences_job", "sequences", ["job_id", "attempt_index"], unique=False)
    op.create_table(
        "signal_counts",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("pattern", NAME, nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("stored", sa.BigInteger(), nullable=False),
        sa.Column("capped", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "pattern", "source", name="pk_signal_counts"),
        **OPTIONS,
    )
    op.create_table(
        "signals",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("key", ID, nullable=False),
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_signals"),
        sa.UniqueConstraint("key", name="uq_signals_key"),
        **OPTIONS,
    )
    op.create_index("ix_signals_attempt", "signals", ["attempt_id", "number"], unique=False)
    op.create_table(
        "statuses",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "version", name="pk_statuses"),
        **OPTIONS,
    )
    op.create_table(
        "tokens",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_tokens"),
        sa.UniqueConstraint("id", name="uq_tokens_id"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
        **OPTIONS,
    )
    op.create_table(
        "verdicts",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_verdicts"),
        **OPTIONS,
    )
    op.create_index("ix_verdicts_attempt", "verdicts", ["attempt_id", "number"], unique=False)
    op.create_table(
        "watch",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("state", BLOB, nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_watch"),
        **OPTIONS,
    )
    table = sa.table("counters", sa.column("name", sa.String), sa.column("value", sa.BigInteger))
    op.bulk_insert(table, [{"name": name, "value": 0} for name in COUNTED])


def downgrade() -> None:
    """Going back is done by restoring the copy that was made before."""
    raise NotImplementedError
