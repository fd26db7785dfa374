"""Stores of small studies at a time that stands still."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import select

from tests.server.collect.conftest import make_site

NOW = 1_800_000_000.0


@pytest.fixture
def open_store(tmp_path, clock):
    """Return a function that opens a small study at a time that stands still."""
    opened = []

    def open_one(protocol="good_bad", **changes):
        opened.append(make_site(tmp_path, protocol, **changes).store)
        return opened[-1]

    yield open_one
    for store in opened:
        store.database.close()


def run(awaitable):
    return asyncio.run(awaitable)


def answer_all(store, rater, n):
    """Let a rater answer so many units."""

    async def answer():
        for _ in range(n):
            shown = await store.assignment.next_unit(rater)
            await store.answers.record(rater, shown.key, [{"answer": "good"}])

    run(answer())


def load(store, table):
    rows = store.database.run_blocking(lambda c: c.execute(select(table)).mappings().all())
    return [dict(row) for row in rows]
