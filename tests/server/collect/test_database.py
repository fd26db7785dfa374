"""The database: one writer, one commit for many, older ones brought up to date, faults told."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, insert, inspect, select

from captau.server.collect import migrations
from captau.server.collect.migrations import FOLDER
from captau.server.collect.simulation.browser import join_study
from captau.server.collect.store.tables import metadata, site_settings
from captau.server.storage.clock import Clock
from captau.server.storage.database import Database, StoreError
from captau.server.storage.database_url import parse_database_url
from captau.server.web.listener import listen
from captau.server.web.sessions import MEMBER_AGE, Session, Sessions
from tests.conftest import says
from tests.server.collect.conftest import make_site, running, write_study


def put(key, value="x"):
    return lambda c: c.execute(insert(site_settings).values(key=key, value=value)) and None


def keys(database):
    return set(
        database.run_blocking(lambda c: c.execute(select(site_settings.c.key)).scalars().all())
    )


@pytest.fixture
def database(tmp_path):
    opened = Database(str(tmp_path / "x.sqlite3"), FOLDER, "captau collect")
    yield opened
    opened.close()


def test_work_is_done_in_order_and_a_failure_fails_alone(database):
    hold, seen = threading.Event(), []

    async def many():
        first = asyncio.create_task(database.run(lambda c: hold.wait() and None))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(database.run(put(str(k)))) for k in range(20)]
        twice = asyncio.create_task(database.run(put("7")))
        await asyncio.sleep(0.05)
        hold.set()
        seen.extend(await asyncio.gather(first, *rest, twice, return_exceptions=True))

    asyncio.run(many())
    assert seen[:-1] == [None] * 21
    assert isinstance(seen[-1], StoreError)
    assert keys(database) == {str(k) for k in range(20)}


def test_what_many_ask_for_is_done_in_one_go(database):
    hold, calls = threading.Event(), []

    def each(c, asked):
        calls.append(dict(asked))
        rows = [{"key": str(k), "value": str(who)} for who, k in asked.items() if k is not None]
        c.execute(insert(site_settings), rows)
        return {who: ValueError("no") if k is None else who * k for who, k in asked.items()}

    async def many(*asked):
        first = asyncio.create_task(database.run(lambda c: hold.wait() and None))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(database.run_grouped(each, *a)) for a in asked]
        await asyncio.sleep(0.05)
        hold.set()
        return (await asyncio.gather(first, *rest, return_exceptions=True))[1:]

    # Who asks twice has the second one done after the first; who is refused, alone is.
    found = asyncio.run(many((1, 10), (2, None), (3, 30), (1, 11)))
    assert [str(f) for f in found] == ["10", "no", "90", "11"]
    assert calls == [{1: 10, 2: None, 3: 30}, {1: 11}]
    # What the database does not take fails alone, too.
    found = asyncio.run(many((5, 50), (6, 10), (7, 70)))
    assert [found[0], found[2]] == [250, 490]
    assert isinstance(found[1], StoreError)
    assert keys(database) == {"10", "11", "30", "50", "70"}


def test_whoever_goes_away_stops_nobody_else(database):
    hold = threading.Event()

    async def some():
        first = asyncio.create_task(database.run(lambda c: hold.wait() and None))
        await asyncio.sleep(0.05)
        gone = asyncio.create_task(database.run(put("gone")))
        await asyncio.sleep(0.05)
        first.cancel()  # at work already
        gone.cancel()  # queued yet
        await asyncio.sleep(0.05)  # the loop tells what it cancelled only when it is its turn
        hold.set()
        await asyncio.gather(first, gone, return_exceptions=True)
        await asyncio.wait_for(database.run(put("next")), 10)

    asyncio.run(some())
    assert keys(database) == {"next"}


def test_what_is_answered_is_on_the_disk(database, tmp_path):
    for k in range(5):
        database.run_blocking(put(str(k)))
        with sqlite3.connect(tmp_path / "x.sqlite3") as other:
            assert other.execute("SELECT count(*) FROM meta").fetchone() == (k + 1,)
        other.close()


def test_one_server_at_a_time(database, tmp_path):
    with says("x.sqlite3", "another captau collect is at work on it"):
        Database(str(tmp_path / "x.sqlite3"), FOLDER, "captau collect")


def test_a_full_disk_loses_nothing_and_is_told(tmp_path):
    site = make_site(tmp_path, "good_bad", ratings=20)
    do = site.store.database.run_blocking
    with running(site) as url:
        browsers = [join_study(url) for _ in range(6)]
        # As full as it can be: SQLite gets no page more.
        pages = do(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        do(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar_one())
        acknowledged = 0
        refused = None
        for browser in browsers * 18:
            page = browser.get("/rate")
            if page.status == 200:
                page = browser.post("/rate", {**page.hidden, "answer": "good"}, follow=False)
            acknowledged += page.status == 303
            if page.status not in (200, 303):
                refused = page
                break
        assert refused is not None
        assert refused.status == 507
        assert "full" in refused.heading
        do(lambda c: c.exec_driver_sql("PRAGMA max_page_count=1000000").scalar_one())
        page = browser.get("/rate")
        assert browser.post("/rate", {**page.hidden, "answer": "good"}).status == 200
        assert len(do(site.store.load_rows)["answers"]) == acknowledged + 1


def test_an_older_database_is_copied_then_brought_up_to_date(tmp_path):
    path = tmp_path / "old.sqlite3"
    engine = create_engine(f"sqlite:///{path}")
    config = Config()
    config.set_main_option("script_location", str(migrations.__path__[0]))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(insert(site_settings).values(key="kept", value="yes"))
    assert "resolutions" not in inspect(engine).get_table_names()
    engine.dispose()
    notes = []
    database = Database(str(path), FOLDER, "captau collect", notes.append)
    assert "kept" in keys(database)
    tables = database.run_blocking(lambda c: inspect(c).get_table_names())
    database.close()
    assert "resolutions" in tables
    copy = tmp_path / "old.sqlite3.0001.backup"
    assert str(copy) in notes[0]
    with sqlite3.connect(copy) as old:
        assert old.execute("SELECT value FROM meta").fetchall() == [("yes",)]
        names = {n for (n,) in old.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    old.close()
    assert "resolutions" not in names
    again = []
    Database(str(path), FOLDER, "captau collect", again.append).close()
    assert again == []


def test_the_steps_make_the_tables_of_the_models(database):
    """So that a change of a model without its step is found here."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    def differences(c):
        return compare_metadata(MigrationContext.configure(c), metadata)

    assert database.run_blocking(differences) == []


