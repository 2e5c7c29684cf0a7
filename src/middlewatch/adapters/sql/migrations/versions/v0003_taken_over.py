"""When a lease was taken from a holder who had not given it back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leases", sa.Column("taken_over_us", sa.BigInteger(), nullable=True))
