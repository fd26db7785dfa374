"""The tables in which annotators settle their disagreements: THumB's second step."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "resolutions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("rater", sa.Integer(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["item"],
            ["items.id"],
        ),
        sa.ForeignKeyConstraint(
            ["rater"],
            ["raters.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_resolutions_item", "resolutions", ["item"], unique=False)
