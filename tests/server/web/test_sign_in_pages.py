"""Signing in as the admin of a site."""

from __future__ import annotations

import asyncio

from captau.server.collect.simulated_browser import Browser
from captau.server.web import sign_in_pages
from tests.server.challenge import visitors as challenge
from tests.server.challenge.visitors import quick_passwords

__all__ = ["quick_passwords"]


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
        assert browser.post("/admin/setup", {**page.hidden, **passwords}).status == 409
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
        # The link still stands in the terminal, and leads to where the password is asked for.
        assert browser.get(f"/admin/setup?code={site.setup_code}").heading.startswith("Sign in")
        assert browser.get("/admin/login").text != login.text
        assert [sign_in(p) for p in ("", challenge.PASSWORD + "x", challenge.PASSWORD)] == [
            *(403, 403, 303)
        ]
        assert browser.get("/admin").status == 200
