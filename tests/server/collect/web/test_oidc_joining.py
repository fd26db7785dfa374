"""Joining a study by a provider of OpenID Connect."""

from __future__ import annotations

import pytest

from captau.benchmarks.options.sites import OidcOptions
from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.web.oidc import SECRET_VARIABLE
from tests.conftest import says
from tests.server.collect.visitors import load_rows
from tests.server.oidc_provider import SECRET, oidc, visit_provider

__all__ = ["oidc"]

pytestmark = pytest.mark.dev


@pytest.fixture
def serve_signed(serve_small, oidc, monkeypatch):
    """Return a function that serves a study whose participants may sign in by the provider."""
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)

    def serve(*, is_only=False, **changes):
        options = OidcOptions(issuer=oidc.issuer, client_id="captau", only=is_only)
        return serve_small("good_bad", oidc=options, **changes)

    return serve


def sign_in(url):
    """Return a browser that came back from the provider, and the page that it was led to."""
    browser = Browser(url)
    browser.get("/")
    status, headers, _ = browser.raw("GET", visit_provider(browser))
    assert status == 303
    return browser, headers["location"]


def test_a_person_consents_once_and_comes_back_from_any_browser(serve_signed, oidc):
    site, url = serve_signed(is_only=True)
    browser, page = sign_in(url)
    assert page == "/"
    assert load_rows(site)["raters"] == []
    browser.post("/join", {**browser.get("/").hidden, "consent": "yes"})
    key = browser.get("/rate").hidden["key"]
    oidc.user |= {"preferred_username": "ann.b"}
    elsewhere, page = sign_in(url)
    assert page == "/rate"
    assert elsewhere.get("/rate").hidden["key"] == key
    oidc.user |= {"sub": "43"}
    assert sign_in(url)[1] == "/"
    (rater,) = load_rows(site)["raters"]
    assert rater["nickname"] is None
    assert oidc.issuer not in str(rater)


def test_a_person_who_signed_in_by_two_browsers_goes_on_in_both(serve_signed):
    """The second browser shows the consent, which was given in the first meanwhile."""
    site, url = serve_signed(is_only=True)
    browsers = [sign_in(url)[0], sign_in(url)[0]]
    keys: list[str] = []
    for browser in browsers:
        browser.post("/join", {**browser.get("/").hidden, "consent": "yes"})
        keys.append(browser.get("/rate").hidden["key"])
    assert keys[0] == keys[1]
    assert len(load_rows(site)["raters"]) == 1


def test_a_study_for_signed_in_people_alone_lets_nobody_else_join(serve_signed):
    site, url = serve_signed(is_only=True)
    browser = Browser(url)
    page = browser.get("/")
    assert "/signin/oidc" in page.text
    assert "consent" not in page.text
    session = site.sessions.read(browser.cookies["captau"], 60)
    refused = browser.post("/join", {"token": site.sessions.token(session), "consent": "yes"})
    assert refused.status == 400
    assert "Sign in to take part." in refused.text
    assert load_rows(site)["raters"] == []


def test_people_may_join_without_signing_in_unless_told_otherwise(serve_signed, oidc):
    site, url = serve_signed(lang="de")
    browser = Browser(url)
    assert "Mit 127.0.0.1" in browser.get("/").text
    path = visit_provider(browser)
    oidc.changes = {"nonce": "another"}
    assert "Der Anmeldedienst hat Sie nicht so angemeldet" in browser.get(path).text
    join_study(url)
    assert len(load_rows(site)["raters"]) == 1


def test_a_class_behind_one_address_can_sign_in_at_once(serve_signed, oidc):
    _, url = serve_signed(is_only=True, limits={"logins": 2})
    for number in range(6):
        oidc.user |= {"sub": str(number)}
        assert sign_in(url)[1] == "/"


def test_a_study_that_names_its_participants_otherwise_takes_no_provider(serve_signed):
    with says("participants is invitation; oidc.issuer= needs participants: open"):
        serve_signed(participants="invitation")
