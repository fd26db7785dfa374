"""Connections that never end, come slowly or come in masses, beside visitors who are served."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
import time
from contextlib import closing
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request

from captau.server.web.bounded_connection import BoundedConnection, WaitingConnections
from tests.conftest import serving

GET, POST = b"GET /health HTTP/1.1\r\nhost: x\r\n", b"POST /echo HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture
def app():
    app = FastAPI()

    @app.get("/health")
    async def check_health():
        return "ok"

    @app.post("/echo")
    async def count_bytes(request: Request):
        return len(await request.body())

    return app


def connect(url):
    connection = socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def is_served(url):
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)) as client:
        client.request("GET", "/health")
        return client.getresponse().status == 200


def read_status(connection):
    """Return the status of the answer; 0 if the connection was closed without one."""
    try:
        answer = connection.recv(65_536)
    except ConnectionError:
        answer = b""
    return int(answer.split()[1]) if answer else 0


def send_slowly(connection, url):
    """Send a byte every 50 ms, for 10 seconds, while others are served."""
    for _ in range(200):
        connection.sendall(b"a")
        assert is_served(url)
        time.sleep(0.05)


def is_closed(connection):
    """Return whether the server closes a connection within 20 seconds."""
    return read_status(connection) == 0


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (GET + b"x: ", b"a" * 65_536),
        (GET, b"x: y\r\n" * 10_000),
        (b"GET /", b"a" * 65_536),
        (CHUNKED + b"1;x=", b"a" * 65_536),
        (CHUNKED + b"1\r\na\r\n0\r\nx: ", b"a" * 65_536),
    ],
    ids=["header", "headers", "line", "extension", "trailer"],
)
def test_a_head_without_an_end_is_cut_off_while_others_are_served(app, head, piece):
    with serving(app) as url, closing(connect(url)) as endless:
        endless.sendall(head)
        with pytest.raises(ConnectionError):  # before 64 MB are sent
            endless.sendall(piece * 1000)
        assert is_served(url)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([b"x: y"] * 99, 200),
        ([b"x: y"] * 100, 431),
        ([b"cookie: " + b"c" * 8000], 200),
        ([b"cookie: " + b"c" * 9000], 431),
        ([b"cookie: " + b"c" * 8000] * 5, 431),
    ],
)
def test_the_head_of_a_request_has_a_limit(app, headers, status):
    with serving(app) as url, closing(connect(url)) as connection:
        connection.sendall(GET + b"".join(header + b"\r\n" for header in headers) + b"\r\n")
        assert read_status(connection) == status


@pytest.mark.parametrize(("n_requests", "n_answers"), [(30, 30), (10_000, 0)])
def test_requests_that_wait_on_one_connection_have_a_limit(app, n_requests, n_answers):
    """uvicorn keeps each request that is sent before the answer to the last one, and reads on at each answer."""
    with serving(app) as url, closing(connect(url)) as pipelining:
        answers = b""
        with contextlib.suppress(ConnectionError):  # it may be closed before all is sent
            pipelining.sendall(
                (GET + b"\r\n") * (n_requests - 1) + GET + b"connection: close\r\n\r\n"
            )
            while piece := pipelining.recv(65_536):
                answers += piece
        if n_answers:
            assert answers.count(b"HTTP/1.1 200") == n_answers
        else:
            assert answers.count(b"HTTP/1.1 200") < 1000
        assert is_served(url)


@pytest.mark.parametrize(
    "head",
    [b"", GET + b"x: ", POST + b"content-length: 1000\r\n\r\n", GET + b"\r\n"],
    ids=["nothing", "head", "body", "idle"],
)
def test_a_client_that_sends_slowly_is_cut_off_while_others_are_served(app, head, monkeypatch):
    monkeypatch.setattr(BoundedConnection, "head_seconds", 0.5)
    monkeypatch.setattr(BoundedConnection, "body_seconds", 0.5)
    with serving(app) as url, closing(connect(url)) as slow:
        slow.sendall(head)
        if head.endswith(b"x\r\n\r\n"):
            assert read_status(slow) == 200
        with pytest.raises(ConnectionError):
            send_slowly(slow, url)


def test_a_slow_body_that_keeps_coming_is_taken(app, monkeypatch):
    monkeypatch.setattr(BoundedConnection, "body_seconds", 0.6)
    monkeypatch.setattr(BoundedConnection, "body_bytes_per_second", 1000)
    with serving(app) as url, closing(connect(url)) as steady:
        steady.sendall(POST + b"content-length: 8000\r\n\r\n")
        for _ in range(8):
            steady.sendall(b"a" * 1000)
            time.sleep(0.1)
        assert read_status(steady) == 200


def test_an_answer_that_is_not_read_is_cut_off(app, monkeypatch):
    monkeypatch.setattr(BoundedConnection, "write_seconds", 0.2)
    closed = threading.Event()
    connection_lost = BoundedConnection.connection_lost

    def note_closing(self, exc):
        connection_lost(self, exc)
        closed.set()

    monkeypatch.setattr(BoundedConnection, "connection_lost", note_closing)

    @app.get("/large")
    async def send_much():
        return "a" * 50_000_000

    with serving(app) as url, closing(connect(url)) as connection:
        closed.clear()
        connection.sendall(GET.replace(b"health", b"large") + b"\r\n")
        assert closed.wait(60)
        n_bytes = 0
        try:
            while data := connection.recv(1 << 20):
                n_bytes += len(data)
        except ConnectionError:
            pass
        assert n_bytes < 50_000_000


def test_connections_that_wait_are_bounded_by_address(app):
    """The one that has waited longest makes room, so that the newest is always served."""
    with serving(app, waiting_limit=3) as url:
        waiting = [connect(url) for _ in range(5)]
        assert is_served(url)
        assert [is_closed(connection) for connection in waiting[:2]] == [True, True]
        waiting[-1].sendall(GET + b"\r\n")
        assert read_status(waiting[-1]) == 200
        for connection in waiting:
            connection.close()


def test_connections_that_come_at_once_close_one_each():
    """Before the server has noticed that an aborted one is lost."""
    waiting, connections = WaitingConnections(3), [Mock() for _ in range(8)]
    for connection in connections:
        waiting.add("192.0.2.7", connection)
    are_closed = [connection.transport.abort.called for connection in connections]
    assert are_closed == [True] * 5 + [False] * 3


def test_requests_that_have_arrived_are_not_bounded_by_address(app):
    arrived, may_answer = threading.Semaphore(0), threading.Event()

    @app.get("/together")
    async def answer_together():
        arrived.release()
        while not may_answer.is_set():
            await asyncio.sleep(0.01)
        return "ok"

    with serving(app, waiting_limit=3) as url:
        visitors = []
        for _ in range(12):
            visitors.append(connect(url))
            visitors[-1].sendall(b"GET /together HTTP/1.1\r\nhost: x\r\n\r\n")
            assert arrived.acquire(timeout=60), "it comes before the next"
        may_answer.set()
        assert [read_status(visitor) for visitor in visitors] == [200] * 12
        for visitor in visitors:
            visitor.close()


def test_behind_a_proxy_unfinished_bodies_are_bounded_by_the_forwarded_address(app):
    def begin(address):
        connection = connect(url)
        head = f"x-forwarded-for: 9.9.9.9, {address}\r\ncontent-length: 3\r\n\r\n".encode()
        connection.sendall(POST + head)
        time.sleep(0.05)
        return connection

    with serving(app, proxy=True, waiting_limit=3) as url:
        idle = [connect(url) for _ in range(8)]
        other = begin("10.0.0.2")
        masses = [begin("10.0.0.1") for _ in range(4)]
        assert is_closed(masses[0])
        for connection in (other, *masses[1:]):
            connection.sendall(b"abc")
            assert read_status(connection) == 200
        for connection in idle:
            connection.sendall(GET + b"\r\n")
            assert read_status(connection) == 200
        for connection in (*idle, other, *masses):
            connection.close()