def test_a_newer_or_another_s_database_is_left_alone(tmp_path):
    path = tmp_path / "new.sqlite3"
    Database(str(path), FOLDER, "captau collect").close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    other.close()
    before = path.read_bytes()
    with says("new.sqlite3", "a newer captau"):
        Database(str(path), FOLDER, "captau collect")
    assert path.read_bytes() == before
    with sqlite3.connect(tmp_path / "other.sqlite3") as other:
        other.execute("CREATE TABLE recipes (x)")
    other.close()
    with says("other.sqlite3", "recipes", "name another"):
        Database(str(tmp_path / "other.sqlite3"), FOLDER, "captau collect")
    (tmp_path / "text.sqlite3").write_text(
        "this is a text, not a database, and long enough to say so" * 9
    )
    with says("text.sqlite3", "not a database"):
        Database(str(tmp_path / "text.sqlite3"), FOLDER, "captau collect")
    with says("database=mysql://", "postgresql://"):
        parse_database_url("mysql://nowhere.example/x")


def test_a_study_whose_items_changed_is_told(tmp_path):
    make_site(tmp_path).store.database.close()
    write_study(tmp_path, ratings=9, title="Another title")  # this may change
    make_site(tmp_path).store.database.close()
    write_study(tmp_path, items={"limit": 9})
    with says("small.sqlite3", "not those it was begun with"):
        make_site(tmp_path)
    write_study(tmp_path, name="other")
    with says("small.sqlite3", "it holds the study 'small'"):
        make_site(tmp_path)


def test_a_database_is_for_its_owner_s_eyes(tmp_path):
    make_site(tmp_path).store.database.close()
    assert (tmp_path / "small.sqlite3").stat().st_mode & 0o077 == 0


def test_a_port_in_use_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with says(f"port={port}", "in use", "port=0"):
            listen("127.0.0.1", port)
    for wrong in (99_999, 65_536, -1):
        with says(f"port={wrong}", "0 to 65535"):
            listen("127.0.0.1", wrong)
    with says("host=no.such.host.example"):
        listen("no.such.host.example", 0)


def test_the_clock_never_runs_backwards(monkeypatch):
    clock = Clock()
    before = clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= clock() <= before + 60
    assert Clock(earliest=before)() >= before  # a restart after the machine's clock was put back


def test_a_clock_that_is_put_back_ends_no_session(monkeypatch):
    sessions, now = Sessions(b"secret"), time.time()
    cookie = sessions.write(Session.new(3))
    for away, known in (
        (-86_400, True),
        (0, True),
        (MEMBER_AGE - 60, True),
        (MEMBER_AGE + 60, False),
    ):
        monkeypatch.setattr(time, "time", lambda away=away: now + away)
        assert (sessions.read(cookie, MEMBER_AGE) is not None) == known
    assert Sessions(b"other").read(cookie, MEMBER_AGE) is None


def test_a_study_that_moved_shows_its_images_and_newest_explanations(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    make_site(old).store.database.close()
    old.rename(new)
    path = new / "study.yaml"
    text = path.read_text(encoding="utf-8").replace("It says what", "A longer text, it says what")
    path.write_text(text, encoding="utf-8")
    store = make_site(new).store
    assert {str(new)} == {str(Path(u.image).parent) for u in store.units.values()}
    said = {u.explanation for u in store.units.values() if u.pool == "tutorial"}
    assert said == {"A longer text, it says what is there."}
    store.database.close()
