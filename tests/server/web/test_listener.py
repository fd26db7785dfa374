"""Requests that never end are cut off; `test_nginx` tests what a proxy does in addition."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request

from captau.datasets.errors import InputError
from captau.server.web import listener as listener_module
from captau.server.web.listener import listen, public_url, server_config
from tests.conftest import says, serving

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


def test_the_address_of_a_listener_and_its_ports():
    names = [SimpleNamespace(getsockname=lambda h=h: (h, 5, 0, 0)) for h in ("::1", "127.0.0.1")]
    assert [public_url(None, n) for n in names] == ["http://[::1]:5", "http://127.0.0.1:5"]
    assert public_url("https://x/lab/", names[0]) == "https://x/lab"
    with listen("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0
    for port in (-1, 65_536):
        with says(f"port={port}: 0 to 65535 is expected; 0 for any that is free"):
            listen("127.0.0.1", port)


def test_the_server_has_the_bounds_of_the_policy():
    """SECURITY.md."""
    config = server_config(FastAPI())
    assert {name: getattr(config, name) for name in CONFIG} == CONFIG
    assert server_config(FastAPI(), proxy=True).proxy_headers


CONFIG = {
    **{"h11_max_incomplete_event_size": 32_768, "log_level": "error", "access_log": False},
    **{"proxy_headers": False, "forwarded_allow_ips": "127.0.0.1", "server_header": False},
    **{"timeout_keep_alive": 15, "timeout_graceful_shutdown": 5, "limit_concurrency": 2000},
}


def test_a_port_that_cannot_be_opened_is_named_with_the_remedy(monkeypatch):
    remedy = "; choose another with port=…, or port=0 for any"
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert first.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 1
        with says(f"host=127.0.0.1 port={port}: Address already in use{remedy}"):
            listen("127.0.0.1", port)
    with pytest.raises(InputError, match=r"^host=no\.such\.host\.invalid port=1: "):
        listen("no.such.host.invalid", 1)

    closed = []

    class Refusing(socket.socket):
        def bind(self, address):
            raise OverflowError("a port is too large")

        def close(self):
            closed.append(1)
            super().close()

    monkeypatch.setattr(listener_module.socket, "socket", Refusing)
    with says(f"host=127.0.0.1 port=2: a port is too large{remedy}"):
        listen("127.0.0.1", 2)
    assert closed
