"""The tables of the first version of a study's database, from which a site brings them up to date."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("at", sa.Float(), nullable=False),
    sa.Column("action", sa.String(length=32), nullable=False),
    sa.Column("rater", sa.Integer(), nullable=True),
    sa.Column("why", sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String(length=64), nullable=False),
    sa.Column("value", sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint("key"),
)
sa.Table(
    "raters",
    metadata,
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
sa.Table(
    "units",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("pool", sa.String(length=16), nullable=False),
    sa.Column("position", sa.Integer(), nullable=False),
    sa.Column("image_id", sa.Text(), nullable=False),
    sa.Column("fixed", sa.JSON(), nullable=False),
    sa.Column("given", sa.Integer(), nullable=False),
    sa.Column("last_served", sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint("id"),
)
sa.Index(
    "units_next",
    metadata.tables["units"].c["pool"],
    metadata.tables["units"].c["given"],
    metadata.tables["units"].c["last_served"],
    metadata.tables["units"].c["position"],
)
sa.Table(
    "invitations",
    metadata,
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
sa.Table(
    "items",
    metadata,
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
sa.Index("ix_items_unit", metadata.tables["items"].c["unit"])
sa.Table(
    "serves",
    metadata,
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
sa.Index(
    "serves_open", metadata.tables["serves"].c["unit"], metadata.tables["serves"].c["answered_at"]
)
sa.Index(
    "serves_waiting",
    metadata.tables["serves"].c["answered_at"],
    metadata.tables["serves"].c["served_at"],
)
sa.Table(
    "answers",
    metadata,
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
sa.Index("ix_answers_item", metadata.tables["answers"].c["item"])
sa.Index("ix_answers_rater", metadata.tables["answers"].c["rater"])


def create_first_tables(connection):
    """Create them, as the first version of captau did by Alembic."""
    metadata.create_all(connection)
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
    )
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0001')")
