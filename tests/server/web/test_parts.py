"""Sessions, passwords, addresses and headers: the values that every site relies on."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI, Request

from captau.server.challenge.tables import SCHEMA
from captau.server.storage.database import (
    BusyError,
    Database,
    StoreError,
)
from captau.server.storage.site_settings import (
    settings_with_prefix,
)
from captau.server.texts import ENGLISH
from captau.server.web import application, oidc, passwords
from captau.server.web.errors import NotFoundError, RefusedError, TooManyRequestsError
from captau.server.web.listener import listen, public_url, server_config
from captau.server.web.oidc import OidcOptions, OidcProvider, open_provider
from captau.server.web.passwords import AdminAccount, hash_password, password_from_environment
from captau.server.web.sessions import ADMIN_AGE, MEMBER_AGE, EndedSessions, Session, Sessions
from captau.server.web.site import PublicAddress, parse_public_address, visible_origin
from captau.server.web.visitors import client_address, field_value
from tests.conftest import says


@pytest.fixture
def database(tmp_path):
    opened = Database(str(tmp_path / "x.sqlite3"), SCHEMA)
    yield opened
    opened.close()


def test_a_session_is_its_own_for_its_time(monkeypatch):
    assert (MEMBER_AGE, ADMIN_AGE) == (7_776_000, 43_200)  # 90 days, 12 hours
    session = Session.new()
    assert session == Session(session.name, None, False, 0, "")
    assert len(session.name) == 16
    full = Session.new(7, admin=True, epoch=3)
    assert (full.member, full.admin, full.epoch) == (7, True, 3)
    sessions = Sessions(b"secret")
    cookie, now = sessions.write(full), time.time()
    assert sessions.read(cookie, 100) == full
    assert sessions.read(f"{cookie}x", 100) is None
    assert sessions.read(None, 100) is None
    monkeypatch.setattr(time, "time", lambda: now + 102)
    assert sessions.read(cookie, 100) is None
    token = sessions.token(full)
    assert (len(token), sessions.is_token_of(full, token)) == (64, True)
    assert not sessions.is_token_of(session, token)
    assert not sessions.is_token_of(full, "")


def test_ended_sessions_are_kept_until_their_cookies_have_expired(database, monkeypatch):
    ended, first, second = EndedSessions(database), Session.new(1), Session.new(1)
    asyncio.run(ended.add(first))
    assert (first in ended, second in ended) == (True, False)
    assert first in EndedSessions(database)
    now = time.time()
    kept = []
    for seconds in (MEMBER_AGE - 60, MEMBER_AGE + 60):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: now + seconds)
        EndedSessions(database)
        kept.append(database.run_blocking(lambda c: len(settings_with_prefix(c, "ended session "))))
    assert kept == [1, 0]


def test_the_admin_s_password_is_set_once_and_ends_sessions(database, monkeypatch):
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", hasher)
    admin = AdminAccount(database)
    assert (admin.epoch, admin.has_password) == (0, False)
    hint = "dashboard: http://x/admin/setup?code=CODE (choose a password)"
    assert admin.sign_in_hint("http://x", "CODE") == hint
    first, second = hash_password("the first one"), hash_password("the second one")
    assert admin.set_password(first, replace=False)
    assert not admin.set_password(second, replace=False)
    assert (admin.epoch, asyncio.run(admin.load_password_hash())) == (1, first)
    assert admin.sign_in_hint("http://x", "CODE") == "dashboard: http://x/admin"
    epochs = []
    for password in (None, "the first one", "the second one"):
        admin.adopt_password(password)
        epochs.append(admin.epoch)
    admin.end_sessions()
    assert [*epochs, admin.epoch, AdminAccount(database).epoch] == [1, 1, 2, 3, 3]
    assert passwords.is_password(asyncio.run(admin.load_password_hash()), "the second one")
    assert not passwords.is_password("no hash", "the second one")
    monkeypatch.delenv("CAPTAU_ADMIN_PASSWORD", raising=False)
    assert password_from_environment() is None
    monkeypatch.setenv("CAPTAU_ADMIN_PASSWORD", "x" * 10)
    assert password_from_environment() == "x" * 10
    monkeypatch.setenv("CAPTAU_ADMIN_PASSWORD", "x" * 9)
    with says("CAPTAU_ADMIN_PASSWORD has fewer than 10 characters"):
        password_from_environment()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (None, PublicAddress("", False, "")),
        ("http://x:8000", PublicAddress("", False, "http://x:8000")),
        ("https://x.example/lab/", PublicAddress("/lab", True, "https://x.example")),
        ("ftp://x", None),
        ("x.example", None),
        ("https:///lab", None),
    ],
)
def test_the_option_url_is_read(url, address):
    if address is not None:
        assert parse_public_address(url) == address
    else:
        with says(f"url={url}: http://… or https://… is expected"):
            parse_public_address(url)


def test_addresses_are_written_with_their_port_and_brackets():
    def origin(host, **parts):
        scope = {"type": "http", "server": (host, 80), "scheme": "http"}
        return visible_origin(PublicAddress(**parts), Request(scope))

    assert origin("127.0.0.1") == "http://127.0.0.1:80"
    assert origin("::1") == "http://[::1]:80"
    assert origin("::1", origin="https://x") == "https://x"
    names = [SimpleNamespace(getsockname=lambda h=h: (h, 5, 0, 0)) for h in ("::1", "127.0.0.1")]
    assert [public_url(None, n) for n in names] == ["http://[::1]:5", "http://127.0.0.1:5"]
    assert public_url("https://x/lab/", names[0]) == "https://x/lab"
    assert client_address(Request({"type": "http", "client": ("192.0.2.1", 9)})) == "192.0.2.1"
    assert client_address(Request({"type": "http", "client": None})) == ""
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


def test_a_field_that_is_sent_twice_or_not_at_all_is_empty():
    fields = {"a": [" x "], "b": ["x", "y"], "c": []}
    assert [field_value(fields, name) for name in "abcd"] == ["x", "", "", ""]


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


def test_errors_are_pages_with_their_status_and_a_link(monkeypatch):
    shown = []

    def render(template, session=None, status=200, **variables):
        shown.append((template, status, variables))
        return SimpleNamespace(headers={})

    site = SimpleNamespace(render=render, translate=ENGLISH.translate)
    handlers = application._error_handlers(site, "/home")
    answers = [
        asyncio.run(handlers[type(error)](None, error))
        for error in (
            *(RefusedError("not so"), NotFoundError(), TooManyRequestsError()),
            *(BusyError("locked"), StoreError("full")),
        )
    ]
    assert [(status, v["message"], v["back"]) for _, status, v in shown] == [
        (400, "not so", "/"),
        (404, "There is nothing here for you.", "/"),
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


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        ({"preferred_username": "ann", "email": "a.b@x.example", "name": "Ann  B"}, ("ann", "a.b", "Ann B")),
        ({"preferred_username": "<x>", "email": 7, "name": "Ann"}, ("Ann",)),
        ({}, ()),
    ],
)  # fmt: skip
def test_an_identity_has_the_names_that_an_account_may_have(claims, names):
    identity = oidc._identify("https://p.example", {"sub": "1", **claims})
    assert identity.names == names
    assert identity.key == oidc._identify("https://p.example", {"sub": "1"}).key
    assert identity.key != oidc._identify("https://q.example", {"sub": "1"}).key


@pytest.mark.parametrize(
    ("claims", "is_allowed"),
    [
        ({"email": "ann@Lab.example", "email_verified": True}, True),
        ({"email": "ann@lab.example", "email_verified": "true"}, False),
        ({"email": "ann@lab.example"}, False),
        ({"email": "lab.example@x.example", "email_verified": True}, False),
        ({"groups": ["Staff"]}, True),
        ({"groups": "staff"}, False),
        ({"groups": ["lab.example"]}, False),
    ],
)
def test_allowed_domains_and_groups(claims, is_allowed):
    options = OidcOptions(issuer="https://p", client_id="c", allow=("lab.EXAMPLE", "group:staff"))
    assert OidcProvider(options)._is_allowed(claims) == is_allowed
    assert OidcProvider(OidcOptions(issuer="https://p", client_id="c"))._is_allowed(claims)


def test_options_of_a_provider_go_together():
    assert open_provider(OidcOptions()) is None
    for options, message in (
        (OidcOptions(client_id="c"), "oidc.*= needs oidc.issuer=URL"),
        (OidcOptions(issuer="http://p.example", client_id="c"), "oidc.issuer=http://p.example: https://"),
        (OidcOptions(issuer="https://", client_id="c"), "oidc.issuer=https://: https://… is expected"),
        (OidcOptions(issuer="https://p.example"), "oidc.issuer= needs oidc.client_id="),
    ):  # fmt: skip
        with says(message):
            open_provider(options)
    for issuer in ("https://p.example", "http://localhost:1", "http://127.0.0.1:1"):
        assert (
            open_provider(OidcOptions(issuer=issuer, client_id="c")).name == issuer.split("//")[1]
        )
