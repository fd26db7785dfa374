"""The tables of the first version of a challenge's database, from which a site brings them up to date."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

sa.Table(
    "audit",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("at", sa.Float(), nullable=False),
    sa.Column("account", sa.Integer(), nullable=True),
    sa.Column("action", sa.String(length=32), nullable=False),
    sa.Column("what", sa.Text(), nullable=False),
    sa.Column("why", sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "challenges",
    metadata,
    sa.Column("name", sa.String(length=64), nullable=False),
    sa.Column("digest", sa.String(length=64), nullable=False),
    sa.Column("frozen_at", sa.Float(), nullable=True),
    sa.Column("published_at", sa.Float(), nullable=True),
    sa.Column("human", sa.JSON(), nullable=True),
    sa.PrimaryKeyConstraint("name"),
)
sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String(length=64), nullable=False),
    sa.Column("value", sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint("key"),
)
sa.Table(
    "teams",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("name", sa.String(length=64), nullable=False),
    sa.Column("name_key", sa.Text(), nullable=False),
    sa.Column("invitation", sa.String(length=64), nullable=True),
    sa.Column("created_at", sa.Float(), nullable=False),
    sa.PrimaryKeyConstraint("id"),
    sa.UniqueConstraint("invitation"),
    sa.UniqueConstraint("name_key"),
    sqlite_autoincrement=True,
)
sa.Table(
    "accounts",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("name", sa.String(length=64), nullable=False),
    sa.Column("name_key", sa.Text(), nullable=False),
    sa.Column("password", sa.Text(), nullable=False),
    sa.Column("team", sa.Integer(), nullable=False),
    sa.Column("joined_at", sa.Float(), nullable=False),
    sa.Column("epoch", sa.Integer(), nullable=False),
    sa.Column("blocked_at", sa.Float(), nullable=True),
    sa.ForeignKeyConstraint(["team"], ["teams.id"]),
    sa.PrimaryKeyConstraint("id"),
    sa.UniqueConstraint("name_key"),
    sqlite_autoincrement=True,
)
sa.Index("ix_accounts_team", metadata.tables["accounts"].c["team"])
sa.Table(
    "recoveries",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("account", sa.Integer(), nullable=False),
    sa.Column("hash", sa.String(length=64), nullable=False),
    sa.Column("used_at", sa.Float(), nullable=True),
    sa.ForeignKeyConstraint(["account"], ["accounts.id"]),
    sa.PrimaryKeyConstraint("id"),
    sa.UniqueConstraint("hash"),
)
sa.Index("ix_recoveries_account", metadata.tables["recoveries"].c["account"])
sa.Table(
    "submissions",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("key", sa.String(length=32), nullable=False),
    sa.Column("challenge", sa.String(length=64), nullable=False),
    sa.Column("phase", sa.String(length=64), nullable=False),
    sa.Column("team", sa.Integer(), nullable=False),
    sa.Column("account", sa.Integer(), nullable=False),
    sa.Column("system", sa.String(length=64), nullable=False),
    sa.Column("note", sa.Text(), nullable=False),
    sa.Column("file", sa.String(length=128), nullable=False),
    sa.Column("sha256", sa.String(length=64), nullable=False),
    sa.Column("bytes", sa.Integer(), nullable=False),
    sa.Column("received_at", sa.Float(), nullable=False),
    sa.Column("state", sa.String(length=16), nullable=False),
    sa.Column("checked_at", sa.Float(), nullable=True),
    sa.Column("faults", sa.JSON(), nullable=False),
    sa.Column("n_faults", sa.Integer(), nullable=False),
    sa.Column("summary", sa.Text(), nullable=False),
    sa.Column("counts", sa.Boolean(), nullable=False),
    sa.Column("attempts", sa.Integer(), nullable=False),
    sa.Column("worker", sa.String(length=32), nullable=True),
    sa.Column("started_at", sa.Float(), nullable=True),
    sa.Column("progress", sa.Float(), nullable=False),
    sa.Column("step", sa.String(length=64), nullable=False),
    sa.Column("finished_at", sa.Float(), nullable=True),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("standing", sa.String(length=16), nullable=False),
    sa.Column("standing_why", sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(["account"], ["accounts.id"]),
    sa.ForeignKeyConstraint(["challenge"], ["challenges.name"]),
    sa.ForeignKeyConstraint(["team"], ["teams.id"]),
    sa.PrimaryKeyConstraint("id"),
    sa.UniqueConstraint("key"),
    sqlite_autoincrement=True,
)
sa.Index(
    "submissions_account",
    metadata.tables["submissions"].c["challenge"],
    metadata.tables["submissions"].c["account"],
)
sa.Index(
    "submissions_state",
    metadata.tables["submissions"].c["state"],
    metadata.tables["submissions"].c["id"],
)
sa.Index(
    "submissions_team",
    metadata.tables["submissions"].c["challenge"],
    metadata.tables["submissions"].c["team"],
)
sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("account", sa.Integer(), nullable=False),
    sa.Column("hash", sa.String(length=64), nullable=False),
    sa.Column("label", sa.String(length=64), nullable=False),
    sa.Column("created_at", sa.Float(), nullable=False),
    sa.Column("used_at", sa.Float(), nullable=True),
    sa.Column("revoked_at", sa.Float(), nullable=True),
    sa.ForeignKeyConstraint(["account"], ["accounts.id"]),
    sa.PrimaryKeyConstraint("id"),
    sa.UniqueConstraint("hash"),
)
sa.Index("ix_tokens_account", metadata.tables["tokens"].c["account"])
sa.Table(
    "results",
    metadata,
    sa.Column("id", sa.Integer(), nullable=False),
    sa.Column("submission", sa.Integer(), nullable=False),
    sa.Column("made_at", sa.Float(), nullable=False),
    sa.Column("seconds", sa.Float(), nullable=False),
    sa.Column("digest", sa.String(length=64), nullable=False),
    sa.Column("scores", sa.JSON(), nullable=False),
    sa.Column("run", sa.JSON(), nullable=False),
    sa.ForeignKeyConstraint(["submission"], ["submissions.id"]),
    sa.PrimaryKeyConstraint("id"),
    sa.UniqueConstraint("submission"),
)


def create_first_tables(connection):
    """Create them, as the first version of captau did by Alembic."""
    metadata.create_all(connection)
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
    )
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0001')")
