"""The same site on PostgreSQL and Redis, servers of Debian's packages that the test starts."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

from captau.server.challenge.client import Client
from captau.server.challenge.migrations import FOLDER
from captau.server.challenge.submission_store import found_in
from captau.server.challenge.workers.work_queue import Queue
from captau.server.storage.database import Database
from tests.conftest import says
from tests.server.challenge.conftest import (
    REFERENCES,
    captions,
    make_site,
    new_account,
    running,
    write_challenge,
)
from tests.server.challenge.test_intake import secrets
from tests.server.challenge.visitors import PASSWORD, Visitor, key_of
from tests.server.collect.test_postgresql import PROGRAMS, address, made

__all__ = ["address"]  # the fixture of the other sites


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    """The address of a Redis server."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no Redis server is installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    words = ["--port", str(port), "--dir", str(folder), "--save", "", "--bind", "127.0.0.1"]
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    while True:
        with socket.socket() as here:
            if here.connect_ex(("127.0.0.1", port)) == 0:
                break
        assert process.poll() is None
        time.sleep(0.05)
    yield f"redis://127.0.0.1:{port}"
    process.terminate()
    process.wait()


@pytest.mark.skipif(not PROGRAMS, reason="no PostgreSQL server is installed")
def test_postgresql_holds_the_site_and_redis_wakes(address, redis, tmp_path):
    teams = 8
    site = make_site(tmp_path, ["captions"], database=address, queue=redis)
    database, faults = site.store.database, []
    tokens = [new_account(database, f"team{k}")[0] for k in range(teams)]
    with running(site) as url:

        def send(k):
            try:
                path = tmp_path / f"{k}.json"
                path.write_text(captions(**{"img00.png": f"caption number {k}"}))
                client = Client(url, tokens[k])
                found = client.wait(client.submit(path, "small_captions")["id"])
                assert found["state"] == "scored", found
            except BaseException as error:
                faults.append(error)

        threads = [threading.Thread(target=send, args=(k,)) for k in range(teams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        rows = database.run_blocking(found_in)
        assert len(rows) == teams
        assert all(row.result is not None and row.attempts == 1 for row in rows)
        with says("another captau serve is at work on it"):
            Database(address, FOLDER, "captau serve")


@pytest.mark.skipif(not PROGRAMS, reason="no PostgreSQL server is installed")
def test_pages_and_queue_on_postgresql(address, served, tmp_path):
    """From signing up to a published leaderboard and back after a SIGKILL, as `captau serve` does it."""
    database = made(address, "pages")
    public = {"per_item": True, "exact": True}
    path = write_challenge(tmp_path, statistics={"replicates": 50}, visibility=public)
    words = [f"challenge={path}", f"database={database}", f"queue={database}", "files=kept"]
    server = served(*words)
    link = re.search(r"(/admin/setup\?code=\S+)", server.said)[1]
    admin, ann, bob = (Visitor(server.url) for _ in range(3))
    page = admin.get(link)
    fields = {**page.hidden, "password": PASSWORD, "again": PASSWORD}
    assert admin.post("/admin/setup", fields).heading == "Dashboard"
    assert ann.sign_up("Ann", team="Reds").heading == "Welcome, Ann"
    code = re.search(r"(?:\w{5}-){3}\w{5}", ann.send("/team/invite").text)[0]
    assert bob.sign_up("Bob", code=code).heading == "Welcome, Bob"
    assert Visitor(server.url).sign_up("ann").status == 400  # the name is taken

    def until_done(visitor, key):
        path = f"/submissions/{key}/state"
        while not (told := json.loads(visitor.raw("GET", path)[2]))["done"]:
            time.sleep(0.1)
        return told["state"]

    good = key_of(ann.upload("small_captions", "good.json", captions().encode(), system="ours"))
    assert until_done(bob, good) == "scored", server.said
    broken = captions(**{"img00.png": "", "other.png": "x"}).encode()
    bad = key_of(ann.upload("small_captions", "bad.json", broken))
    assert until_done(ann, bad) == "invalid", server.said
    page = ann.get(f"/submissions/{bad}").text
    assert "Not valid: 2 faults" in page
    assert "unknown image &#39;other.png&#39;" in page
    status, _, body = bob.raw("GET", f"/submissions/{good}/items.csv")
    assert (status, len(body.splitlines())) == (200, 1 + len(REFERENCES))

    board = "/challenges/small_captions/board"
    stranger = Visitor(server.url)
    assert stranger.get(f"/submissions/{good}").status == 404
    admin.send("/admin/challenges/small_captions/publish", page="/admin", why="it is over")
    (row,) = json.loads(stranger.raw("GET", f"{board}.json")[2])["rows"]
    assert (row["system"], row["team"]) == ("ours", "Reds")
    stranger.sign_in("Ann", "not the password")
    log = admin.get("/admin").text
    for part in ("it is over", "failed sign in", "sign up"):
        assert part in log

    # Killed and started anew it is as it was, also for who is signed in; and it goes on.
    server.kill()
    again = served(*words, log="again.log")

    def moved(visitor):
        found = Visitor(again.url)
        found.cookies = visitor.cookies
        return found

    ann, bob, admin, stranger = map(moved, (ann, bob, admin, stranger))
    assert json.loads(stranger.raw("GET", f"{board}.json")[2])["rows"] == [row]
    assert "Your team: Reds" in bob.get("/account").text
    admin.send(f"/admin/submissions/{good}/disqualified", page="/admin", why="seen before")
    assert json.loads(stranger.raw("GET", f"{board}.json")[2])["rows"] == []
    other = captions(**{"img05.png": "another ring"}).encode()
    key = key_of(bob.upload("small_captions", "more.json", other))
    assert until_done(ann, key) == "scored", again.said
    assert not [w for w in secrets() if w in server.said + again.said]


@pytest.mark.parametrize("kind", ["file", "redis", "postgresql"])
def test_a_message_comes_once_and_is_not_unpickled(kind, request, tmp_path):
    if kind == "postgresql" and not PROGRAMS:
        pytest.skip("no PostgreSQL server is installed")
    where = {"file": "queue.sqlite3", "redis": "redis", "postgresql": "address"}[kind]
    where = str(tmp_path / where) if kind == "file" else request.getfixturevalue(where)
    done = []
    sender, taker = Queue(where, "evaluate"), Queue(where, "evaluate", done.append)
    sender.clear()
    sender.put([3, 5])
    assert taker.size == 2
    assert all(
        b'"captau.server.challenge.workers.work_queue.work"' in data or data[:1] == b"["
        for data in taker.huey.storage.enqueued_items()
    )
    for _ in range(2):
        taker.huey.execute(taker.huey.dequeue())
    assert (done, taker.size) == ([3, 5], 0)
    sender.put([7])
    Queue(where, "check").clear()  # the other kind's is another queue
    assert sender.size == 1
    sender.clear()
    assert sender.size == 0


@pytest.mark.parametrize(
    "where", ["redis://:secret@127.0.0.1:1", "postgresql://u:secret@127.0.0.1:1/x"]
)
def test_a_queue_that_is_not_there(where):
    with says("queue=127.0.0.1:1") as told:
        Queue(where, "check")
    del told


def test_a_queue_of_another_kind():
    with says("redis://"):
        Queue("amqp://x", "check")
