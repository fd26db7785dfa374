"""Requests that never end are cut off; `test_nginx` tests what a proxy does in addition."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request

from tests.conftest import serving

GET, POST = b"GET /health HTTP/1.1\r\nhost: x\r\n", b"POST /echo HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture
def app():
    app = FastAPI()

    @app.get("/health")
    async def check_health(request: Request):
        return request.client.host

    @app.post("/echo")
    async def count_bytes(request: Request):
        return len(await request.body())

    return app


def connect(url):
    connection = socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_health(url, **headers):
    """Return the status and the address that the site sees."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)) as client:
        client.request("GET", "/health", headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read().decode().strip('"')


def is_served(url):
    return read_health(url)[0] == 200


ENDLESS = {
    "header": (GET + b"x: ", b"a" * 65_536),
    "headers": (GET, b"x: y\r\n" * 10_000),
    "line": (b"GET /", b"a" * 65_536),
    "extension": (CHUNKED + b"1;x=", b"a" * 65_536),
    "trailer": (CHUNKED + b"1\r\na\r\n0\r\nx: ", b"a" * 65_536),
}


@pytest.mark.parametrize(("head", "piece"), ENDLESS.values(), ids=ENDLESS)
def test_a_head_without_an_end_is_cut_off_while_others_are_served(app, head, piece):
    with serving(app) as url, closing(connect(url)) as endless:
        endless.sendall(head)
        with pytest.raises(ConnectionError):  # before 64 MB are sent
            endless.sendall(piece * 1000)
        assert is_served(url)


def test_requests_that_are_sent_at_once_on_one_connection_are_answered_in_order(app):
    with serving(app) as url, closing(connect(url)) as pipelining:
        pipelining.sendall((GET + b"\r\n") * 29 + GET + b"connection: close\r\n\r\n")
        answers = b""
        while piece := pipelining.recv(65_536):
            answers += piece
        assert answers.count(b"HTTP/1.1 200") == 30
        assert is_served(url)


def test_the_address_that_a_proxy_names_is_believed_only_with_proxy(app):
    for proxy, address in ((False, "127.0.0.1"), (True, "192.0.2.7")):
        with serving(app, proxy=proxy) as url:
            assert read_health(url, **{"x-forwarded-for": "192.0.2.7"}) == (200, address)
