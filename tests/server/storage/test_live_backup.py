"""A backup of a site under load, whose own calls fail or which is killed, while the site is killed as well: whole, or absent."""

from __future__ import annotations

import sqlite3
import sys
import threading
from http.client import HTTPException
from pathlib import Path

import pytest
from sqlalchemy import select

from captau.benchmarks.options.sites import CollectOptions
from captau.datasets.errors import InputError
from captau.server.collect.simulated_browser import join_study
from captau.server.collect.simulation import StudyServer
from captau.server.collect.store.tables import SCHEMA, answers, serves
from captau.server.storage.backup import back_up
from captau.server.storage.database import Database
from tests.benchmarks.runs.test_failing_calls import places
from tests.failing_calls import ERRORS, Outcome, Watch, run_function
from tests.server.collect.conftest import write_study

RATERS = 3
#: Every so many calls of a backup fail, and as many kill it; the site is killed after every so many backups.
STRIDE, KILL_SITE_EVERY = 7, 5


def copy_site(database: Path, backup: Path) -> int:
    """Make a backup, and return the exit status."""
    try:
        back_up(database, SCHEMA, backup)
    except InputError as error:
        print(f"captau: {error}", file=sys.stderr)
        return 2
    return 0


class StudyUnderLoad:
    """A study's server, which raters keep busy, and which may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        study = write_study(folder, "good_bad", ratings=1000)
        self.database = folder / "small.sqlite3"
        self.acknowledged: list[str] = []
        self._options = CollectOptions(study=str(study), database=self.database)
        self.start()

    def start(self) -> None:
        self._server = StudyServer(self._options)
        self._threads = [threading.Thread(target=self._rate) for _ in range(RATERS)]
        for thread in self._threads:
            thread.start()

    def _rate(self) -> None:
        """Join again and again, and answer until the server is gone."""
        try:
            while True:
                browser = join_study(self._server.url)
                while "key" in (page := browser.get("/rate")).hidden:
                    fields = {**page.hidden, "answer": "good"}
                    if browser.post("/rate", fields, follow=False).status == 303:
                        self.acknowledged.append(page.hidden["key"])
        except (OSError, HTTPException, RuntimeError, AssertionError):
            return  # killed

    def kill(self) -> None:
        self._server.kill()
        for thread in self._threads:
            thread.join()


def read_keys(backup: Path) -> set[str]:
    """Check a backup, and return the keys of its answers."""
    connection = sqlite3.connect(backup)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    copy = Database(backup, SCHEMA, read_only=True)
    query = select(serves.c.key).join(answers, answers.c.serve == serves.c.id)
    keys = set(copy.run_blocking(lambda c: c.execute(query).scalars().all()))
    copy.close()
    return keys


def back_up_once(study: StudyUnderLoad, watch: Watch) -> Outcome:
    """Make a backup, and check that it is absent, or whole with all that was acknowledged before it began."""
    backup = watch.folder / "kept.sqlite3"
    before = set(study.acknowledged)
    outcome = run_function(copy_site, (study.database, backup), watch)
    lines = [line for line in outcome.stderr if line]
    assert len(lines) == (outcome.status == 2), lines
    assert outcome.status in (-9, 0, 2), lines
    if outcome.status == 0:
        assert backup.exists()
    if backup.exists():
        assert before <= read_keys(backup), str(outcome.calls[-1])
        backup.unlink()
    return outcome


@pytest.mark.kill
def test_a_backup_of_a_site_under_load_is_whole_or_absent(tmp_path):
    study = StudyUnderLoad(tmp_path)
    folder = tmp_path / "backups"
    folder.mkdir()
    try:
        whole = back_up_once(study, Watch(folder))
        assert whole.status == 0, whole.stderr
        n_backups = 0
        for number in places(len(whole.calls), STRIDE):
            for error in (None, ERRORS[number % len(ERRORS)]):
                back_up_once(study, Watch(folder, number, error))
                n_backups += 1
            if n_backups % KILL_SITE_EVERY < 2:
                study.kill()
                back_up_once(study, Watch(folder, number + 1, None))
                study.start()
        assert back_up_once(study, Watch(folder)).status == 0
        assert list(folder.iterdir()) == [], "the last backup removed what killed ones left"
        assert len(study.acknowledged) > n_backups
        assert n_backups > 6
    finally:
        study.kill()
