"""The application of a site: its routes, static files, pages of errors and headers, and what it reads of a long body."""

from __future__ import annotations

import asyncio
import http.client
from contextlib import asynccontextmanager
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from fastapi import APIRouter

from captau.server.storage.database import (
    BusyError,
    StoreError,
)
from captau.server.texts import ENGLISH
from captau.server.web import application, listener
from captau.server.web.application import HEADERS, build_application
from captau.server.web.errors import (
    NotFoundError,
    RefusedError,
    SignInRequiredError,
    TooManyRequestsError,
)
from captau.server.web.site import PublicAddress, WebSite
from captau.server.web.visitors import RowNumber, form_schema, local_path
from tests.conftest import serving


@asynccontextmanager
async def no_lifespan(app):
    yield


@pytest.fixture(params=["", "/lab"])
def served(request):
    """Yield a site at the root or below a path, with a route that fails as its address says, and a function that asks."""
    base, router = request.param, APIRouter()
    errors = {
        "signin": SignInRequiredError("/signin"),
        "refused": RefusedError("It is <refused>."),
        "busy": BusyError("locked"),
    }

    @router.get("/fail/{kind}")
    async def fail(kind: str) -> None:
        raise errors.get(kind, ValueError(kind))

    @router.get("/number/{n}")
    async def number(n: RowNumber) -> int:
        return n

    address = PublicAddress(base)
    site = WebSite(
        "captau.server.challenge",
        SimpleNamespace(epoch=0),
        b"s",
        address,
        9,
        {"title": "T", "member": None},
    )
    app = build_application(site, [router], no_lifespan, title="The title", description="It is.")
    assert (app.title, app.description, app.state.site) == ("The title", "It is.", site)
    with serving(app) as url:

        def ask(path, method="GET", body=None, **headers):
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            answer = response.status, dict(response.getheaders()), response.read().decode()
            connection.close()
            return answer

        yield base, ask


def test_errors_are_pages_and_static_files_are_kept_an_hour(served):
    base, ask = served
    for path, status, text in (
        ("/nowhere", 404, "There is no such page."),
        ("/number/1/", 404, "There is no such page."),  # no redirect to whatever host was named
        ("/number/x", 422, "That address, or form, is not as this site writes it."),
        ("/fail/refused", 400, "It is &lt;refused&gt;."),
        ("/fail/busy", 503, "The database is busy."),
        ("/docs", 404, "There is no such page."),
        ("/redoc", 404, "There is no such page."),
        ("/openapi.json", 404, "There is no such page."),
    ):
        found, headers, body = ask(f"{base}{path}")
        assert (found, text in body) == (status, True), (path, body)
        assert {name: headers[name] for name in HEADERS} == HEADERS
        assert headers["cache-control"] == "no-store"
        assert headers.get("retry-after") == ("5" if status == 503 else None)
        assert "strict-transport-security" not in headers
    status, headers, body = ask(f"{base}/number/1", "POST")
    assert (status, headers["allow"]) == (405, "GET")
    assert "This page is not asked for like that." in body
    assert ask(f"{base}/number/7")[2] == "7"
    status, headers, body = ask(f"{base}/fail/signin")
    assert (status, headers["location"]) == (303, f"{base}/signin")
    status, headers, body = ask(f"{base}/fail/other")
    assert (status, body) == (500, "Something went wrong here. Go back, try again.\n")
    assert headers["content-type"] == "text/plain; charset=utf-8"
    status, headers, _ = ask(f"{base}/static/captau.css")
    assert (status, headers["cache-control"]) == (200, "max-age=3600")
    assert ask(f"{base}/static/none.css")[0] == 404
    if base:
        status, headers, _ = ask(base)
        assert (status, headers["location"]) == (303, "/lab/")


def test_other_origins_long_bodies_and_large_numbers_are_refused(served):
    base, ask = served
    numbers = (0, 1, 2**31 - 1, 2**31)  # of rows
    assert [ask(f"{base}/number/{n}")[0] for n in numbers] == [422, 200, 200, 422]
    status, _, body = ask(f"{base}/number/1", "POST", b"x", Origin="https://evil.example")
    assert (status, body) == (
        403,
        "This form was sent from another site. Open it here, and send it again.\n",
    )
    limit = 64 * 1024
    assert ask(f"{base}/number/1", "POST", b"x" * limit)[0] == 405
    status, headers, body = ask(f"{base}/number/1", "POST", b"x" * (limit + 1))
    assert (status, body) == (413, "At most 64 kB are taken.\n")
    assert headers["connection"] == "close"
    # A browser gets a page of the site, with a way on.
    accept = "text/html,application/xhtml+xml,*/*;q=0.8"
    status, headers, body = ask(f"{base}/number/1", "POST", b"x" * (limit + 1), Accept=accept)
    assert (status, headers["content-type"]) == (413, "text/html; charset=utf-8")
    assert "<h1>At most 64 kB are taken.</h1>" in body
    assert f'href="{base}/' in body


