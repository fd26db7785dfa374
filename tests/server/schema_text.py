"""The tables of a site's database as text, for a golden file that a changed table makes differ."""

from __future__ import annotations

import os

import pytest
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable


def describe_schema(schema):
    """Return the statements that create a schema's tables and indexes."""
    lines = [f"-- of {schema.command_name}, revision {schema.revision}"]
    for table in schema.tables.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: index.name)
        for statement in (CreateTable(table), *map(CreateIndex, indexes)):
            text = str(statement.compile(dialect=sqlite.dialect()))
            lines.append(" ".join(text.split()).replace("( ", "(").replace(" )", ")") + ";")
    return "\n".join(lines) + "\n"


def check_schema(schema, golden):
    """Compare a schema with its golden file, which `CAPTAU_GOLDEN=write` writes anew.

    After a release, a change of the tables needs another revision and what brings older databases to it.
    """
    text = describe_schema(schema)
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
        pytest.skip("written anew")
    assert text == golden.read_text(encoding="utf-8")
