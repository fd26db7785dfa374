"""What other users of the machine can open of a site: nothing, while it runs and after somebody opened its files to them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from captau.benchmarks.options.sites import CollectOptions
from captau.server.collect.simulated_browser import join_study
from captau.server.collect.web.site import open_site as open_study_site
from captau.server.storage.private_files import (
    database_files,
    make_missing_folders,
    make_private_folder,
    private_umask,
    readable_by_others,
)
from captau.server.web.sessions import ADMIN_AGE, Session
from tests.server.challenge.conftest import ServeProcess
from tests.server.challenge.conftest import make_site as make_challenge_site
from tests.server.collect.conftest import make_site as make_study_site
from tests.server.collect.conftest import write_study

MAIN = "from captau.benchmarks.cli.main import main; main()"
#: Debian's user and group `nobody` and `nogroup`.
NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can act as another user"
)


@contextmanager
def everybody_may_read():
    """Let new files be everybody's to read, whoever runs the tests."""
    previous_umask = os.umask(0)
    try:
        yield
    finally:
        os.umask(previous_umask)


@pytest.fixture
def generous_umask():
    """Let new files be everybody's to read during a test."""
    with everybody_may_read():
        yield


@contextmanager
def folder_in_the_open():
    """Yield a folder that every user can reach and read; pytest's own ones are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="captau-site-"))
    folder.chmod(0o755)
    try:
        with everybody_may_read():
            yield folder
    finally:
        shutil.rmtree(folder)


def mode(path):
    """Return a file's permissions."""
    return stat.S_IMODE(path.stat().st_mode)


