"""A database of a site for the tests of this folder."""

from __future__ import annotations

import pytest

from captau.server.challenge.tables import SCHEMA
from captau.server.storage.database import (
    Database,
)


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "x.sqlite3", SCHEMA)
    yield opened
    opened.close()
