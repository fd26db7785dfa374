"""`captau collect` as it is typed: served until it is stopped, and its errors."""

from __future__ import annotations

import signal
import subprocess
import sys

from captau.server.collect.simulated_browser import join_study
from captau.server.collect.store.tables import SCHEMA
from captau.server.storage.database import Database
from tests.server.collect.conftest import make_site, serve_site, write_study

MAIN = "from captau.benchmarks.cli.main import main; main()"


def test_the_command_serves_until_it_is_stopped_and_resumes(tmp_path):
    path = write_study(tmp_path, "good_bad")
    arguments = ["collect", f"study={path}", "port=0", "database=kept/here.sqlite3"]
    server = subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = [server.stdout.readline() for _ in range(3)]
    assert lines[0].startswith("A small study: http://127.0.0.1:")
    assert lines[1] == "18 to judge, kept in kept/here.sqlite3\n"
    assert "/admin/setup?code=" in lines[2]
    url = lines[0].split(": ")[1].strip().rstrip("/")
    browser = join_study(url)
    browser.post("/rate", {**browser.get("/rate").hidden, "answer": "good"})
    server.send_signal(signal.SIGINT)
    _, stderr = server.communicate(timeout=60)
    assert server.returncode in (0, 130)
    assert "captau: stopped" in stderr
    assert "Traceback" not in stderr
    site = make_site(tmp_path, database=tmp_path / "kept" / "here.sqlite3")
    assert len(site.store.database.run_blocking(site.store.load_rows)["answers"]) == 1
    site.store.database.close()


def test_answers_are_exported_while_the_site_runs(captau, tmp_path):
    path = write_study(tmp_path, "good_bad")
    site = make_site(tmp_path, database=tmp_path / "small.sqlite3")
    arguments = ("collect", "export", f"study={path}", "database=small.sqlite3")
    with serve_site(site) as url:
        browser = join_study(url)
        for number in (1, 2):
            browser.post("/rate", {**browser.get("/rate").hidden, "answer": "good"})
            status, _, fault = captau(*arguments, f"output_dir=gathered{number}")
            assert status == 0, fault
            rows = (tmp_path / f"gathered{number}" / "ratings.csv").read_text().splitlines()
            assert len(rows) == 1 + number
        status, _, fault = captau("collect", f"study={path}", "database=small.sqlite3", "port=0")
        assert (status, "another captau collect is using it" in fault) == (2, True)


def test_an_export_needs_a_study_in_the_database(captau, tmp_path):
    path = write_study(tmp_path, "good_bad")
    Database(str(tmp_path / "empty.sqlite3"), SCHEMA).close()
    status, _, fault = captau("collect", "export", f"study={path}", "database=empty.sqlite3")
    assert (status, "it holds no study yet" in fault) == (2, True)


def test_a_missing_extra_is_reported_in_one_line(tmp_path):
    path = write_study(tmp_path, "good_bad")
    program = f"import sys; sys.modules['fastapi'] = None; {MAIN}"
    process = subprocess.run(
        [sys.executable, "-c", program, "collect", f"study={path}", "port=0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert process.stderr == "captau: fastapi is not installed: pip install 'captau[server]'\n"
