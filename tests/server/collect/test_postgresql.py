"""The same site on PostgreSQL, a server of Debian's packages that the test starts."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, insert, inspect, select, text

from captau.server.collect.migrations import FOLDER
from captau.server.collect.simulation.browser import join_study
from captau.server.collect.store.tables import raters, site_settings
from captau.server.storage.database import Database, StoreError
from captau.server.storage.database_url import parse_database_url
from tests.conftest import says
from tests.server.collect.conftest import make_site, running
from tests.server.collect.test_site import rows
from tests.server.collect.test_store import same_either_way

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
pytestmark = pytest.mark.skipif(not PROGRAMS, reason="no PostgreSQL server is installed")
RATER = {"joined_at": 0, "consented": "", "state": {}, "points": 0, "given": 0}


@pytest.fixture(scope="module")
def address():
    # Not in pytest's own folder, which other runs of it make root's alone; PostgreSQL is not run as root.
    folder = Path(tempfile.mkdtemp(prefix="captau-postgresql"))
    programs = PROGRAMS[-1]
    run: list[str] = []
    if os.geteuid() == 0:
        # Not on every user's path.
        runuser = shutil.which("runuser", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if runuser is None:
            pytest.skip("PostgreSQL is not run as root, and there is no runuser")
        run = [runuser, "-u", "postgres", "--"]
    if run:
        shutil.chown(folder, "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = str(folder / "data")
    made = subprocess.run(
        [*run, f"{programs}/initdb", "-D", data, "-U", "captau", "-A", "trust", "-N"],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert made.returncode == 0, made.stderr
    asked = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    control = [*run, f"{programs}/pg_ctl", "-D", data, "-w"]
    log = ["-l", str(folder / "log"), "-o", asked]
    subprocess.run([*control, *log, "start"], check=True, stdout=subprocess.DEVNULL, cwd="/")
    yield f"postgresql://captau@127.0.0.1:{port}/postgres"
    subprocess.run(
        [*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd="/"
    )
    shutil.rmtree(folder)


def test_many_raters_at_once_each_answer_once(address, tmp_path):
    raters = 12
    site = make_site(tmp_path, "good_bad", database=address, ratings=raters)
    faults = []
    with running(site) as url:

        def rate():
            try:
                browser = join_study(url)
                while "key" in (page := browser.get("/rate")).hidden:
                    sent = {**page.hidden, "answer": "good"}
                    for _ in range(2):  # and once more, as after a lost connection
                        assert browser.post("/rate", sent).status == 200
            except Exception as error:
                faults.append(error)

        threads = [threading.Thread(target=rate) for _ in range(raters)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        found = rows(site)
        assert {u["given"] for u in found["units"]} == {raters}
        given = Counter((a["rater"], a["item"]) for a in found["answers"])
        assert set(given.values()) == {1}
        assert len(given) == raters * 18
        with says("another captau collect is at work on it"):
            Database(address, FOLDER, "captau collect")
    # Opened again it is as it was.
    again = make_site(tmp_path, database=address)
    assert len(rows(again)["answers"]) == raters * 18
    again.store.database.close()


def made(address, name):
    """A fresh database of that name, on the same server."""
    engine = create_engine(parse_database_url(address), isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return f"{address.rpartition('/')[0]}/{name}"


def test_a_change_that_fails_fails_alone(address):
    """Changes are sent without waiting; what PostgreSQL says of one is told to whoever asked for it."""
    database = Database(made(address, "queued"), FOLDER, "captau collect")
    hold, seen = threading.Event(), []

    def put(key):
        return lambda c: c.execute(insert(site_settings).values(key=key, value="x")) and None

    def keys(c):
        return set(c.execute(select(site_settings.c.key)).scalars())

    async def many():
        first = asyncio.create_task(database.run(lambda c: hold.wait() and None))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(database.run(put(str(k % 9)))) for k in range(10)]
        between = asyncio.create_task(database.run(keys))
        hold.set()
        seen.extend(await asyncio.gather(first, *rest, between, return_exceptions=True))

    asyncio.run(many())
    assert seen[1:10] == [None] * 9
    assert isinstance(seen[10], StoreError)
    assert "duplicate key" in str(seen[10])
    assert seen[11] == set("012345678")
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
    assert database.run_blocking(keys) == set("012345678")
    database.run_blocking(put("after"))
    database.close()


@pytest.mark.parametrize("protocol", ["good_bad", "game"])
def test_at_once_or_one_by_one_is_the_same(address, tmp_path, protocol, monkeypatch):
    databases = [made(address, f"{name}_{protocol}") for name in ("one_by_one", "at_once")]
    same_either_way(tmp_path, protocol, databases, monkeypatch)


def test_older_tables_are_copied_then_brought_up_to_date(address):
    older = made(address, "older")
    engine = create_engine(parse_database_url(older))
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.set_main_option("path_separator", "os")

    def back():
        """As the first version had it."""
        with engine.begin() as c:
            config.attributes["connection"] = c
            c.exec_driver_sql("DROP SCHEMA public CASCADE")
            c.exec_driver_sql("CREATE SCHEMA public")
            command.upgrade(config, "0001")
            c.execute(insert(site_settings).values(key="kept", value="yes"))

    back()
    notes = []
    database = Database(older, FOLDER, "captau collect", notes.append)
    with says("another captau collect is at work"):  # before it would copy anything
        Database(older, FOLDER, "captau collect", notes.append)
    database.close()
    assert len(notes) == 1
    assert (
        "tables 0001 → 0002; a copy of them as they were is the schema captau_backup_0001"
        in notes[0]
    )
    found = inspect(engine)
    assert "resolutions" in found.get_table_names()
    assert "resolutions" not in found.get_table_names("captau_backup_0001")
    with engine.connect() as c:
        assert c.execute(text("SELECT value FROM captau_backup_0001.meta")).all() == [("yes",)]
    # A copy that is there stays; and where a step fails, there is neither.
    back()
    with engine.begin() as c:
        c.exec_driver_sql("CREATE TABLE resolutions (x int)")
    with says("resolutions", "already exists"):
        Database(older, FOLDER, "captau collect", notes.append)
    assert "captau_backup_0001_2" not in inspect(engine).get_schema_names()
    with engine.begin() as c:
        c.exec_driver_sql("DROP TABLE resolutions")
    Database(older, FOLDER, "captau collect", notes.append).close()
    assert "captau_backup_0001_2" in inspect(engine).get_schema_names()
    engine.dispose()


def test_a_password_is_not_shown():
    with says("postgresql", "***@127.0.0.1"):
        Database("postgresql://somebody:secret@127.0.0.1:1/x", FOLDER, "captau collect")
