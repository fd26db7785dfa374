"""The same site on PostgreSQL, a server of Debian's packages that the tests start."""

from __future__ import annotations

import json
import re
import threading
import time

import pytest

from captau.server.challenge.client import ChallengeClient
from captau.server.challenge.submissions import select_submissions
from captau.server.challenge.tables import SCHEMA
from captau.server.storage.database import Database
from tests.conftest import says
from tests.server.challenge.conftest import (
    REFERENCES,
    captions_json,
    create_account,
    make_site,
    private_texts,
    serve_site,
    write_challenge,
)
from tests.server.challenge.visitors import PASSWORD, Visitor, submission_key
from tests.server.postgresql import PROGRAM_FOLDERS, create_database, postgresql, postgresql_url

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(not PROGRAM_FOLDERS, reason="no PostgreSQL server is installed"),
]

__all__ = ["postgresql", "postgresql_url"]  # the fixtures


def test_postgresql_holds_the_site_and_its_queue(postgresql_url, tmp_path):
    n_teams = 8
    site = make_site(tmp_path, ["captions"], database=postgresql_url)
    database, errors = site.store.database, []
    tokens = [create_account(database, f"team{k}")[0] for k in range(n_teams)]
    with serve_site(site) as url:

        def submit(k):
            try:
                path = tmp_path / f"{k}.json"
                path.write_text(captions_json(**{"img00.png": f"caption number {k}"}))
                client = ChallengeClient(url, tokens[k])
                submission = client.wait(client.submit(path, "small_captions")["id"])
                assert submission["state"] == "scored", submission
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=submit, args=(k,)) for k in range(n_teams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        submissions = database.run_blocking(select_submissions)
        assert len(submissions) == n_teams
        assert all(s.result is not None and s.attempts == 1 for s in submissions)
        with says("another captau serve is using it"):
            Database(postgresql_url, SCHEMA)


def wait_until_done(visitor, key):
    """Return the state of a submission when it is final."""
    path = f"/submissions/{key}/state"
    while not (progress := json.loads(visitor.raw("GET", path)[2]))["done"]:
        time.sleep(0.1)
    return progress["state"]


def with_cookies_of(visitor, url):
    """Return the same visitor at another address."""
    moved = Visitor(url)
    moved.cookies = visitor.cookies
    return moved


def read_rows(visitor):
    """Return the rows of the leaderboard."""
    return json.loads(visitor.raw("GET", "/challenges/small_captions/board.json")[2])["rows"]


def test_pages_and_workers_work_on_postgresql_and_survive_sigkill(
    postgresql_url, start_serve, tmp_path
):
    """From signing up to a published leaderboard, as `captau serve` runs it."""
    database = create_database(postgresql_url, "pages")
    visibility = {"per_item": True, "exact": True}
    path = write_challenge(tmp_path, statistics={"replicates": 50}, visibility=visibility)
    words = [f"challenge={path}", f"database={database}", "files=files"]
    server = start_serve(*words)
    setup_page = re.search(r"(/admin/setup\?code=\S+)", server.output)[1]
    admin, ann, bob = (Visitor(server.url) for _ in range(3))
    page = admin.get(setup_page)
    fields = {**page.hidden, "password": PASSWORD, "again": PASSWORD}
    assert admin.post("/admin/setup", fields).heading == "Dashboard"
    assert ann.sign_up("Ann", team="Reds").heading == "Welcome, Ann"
    assert bob.sign_up("Bob", code=ann.create_invitation()).heading == "Welcome, Bob"
    assert Visitor(server.url).sign_up("ann").status == 400  # the name is taken

    content = captions_json().encode()
    valid_key = submission_key(ann.upload("small_captions", "good.json", content, system="ours"))
    assert wait_until_done(bob, valid_key) == "scored", server.output
    content = captions_json(**{"img00.png": "", "other.png": "x"}).encode()
    invalid_key = submission_key(ann.upload("small_captions", "bad.json", content))
    assert wait_until_done(ann, invalid_key) == "invalid", server.output
    page = ann.get(f"/submissions/{invalid_key}").text
    assert "Not valid: 2 faults" in page
    assert "unknown image &#39;other.png&#39;" in page
    status, _, body = bob.raw("GET", f"/submissions/{valid_key}/items.csv")
    assert (status, len(body.splitlines())) == (200, 1 + len(REFERENCES))

    stranger = Visitor(server.url)
    assert stranger.get(f"/submissions/{valid_key}").status == 404
    admin.send("/admin/challenges/small_captions/publish", page="/admin", why="it is over")
    (row,) = read_rows(stranger)
    assert (row["system"], row["team"]) == ("ours", "Reds")
    stranger.sign_in("Ann", "not the password")
    dashboard = admin.get("/admin").text
    for text in ("it is over", "failed sign in", "sign up"):
        assert text in dashboard

    # After a SIGKILL all is as before, sessions included, and the site continues.
    server.kill()
    restarted = start_serve(*words, log="restarted.log")
    visitors = (ann, bob, admin, stranger)
    ann, bob, admin, stranger = (with_cookies_of(v, restarted.url) for v in visitors)
    assert read_rows(stranger) == [row]
    assert "Your team: Reds" in bob.get("/account").text
    path = f"/admin/submissions/{valid_key}/disqualified"
    admin.send(path, page="/admin", why="seen before")
    assert read_rows(stranger) == []
    content = captions_json(**{"img05.png": "another ring"}).encode()
    key = submission_key(bob.upload("small_captions", "more.json", content))
    assert wait_until_done(ann, key) == "scored", restarted.output
    output = server.output + restarted.output
    assert not [private for private in private_texts() if private in output]
