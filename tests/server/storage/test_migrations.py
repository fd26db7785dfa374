"""Older tables that are brought up to date are those with which a new database begins."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, inspect

from captau.server.challenge.tables import SCHEMA as CHALLENGE
from captau.server.collect.store.tables import SCHEMA as STUDY
from captau.server.storage.database import Database
from tests.server.challenge import first_tables as first_challenge
from tests.server.collect import first_tables as first_study


def describe_tables(engine):
    """Return columns, indexes, unique constraints and foreign keys of each table."""
    inspector = inspect(engine)
    return {
        table: (
            {c["name"]: (str(c["type"]), c["nullable"]) for c in inspector.get_columns(table)},
            {i["name"]: (i["column_names"], i["unique"]) for i in inspector.get_indexes(table)},
            sorted(u["column_names"] for u in inspector.get_unique_constraints(table)),
            sorted(
                (k["constrained_columns"], k["referred_table"])
                for k in inspector.get_foreign_keys(table)
            ),
        )
        for table in inspector.get_table_names()
    }


@pytest.mark.parametrize(
    ("schema", "first"),
    [(CHALLENGE, first_challenge), (STUDY, first_study)],
    ids=["challenge", "study"],
)
def test_migrated_tables_are_the_new_ones(tmp_path, schema, first):
    tables = []
    for name in ("migrated", "new"):
        path = tmp_path / f"{name}.sqlite3"
        engine = create_engine(f"sqlite:///{path}")
        if name == "migrated":
            with engine.begin() as connection:
                first.create_first_tables(connection)
        Database(str(path), schema).close()
        tables.append(describe_tables(engine))
        engine.dispose()
    assert tables[0] == tables[1]
