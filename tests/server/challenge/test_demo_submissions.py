"""The three example systems with which `captau serve challenge=demo` opens."""

from __future__ import annotations

import asyncio

from captau.server.challenge.demo_submissions import DEMO_SYSTEMS, add_demo_submissions
from captau.server.challenge.site_opening import open_site
from captau.server.challenge.submissions import select_submissions
from tests.server.challenge.conftest import serve_options


def test_the_demo_opens_with_three_systems_once(tmp_path):
    """A second start adds none."""
    site = open_site(serve_options(tmp_path, challenge="demo"))
    for _ in range(2):
        asyncio.run(add_demo_submissions(site))
        rows = site.store.database.run_blocking(select_submissions)
        assert [row.system for row in rows] == list(DEMO_SYSTEMS)
        assert {row.challenge for row in rows} == {"demo_captions"}
        assert all(site.store.file_of(row.key, "upload.json").is_file() for row in rows)
    site.store.database.close()