def readable_as_nobody(folder):
    """Return what another user can read or enter below a folder."""
    find = ["find", folder, "-mindepth", "1", "-readable"]
    walk = subprocess.run(
        find,
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    return {Path(line).relative_to(folder).as_posix() for line in walk.stdout.splitlines()}


def open_to_others(folder):
    """Return what the modes below a folder let others than the owner read, write or enter."""
    paths = {path for path in folder.rglob("*") if mode(path) & 0o077}
    return {path.relative_to(folder).as_posix() for path in paths}


@pytest.fixture(scope="module")
def running_study():
    """Start `captau collect`, give an answer, and yield the folder while the site runs."""
    with folder_in_the_open() as folder:
        (folder / "study").mkdir()
        (folder / "kept").mkdir()
        path = write_study(folder / "study", "good_bad")
        words = ["collect", f"study={path}", "port=0", "database=kept/a.sqlite3"]
        server = subprocess.Popen(
            [sys.executable, "-c", MAIN, *words], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        try:
            url = server.stdout.readline().split(": ")[1].strip().rstrip("/")
            browser = join_study(url)
            browser.post("/rate", {**browser.get("/rate").hidden, "answer": "good"})
            shutil.rmtree(folder / "study")  # the study's own files are its author's to show
            yield folder
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)


@pytest.fixture(scope="module")
def running_challenges():
    """Start `captau serve`, wait until a worker has checked a submission, and yield the folder while the site runs."""
    with folder_in_the_open() as folder:
        (folder / "kept").mkdir()
        server = ServeProcess(folder, "challenge=demo", "database=kept/a.sqlite3")
        try:
            server.log.unlink()  # the shell's, which made it before the site began
            end = time.monotonic() + 300
            while not list(folder.glob("kept/a/*/captions.jsonl")):
                assert time.monotonic() < end
                time.sleep(0.1)
            yield folder
        finally:
            server.stop()


#: SQLite's files of a running site, of which those beside the first were everybody's to read.
FILES = {"a.sqlite3", "a.sqlite3-wal", "a.sqlite3-shm", "a.sqlite3.lock"}


@pytest.mark.parametrize(
    "site", ["running_study", pytest.param("running_challenges", marks=pytest.mark.slow)]
)
def test_no_mode_of_a_running_site_lets_others_in(site, request):
    folder = request.getfixturevalue(site)
    assert {path.name for path in (folder / "kept").iterdir() if path.is_file()} == FILES
    assert open_to_others(folder) == {"kept"}  # which was there before


@needs_root
@pytest.mark.parametrize(
    "site",
    ["running_study", pytest.param("running_challenges", marks=pytest.mark.slow)],
)
def test_another_user_can_open_nothing_of_a_running_site(site, request):
    folder = request.getfixturevalue(site)
    (folder / "seen.txt").touch()  # so that the walk is known to see what can be seen
    assert readable_as_nobody(folder) == {"kept", "seen.txt"}


def test_folders_that_a_site_makes_are_its_users_alone(tmp_path, generous_umask):
    make_missing_folders(tmp_path / "one" / "two")
    make_missing_folders(tmp_path / "one" / "two" / "three")
    assert [mode(tmp_path / name) for name in ("one", "one/two", "one/two/three")] == [0o700] * 3
    (tmp_path / "shared").mkdir()
    make_missing_folders(tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o777  # somebody else's to decide
    make_private_folder(tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_missing_folders(tmp_path / "file")


def test_the_folders_of_sites_that_no_option_names_are_closed_again(
    tmp_path, monkeypatch, generous_umask
):
    monkeypatch.chdir(tmp_path)
    for name in ("collected", "challenges"):
        (tmp_path / name).mkdir()  # for everybody to read
    study = open_study_site(CollectOptions(study=str(write_study(tmp_path, "good_bad"))))
    study.store.database.close()
    (tmp_path / "study.yaml").unlink()
    challenge = make_challenge_site(tmp_path, ["captions"], database=None, files=None)
    challenge.store.database.close()
    assert (mode(tmp_path / "collected"), mode(tmp_path / "challenges")) == (0o700, 0o700)
    assert mode(tmp_path / "challenges" / "small_captions") == 0o700


def test_the_umask_is_private_for_as_long_as_a_site_runs(tmp_path, generous_umask):
    with private_umask():
        (tmp_path / "inside").touch()
    (tmp_path / "outside").touch()
    assert (mode(tmp_path / "inside"), mode(tmp_path / "outside")) == (0o600, 0o666)


def test_a_database_has_sidecars_and_no_other_file(tmp_path):
    names = ("a.sqlite3", "a.sqlite3-wal", "a.sqlite3-shm", "a.sqlite3-journal", "a.sqlite3.lock")
    for name in (*names, "b.sqlite3", "a.sqlite3.txt"):
        (tmp_path / name).touch(mode=0o600)
    files = database_files(tmp_path / "a.sqlite3")
    assert [file.name for file in files] == list(names)
    assert readable_by_others(files) == []
    (tmp_path / "a.sqlite3-wal").chmod(0o640)
    (tmp_path / "a.sqlite3-shm").chmod(0o604)
    (tmp_path / "a.sqlite3.lock").chmod(0o622)  # others can write, and learn nothing
    exposed_files = readable_by_others(files)
    assert [file.name for file in exposed_files] == ["a.sqlite3-wal", "a.sqlite3-shm"]


def open_study(folder):
    """Open the site of a study, and return it."""
    return make_study_site(folder, "good_bad", database=folder / "a.sqlite3")


def open_challenge(folder):
    """Open the site of a challenge, and return it."""
    return make_challenge_site(folder, ["captions"], database=folder / "a.sqlite3")


def read_settings(folder):
    """Return the settings that a site stores, by key."""
    connection = sqlite3.connect(folder / "a.sqlite3")
    settings = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    connection.close()
    return settings


@pytest.mark.parametrize("open_site", [open_study, open_challenge])
@pytest.mark.parametrize("ending", ["", "-wal", ".lock"])
def test_a_secret_that_others_could_read_is_made_anew_once(
    open_site, ending, tmp_path, capsys, caplog
):
    site = open_site(tmp_path)
    cookie = site.sessions.write(Session.new(1, admin=True))
    site.store.database.close()
    first_settings = read_settings(tmp_path)
    exposed_file = tmp_path / f"a.sqlite3{ending}"
    exposed_file.touch()
    exposed_file.chmod(0o644)
    as_it_was = (tmp_path / "a.sqlite3").open("rb")  # by somebody who waits for the new secret
    capsys.readouterr()

    site = open_site(tmp_path)
    settings = read_settings(tmp_path)
    assert site.sessions.read(cookie, ADMIN_AGE) is None
    assert bytes.fromhex(settings["secret"]) == site.store.secret
    assert settings["secret"] != first_settings["secret"]
    assert settings == {
        **first_settings,
        "secret": settings["secret"],
        "first_secret": first_settings["secret"],
    }
    assert settings["secret"].encode() not in as_it_was.read()
    as_it_was.close()
    messages = [*capsys.readouterr().err.splitlines(), *caplog.messages]
    expected_message = (
        f"{tmp_path}/a.sqlite3: other users of this machine could open a.sqlite3{ending}; now they cannot, "
        f"and the site's secret was made anew, so that everybody has to sign in or join again"
    )
    # Where a test before has set up the program's log, the message stands on standard error as well.
    texts = {message.removeprefix("captau: ").removeprefix("warning: ") for message in messages}
    assert texts == {expected_message}
    assert not [path for path in database_files(tmp_path / "a.sqlite3") if mode(path) & 0o077]
    assert not list(tmp_path.glob("*.private*"))

    cookie = site.sessions.write(Session.new(1, admin=True))
    site.store.database.close()
    site = open_site(tmp_path)
    assert site.sessions.read(cookie, ADMIN_AGE) is not None
    assert [*capsys.readouterr().err.splitlines(), *caplog.messages[1:]] == []
    site.store.database.close()


def test_codes_of_raters_outlive_a_secret_that_is_made_anew(tmp_path):
    site = open_study(tmp_path)
    codes = [site.store.rater_code(7), site.store.completion_code(7)]
    site.store.database.close()
    for _ in range(2):
        (tmp_path / "a.sqlite3").chmod(0o644)
        site = open_study(tmp_path)
        assert [site.store.rater_code(7), site.store.completion_code(7)] == codes
        site.store.database.close()


def test_a_start_that_fails_leaves_the_new_secret_to_the_next(tmp_path):
    site = open_study(tmp_path)
    site.store.database.close()
    secret = read_settings(tmp_path)["secret"]
    (tmp_path / "a.sqlite3").chmod(0o644)
    (tmp_path / "a.sqlite3.private").mkdir()  # where the private copy would be
    with pytest.raises(Exception, match="it cannot be copied to a private file"):
        open_study(tmp_path)
    assert (mode(tmp_path / "a.sqlite3"), read_settings(tmp_path)["secret"]) == (0o644, secret)
    (tmp_path / "a.sqlite3.private").rmdir()
    site = open_study(tmp_path)
    assert read_settings(tmp_path)["secret"] != secret
    site.store.database.close()


def test_a_file_system_without_permissions_is_told_and_no_session_ends(
    tmp_path, monkeypatch, capsys
):
    site = open_study(tmp_path)
    site.store.database.close()
    settings = read_settings(tmp_path)
    # As on a disk of Windows: every file is everybody's, whatever is asked for.
    monkeypatch.setattr(Path, "stat", _everybodys(Path.stat))
    open_study(tmp_path).store.database.close()
    assert read_settings(tmp_path) == settings
    assert "its file system keeps no permissions" in capsys.readouterr().err


def _everybodys(stat_of):
    """Return `Path.stat` as a file system without permissions answers it."""

    def answer(path, **options):
        found = list(stat_of(path, **options))
        found[0] |= 0o777
        return os.stat_result(found)

    return answer
