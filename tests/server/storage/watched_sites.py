"""Both sites at work in a process whose calls on files are watched; what a visitor sees acknowledged is marked among the calls."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from argon2 import PasswordHasher
from sqlalchemy import select

from captau.datasets.errors import InputError
from captau.server.challenge import tables as challenge_tables
from captau.server.challenge.submission_files import (
    find_captions,
    find_upload,
    read_replicates,
    write_captions,
)
from captau.server.collect.simulated_browser import join_study
from captau.server.collect.store.tables import answers, serves
from captau.server.storage.database import BusyError, StoreError, opening_errors
from captau.server.web import passwords
from tests.failing_calls import Outcome, mark
from tests.server.challenge import visitors as challenge
from tests.server.collect import conftest as collect

#: What a site answers: done, no room.
_DONE, _NO_ROOM = 303, 507
RATERS, ROUNDS, MEMBERS = 2, 3, 2


def answer_study(folder: Path, files: Path) -> int:
    """Answer a study's questions, and return an exit status.

    Args:
        folder: of the database.
        files: the folder of the study.
    """

    def work() -> None:
        site = collect.make_site(files, "good_bad", folder / "small.sqlite3")
        try:
            with collect.serve_site(site) as url:
                _rate(url)
        finally:
            site.store.database.close()

    return _run_as_command(work)


def _rate(url: str) -> None:
    browsers = []
    for _ in range(RATERS):
        with _may_fail():
            browsers.append(join_study(url))
    for _ in range(ROUNDS):
        for browser in browsers:
            page = browser.get("/rate")
            if "key" not in page.hidden:
                _check_status(page.status, 200)
                continue
            fields = {**page.hidden, "answer": "good"}
            status = browser.post("/rate", fields, follow=False).status
            _check_status(status, _DONE)
            if status == _DONE:
                mark(page.hidden["key"])


def submit_to_challenge(folder: Path, files: Path) -> int:
    """Submit to a challenge and score what is submitted, and return an exit status.

    Args:
        folder: of the database and the submissions.
        files: the folder of the challenge.
    """
    # What Argon2 costs is not tested here.
    passwords._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

    def work() -> None:
        with opening_errors(folder):
            site = challenge.make_site(folder, files / "small.yaml")
        try:
            with challenge.serve_site(site) as url:
                for number in range(MEMBERS):
                    with _may_fail():
                        _submit(site, url, f"Ann {number}")
        finally:
            site.store.database.close()

    return _run_as_command(work)


def _submit(site: challenge.Site, url: str, name: str) -> None:
    visitor = challenge.sign_up(url, name)
    response = visitor.upload("small", "a.json", challenge.valid_captions())
    _check_status(response[0], _DONE)
    if response[0] != _DONE:
        return

    key = challenge.submission_key(response)
    mark(f"submitted {key}")
    write_captions(site.store.folder / key, challenge.valid_captions(), is_json_lines=False)
    challenge.record_verdict(site, key)
    mark(f"valid {key}")
    challenge.begin_evaluation(site, key)
    challenge.finish_evaluation(site, key, 0.5)
    mark(f"scored {key}")


@contextmanager
def _may_fail() -> Iterator[None]:
    """Pass over what a visitor cannot do because the site, or a worker of it, has no room."""
    try:
        yield
    except (AssertionError, RuntimeError, IndexError, OSError, StoreError, BusyError) as error:
        # The site's own log is searched for tracebacks; what a visitor expected instead is not told.
        mark(f"failed {type(error).__name__}")
    except http.client.HTTPException:
        mark("failed connection")


def _check_status(status: int, wanted: int) -> None:
    if status not in (wanted, _NO_ROOM):
        print(f"answered {status}", file=sys.stderr)


def _run_as_command(work: Callable[[], None]) -> int:
    """Return the exit status that a command has: 2 with one line for what the site cannot open or store."""
    try:
        work()
    except InputError as error:
        print(f"captau: {error}", file=sys.stderr)
        return 2
    return 0


def marks_of(outcome: Outcome) -> list[str]:
    """Return what was acknowledged."""
    return [call.path for call in outcome.calls if call.name == "mark"]


def find_lost_answers(folder: Path, files: Path, marks: list[str]) -> list[str]:
    """Open the study's database, and return those of the acknowledged answers that it does not have."""
    site = collect.make_site(files, "good_bad", folder / "small.sqlite3")
    query = select(serves.c.key).join(answers, answers.c.serve == serves.c.id)
    kept = site.store.database.run_blocking(lambda c: list(c.execute(query).scalars()))
    site.store.database.close()
    assert len(kept) == len(set(kept))
    return [key for key in marks if key not in (*kept, "") and not key.startswith("failed ")]


def find_lost_submissions(folder: Path, files: Path, marks: list[str]) -> list[str]:
    """Open the challenge's site, and return what it has lost of submissions, verdicts and results."""
    site = challenge.make_site(folder, files / "small.yaml")
    rows = challenge.load_table(site, challenge_tables.submissions)
    states = {row["key"]: row["state"] for row in rows}
    lost: list[str] = []
    for text in marks:
        step, _, key = text.partition(" ")
        if step != "failed" and not _is_kept(site.store.folder / key, step, states.get(key, "")):
            lost.append(text)
    site.store.database.close()
    return lost


def _is_kept(folder: Path, step: str, state: str) -> bool:
    """Tell whether a step of a submission is in the database, and its files whole beside it."""
    content = challenge.valid_captions()
    if not state or not folder.is_dir() or find_upload(folder).read_bytes() != content:
        return False
    if step in ("valid", "scored"):
        captions = find_captions(folder)
        if state == "received" or not captions.exists() or captions.read_bytes() != content:
            return False
    if step == "scored":
        drawn = folder / "drawn.parquet"
        if state != "scored" or not drawn.exists() or not drawn.stat().st_size:
            return False
        return bool(read_replicates(drawn))
    return True
