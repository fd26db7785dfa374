"""The same site on PostgreSQL, a server of Debian's packages that the test starts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest

from captau.server.collect.migrations import FOLDER
from captau.server.collect.simulate import joined
from captau.server.database import Database
from tests.conftest import says
from tests.server.collect.conftest import make_site, running
from tests.server.collect.test_site import rows

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
pytestmark = pytest.mark.skipif(not PROGRAMS, reason="no PostgreSQL server is installed")


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
                browser = joined(url)
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


def test_a_password_is_not_shown():
    with says("postgresql", "***@127.0.0.1"):
        Database("postgresql://somebody:secret@127.0.0.1:1/x", FOLDER, "captau collect")
