"""Recoveries, with the order in which they were settled."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ID = sa.String(length=128)
NAME = sa.String(length=256)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
BODY = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def upgrade() -> None:
    op.create_table(
        "recoveries",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("scheduler", NAME, nullable=False),
        sa.Column("environment", NAME, nullable=False),
        sa.Column("job_id", NAME, nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("settled", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("body", BODY, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_recoveries"),
        sa.UniqueConstraint("id", name="uq_recoveries_id"),
        **OPTIONS,
    )
    op.create_index("ix_recoveries_job", "recoveries", ["job_id", "number"])
    op.create_index("ix_recoveries_state", "recoveries", ["state", "number"])
    op.create_index("ix_recoveries_settled", "recoveries", ["settled", "number"])
    counters = sa.table("counters", sa.column("name", sa.String), sa.column("value", sa.BigInteger))
    op.bulk_insert(counters, [{"name": "recoveries", "value": 0}, {"name": "settled", "value": 0}])
