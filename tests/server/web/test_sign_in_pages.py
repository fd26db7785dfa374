"""The addresses of signing in by a provider, on both sites; a class that notes what it is asked stands for the provider."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from captau.server.collect.simulated_browser import Browser
from captau.server.web import sign_in_pages, visitors
from captau.server.web.oidc import Identity
from tests.server.challenge import visitors as challenge
from tests.server.challenge.visitors import quick_passwords
from tests.server.collect import conftest as collect

__all__ = ["quick_passwords"]


class Provider:
    """A provider who signs in whoever comes back, as `identity`."""

    name, is_only = "p.example", False

    def __init__(self):
        self.begun, self.answers = [], []
        self.identity = Identity("a" * 64, ("ann",))

    def begin(self, address, session, page, redirect_uri):
        self.begun.append((address, session.name, page, redirect_uri))
        return "https://p.example/authorize"

    def finish(self, session, answer):
        self.answers.append((session and session.name, answer))
        return self.identity, self.begun[-1][2]


@pytest.fixture(params=["challenge", "collect"])
def site(request, tmp_path):
    """Yield a site with the provider, and its address."""
    if request.param == "challenge":
        opened = challenge.make_site(tmp_path, provider=Provider())
        served = challenge.serve_site(opened)
    else:
        opened = collect.make_site(tmp_path, "good_bad")
        opened.provider = Provider()
        served = collect.serve_site(opened)
    with served as url:
        yield opened, url


def session_name(site, browser):
    return site.sessions.read(browser.cookies["captau"], 60).name


def test_a_visitor_is_sent_to_the_provider_and_comes_back_with_the_same_session(site):
    site, url = site
    browser, provider, back = Browser(url), site.provider, f"{url}/signin/oidc/back"
    for query, page in (("", "/"), ("?to=/board", "/board"), ("?to=//evil.example", "/")):
        status, headers, _ = browser.raw("GET", f"/signin/oidc{query}")
        assert (status, headers["location"]) == (303, "https://p.example/authorize")
        assert provider.begun[-1] == ("127.0.0.1", session_name(site, browser), page, back)
    assert len({name for _, name, _, _ in provider.begun}) == 1
    name = session_name(site, browser)
    assert browser.raw("GET", "/signin/oidc/back?state=s&code=c&iss=i&x=y")[0] == 303
    assert provider.answers == [(name, {"state": "s", "code": "c", "iss": "i"})]
    assert session_name(site, browser) != name
    # Whoever is signed in begins with a new session, and an answer may lack all of it.
    stranger = Browser(url)
    assert stranger.raw("GET", "/signin/oidc/back")[0] == 303
    assert provider.answers[1] == (None, {})
    assert stranger.raw("GET", f"/signin/oidc/back?state={'s' * 4000}")[0] == 303
    assert stranger.raw("GET", f"/signin/oidc/back?state={'s' * 4001}")[0] == 422


def test_an_address_has_a_hundred_attempts_at_once_and_one_a_second(site, monkeypatch):
    site, url = site
    now = [1000.0]
    monkeypatch.setattr(visitors, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert [site.provider_limiter.take("127.0.0.1") for _ in range(101)] == [True] * 100 + [False]
    assert Browser(url).raw("GET", "/signin/oidc")[0] == 429
    assert Browser(url).raw("GET", "/signin/oidc/back")[0] == 429
    assert (site.provider.begun, site.provider.answers) == ([], [])
    now[0] += 1.0
    assert [Browser(url).raw("GET", "/signin/oidc")[0] for _ in range(2)] == [303, 429]
    site.provider = None
    assert Browser(url).raw("GET", "/signin/oidc")[0] == 404


def test_the_admin_s_cookie_is_that_of_a_stranger_after_signing_out(tmp_path):
    site = challenge.make_site(tmp_path)
    with challenge.serve_site(site) as url:
        admin = challenge.sign_up_admin(site, url)
        fields = admin.get("/admin").hidden
        page = admin.post("/admin/logout", fields, follow=False)
        session = site.sessions.read(admin.cookies["captau_admin"], 60)
        assert (page.status, session.member, session.admin) == (303, None, True)
        assert "captau" not in admin.cookies


def test_the_first_of_two_first_passwords_stands(tmp_path, monkeypatch):
    """Both were sent before either was stored."""
    site = challenge.make_site(tmp_path)
    with challenge.serve_site(site) as url:
        browser = Browser(url)
        page = browser.get(f"/admin/setup?code={site.setup_code}")

        async def hash_after_another(password, again):
            stored = await asyncio.to_thread(
                site.admin_account.set_password, "the first", replace=False
            )
            assert stored
            return "the second"

        monkeypatch.setattr(sign_in_pages, "hash_new_password", hash_after_another)
        passwords = {"password": challenge.PASSWORD, "again": challenge.PASSWORD}
        assert browser.post("/admin/setup", {**page.hidden, **passwords}).status == 404
        assert asyncio.run(site.admin_account.load_password_hash()) == "the first"


def test_the_admin_signs_in_by_the_password_that_was_set(tmp_path):
    site = challenge.make_site(tmp_path)
    with challenge.serve_site(site) as url:
        browser, right = Browser(url), {"password": challenge.PASSWORD, "again": challenge.PASSWORD}

        def sign_in(password):
            fields = {**browser.get("/admin/login").hidden, "password": password}
            return browser.post("/admin/login", fields, follow=False).status

        login = browser.get("/admin/login")
        assert browser.get("/admin/setup").status == 404
        assert browser.get("/admin/setup?code=x").status == 404
        page = browser.get(f"/admin/setup?code={site.setup_code}")
        early = browser.post("/admin/login", {**page.hidden, **right}, follow=False)
        assert early.status == 403  # no password is right yet
        assert browser.post("/admin/setup", {**page.hidden, **right}, follow=False).status == 303
        browser.cookies.clear()
        assert browser.get(f"/admin/setup?code={site.setup_code}").status == 404
        assert browser.get("/admin/login").text != login.text
        assert [sign_in(p) for p in ("", challenge.PASSWORD + "x", challenge.PASSWORD)] == [
            *(403, 403, 303)
        ]
        assert browser.get("/admin").status == 200
