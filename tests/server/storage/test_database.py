"""The database: one writer, and faults that are told."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import MetaData, insert, select
from sqlalchemy.exc import OperationalError

from captau.server.challenge.tables import SCHEMA as CHALLENGE_SCHEMA
from captau.server.collect.simulated_browser import join_study
from captau.server.collect.store.tables import SCHEMA, site_settings
from captau.server.storage import database as database_module
from captau.server.storage.database import (
    BusyError,
    Database,
    StoreError,
    blocking_transaction,
    open_engine,
    opening_errors,
    transaction,
)
from captau.server.storage.site_settings import (
    delete_setting,
    get_setting,
    put_setting,
    settings_table,
    settings_with_prefix,
)
from captau.server.web.listener import listen
from captau.server.web.sessions import MEMBER_AGE, Session, Sessions
from tests.conftest import says
from tests.server.collect.conftest import make_site, serve_site, write_study


def put(key, value="x"):
    return lambda c: c.execute(insert(site_settings).values(key=key, value=value)) and None


def keys(database):
    return set(
        database.run_blocking(lambda c: c.execute(select(site_settings.c.key)).scalars().all())
    )


def test_a_new_database_is_made_in_new_folders_without_a_copy_or_a_word(tmp_path):
    reports = []
    path = tmp_path / "one" / "two" / "x.sqlite3"
    Database(path, SCHEMA, reports.append).close()
    assert reports == []
    assert sorted(file.name for file in path.parent.iterdir()) == ["x.sqlite3", "x.sqlite3.lock"]


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "x.sqlite3", SCHEMA)
    yield opened
    opened.close()


def test_jobs_run_in_order_and_a_failing_job_fails_alone(database):
    may_continue, results = threading.Event(), []

    async def run_jobs():
        blocker = asyncio.create_task(database.run(lambda c: may_continue.wait() and None))
        await asyncio.sleep(0.05)
        jobs = [asyncio.create_task(database.run(put(str(k)))) for k in range(20)]
        duplicate = asyncio.create_task(database.run(put("7")))
        await asyncio.sleep(0.05)
        may_continue.set()
        results.extend(await asyncio.gather(blocker, *jobs, duplicate, return_exceptions=True))

    asyncio.run(run_jobs())
    assert results[:-1] == [None] * 21
    assert isinstance(results[-1], StoreError)
    assert keys(database) == {str(k) for k in range(20)}


def test_a_cancelled_job_does_not_stop_others(database):
    may_continue = threading.Event()

    async def run_jobs():
        running = asyncio.create_task(database.run(lambda c: may_continue.wait() and None))
        await asyncio.sleep(0.05)
        queued = asyncio.create_task(database.run(put("gone")))
        await asyncio.sleep(0.05)
        running.cancel()  # at work already
        queued.cancel()  # queued yet
        await asyncio.sleep(0.05)  # the loop tells what it cancelled only when it is its turn
        may_continue.set()
        await asyncio.gather(running, queued, return_exceptions=True)
        await asyncio.wait_for(database.run(put("next")), 10)

    asyncio.run(run_jobs())
    assert keys(database) == {"next"}


def test_acknowledged_changes_are_on_the_disk(database, tmp_path):
    for k in range(5):
        database.run_blocking(put(str(k)))
        with sqlite3.connect(tmp_path / "x.sqlite3") as reader:
            assert reader.execute("SELECT count(*) FROM meta").fetchone() == (k + 1,)
        reader.close()


def test_a_database_has_one_server_at_a_time(database, tmp_path):
    with says("x.sqlite3", "another captau collect is using it"):
        Database(tmp_path / "x.sqlite3", SCHEMA)


def test_a_reader_sees_what_is_committed_and_stops_nobody(database, tmp_path):
    database.run_blocking(put("first"))
    is_changing, may_commit = threading.Event(), threading.Event()

    def change(c):
        put("second")(c)
        is_changing.set()
        may_commit.wait()

    reader = Database(tmp_path / "x.sqlite3", SCHEMA, read_only=True)
    writer = threading.Thread(target=database.run_blocking, args=(change,))
    writer.start()
    is_changing.wait()
    assert keys(reader) == {"first"}
    with pytest.raises(StoreError, match="readonly"):
        reader.run_blocking(put("third"))
    may_commit.set()
    writer.join()
    assert keys(reader) == {"first", "second"}
    reader.close()


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path):
    site = make_site(tmp_path, "good_bad", ratings=20)
    run = site.store.database.run_blocking
    with serve_site(site) as url:
        browsers = [join_study(url) for _ in range(6)]
        # As full as it can be: SQLite gets no page more.
        pages = run(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        run(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar_one())
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
        run(lambda c: c.exec_driver_sql("PRAGMA max_page_count=1000000").scalar_one())
        page = browser.get("/rate")
        assert browser.post("/rate", {**page.hidden, "answer": "good"}).status == 200
        assert len(run(site.store.load_rows)["answers"]) == acknowledged + 1


def test_a_database_that_another_program_has_locked_is_busy_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "_BUSY_MILLISECONDS", 50)
    site = make_site(tmp_path, "good_bad", ratings=20)
    with serve_site(site) as url:
        browser = join_study(url)
        page = browser.get("/rate")
        path = site.store.database.path
        with sqlite3.connect(path, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            busy = browser.post("/rate", {**page.hidden, "answer": "good"}, follow=False)
            other.execute("ROLLBACK")
        other.close()
        assert (busy.status, "Wait a few seconds" in busy.text) == (503, True)
        assert browser.post("/rate", {**page.hidden, "answer": "good"}).status == 200
        assert len(site.store.database.run_blocking(site.store.load_rows)["answers"]) == 1


def test_a_database_of_other_tables_is_not_changed(tmp_path):
    path = tmp_path / "new.sqlite3"
    Database(path, SCHEMA).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    before = path.read_bytes()
    for is_only_read in (False, True):
        with says("new.sqlite3", "another version of captau", "revision 9999, not 1"):
            Database(path, SCHEMA, read_only=is_only_read)
    assert path.read_bytes() == before
    Database(tmp_path / "challenge.sqlite3", CHALLENGE_SCHEMA).close()
    with says("challenge.sqlite3", "it is not a database of captau collect"):
        Database(tmp_path / "challenge.sqlite3", SCHEMA)
    with sqlite3.connect(tmp_path / "other.sqlite3") as connection:
        connection.execute("CREATE TABLE recipes (x)")
    connection.close()
    with says("other.sqlite3", "it is not a database of captau collect; name another"):
        Database(tmp_path / "other.sqlite3", SCHEMA)
    (tmp_path / "text.sqlite3").write_text(
        "this is a text, not a database, and long enough to say so" * 9
    )
    with says("text.sqlite3", "not a database"):
        Database(tmp_path / "text.sqlite3", SCHEMA)


@pytest.mark.parametrize("command", ["collect study=demo_game", "serve challenge=demo"])
def test_the_address_of_a_database_server_is_refused_without_its_password(captau, command):
    status, _, error = captau(*command.split(), "database=postgresql://ann:secret@h/x")
    assert status == 2
    assert "database=postgresql://…: the path of a file is expected" in error
    assert "secret" not in error


def test_a_database_of_a_changed_or_different_study_is_refused(tmp_path):
    make_site(tmp_path).store.database.close()
    write_study(tmp_path, ratings=9, title="Another title")  # this may change
    make_site(tmp_path).store.database.close()
    write_study(tmp_path, items={"limit": 9})
    with says("small.sqlite3", "not those it was started with"):
        make_site(tmp_path)
    write_study(tmp_path, name="other")
    with says("small.sqlite3", "it holds the study 'small'"):
        make_site(tmp_path)


def test_a_database_file_is_readable_only_by_its_owner(tmp_path):
    make_site(tmp_path).store.database.close()
    assert (tmp_path / "small.sqlite3").stat().st_mode & 0o077 == 0


def test_an_unusable_port_is_reported():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with says(f"port={port}", "in use", "port=0"):
            listen("127.0.0.1", port)
    for invalid_port in (99_999, 65_536, -1):
        with says(f"port={invalid_port}", "0 to 65535"):
            listen("127.0.0.1", invalid_port)
    with says("host=no.such.host.example"):
        listen("no.such.host.example", 0)


def test_sessions_survive_a_clock_that_is_put_back(machine_clock):
    sessions, now = Sessions(b"secret"), machine_clock[0]
    cookie = sessions.write(Session.new(3))
    for offset, is_valid in (
        (-86_400, True),
        (0, True),
        (MEMBER_AGE - 60, True),
        (MEMBER_AGE + 60, False),
    ):
        machine_clock[0] = now + offset
        assert (sessions.read(cookie, MEMBER_AGE) is not None) == is_valid
    assert Sessions(b"other").read(cookie, MEMBER_AGE) is None


def test_a_moved_study_uses_its_new_images_and_explanations(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    make_site(old).store.database.close()
    old.rename(new)
    path = new / "study.yaml"
    text = path.read_text(encoding="utf-8").replace("It says what", "A longer text, it says what")
    path.write_text(text, encoding="utf-8")
    store = make_site(new).store
    assert {str(new)} == {str(Path(u.image).parent) for u in store.units.values()}
    explanations = {u.explanation for u in store.units.values() if u.pool == "tutorial"}
    assert explanations == {"A longer text, it says what is there."}
    store.database.close()


def test_a_busy_database_is_told_from_a_full_one_by_the_first_line(database):
    """SQLite's codes 5 and 6 (its documentation), whose upper bits say more; other databases have none."""

    def fail_with(code, *parts):
        def fail(connection):
            error = sqlite3.OperationalError(*parts)
            if code is not None:
                error.sqlite_errorcode = code
            raise OperationalError("SELECT 1", {}, error)

        return fail

    for code, kind in (
        (5, BusyError),
        (6, BusyError),
        (261, BusyError),
        (13, StoreError),
        (None, StoreError),
    ):
        with pytest.raises(StoreError) as raised:
            database.run_blocking(fail_with(code, "\n the first\nthe second"))
        assert (type(raised.value), str(raised.value)) == (kind, "the first")
    with pytest.raises(KeyError):
        database.run_blocking(lambda c: put("lost")(c) or {}["x"])
    assert keys(database) == set()


