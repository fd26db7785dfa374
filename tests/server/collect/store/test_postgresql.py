"""A study site on PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest
from sqlalchemy import create_engine, insert, inspect, select, text

from captau.server.collect.simulated_browser import join_study
from captau.server.collect.store.tables import SCHEMA, raters, site_settings
from captau.server.storage import database as database_module
from captau.server.storage.database import Database, StoreError, parse_database_url
from tests.conftest import says
from tests.server.collect.conftest import make_site, serve_site
from tests.server.collect.first_tables import create_first_tables
from tests.server.collect.store.test_assignment import check_same_play
from tests.server.collect.visitors import load_rows
from tests.server.postgresql import PROGRAM_FOLDERS, create_database, postgresql, postgresql_url

__all__ = ["postgresql", "postgresql_url"]  # the fixtures
pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(not PROGRAM_FOLDERS, reason="no PostgreSQL server is installed"),
]
RATER = {"joined_at": 0, "consented": "", "state": {}, "points": 0, "given": 0}


def test_concurrent_raters_each_answer_once(postgresql_url, tmp_path):
    n_raters = 12
    site = make_site(tmp_path, "good_bad", database=postgresql_url, ratings=n_raters)
    faults = []
    with serve_site(site) as url:

        def rate():
            try:
                browser = join_study(url)
                while "key" in (page := browser.get("/rate")).hidden:
                    fields = {**page.hidden, "answer": "good"}
                    for _ in range(2):  # and once more, as after a lost connection
                        assert browser.post("/rate", fields).status == 200
            except Exception as error:
                faults.append(error)

        threads = [threading.Thread(target=rate) for _ in range(n_raters)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        tables = load_rows(site)
        assert {u["given"] for u in tables["units"]} == {n_raters}
        counts = Counter((a["rater"], a["item"]) for a in tables["answers"])
        assert set(counts.values()) == {1}
        assert len(counts) == n_raters * 18
        with says("another captau collect is using it"):
            Database(postgresql_url, SCHEMA)
        # A reader disturbs nobody, and can change nothing.
        reader = Database(postgresql_url, SCHEMA, read_only=True)
        assert len(reader.run_blocking(site.store.load_rows)["answers"]) == n_raters * 18
        with pytest.raises(StoreError, match="read-only"):
            reader.run_blocking(lambda c: c.execute(insert(site_settings).values(key="k")) and None)
        reader.close()
    # Opened again it is as it was.
    reopened = make_site(tmp_path, database=postgresql_url)
    assert len(load_rows(reopened)["answers"]) == n_raters * 18
    reopened.store.database.close()


def test_a_failing_change_fails_alone(postgresql_url):
    """Changes are sent without waiting; what PostgreSQL says of one is told to whoever asked for it."""
    database = Database(create_database(postgresql_url, "queued"), SCHEMA)
    may_continue, results = threading.Event(), []

    def insert_setting(key):
        return lambda c: c.execute(insert(site_settings).values(key=key, value="x")) and None

    def load_keys(c):
        return set(c.execute(select(site_settings.c.key)).scalars())

    async def run_jobs():
        blocker = asyncio.create_task(database.run(lambda c: may_continue.wait() and None))
        await asyncio.sleep(0.05)
        jobs = [asyncio.create_task(database.run(insert_setting(str(k % 9)))) for k in range(10)]
        reader = asyncio.create_task(database.run(load_keys))
        may_continue.set()
        results.extend(await asyncio.gather(blocker, *jobs, reader, return_exceptions=True))

    asyncio.run(run_jobs())
    assert results[1:10] == [None] * 9
    assert isinstance(results[10], StoreError)
    assert "duplicate key" in str(results[10])
    assert results[11] == set("012345678")
    # A rater's number is asked for, which is rows of a change.
    assert (
        database.run_blocking(
            lambda c: c.execute(insert(raters).values(RATER)).inserted_primary_key[0]
        )
        == 1
    )
    # The connection is cut: that is told, and what comes next has one again.
    with pytest.raises(StoreError):
        database.run_blocking(
            lambda c: c.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        )
    assert database.run_blocking(load_keys) == set("012345678")
    database.run_blocking(insert_setting("after"))
    database.close()


def test_the_lock_of_a_server_that_was_just_killed_is_waited_for(postgresql_url):
    """PostgreSQL finishes the statement at which the server was killed before it gives the lock back."""
    url = create_database(postgresql_url, "killed")
    engine = create_engine(parse_database_url(url))
    with engine.connect() as killed:
        killed.execute(text(f"SELECT pg_advisory_lock({database_module._ADVISORY_LOCK})"))
        release = threading.Timer(0.5, killed.invalidate)
        release.start()
        Database(url, SCHEMA).close()
        release.join()
    engine.dispose()


@pytest.mark.parametrize("protocol", ["good_bad", "game"])
def test_concurrent_and_sequential_raters_get_the_same(
    postgresql_url, tmp_path, protocol, monkeypatch
):
    databases = [
        create_database(postgresql_url, f"{name}_{protocol}") for name in ("one_by_one", "at_once")
    ]
    check_same_play(tmp_path, protocol, databases, monkeypatch)


def test_older_tables_are_copied_and_migrated(postgresql_url):
    url = create_database(postgresql_url, "older")
    engine = create_engine(parse_database_url(url))

    def recreate_first_version():
        """As the first version had it."""
        with engine.begin() as c:
            c.exec_driver_sql("DROP SCHEMA public CASCADE")
            c.exec_driver_sql("CREATE SCHEMA public")
            create_first_tables(c)
            c.execute(insert(site_settings).values(key="kept", value="yes"))

    recreate_first_version()
    notes = []
    database = Database(url, SCHEMA, notes.append)
    with says("another captau collect is using it"):  # before it would copy anything
        Database(url, SCHEMA, notes.append)
    database.close()
    assert len(notes) == 1
    assert (
        "tables 0001 → 0003; a copy of them as they were is the schema captau_backup_0001"
        in notes[0]
    )
    with engine.connect() as c:
        assert c.execute(text("SELECT value FROM captau_backup_0001.meta")).all() == [("yes",)]
    # A copy that is there stays; and where a step fails, there is neither.
    recreate_first_version()
    with engine.begin() as c:
        c.exec_driver_sql("CREATE VIEW resolutions AS SELECT 1 AS x")
    with says("resolutions", "is not a table"):
        Database(url, SCHEMA, notes.append)
    assert "captau_backup_0001_2" not in inspect(engine).get_schema_names()
    with engine.begin() as c:
        c.exec_driver_sql("DROP VIEW resolutions")
    Database(url, SCHEMA, notes.append).close()
    assert "captau_backup_0001_2" in inspect(engine).get_schema_names()
    engine.dispose()


def test_messages_hide_the_password():
    with says("postgresql", "***@127.0.0.1"):
        Database("postgresql://somebody:secret@127.0.0.1:1/x", SCHEMA)
