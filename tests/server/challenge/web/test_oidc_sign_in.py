"""Signing in to a challenge site by a provider of OpenID Connect, and what is refused."""

from __future__ import annotations

import base64
import hmac
import json
import time
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import FastAPI

from captau.benchmarks.options.sites import OidcOptions
from captau.server.challenge import tables
from captau.server.web import oidc as module
from captau.server.web.oidc import open_provider
from captau.server.web.sessions import Session
from tests.conftest import says, serving
from tests.server.challenge.visitors import (
    Visitor,
    load_table,
    quick_passwords,
    serve_small,
    sign_up,
    sign_up_admin,
)
from tests.server.oidc_provider import SECRET, oidc, visit_provider

__all__ = ["oidc", "quick_passwords", "serve_small"]

pytestmark = pytest.mark.dev


def test_the_first_sign_in_makes_an_account_that_issuer_and_subject_identify(serve_small, oidc):
    site, url = serve_small(provider=oidc.make_client())
    ann = Visitor(url)
    assert f"Sign in with {urlsplit(oidc.issuer).netloc}" in ann.get("/signin").text
    status, headers, _ = ann.raw("GET", visit_provider(ann, "/account"))
    assert (status, headers["location"]) == (303, "/account")
    page = ann.get("/account")
    assert page.heading == "ann"
    assert "Change the password" not in page.text
    # Another name and address, the same person.
    oidc.user |= {"preferred_username": "ann.b", "email": "b@lab.example"}
    again = Visitor(url)
    again.raw("GET", visit_provider(again))
    assert again.get("/account").heading == "ann"
    # The same name and address, another person.
    oidc.user = {"sub": "43", "preferred_username": "ann"}
    other = Visitor(url)
    other.raw("GET", visit_provider(other))
    assert other.get("/account").heading == "ann 2"
    rows = load_table(site, tables.accounts)
    assert [(row["name"], row["password"]) for row in rows] == [("ann", ""), ("ann 2", "")]
    # No password opens such an account.
    assert Visitor(url).sign_in("ann", "").status == 403
    # Signing out ends the session on the server.
    cookie = ann.cookies["captau"]
    ann.send("/signout")
    ann.cookies["captau"] = cookie
    assert ann.raw("GET", "/account")[0] == 303


def test_an_account_with_a_password_is_not_taken_over_by_its_name(serve_small, oidc):
    _, url = serve_small(provider=oidc.make_client())
    sign_up(url, "ann")
    stranger = Visitor(url)
    stranger.raw("GET", visit_provider(stranger))
    assert stranger.get("/account").heading == "ann 2"


def test_passwords_can_be_turned_off(serve_small, oidc):
    site, url = serve_small(provider=oidc.make_client(only=True))
    visitor = Visitor(url)
    page = visitor.get("/signin")
    assert 'type="password"' not in page.text
    assert "/signup" not in page.text
    for path in ("/signup", "/recover"):
        assert visitor.get(path).status == 404
    for path in ("/signup", "/signin", "/recover"):
        assert visitor.raw("POST", path)[0] == 404
    assert sign_up_admin(site, url).get("/admin").heading == "Dashboard"


@pytest.mark.parametrize(
    ("claims", "allow", "is_allowed"),
    [
        ({"email": "a@LAB.example", "email_verified": True}, ["lab.example"], True),
        ({"email": "a@lab.example"}, ["lab.example"], False),
        ({"email": "a@lab.example", "email_verified": "false"}, ["lab.example"], False),
        ({"email": "a@evil-lab.example", "email_verified": True}, ["lab.example"], False),
        ({"email": "a@lab.example@evil.example", "email_verified": True}, ["lab.example"], False),
        ({"groups": ["captions", "x"]}, ["lab.example", "group:captions"], True),
        ({"groups": ["lab.example"]}, ["lab.example"], False),
        ({"groups": "group:captions"}, ["group:captions"], False),
    ],
)
def test_only_allowed_domains_and_groups_may_sign_in(serve_small, oidc, claims, allow, is_allowed):
    site, url = serve_small(provider=oidc.make_client(allow=tuple(allow)))
    oidc.user |= claims
    visitor = Visitor(url)
    status, _, _ = visitor.raw("GET", visit_provider(visitor))
    assert status == (303 if is_allowed else 400)
    assert len(load_table(site, tables.accounts)) == is_allowed


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another client"},
        {"aud": ["captau", "another"], "azp": "another"},
        {"exp": int(time.time()) - 3600},
        {"exp": None},
        {"iss": "https://evil.example"},
        {"sub": "somebody else than the userinfo's"},
        {"sub": None},
    ],
    ids=lambda changes: " ".join(f"{name} {kind(value)}" for name, value in changes.items()),
)
def test_a_token_with_a_wrong_claim_is_refused(serve_small, oidc, changes):
    site, url = serve_small(provider=oidc.make_client())
    oidc.changes = changes
    check_refused(site, Visitor(url))


