"""The three example submissions to each challenge with which `captau serve challenge=demo` opens."""

from __future__ import annotations

import asyncio

from captau.server.challenge.site_opening import (
    DEMO_METRICS,
    DEMO_SYSTEMS,
    add_demo_submissions,
    open_site,
)
from captau.server.challenge.submissions import select_submissions
from tests.conftest import says
from tests.server.challenge.conftest import serve_options, write_challenge


def test_each_demo_challenge_opens_with_three_submissions_once(tmp_path):
    """A second start adds none."""
    site = open_site(serve_options(tmp_path, challenge="demo"))
    for _ in range(2):
        asyncio.run(add_demo_submissions(site))
        rows = site.store.database.run_blocking(select_submissions)
        names = {"demo_captions": DEMO_SYSTEMS, "demo_metrics": DEMO_METRICS}
        for challenge, systems in names.items():
            assert [row.system for row in rows if row.challenge == challenge] == list(systems)
        assert all(site.store.file_of(row.key, "upload.jsonl").is_file() for row in rows)
    names = [account["name"] for account in asyncio.run(site.accounts.list_all())]
    assert names == [f"Example {number}" for number in range(1, 7)]
    site.store.database.close()


def test_a_site_has_a_worker_at_least(tmp_path):
    with says("workers=0: a whole number from 1 on is expected"):
        open_site(serve_options(tmp_path, challenge="demo", workers=0))


def test_the_database_of_a_site_is_named_after_its_first_challenge(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in ("metrics", "captions"):
        write_challenge(tmp_path, kind)
    site = open_site(serve_options(tmp_path, database=None, files=None))
    assert list(site.store.challenges) == ["small_captions", "small_metrics"]
    assert (tmp_path / "challenges" / "small_captions.sqlite3").is_file()
    assert site.store.folder == tmp_path / "challenges" / "small_captions"
    site.store.database.close()
