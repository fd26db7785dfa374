"""The same site on PostgreSQL and Redis, servers of Debian's packages that the tests start."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

from captau.server.challenge.client import ChallengeClient
from captau.server.challenge.submissions import select_submissions
from captau.server.challenge.tables import SCHEMA
from captau.server.challenge.workers.work_queue import WorkKind, WorkQueue
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
from tests.server.postgresql import PROGRAM_FOLDERS, create_database, postgresql_url

pytestmark = pytest.mark.database

__all__ = ["postgresql_url"]  # the fixture of the other sites

needs_postgresql = pytest.mark.skipif(
    not PROGRAM_FOLDERS, reason="no PostgreSQL server is installed"
)


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    """Start a Redis server and yield its address."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no Redis server is installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    words = ["--port", str(port), "--dir", str(folder), "--save", "", "--bind", "127.0.0.1"]
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    is_listening = False
    while not is_listening:
        assert process.poll() is None
        time.sleep(0.05)
        with socket.socket() as probe:
            is_listening = probe.connect_ex(("127.0.0.1", port)) == 0
    yield f"redis://127.0.0.1:{port}"
    process.terminate()
    process.wait()


@needs_postgresql
def test_postgresql_holds_the_site_and_redis_wakes_its_workers(postgresql_url, redis, tmp_path):
    n_teams = 8
    site = make_site(tmp_path, ["captions"], database=postgresql_url, queue=redis)
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


@needs_postgresql
def test_pages_and_queue_work_on_postgresql_and_survive_sigkill(
    postgresql_url, start_serve, tmp_path
):
    """From signing up to a published leaderboard, as `captau serve` runs it."""
    database = create_database(postgresql_url, "pages")
    visibility = {"per_item": True, "exact": True}
    path = write_challenge(tmp_path, statistics={"replicates": 50}, visibility=visibility)
    words = [f"challenge={path}", f"database={database}", f"queue={database}", "files=files"]
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


@pytest.mark.parametrize("storage", ["file", "redis", "postgresql"])
def test_a_message_arrives_once_and_is_not_unpickled(storage, request, tmp_path):
    if storage == "postgresql" and not PROGRAM_FOLDERS:
        pytest.skip("no PostgreSQL server is installed")
    fixtures = {"redis": "redis", "postgresql": "postgresql_url"}
    is_file = storage == "file"
    url = str(tmp_path / "queue") if is_file else request.getfixturevalue(fixtures[storage])
    numbers = []
    sender = WorkQueue(url, WorkKind.EVALUATE)
    receiver = WorkQueue(url, WorkKind.EVALUATE, numbers.append)
    sender.clear()
    sender.put([3, 5])
    assert receiver.size == 2
    assert all(isinstance(json.loads(m), list) for m in receiver.huey.storage.enqueued_items())
    for _ in range(2):
        receiver.huey.execute(receiver.huey.dequeue())
    assert (numbers, receiver.size) == ([3, 5], 0)
    sender.put([7])
    WorkQueue(url, WorkKind.CHECK).clear()  # the other kind's messages are in another queue
    assert sender.size == 1
    sender.clear()
    assert sender.size == 0


@pytest.mark.parametrize(
    "url", ["redis://:secret@127.0.0.1:1", "postgresql://u:secret@127.0.0.1:1/x"]
)
def test_an_unreachable_queue_is_reported_without_its_password(url):
    with says("queue=127.0.0.1:1"):
        WorkQueue(url, WorkKind.CHECK)


def test_a_queue_of_an_unknown_storage_is_reported():
    with says("redis://"):
        WorkQueue("amqp://x", WorkKind.CHECK)
