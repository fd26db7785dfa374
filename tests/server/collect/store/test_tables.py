"""The tables of a study: every column, key and index is what databases that people have hold."""

from __future__ import annotations

from pathlib import Path

from captau.server.collect.store.tables import SCHEMA
from tests.server.schema_text import check_schema


def test_the_tables_are_those_of_the_golden_file():
    check_schema(SCHEMA, Path(__file__).with_name("tables.sql"))