@pytest.mark.parametrize(("n_pieces", "n_read"), [(3, 3), (64, 64), (80, 64)])
def test_of_a_long_body_as_much_as_a_proxy_lets_through_is_read_before_it_is_refused(
    n_pieces, n_read
):
    """A client that still sends when the connection closes would not see the answer."""
    read, sent = [], []

    async def receive():
        read.append(1)
        rest = {"more_body": True} if len(read) < n_pieces else {}
        return {"body": b"x" * (1 << 20), **rest}

    async def send(message):
        sent.append(message)

    asyncio.run(application.send_too_large(receive, send, 5_000_000))
    assert len(read) == n_read
    assert sent == [
        {
            **{"type": "http.response.start", "status": 413},
            "headers": [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"connection", b"close"),
            ],
        },
        {"type": "http.response.body", "body": b"At most 4,882 kB are taken.\n"},
    ]
    read.clear()
    asyncio.run(application.send_too_large(receive, send, 1, is_read=True))
    assert read == []


def test_what_is_no_http_request_passes_the_guard():
    seen = []

    async def app(*parts):
        seen.append(parts)

    guard = application.RequestGuard(app, PublicAddress())
    asyncio.run(guard({"type": "lifespan"}, "receive", "send"))
    assert seen == [({"type": "lifespan"}, "receive", "send")]


@pytest.mark.parametrize(
    ("path", "is_local"),
    [
        *(("/", True), ("/a", True), ("/a/b?c=d#e", True), ("/~", True), ("/!", True)),
        ("/a" + "b" * 1000, True),
        ("/a" + "b" * 1001, False),
        *(("", False), ("a", False), ("//a", False), ("/\\a", False), ("/a\\", False)),
        *(("/ a", False), ("/a b", False), ("/a\n", False), ("/\x7f", False), ("/é", False)),
    ],
)
def test_paths_of_this_site_are_told_from_others(path, is_local):
    assert local_path(path) == (path if is_local else "/")


def test_the_fields_of_a_form_are_described():
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"a": text, "b": text}}
    content = {"application/x-www-form-urlencoded": {"schema": schema}}
    assert form_schema("a", "b") == {"requestBody": {"content": content}}


def test_a_port_is_opened_up_to_the_last_and_served(monkeypatch):
    with listener.listen("127.0.0.1", 65_535) as opened:
        assert opened.getsockname() == ("127.0.0.1", 65_535)
    ran = []

    class Server:
        def __init__(self, config):
            self.config = config

        def run(self, sockets):
            ran.append((self.config.app, self.config.proxy_headers, sockets))

    monkeypatch.setattr(listener.uvicorn, "Server", Server)
    listener.serve("app", "socket")
    listener.serve("app", "socket", proxy=True)
    assert ran == [("app", False, ["socket"]), ("app", True, ["socket"])]


HOST = (b"host", b"here.example")