def kind(value):
    return "missing" if value is None else "past" if isinstance(value, int) else value


@pytest.mark.parametrize("kid", ["first", "unknown"])
def test_a_token_of_another_key_is_refused(serve_small, oidc, kid):
    from joserfc.jwk import RSAKey

    site, url = serve_small(provider=oidc.make_client())
    oidc.key = RSAKey.generate_key(2048, {"kid": kid}, auto_kid=False)
    check_refused(site, Visitor(url))


def encode_part(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def sign_by_nobody(oidc, claims, name="none"):
    """Return a token without a signature (RFC 8725, section 2.1)."""
    return f"{encode_part({'alg': name, 'kid': 'first'})}.{encode_part(claims)}."


def sign_by_public_key(oidc, claims):
    """Return a token whose symmetric key is the provider's public one (RFC 8725, section 2.1)."""
    head = f"{encode_part({'alg': 'HS256', 'kid': 'first'})}.{encode_part(claims)}"
    key = oidc.key.as_pem(private=False)
    return f"{head}.{encode_part(hmac.digest(key, head.encode(), 'sha256'))}"


def sign_by_own_key(oidc, claims):
    """Return a token that brings the key which it is signed by (RFC 7515, section 4.1.3)."""
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    key = RSAKey.generate_key(2048, {"kid": "first"}, auto_kid=False)
    header = {"alg": "RS256", "kid": "first", "jwk": key.as_dict(private=False)}
    return jwt.encode({**header, "jku": f"{oidc.issuer}/elsewhere"}, claims, key)


@pytest.mark.parametrize(
    "forge",
    [
        sign_by_nobody,
        partial(sign_by_nobody, name="nOnE"),
        sign_by_public_key,
        sign_by_own_key,
        lambda oidc, claims: "",
        lambda oidc, claims: "a.b.c",
        lambda oidc, claims: f"{encode_part(b'[' * 100_000)}.e30.e30",
    ],
)
def test_a_forged_token_is_refused(serve_small, oidc, forge):
    site, url = serve_small(provider=oidc.make_client())
    oidc.forge = lambda claims: forge(oidc, claims)
    check_refused(site, Visitor(url))


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token", "/user"])
def test_a_provider_that_redirects_inwards_is_not_followed(serve_small, oidc, path):
    asked = []
    inside = FastAPI()

    @inside.api_route("/secret", methods=["GET", "POST"])
    def secret():
        asked.append(path)
        return {"keys": [], "sub": "42"}

    site, url = serve_small(provider=oidc.make_client())
    with serving(inside) as address:
        oidc.redirects[path] = f"{address}/secret"
        visitor = Visitor(url)
        if "well-known" in path:
            status = visitor.raw("GET", "/signin/oidc")[0]
        else:
            status = visitor.raw("GET", visit_provider(visitor))[0]
    assert (status, asked) in [(400, []), (503, [])]
    assert not load_table(site, tables.accounts)


def test_new_keys_of_the_provider_are_fetched(serve_small, oidc):
    from joserfc.jwk import RSAKey

    _, url = serve_small(provider=oidc.make_client())
    for kid in ("first", "second"):
        oidc.key = oidc.published_key = RSAKey.generate_key(2048, {"kid": kid}, auto_kid=False)
        visitor = Visitor(url)
        assert visitor.raw("GET", visit_provider(visitor))[0] == 303


def check_refused(site, visitor):
    """Check that the provider's answer signs nobody in, in a plain page."""
    status, _, body = visitor.raw("GET", visit_provider(visitor))
    assert status == 400
    assert b"did not sign you in as it should" in body
    assert visitor.raw("GET", "/account")[0] == 303
    assert not load_table(site, tables.accounts)


def test_an_answer_counts_once_and_for_the_browser_that_asked(serve_small, oidc, monkeypatch):
    site, url = serve_small(provider=oidc.make_client())
    ann, eve = Visitor(url), Visitor(url)
    back = visit_provider(ann)
    # Eve lures Ann's answer away, or hands hers to Ann, as a forged sign-in would.
    eve.get("/signin")
    assert eve.raw("GET", back)[0] == 400
    assert ann.raw("GET", back)[0] == 400  # it was used
    back = visit_provider(ann)
    assert ann.raw("GET", back.replace("iss=http", "iss=https"))[0] == 400
    back = visit_provider(ann)
    assert ann.raw("GET", back)[0] == 303
    assert ann.raw("GET", back)[0] == 400
    for query in ("", "?state=x&code=y", "?code=y", "?error=access_denied&state=x", "?state=%00"):
        assert Visitor(url).raw("GET", f"/signin/oidc/back{query}")[0] == 400
    late = Visitor(url)
    back = visit_provider(late)
    monkeypatch.setattr(module, "_SECONDS", -1)
    assert late.raw("GET", back)[0] == 400
    assert len(load_table(site, tables.accounts)) == 1


def test_attackers_from_many_addresses_do_not_lock_an_honest_visitor_out(
    serve_small, oidc, monkeypatch
):
    site, url = serve_small(provider=oidc.make_client())
    monkeypatch.setattr(module, "_MAX_ATTEMPTS", 20)

    def attack():
        for number in range(60):
            address = f"192.0.2.{number % 15}"
            site.provider.begin(address, Session.new(), "/", f"{url}/signin/oidc/back")

    attack()
    visitor = Visitor(url)
    back = visit_provider(visitor)
    attack()
    assert visitor.raw("GET", back)[0] == 303
    assert visitor.get("/account").heading == "ann"


def test_signing_in_starts_a_new_session_and_stays_on_this_site(serve_small, oidc):
    _, url = serve_small(provider=oidc.make_client())
    for to in (
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/\r\nx: y",
        "javascript:x",
    ):
        visitor = Visitor(url)
        visitor.get("/signin")
        before = visitor.cookies["captau"]
        status, headers, _ = visitor.raw("GET", visit_provider(visitor, to))
        assert (status, headers["location"]) == (303, "/")
        assert visitor.cookies["captau"] != before


def test_a_blocked_account_is_not_signed_in_and_the_log_is_as_by_password(serve_small, oidc):
    site, url = serve_small(provider=oidc.make_client())
    ann, admin = Visitor(url), sign_up_admin(site, url)
    ann.raw("GET", visit_provider(ann))
    admin.send("/admin/accounts/1/block", page="/admin", why="x")
    if ann.raw("GET", "/account")[0] != 303:
        pytest.fail("the account is not blocked")
    status, _, body = ann.raw("GET", visit_provider(ann))
    assert (status, b"This account is blocked" in body) == (400, True)
    log = [(r["account"], r["action"], r["what"], r["why"]) for r in load_table(site, tables.audit)]
    signed_in = [row for row in log if "sign in" in row[1] and row[2] != "dashboard"]
    assert signed_in == [  # as by password: an address only where it failed
        (1, "sign in", "account 1", ""),
        (None, "failed sign in", "account 1", "from 127.0.0.1"),
    ]


@pytest.mark.parametrize("is_down_from_the_start", [True, False])
def test_a_provider_that_is_down_gives_a_plain_page(serve_small, oidc, is_down_from_the_start):
    _, url = serve_small(provider=oidc.make_client())
    visitor = Visitor(url)
    path = "/signin/oidc" if is_down_from_the_start else visit_provider(visitor)
    oidc.is_down = True
    status, _, body = visitor.raw("GET", path)
    assert status == 503
    assert b"does not answer as it should. Try again later." in body
    oidc.is_down = False
    assert visitor.raw("GET", "/signin/oidc")[0] == 303


def test_a_provider_that_describes_another_issuer_is_not_believed(serve_small, oidc):
    oidc.described_issuer = "https://evil.example"
    _, url = serve_small(provider=oidc.make_client())
    assert Visitor(url).raw("GET", "/signin/oidc")[0] == 503


def test_the_request_has_state_nonce_and_challenge_and_not_the_secret(serve_small, oidc):
    _, url = serve_small(provider=oidc.make_client())
    visitor = Visitor(url)
    _, headers, _ = visitor.raw("GET", "/signin/oidc")
    query = parse_qs(urlsplit(headers["location"]).query)
    assert query["redirect_uri"] == [f"{url}/signin/oidc/back"]
    assert min(len(query[name][0]) for name in ("state", "nonce", "code_challenge")) >= 30
    assert SECRET not in headers["location"]


def test_options_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    assert open_provider(OidcOptions()) is None
    with says("oidc.issuer=URL"):
        open_provider(OidcOptions(only=True))
    with says("oidc.issuer=http://lab.example", "https://"):
        open_provider(OidcOptions(issuer="http://lab.example", client_id="x"))
    with says("needs oidc.client_id="):
        open_provider(OidcOptions(issuer="https://lab.example"))
    with says("secret", "cannot be read"):
        options = {"client_id": "x", "secret_file": tmp_path / "secret"}
        open_provider(OidcOptions(issuer="https://lab.example", **options))
