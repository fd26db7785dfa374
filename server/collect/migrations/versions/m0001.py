"""The tables of the first version."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("rater", sa.Integer(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "raters",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("nickname", sa.String(length=64), nullable=True),
        sa.Column("nickname_key", sa.Text(), nullable=True),
        sa.Column("worker", sa.String(length=64), nullable=True),
        sa.Column("joined_at", sa.Float(), nullable=False),
        sa.Column("consented", sa.Text(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("given", sa.Integer(), nullable=False),
        sa.Column("excluded_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("nickname_key"),
        sa.UniqueConstraint("worker"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "units",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.String(length=16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.Text(), nullable=False),
        sa.Column("fixed", sa.JSON(), nullable=False),
        sa.Column("given", sa.Integer(), nullable=False),
        sa.Column("last_served", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "units_next", "units", ["pool", "given", "last_served", "position"], unique=False
    )
    op.create_table(
        "invitations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("rater", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["rater"],
            ["raters.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_table(
        "items",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("unit", sa.Integer(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("caption", sa.Text(), nullable=False),
        sa.Column("references", sa.JSON(), nullable=False),
        sa.Column("system", sa.Text(), nullable=True),
        sa.Column("split", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["unit"],
            ["units.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_items_unit", "items", ["unit"], unique=False)
    op.create_table(
        "serves",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("rater", sa.Integer(), nullable=False),
        sa.Column("unit", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("order", sa.JSON(), nullable=False),
        sa.Column("served_at", sa.Float(), nullable=False),
        sa.Column("answered_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["rater"],
            ["raters.id"],
        ),
        sa.ForeignKeyConstraint(
            ["unit"],
            ["units.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
        sa.UniqueConstraint("rater", "unit", "attempt"),
    )
    op.create_index("serves_open", "serves", ["unit", "answered_at"], unique=False)
    op.create_index("serves_waiting", "serves", ["answered_at", "served_at"], unique=False)
    op.create_table(
        "answers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("serve", sa.Integer(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("rater", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("told", sa.JSON(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["item"],
            ["items.id"],
        ),
        sa.ForeignKeyConstraint(
            ["rater"],
            ["raters.id"],
        ),
        sa.ForeignKeyConstraint(
            ["serve"],
            ["serves.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("serve", "item"),
    )
    op.create_index("ix_answers_item", "answers", ["item"], unique=False)
    op.create_index("ix_answers_rater", "answers", ["rater"], unique=False)