@pytest.mark.parametrize(
    ("method", "headers", "body", "status"),
    [
        ("GET", [(b"origin", b"https://elsewhere.example")], b"", 200),
        ("POST", [(b"origin", b"https://elsewhere.example")], b"", 403),
        ("POST", [(b"origin", b"https://here.example")], b"", 200),
        ("POST", [(b"origin", b"https://lab.example")], b"", 200),  # the address of `url=`
        ("POST", [(b"origin", b"null")], b"", 403),
        ("POST", [(b"sec-fetch-site", b"cross-site"), (b"origin", b"https://here.example")], b"", 403),
        ("POST", [(b"sec-fetch-site", b"none")], b"", 200),
        ("POST", [(b"content-length", b"10")], b"x" * 10, 200),
        ("POST", [(b"content-length", b"11")], b"x" * 11, 413),
        ("POST", [(b"content-length", b"-1")], b"", 413),
        ("POST", [], b"x" * 10, 200),
        ("POST", [], b"x" * 11, 413),
        ("HEAD", [], b"", 200),
        ("GET", [(b"x-long", b"x" * 32_000)], b"", 200),
        ("GET", [(b"x-long", b"x" * 33_000)], b"", 431),  # sent at once, so that the server itself reads it
        ("GET", [(b"x-long", b"x" * 60_000), (b"x-more", b"x" * 60_000)], b"", 431),
    ],
)  # fmt: skip
def test_the_guard_refuses_long_bodies_and_forms_of_other_sites(method, headers, body, status):
    seen, sent = [], []
    pieces = [body[:6], body[6:]]

    async def app(scope, receive, send):
        seen.append(scope["method"])
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RuntimeError("the client went away")
            more = message["more_body"]
        own = [(b"X-Frame-Options", b"SAMEORIGIN")]
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive():
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message):
        sent.append(message)

    guard = application.RequestGuard(
        app, PublicAddress("", True, "https://lab.example"), lambda path: 10 * (path == "/x")
    )
    scope = {"type": "http", "method": method, "path": "/x", "headers": [HOST, *headers]}
    asyncio.run(guard(scope, receive, send))
    assert sent[0]["status"] == status
    answer = dict(sent[0]["headers"])
    assert answer[b"cache-control"] == b"no-store"
    assert answer[b"strict-transport-security"] == b"max-age=31536000"
    if status == 200:
        assert seen == ["GET" if method == "HEAD" else method]
        assert answer[b"X-Frame-Options"] == b"SAMEORIGIN"
        assert b"x-frame-options" not in answer
        assert sent[1:] == [{"type": "http.response.body", "body": b"ok"}]
    else:
        assert answer[b"x-frame-options"] == b"DENY"
        if status == 413:
            assert sent[1]["body"] == b"At most 0 kB are taken.\n"


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_request_that_the_stop_of_a_site_cuts_off_is_answered_and_no_error(has_begun):
    sent = []
    start = {"type": "http.response.start", "status": 200, "headers": []}

    async def app(scope, receive, send):
        if has_begun:
            await send(start)
        await asyncio.Event().wait()

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    async def cut_off():
        guard = application.RequestGuard(app, PublicAddress())
        scope = {"type": "http", "method": "POST", "path": "/", "headers": [HOST]}
        task = asyncio.create_task(guard(scope, receive, send))
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(cut_off())
    if has_begun:
        assert [message["status"] for message in sent] == [200]
    else:
        assert sent[0]["status"] == 503
        assert sent[1]["body"] == b"The site is being stopped. Try again in a minute.\n"


def test_errors_are_pages_with_their_status_and_a_link(monkeypatch):
    shown = []

    def render(template, session=None, status=200, **variables):
        shown.append((template, status, variables))
        return SimpleNamespace(headers={})

    site = SimpleNamespace(render=render, translate=ENGLISH.translate)
    handlers = application.make_error_handlers(site, "/home")
    answers = [
        asyncio.run(handlers[type(error)](None, error))
        for error in (
            *(RefusedError("not so"), NotFoundError(), TooManyRequestsError()),
            *(BusyError("locked"), StoreError("full")),
        )
    ]
    assert [(status, v["message"], v["back"]) for _, status, v in shown] == [
        (400, "not so", "/"),
        (404, "There is no such page, or it is not yours to see.", "/"),
        (429, "Too many at once. Wait a few seconds, then try again.", "/home"),
        (503, "The database is busy. Wait a few seconds, then try again.", "/home"),
        (
            507,
            "This could not be stored (full). Nothing before it is lost; try again later.",
            "/home",
        ),
    ]
    retries = [None, None, "5", "5", None]
    assert [answer.headers.get("retry-after") for answer in answers] == retries


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_answer_to_a_cut_body_is_replaced_unless_it_has_begun(has_begun):
    """The application sees the client leave; what it answers then is not sent. The end of the body is not read again."""
    sent, pieces = [], [b"x" * 8, b"x" * 8]
    start = {"type": "http.response.start", "status": 200, "headers": []}

    async def app(scope, receive, send):
        if has_begun:
            await send(start)
        while (await receive())["type"] != "http.disconnect":
            pass
        if not has_begun:
            await send({**start, "status": 400})
        await send({"type": "http.response.body", "body": b"bad"})

    async def receive():
        body = pieces.pop(0)
        return {"type": "http.request", "body": body, **({"more_body": True} if pieces else {})}

    async def send(message):
        sent.append(message)

    guard = application.RequestGuard(app, PublicAddress(), lambda path: 10)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [HOST]}
    asyncio.run(guard(scope, receive, send))
    body = b"bad" if has_begun else b"At most 0 kB are taken.\n"
    assert [message.get("status", message.get("body")) for message in sent] == [
        200 if has_begun else 413,
        body,
    ]
    assert pieces == []
