"""Security of a study site: tokens, headers, limits and addresses."""

from __future__ import annotations

import http.client
import re

import pytest

from captau.benchmarks.options.sites import CollectOptions
from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.web.site import open_site
from tests.server.collect.conftest import make_site, write_study
from tests.server.collect.visitors import finish_tutorial, load_rows, sign_in_admin


def test_visitors_cannot_reach_what_belongs_to_others(serve_small):
    _, url = serve_small()
    ann, bob = finish_tutorial(url, "Ann"), finish_tutorial(url, "Bob")
    page = ann.get("/rate")
    key = page.hidden["key"]
    ann.post("/rate", {**page.hidden, "rating": 3})
    token = bob.get("/rate").hidden["token"]
    assert ann.raw("GET", f"/told/{key}")[0] == 200
    assert ann.raw("GET", f"/image/{key}")[0] == 200
    assert bob.raw("GET", f"/told/{key}")[0] == 404
    assert bob.raw("GET", f"/image/{key}")[0] == 404
    assert bob.post("/rate", {"token": token, "key": key, "rating": 3}).status == 404
    stranger = Browser(url)
    for path in ("/rate", "/board", "/done", f"/image/{key}", f"/told/{key}", "/check"):
        assert stranger.raw("GET", path)[0] == 303
    for path in ("/admin", "/admin/export/captau"):
        assert ann.raw("GET", path)[1]["location"] == "/admin/login"
    for path in ("/image/..%2f..%2fetc%2fpasswd", "/image/../study.yaml", "/static/../app.py"):
        assert ann.raw("GET", path)[0] in (404, 422)


def test_forms_need_the_token_of_their_session(serve_small):
    site, url = serve_small()
    ann, bob = finish_tutorial(url, "Ann"), finish_tutorial(url, "Bob")
    page = ann.get("/rate")
    for token in ("", "x", bob.get("/rate").hidden["token"]):
        assert ann.post("/rate", {**page.hidden, "token": token, "rating": 3}).status == 400
    assert not [a for a in load_rows(site)["answers"] if a["phase"] == "trial"]
    forged = Browser(url)
    forged.cookies["captau"] = ann.cookies["captau"][:-2] + "xx"
    assert forged.raw("GET", "/rate")[0] == 303


def test_cookies_and_headers_are_strict(serve_small):
    _, url = serve_small()
    browser = Browser(url)
    status, headers, _ = browser.raw("GET", "/")
    assert status == 200
    cookie = headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    for path in ("/static/captau.js", "/nowhere", "/admin/login"):
        assert browser.raw("GET", path)[1]["content-security-policy"] == policy
    page = browser.get("/").text
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", page)


def test_large_bodies_are_refused(serve_small):
    _, url = serve_small()
    browser = join_study(url)
    page = browser.get("/rate")
    fields = {**page.hidden, "rating": "4", "more": "x" * 70_000}
    status, _, _ = browser.raw("POST", "/rate", "&".join(f"{k}={v}" for k, v in fields.items()))
    assert status == 413
    # The same in pieces, of unknown length.
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    pieces = (b"x" * 8192 for _ in range(20))
    headers = {"cookie": f"captau={browser.cookies['captau']}", "transfer-encoding": "chunked"}
    headers["content-type"] = "application/x-www-form-urlencoded"
    connection.request("POST", "/rate", pieces, headers, encode_chunked=True)
    assert connection.getresponse().status == 413


def test_joining_and_signing_in_are_limited(serve_small, limit_clock):
    _, url = serve_small(limits={"joins": 2, "logins": 2, "requests": 2})
    join_study(url, "a")
    join_study(url, "b")
    with pytest.raises(RuntimeError, match="429"):
        join_study(url, "c")
    admin = Browser(url)
    page = admin.get("/admin/login")
    token = page.hidden.get("token", "")
    statuses = [admin.raw("GET", "/admin/setup?code=guess")[0] for _ in range(4)]
    assert statuses == [404, 404, 429, 429]
    assert token == ""


def test_links_do_not_use_the_host_header(serve_small):
    site, url = serve_small("good_bad", participants="invitation", url="https://lab.example")
    browser = Browser(url)
    for path in ("/rate/", "/admin/login/", "//evil.example/rate/"):
        status, headers, _ = browser.raw("GET", path, host="evil.example")
        assert (status, headers.get("location")) == (404, None)
    admin = sign_in_admin(site, url)
    body = f"token={admin.get('/admin').hidden['token']}&many=1"
    _, _, page = admin.raw("POST", "/admin/invitations", body, host="evil.example")
    assert b"https://lab.example/i/" in page
    assert b"evil.example" not in page


def test_head_requests_are_answered_like_get(serve_small):
    _, url = serve_small("good_bad")
    for path in ("/", "/health", "/admin/login", "/static/captau.js"):
        status, headers, body = Browser(url).raw("HEAD", path)
        assert (status, body) == (200, b"")
        assert "content-security-policy" in headers


def test_internal_errors_have_the_security_headers(serve_small, monkeypatch):
    site, url = serve_small("good_bad")
    monkeypatch.setattr(site.admin_account, "load_password_hash", None)  # cannot be called
    status, headers, body = Browser(url).raw("GET", "/health")
    assert status == 500
    assert b"Something went wrong here" in body
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


def test_a_site_works_below_a_path(serve_small):
    _, url = serve_small("good_bad", url="https://lab.example/study")
    browser = Browser(url)
    status, headers, body = browser.raw("GET", "/study/")
    assert status == 200
    assert "secure" in headers["set-cookie"].lower()
    assert "path=/study" in headers["set-cookie"].lower()
    assert b'action="/study/join"' in body
    assert browser.raw("GET", "/study/static/captau.css")[0] == 200
    assert browser.raw("GET", "/study")[1]["location"] == "/study/"


def test_the_limits_of_a_study_are_those_of_its_file(tmp_path, limit_clock):
    """Joins a minute, requests a second and thrice as many at once, attempts to sign in in ten minutes."""
    site = make_site(tmp_path, "good_bad", limits={"joins": 3, "logins": 6, "requests": 5})

    def take(limiter):
        return sum(limiter.take("somebody") for _ in range(50))

    for limiter, at_once, seconds, later in (
        (site.join_limiter, 3, 40, 2),
        (site.request_limiter, 15, 1, 5),
        (site.sign_in_limiter, 6, 200, 2),
    ):
        taken = [take(limiter)]
        limit_clock[0] += seconds + 1e-6
        assert [*taken, take(limiter)] == [at_once, later]
    site.store.database.close()
    # Simulated raters have none, and wait as long as they are told to.
    path = write_study(tmp_path, "game", name="other")
    options = CollectOptions(study=str(path), database=tmp_path / "other.sqlite3")
    site = open_site(options, wait=2.5)
    limits = site.study.limits
    assert (limits.joins, limits.logins, limits.requests) == (1_000_000,) * 3
    assert site.study.form.course.wait == 2.5
    assert site.base == ""
    site.store.database.close()