def test_methods_are_transactions_with_their_own_name(database):
    class Owner:
        def __init__(self):
            self.database = database

        @transaction
        def write(self, connection, key, *, value):
            """Write."""
            return put(key, value)(connection) or (key, value)

        @blocking_transaction
        def read(self, connection, key):
            return connection.execute(select(site_settings.c.value).filter_by(key=key)).scalar()

    owner = Owner()
    assert asyncio.run(owner.write("a", value="1")) == ("a", "1")
    assert owner.read("a") == "1"
    assert (owner.write.__name__, owner.write.__doc__, owner.read.__name__) == (
        "write",
        "Write.",
        "read",
    )


def test_the_table_of_settings_has_a_text_by_a_short_key():
    table = settings_table(MetaData())
    columns = [(c.name, str(c.type), c.primary_key, c.nullable) for c in table.columns]
    assert (table.name, columns) == (
        "meta",
        [("key", "VARCHAR(64)", True, False), ("value", "TEXT", False, False)],
    )


def test_errors_of_opening_are_one_line():
    with says("x.sqlite3: the first"), opening_errors(Path("x.sqlite3")):
        raise OperationalError("SELECT 1", {}, sqlite3.OperationalError("the first\nsecond"))


def test_a_folder_that_cannot_be_made_is_reported_and_a_guest_takes_no_lock(database, tmp_path):
    (tmp_path / "file").write_text("")
    with says(f"{tmp_path}/file/x.sqlite3: "):
        Database(tmp_path / "file" / "x.sqlite3", SCHEMA)
    guest = Database(tmp_path / "x.sqlite3", SCHEMA, guest=True)
    guest.run_blocking(put("of the guest"))
    assert keys(database) == {"of the guest"}
    assert (guest.is_read_only, guest.path) == (False, tmp_path / "x.sqlite3")
    guest.close()
    with says(f"{tmp_path}/x.sqlite3: another captau collect is using it; stop that first"):
        Database(tmp_path / "x.sqlite3", SCHEMA)


def test_an_engine_of_sqlite_writes_through_and_keeps_foreign_keys(tmp_path):
    path = tmp_path / "deep" / "x.sqlite3"
    Database(path, SCHEMA).close()
    found = []
    for read_only in (False, True):
        engine = open_engine(path, read_only=read_only)
        with engine.connect() as connection:
            names = ("busy_timeout", "journal_mode", "foreign_keys", "query_only")
            found.append([connection.exec_driver_sql(f"PRAGMA {n}").scalar() for n in names])
            found[-1].append(connection.exec_driver_sql("PRAGMA synchronous").scalar())
        engine.dispose()
    assert found == [[3000, "wal", 1, 0, 2], [3000, "wal", 0, 1, 2]]


def test_settings_are_put_found_by_prefix_and_removed(database):
    def change(c):
        for key, value in (("a_b", "1"), ("a_c", "2"), ("axb", "3"), ("a_b", "4")):
            put_setting(c, key, value)
        found = settings_with_prefix(c, "a_")
        delete_setting(c, "a_b")
        return found, get_setting(c, "a_b"), get_setting(c, "a_c"), get_setting(c, "axb")

    assert database.run_blocking(change) == ({"a_b": "4", "a_c": "2"}, None, "2", "3")
