"""Backups of a site's database, made while the site runs."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys

import pytest
from sqlalchemy import insert, select

from captau.benchmarks.options.sites import CollectOptions, ServeOptions
from captau.server.challenge.commands import serve
from captau.server.challenge.tables import SCHEMA as CHALLENGE_SCHEMA
from captau.server.collect.commands import collect
from captau.server.collect.store.tables import SCHEMA, events
from captau.server.storage.backup import back_up
from captau.server.storage.database import Database
from tests.conftest import says
from tests.server.challenge.conftest import serve_options, write_challenge
from tests.server.collect.conftest import make_site


@pytest.fixture
def site(tmp_path):
    """Yield the running site of a study, with an event that stands in SQLite's write-ahead log alone."""
    site = make_site(tmp_path)
    row = {"at": 1.0, "action": "exclude", "rater": None, "why": "a reason"}
    site.store.database.run_blocking(lambda c: c.execute(insert(events).values(row)) and None)
    yield site
    site.store.database.close()


def test_a_running_study_is_backed_up_whole_to_one_private_file(site, tmp_path, capsys):
    options = CollectOptions(
        study=str(tmp_path / "study.yaml"),
        database=tmp_path / "small.sqlite3",
        backup=tmp_path / "kept.sqlite3",
    )
    assert collect(options) == 0
    assert capsys.readouterr().out == f"{options.database}: copied to {options.backup}\n"

    files = sorted(path.name for path in tmp_path.glob("*kept*"))
    assert files == ["kept.sqlite3"]
    assert stat.S_IMODE(options.backup.stat().st_mode) == 0o600

    # The copy of the file alone lacks what the running site keeps beside it.
    copy = Database(options.backup, SCHEMA)
    reasons = copy.run_blocking(lambda c: c.execute(select(events.c.why)).scalars().all())
    assert reasons == ["a reason"]
    copy.close()


def test_a_challenge_s_backup_names_the_folder_of_submissions(tmp_path, capsys):
    write_challenge(tmp_path)
    options = serve_options(tmp_path)
    Database(options.database, CHALLENGE_SCHEMA).close()
    backup = tmp_path / "kept.sqlite3"
    assert serve(ServeOptions(**{**vars(options), "backup": backup})) == 0
    assert str(tmp_path / "files") in capsys.readouterr().out
    Database(backup, CHALLENGE_SCHEMA).close()


def test_a_backup_is_refused_and_leaves_nothing(site, tmp_path):
    database = tmp_path / "small.sqlite3"
    target = tmp_path / "kept.sqlite3"

    missing = tmp_path / "none.sqlite3"
    with says(f"{missing}: no such database; name the site's with database=FILE"):
        back_up(missing, SCHEMA, target)

    with says(f"{database}: it is not a database of captau serve; name another"):
        back_up(database, CHALLENGE_SCHEMA, target)

    nowhere = tmp_path / "no" / "folder.sqlite3"
    with says(f"{database}: it cannot be copied to {nowhere} (No such file or directory)"):
        back_up(database, SCHEMA, nowhere)

    assert not list(tmp_path.glob("*kept*"))
    shutil.copy(database, target)
    with says(f"backup={target}: it is there already; name a new file"):
        back_up(database, SCHEMA, target)


def test_a_backup_removes_what_killed_ones_left(site, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder = tmp_path / "backups"
    folder.mkdir()
    for name in ("kept.sqlite3", "other.sqlite3"):
        for ending in ("", "-wal", "-journal"):
            (folder / f".{name}.{ended.pid}.tmp{ending}").write_bytes(b"half")
    (folder / f".kept.sqlite3.{os.getppid()}.tmp").write_bytes(b"of a process that is at work")

    back_up(tmp_path / "small.sqlite3", SCHEMA, folder / "kept.sqlite3")
    left = sorted(path.name for path in folder.iterdir() if f".{ended.pid}." not in path.name)
    assert left == [f".kept.sqlite3.{os.getppid()}.tmp", "kept.sqlite3"]
    others = [path.name for path in folder.glob(f".*.{ended.pid}.*")]
    assert len(others) == 3
    assert all("other" in name for name in others)


def test_a_damaged_database_is_no_backup(site, tmp_path):
    back_up(tmp_path / "small.sqlite3", SCHEMA, tmp_path / "whole.sqlite3")
    content = bytearray((tmp_path / "whole.sqlite3").read_bytes())
    # Pages from the third on; the first has the header and the tables' definitions.
    content[3 * 4096 : 6 * 4096] = bytes(3 * 4096)
    damaged = tmp_path / "damaged.sqlite3"
    damaged.write_bytes(content)
    with pytest.raises(Exception, match=r"damaged|malformed"):
        back_up(damaged, SCHEMA, tmp_path / "kept.sqlite3")
    assert not (tmp_path / "kept.sqlite3").exists()
