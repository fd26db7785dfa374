"""What `nginx.conf`, the proxy of `compose.yaml`, does before a site: it holds up who is slow, endless or many."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from captau.server.web.application import RequestGuard
from captau.server.web.site import PublicAddress
from tests.conftest import serving
from tests.server.web.test_listener import ENDLESS, GET, POST, app, connect, is_served, read_health

__all__ = ["app"]  # the fixture

CONFIG = Path(__file__).parents[3] / "nginx.conf"
#: Not on every user's path.
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = [
    pytest.mark.proxy,
    pytest.mark.skipif(NGINX is None, reason="no nginx is installed"),
]


def read_status(connection):
    """Return the status of the answer; 0 if the connection was closed without one."""
    try:
        answer = connection.recv(65_536)
    except ConnectionError:
        answer = b""
    return int(answer.split()[1]) if answer else 0


@contextlib.contextmanager
def behind_nginx(app, folder, changes=()):
    """Serve an application behind nginx by `nginx.conf`, with other ports and `changes`; yield its address."""
    with serving(app, proxy=True) as site, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        text = CONFIG.read_text(encoding="utf-8")
        for pattern, replacement in (
            (r"listen 8001", f"listen 127.0.0.1:{port}"),
            (r"127\.0\.0\.1:8003", urlsplit(site).netloc),
            (r"(?s)  server \{\n    listen 8002.*?\n  \}\n", ""),
            (r"worker_processes auto", f"daemon off; pid {folder}/pid; worker_processes 1"),
            (r"http \{", f"http {{ client_body_temp_path {folder}; proxy_temp_path {folder};"),
            *changes,
        ):
            text, n_changes = re.subn(pattern, replacement, text)
            assert n_changes, pattern
        config = folder / "nginx.conf"
        config.write_text(text, encoding="utf-8")
        free.close()
        command = [NGINX, "-p", str(folder), "-c", str(config), "-e", str(folder / "log")]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                url = f"http://127.0.0.1:{port}"
                for _ in range(200):
                    with contextlib.suppress(OSError):
                        connect(url).close()
                        break
                    assert process.poll() is None, (folder / "log").read_text()
                    time.sleep(0.05)
                yield url
            finally:
                process.terminate()


def test_the_visitor_is_named_by_the_proxy_alone(app, tmp_path):
    with behind_nginx(app, tmp_path) as url:
        assert read_health(url, **{"x-forwarded-for": "192.0.2.7"}) == (200, "127.0.0.1")


def test_endless_heads_and_requests_without_number_stop_nobody(app, tmp_path):
    with behind_nginx(app, tmp_path) as url:
        for name in ("header", "headers", "line"):
            head, piece = ENDLESS[name]
            with closing(connect(url)) as endless:
                endless.sendall(head + piece)
                assert read_status(endless) in (400, 414)
        with closing(connect(url)) as pipelining:
            with contextlib.suppress(ConnectionError):
                pipelining.sendall((GET + b"\r\n") * 10_000)
            assert is_served(url)


@pytest.mark.parametrize(
    ("head", "status"),
    [(b"", 0), (GET + b"x: ", 408), (POST + b"content-length: 1000\r\n\r\n", 408)],
    ids=["nothing", "head", "body"],
)
def test_the_proxy_cuts_off_who_sends_nothing_more(app, tmp_path, head, status):
    changes = [(r"(client_(?:header|body)_timeout) \d+s", r"\1 1s")]
    with behind_nginx(app, tmp_path, changes) as url, closing(connect(url)) as slow:
        slow.sendall(head)
        assert read_status(slow) in (0, status)
        assert is_served(url)


def test_the_proxy_limits_the_requests_of_an_address_at_a_time(app, tmp_path):
    changes = [(r"limit_conn addresses \d+", "limit_conn addresses 3")]
    with behind_nginx(app, tmp_path, changes) as url:
        waiting = [connect(url) for _ in range(3)]
        for connection in waiting:
            connection.sendall(POST + b"content-length: 3\r\n\r\n")
        time.sleep(0.5)
        assert read_health(url)[0] == 429
        for connection in waiting:
            connection.sendall(b"abc")
            assert read_status(connection) == 200
            connection.close()
        time.sleep(0.2)
        assert is_served(url)


def test_the_site_s_refusal_of_a_long_body_comes_through_the_proxy(app, tmp_path):
    """A site that closed the connection while the proxy was still sending would make it answer 502."""
    size = 40 << 20
    guarded = RequestGuard(app, PublicAddress())
    # The proxy keeps so long a body in the test's folder, which is its owner's.
    changes = [("daemon off;", "user root; daemon off;")]
    with behind_nginx(guarded, tmp_path, changes) as url:
        for _ in range(5):
            with closing(connect(url)) as client:
                client.settimeout(60)
                client.sendall(POST + f"content-length: {size}\r\n\r\n".encode() + b"x" * size)
                assert read_status(client) == 413
