"""The base of both sites without a server: cookies, sessions, forms and pages, each as it is written."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from fastapi import Request, Response

from captau.server.storage.database import (
    StoreError,
)
from captau.server.web.errors import (
    RefusedError,
    SignInRequiredError,
)
from captau.server.web.sessions import Session
from captau.server.web.site import PublicAddress, WebSite, parse_public_address, visible_origin
from tests.conftest import says

FOREIGN = "This form does not belong to this site."
OPEN_TOO_LONG = "This page was open for too long, or in another browser. Go back, reload the page and try again."


def make_site(epoch=0, **address):
    admin = SimpleNamespace(epoch=epoch)
    address = PublicAddress(**address)
    return WebSite("captau.server.challenge", admin, b"secret", address, 10, {"title": "A <site>"})


def make_request(body=b"", content_type="application/x-www-form-urlencoded", **cookies):
    async def receive():
        if isinstance(body, Exception):
            raise body
        return {"type": "http.request", "body": body, "more_body": False}

    text = "; ".join(f"{name}={value}" for name, value in cookies.items())
    headers = [(b"content-type", content_type.encode()), (b"cookie", text.encode())]
    scope = {"type": "http", "method": "POST", "headers": headers, "app": None}
    return Request(scope, receive)


@pytest.mark.parametrize(
    ("address", "admin", "expected"),
    [
        ({}, False, ("captau", "/", 7_776_000, "lax", "")),
        ({}, True, ("captau_admin", "/admin", 43_200, "strict", "")),
        ({"base": "/lab", "secure": True}, False, ("captau", "/lab", 7_776_000, "lax", True)),
        ({"base": "/lab"}, True, ("captau_admin", "/lab/admin", 43_200, "strict", "")),
    ],
)
def test_a_cookie_is_for_its_pages_and_its_time(address, admin, expected):
    """90 days for members; 12 hours, and no page of another site, for the admin."""
    site, response = make_site(**address), Response()
    assert site.set_session(response, Session.new(member=3, admin=admin)) is response
    cookies = SimpleCookie(response.headers["set-cookie"])
    ((name, cookie),) = cookies.items()
    assert (
        name,
        cookie["path"],
        int(cookie["max-age"]),
        cookie["samesite"],
        cookie["secure"],
    ) == expected
    assert cookie["httponly"] is True
    assert site.sessions.read(cookie.value, 60).member == 3


def test_a_session_counts_for_its_kind_and_until_it_is_ended():
    site = make_site(epoch=1000)

    def read(session, name, *, admin):
        return site.read_session(make_request(**{name: site.sessions.write(session)}), admin=admin)

    member, visitor = Session.new(3), Session.new()
    admin, old = (Session.new(1, admin=True, epoch=epoch) for epoch in (1000, 999))
    unsigned = Session.new(admin=True)  # of the page to sign in, which no epoch ends
    assert read(member, "captau", admin=False) == member
    assert read(admin, "captau_admin", admin=True) == admin
    assert read(unsigned, "captau_admin", admin=True) == unsigned
    for session, name, is_admin in (
        (member, "captau", True),
        (member, "captau_admin", True),
        (admin, "captau", False),
        (old, "captau_admin", True),
    ):
        assert read(session, name, admin=is_admin) is None
    assert site.read_session(make_request()) is None
    # Whoever is signed in gets a new session where one signs in; others keep theirs.
    for session, is_kept in ((member, False), (visitor, True)):
        request = make_request(captau=site.sessions.write(session))
        found = site.unsigned_session(request)
        assert (found == session, found.member, found.admin) == (is_kept, None, False)
    found = site.unsigned_session(make_request(), admin=True)
    assert (found.member, found.admin) == (None, True)
    request = make_request(captau_admin=site.sessions.write(admin))
    assert site.require_admin(request) == admin
    for session in (unsigned, old):
        request = make_request(captau_admin=site.sessions.write(session))
        with pytest.raises(SignInRequiredError) as raised:
            site.require_admin(request)
        assert raised.value.page == "/admin/login"


def read_form(body, session, **options):
    """Return the fields and the file of a form, or the text by which it is refused."""
    site = make_site()
    if isinstance(body, dict):
        body = urlencode(body, doseq=True, errors="surrogatepass").encode()
    try:
        return asyncio.run(site.read_form_and_file(make_request(body, **options), session))
    except (RefusedError, StoreError) as error:
        return str(error)


def test_a_form_has_the_token_of_its_session_and_no_text_that_a_database_refuses():
    session = Session.new()
    token = make_site().sessions.token(session)
    fields = {"token": token, "a": ["1", "x\0y"], "b": "é"}
    assert read_form(fields, session) == ({"a": ["1", "xy"], "b": ["é"]}, None)
    assert read_form({**fields, "token": "x"}, session) == OPEN_TOO_LONG
    assert read_form({**fields, "token": ["x", token]}, session) == OPEN_TOO_LONG
    assert read_form({"a": "1"}, session) == OPEN_TOO_LONG
    assert read_form(fields, None) == OPEN_TOO_LONG
    assert read_form(fields, Session.new()) == OPEN_TOO_LONG
    assert read_form(OSError(28, "No space left on device"), session) == "No space left on device"
    assert read_form(OSError(), session) == "OSError"


def multipart(n_fields, n_files, token):
    parts = [f'--x\r\nContent-Disposition: form-data; name="token"\r\n\r\n{token}\r\n']
    parts += ['--x\r\nContent-Disposition: form-data; name="f"\r\n\r\nv\r\n'] * (n_fields - 1)
    head = '--x\r\nContent-Disposition: form-data; name="file"; filename="{}.json"\r\n\r\n[]\r\n'
    parts += [head.format(k) for k in range(n_files)]
    return "".join([*parts, "--x--\r\n"]).encode()


def test_a_form_has_at_most_a_thousand_fields_and_one_file():
    session = Session.new()
    token, kind = make_site().sessions.token(session), "multipart/form-data; boundary=x"
    fields, file = read_form(multipart(1000, 1, token), session, content_type=kind)
    assert (fields, file.filename) == ({"f": ["v"] * 999}, "0.json")
    for n_fields, n_files in ((1001, 0), (1, 2)):
        body = multipart(n_fields, n_files, token)
        assert read_form(body, session, content_type=kind) == FOREIGN
    assert read_form(b"--y", session, content_type="multipart/form-data") == FOREIGN
    request = make_request(multipart(1, 1, token), kind)
    with pytest.raises(RefusedError, match=FOREIGN):  # a form that takes no file
        asyncio.run(make_site().read_form(request, session))
    request = make_request(multipart(2, 0, token), kind)
    assert asyncio.run(make_site().read_form(request, session)) == {"f": ["v"]}


def test_a_page_has_its_status_the_token_and_no_markup_of_values():
    site, session = make_site(base="/lab"), Session.new()
    values = {"fault": "<b>", "has_password": True, "setup_code": "", "min_length": 10}
    page = site.render("admin_signin.html", session, 403, **values)
    text = page.body.decode()
    assert page.status_code == 403
    assert f'value="{site.sessions.token(session)}"' in text
    assert "&lt;b&gt;" in text
    assert "A &lt;site&gt;" in text
    assert 'lang="en"' in text
    assert 'action="/lab/admin/login"' in text
    page = site.render("admin_signin.html", None, **values)
    assert (page.status_code, 'name="token" value=""' in page.body.decode()) == (200, True)
    redirect = site.redirect("/account")
    assert (redirect.status_code, redirect.headers["location"]) == (303, "/lab/account")
    assert len(site.setup_code) == 22  # 16 random bytes in base64
    assert site.setup_code != make_site().setup_code
    limiter = site.sign_in_limiter
    assert [limiter.take("a") for _ in range(11)] == [True] * 10 + [False]


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


def test_an_address_may_try_all_its_attempts_again_in_ten_minutes(limit_clock):
    limiter = make_site().sign_in_limiter
    assert [limiter.take("a") for _ in range(11)] == [True] * 10 + [False]
    for seconds, is_allowed in ((59.95, False), (0.1, True), (0.0, False)):
        limit_clock[0] += seconds
        assert limiter.take("a") == is_allowed
