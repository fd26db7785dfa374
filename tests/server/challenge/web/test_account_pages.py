"""Accounts through HTTP: signing up and in, recovery codes, tokens, teams, and limits of attempts."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from urllib.parse import urlencode

import pytest
from fastapi import Request

from captau.server.challenge import tables
from captau.server.web.sessions import MEMBER_AGE, EndedSessions, Session
from captau.server.web.visitors import RateLimiter
from tests.server.challenge.conftest import create_account
from tests.server.challenge.visitors import (
    PASSWORD,
    TOKEN,
    Visitor,
    load_table,
    quick_passwords,
    serve_small,
    sign_up,
    sign_up_admin,
    valid_captions,
)

__all__ = ["quick_passwords", "serve_small"]

NEW_PASSWORD = "another one entirely"
NEW_PASSWORDS = {"password": NEW_PASSWORD, "again": NEW_PASSWORD}
WRONG_CODE = "abcde-abcde-abcde-abcde"


def test_a_cookie_of_one_kind_is_no_session_of_the_other(serve_small):
    site, _ = serve_small()
    cookies = {
        name: site.sessions.write(Session.new(1, admin=name == "captau_admin"))
        for name in ("captau", "captau_admin")
    }

    def read(name, value):
        headers = [(b"cookie", f"{name}={value}".encode())]
        request = Request({"type": "http", "headers": headers})
        return site.read_session(request, admin=name == "captau_admin")

    assert not read("captau", cookies["captau"]).admin
    assert read("captau_admin", cookies["captau_admin"]).admin
    assert read("captau_admin", cookies["captau"]) is None
    assert read("captau", cookies["captau_admin"]) is None


def test_signing_up_in_and_out(serve_small):
    site, url = serve_small()
    ann = Visitor(url)
    page = ann.sign_up("Ann", team="Reds")
    assert page.heading == "Welcome, Ann"
    assert len(set(ann.codes)) == 8
    assert "Your team: Reds" in ann.get("/account").text
    ann.send("/signout")
    assert ann.raw("GET", "/account")[1]["location"] == "/signin?to=%2Faccount"
    message = "No account has that name and password."
    wrong_password = ann.sign_in("Ann", "not the password")
    assert (wrong_password.status, message in wrong_password.text) == (403, True)
    wrong_name = ann.sign_in("Nobody", PASSWORD)
    renamed = re.sub("Nobody", "Ann", wrong_name.text)
    assert renamed.count("value=") == wrong_password.text.count("value=")
    assert message in wrong_name.text
    assert ann.sign_in(" aNN ").heading == "Challenges"
    assert "Your team: Reds" in ann.get("/account").text
    # A signed-in member is not asked to sign up.
    assert ann.raw("GET", "/signup")[1]["location"] == "/submissions"
    (row,) = load_table(site, tables.accounts)
    assert row["password"].startswith("$argon2id$")
    assert PASSWORD not in str(row)
    hashes = [r["hash"] for r in load_table(site, tables.recoveries)]
    assert len(hashes) == 8
    assert not set(hashes) & set(ann.codes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "<b>"}, "Your name has up to 32 letters"),
        ({"name": ""}, "Your name has up to 32 letters"),
        ({"name": "ANN"}, "That name is taken"),
        ({"name": "\u0410nn"}, "That name is taken"),  # with a Cyrillic A
        ({"name": "\u00c4nn"}, "That name is taken"),
        ({"name": "Adm\u0131n"}, "looks like the admin&#39;s"),  # with an i without a dot
        ({"team": "REDS"}, "That team name is taken"),
        ({"team": "x" * 33}, "A team&#39;s name has up to 32 letters"),
        ({"code": WRONG_CODE}, "That invitation code is not valid"),
        ({"password": "short", "again": "short"}, "A password has 10 to 200 characters"),
        ({"again": "another one altogether"}, "The two passwords are not the same"),
    ],
)
def test_signing_up_refuses_invalid_fields(serve_small, fields, message):
    site, url = serve_small()
    sign_up(url, "Ann", team="Reds")
    bob = Visitor(url)
    valid = {"name": "Bob", "team": "Blues", "password": PASSWORD, "again": PASSWORD}
    page = bob.send("/signup", page="/signup", **valid | fields)
    assert (page.status, message in page.text) == (400, True), page.text
    assert len(load_table(site, tables.accounts)) == len(load_table(site, tables.teams)) == 1
    assert bob.raw("GET", "/account")[0] == 303


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({}, False),
        ({"Origin": "{url}"}, False),
        ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, False),
        ({"Origin": "https://elsewhere.example"}, True),
        ({"Origin": "null"}, True),
        ({"Origin": "{url}", "Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
    ],
)
def test_forms_of_other_sites_are_refused(headers, is_refused, serve_small):
    _, url = serve_small()
    form = urllib.parse.urlencode({"name": "Ann", "password": PASSWORD}).encode()
    sent_headers = {name: value.format(url=url) for name, value in headers.items()}
    request = urllib.request.Request(f"{url}/sign-in", form, sent_headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert (b"another site" in refused.value.read()) == is_refused
    assert (refused.value.code == 403) or not is_refused


def recover(visitor, name, code):
    return visitor.send("/recover", page="/recover", name=name, code=code, **NEW_PASSWORDS)


def test_a_recovery_code_is_valid_once_and_ends_sessions(serve_small):
    site, url = serve_small()
    ann = sign_up(url, "Ann")
    code = ann.codes[3].upper()  # as people copy it
    recovered = Visitor(url)
    for name, wrong_code in (("Ann", WRONG_CODE), ("Bob", code)):
        page = recover(recovered, name, wrong_code)
        assert (page.status, "no recovery code" in page.text) == (403, True)
    unequal = {"password": NEW_PASSWORD, "again": PASSWORD}
    page = recovered.send("/recover", page="/recover", name="ann", code=code, **unequal)
    assert (page.status, "The two passwords are not the same." in page.text) == (400, True)
    page = recover(recovered, "ann", code)
    assert page.heading == "Ann"
    assert "7 recovery codes left" in page.text
    assert ann.raw("GET", "/account")[0] == 303  # the earlier session has ended
    third = Visitor(url)
    assert recover(third, "Ann", code).status == 403
    assert third.sign_in("Ann").status == 403
    assert third.sign_in("Ann", NEW_PASSWORD).status == 200
    # New codes need the password and replace the old ones.
    refused = third.send("/account/codes", old="wrong")
    assert (refused.status, "That is not your password." in refused.text) == (400, True)
    page = third.send("/account/codes", old=NEW_PASSWORD)
    assert page.heading == "New recovery codes"
    assert recover(Visitor(url), "Ann", ann.codes[0]).status == 403
    actions = {row["action"] for row in load_table(site, tables.audit)}
    assert actions >= {"sign up", "recover", "new codes"}


def test_a_new_password_and_signing_out_everywhere_end_sessions(serve_small):
    _, url = serve_small()
    first, second = sign_up(url, "Ann"), Visitor(url)
    second.sign_in("Ann")
    assert first.send("/account/password", old="wrong", **NEW_PASSWORDS).status == 400
    assert second.raw("GET", "/account")[0] == 200
    assert first.send("/account/password", old=PASSWORD, **NEW_PASSWORDS).status == 200
    assert second.raw("GET", "/account")[0] == 303
    assert first.raw("GET", "/account")[0] == 200
    second.sign_in("Ann", NEW_PASSWORD)
    first.send("/account/signout")
    assert second.raw("GET", "/account")[0] == first.raw("GET", "/account")[0] == 303


def test_tokens_are_shown_once_stored_as_hashes_and_revoked(serve_small):
    site, url = serve_small()
    ann, bob = sign_up(url, "Ann"), sign_up(url, "Bob")
    token = TOKEN.search(ann.send("/account/tokens", label="the cluster").text)[0]
    assert token not in ann.get("/account").text
    assert "the cluster" in ann.get("/account").text
    (row,) = load_table(site, tables.tokens)
    assert token not in str(row)
    bearer = {"authorization": f"Bearer {token}"}
    status, _, body = ann.raw("GET", "/api/submissions", **bearer)
    assert (status, json.loads(body)) == (200, {"submissions": []})
    assert bob.send(f"/account/tokens/{row['id']}/revoke").status == 404  # it is Ann's
    ann.send(f"/account/tokens/{row['id']}/revoke")
    assert "the cluster" not in ann.get("/account").text
    assert ann.raw("GET", "/api/submissions", **bearer)[0] == 401
    for _ in range(20):
        ann.send("/account/tokens", label="more", follow=False)
    page = ann.send("/account/tokens", label="one too many")
    assert (page.status, "at most 20 tokens" in page.text) == (400, True)


def test_teams_are_joined_by_a_code_and_left(serve_small):
    site, url = serve_small()
    ann, bob = sign_up(url, "Ann", team="Reds"), sign_up(url, "Bob")
    code = ann.create_invitation()
    assert code not in ann.get("/account").text
    assert code not in str(load_table(site, tables.teams))
    page = bob.send("/team/join", code=WRONG_CODE)
    assert (page.status, "That invitation code is not valid" in page.text) == (400, True)
    assert "Members: Ann, Bob." in bob.send("/team/join", code=f" {code.upper()} ").text
    # Bob's empty team is deleted, and its name is free.
    assert [t["name"] for t in load_table(site, tables.teams)] == ["Reds"]
    page = bob.send("/team/join", code=code)
    assert (page.status, "You are in that team." in page.text) == (400, True)
    cid = sign_up(url, "Cid", code=code)
    assert "Members: Ann, Bob, Cid." in cid.get("/account").text
    page = bob.send("/team/leave", name="reds")
    assert (page.status, "That team name is taken" in page.text) == (400, True)
    assert "Your team: Blues" in bob.send("/team/leave", name="Blues").text
    # Bob knows the code, so it is no longer valid.
    assert bob.send("/team/join", code=code).status == 400
    assert "Your team: Crimsons" in ann.send("/team/rename", name="Crimsons").text
    assert ann.send("/team/rename", name="crimsons").status == 200  # its own name in another case
    assert ann.send("/team/rename", name="BLUES").status == 400


def test_a_team_has_at_most_fifty_members(serve_small):
    site, url = serve_small()
    code = sign_up(url, "Ann", team="Reds").create_invitation()
    for k in range(48):
        create_account(site.store.database, f"member {k}", team=1)
    bob = sign_up(url, "Bob", code=code)
    page = Visitor(url).sign_up("Cid", code=code)
    assert (page.status, "A team has at most 50 members." in page.text) == (400, True)
    assert "member 47, Bob." in bob.get("/account").text


def test_the_uses_of_a_token_are_noted_at_most_each_minute(serve_small, clock):
    site, url = serve_small()
    ann = sign_up(url, "Ann")
    token = TOKEN.search(ann.send("/account/tokens", label="x" * 65).text)[0]
    noted = []
    for clock[0] in (1000.0, 1060.0, 1061.0):
        account = asyncio.run(site.tokens.find_account(token))
        assert (account.name, account.team_name) == ("Ann", "Ann")
        noted.append(load_table(site, tables.tokens)[0]["used_at"])
    assert noted == [1000.0, 1000.0, 1061.0]
    (listed,) = asyncio.run(site.tokens.list_active(account))
    assert (listed["label"], listed["used_at"]) == ("x" * 64, 1061.0)
    ann.send(f"/account/tokens/{listed['id']}/revoke")
    assert load_table(site, tables.tokens)[0]["revoked_at"] == 1061.0
    assert asyncio.run(site.tokens.find_account(token)) is None


def test_forms_need_the_token_of_their_session(serve_small):
    site, url = serve_small()
    ann, bob = sign_up(url, "Ann"), sign_up(url, "Bob")
    for token in ("", "x", bob.token()):
        assert ann.post("/account/tokens", {"token": token, "label": "forged"}).status == 400
        assert ann.post("/team/rename", {"token": token, "name": "Forged"}).status == 400
        assert ann.upload("small", "r.json", valid_captions(), token=token)[0] == 400
    response = Visitor(url).upload("small", "r.json", valid_captions(), token="x")
    assert response[1]["location"] == "/signin"
    assert not load_table(site, tables.tokens)
    assert not load_table(site, tables.submissions)
    assert list(site.store.folder.glob("*/upload.*")) == []


def test_attempts_to_sign_in_and_up_are_limited(serve_small, limit_clock):
    _, url = serve_small(limits={"logins": 3, "joins": 2, "requests": 10_000})
    sign_up(url, "Ann")
    bob = Visitor(url)
    statuses = [bob.sign_in("Ann", "guess number something").status for _ in range(5)]
    assert statuses == [403, 403, 403, 429, 429]
    sign_up(url, "Bob")
    statuses = []
    for limit_clock[0] in (0, 29, 31, 32):  # two a minute are one each 30 seconds
        statuses.append(Visitor(url).sign_up(f"Cid {limit_clock[0]}").status)
    assert statuses == [429, 429, 200, 429]


def test_signing_out_ends_the_session_on_the_server(serve_small):
    site, url = serve_small()
    ann = Visitor(url)
    ann.sign_up("Ann")
    thief, second = Visitor(url), Visitor(url)
    thief.cookies.update(ann.cookies)
    second.sign_in("Ann")
    assert thief.raw("GET", "/account")[0] == 200
    ann.send("/signout")
    assert thief.raw("GET", "/account")[0] == 303
    assert second.raw("GET", "/account")[0] == 200  # signed in elsewhere, still
    session = site.sessions.read(thief.cookies["captau"], MEMBER_AGE)
    assert session in EndedSessions(site.store.database)  # as the site reads them when it starts


def test_failed_sign_ins_of_members_do_not_lock_the_admin_out(serve_small):
    site, url = serve_small(limits={"logins": 3})
    site.admin_account.adopt_password(PASSWORD)
    bob = Visitor(url)
    assert [bob.sign_in("Ann", "guess number one").status for _ in range(4)][-1] == 429
    page = bob.get("/admin/login")
    assert bob.post("/admin/login", {**page.hidden, "password": PASSWORD}).heading == "Dashboard"


def test_attempts_with_one_name_are_limited_however_it_is_spelt(serve_small):
    site, url = serve_small()
    sign_up(url, "Ann")
    site.names = RateLimiter(2, 1e-6)
    bob = Visitor(url)
    names = ("Ann", " aNN", "ＡＮＮ")
    statuses = [bob.sign_in(name, "guess number something").status for name in names]
    assert statuses == [403, 403, 429]


def test_signing_in_leads_back_to_the_page_one_came_from(serve_small):
    _, url = serve_small(visibility={"leaderboard": "public"})
    sign_up(url, "Ann")
    ann = Visitor(url)
    submit_page = "/challenges/small/submit"
    page = ann.get(submit_page)  # leads to the sign-in page
    assert page.heading == "Sign in"
    assert page.hidden["to"] == submit_page
    fields = {**page.hidden, "name": "Ann"}
    page = ann.post("/signin", {**fields, "password": "a wrong one"})
    assert (page.status, page.hidden["to"]) == (403, submit_page)
    page = ann.post("/signin", {**fields, "password": PASSWORD})
    assert page.heading == "Submit to The small challenge"
    # The link on a public page leads back too, with the page's query.
    bob = Visitor(url)
    text = bob.get("/challenges/small/board?turn=yes").text
    link = re.search(r'href="(/signin[^"]*)"', text)[1].replace("&amp;", "&")
    page = bob.get(link)
    assert page.hidden["to"].startswith("/challenges/small/board?")
    assert "turn=yes" in page.hidden["to"]
    fields = {**page.hidden, "name": "Ann", "password": PASSWORD}
    assert bob.post("/signin", fields, follow=False).heading == ""
    assert bob.raw("GET", link)[1]["location"] == fields["to"]
    # A form that was sent without a session is lost; the list of challenges is next.
    assert Visitor(url).raw("POST", "/account/tokens", b"")[1]["location"] == "/signin"
    assert bob.raw("GET", "/signin")[1]["location"] == "/"


@pytest.mark.parametrize(
    "to",
    [
        *("//evil.example", "///evil.example", "/\\evil.example", "\\/evil.example"),
        *("https://evil.example", "javascript:alert(1)", "evil", "", "/\t/evil.example"),
        *("/a\\b", "/a b", "/a\r\nset-cookie: x=1", "/é", "/" + "a" * 2000),
    ],
)
def test_signing_in_never_leads_to_another_site(serve_small, to):
    _, url = serve_small()
    sign_up(url, "Ann")
    ann = Visitor(url)
    sign_in_page = "/signin?" + urlencode({"to": to})
    page = ann.get(sign_in_page)
    assert page.hidden["to"] == "/"
    fields = {"token": page.hidden["token"], "to": to, "name": "Ann", "password": PASSWORD}
    content_type = {"content-type": "application/x-www-form-urlencoded"}
    status, headers, _ = ann.raw("POST", "/signin", urlencode(fields).encode(), **content_type)
    assert (status, headers["location"]) == (303, "/")
    assert ann.raw("GET", sign_in_page)[1]["location"] == "/"


def test_the_log_has_the_admin_s_sign_ins_and_all_failed_ones(serve_small):
    site, url = serve_small()
    ann = sign_up(url, "Ann")
    admin = sign_up_admin(site, url)
    admin.send("/admin/logout", page="/admin")
    second = Visitor(url)
    for password in ("not the password", PASSWORD):
        second.send("/admin/login", page="/admin/login", password=password)
    assert second.get("/admin").heading == "Dashboard"
    ann.send("/signout")
    ann.sign_in("Ann", "not the password")
    ann.sign_in("my own password", PASSWORD)
    recover(ann, "Ann", WRONG_CODE)
    recover(ann, "Nobody", ann.codes[0])
    second.send("/admin/accounts/1/block", page="/admin", why="five accounts")
    ann.sign_in("Ann")
    log = [(r["account"], r["action"], r["what"], r["why"]) for r in load_table(site, tables.audit)]
    address = "from 127.0.0.1"
    assert log == [
        (1, "sign up", "team 1", ""),
        (None, "password", "dashboard", address),
        (None, "sign out", "dashboard", "everywhere"),
        (None, "failed sign in", "dashboard", address),
        (None, "sign in", "dashboard", address),
        (None, "failed sign in", "account 1", address),
        (None, "failed sign in", "no account", address),
        (None, "failed recover", "account 1", address),
        (None, "failed recover", "no account", address),
        (None, "block", "account 1", "five accounts"),
        (None, "failed sign in", "account 1", address),
    ]
    dashboard = second.get("/admin").text
    assert dashboard.count("<td>visitor</td><td>failed") == 6
    assert "<td>admin</td><td>sign in</td><td>dashboard</td>" in dashboard
    for secret in (PASSWORD, "not the password", "my own password", ann.codes[0]):
        assert secret not in str(log)


def test_a_blocked_account_cannot_sign_in_nor_use_its_tokens(serve_small):
    site, url = serve_small()
    ann, admin = sign_up(url, "Ann"), sign_up_admin(site, url)
    token = ann.create_token()
    admin.send("/admin/accounts/1/block", page="/admin", why="five accounts")
    assert ann.raw("GET", "/account")[0] == 303
    page = ann.sign_in("Ann")
    assert (page.status, "This account is blocked." in page.text) == (403, True)
    assert "blocked" not in ann.sign_in("Ann", "a wrong password").text
    assert ann.raw("GET", "/api/submissions", authorization=f"Bearer {token}")[0] == 401
    assert recover(ann, "Ann", ann.codes[0]).status == 403
    admin.send("/admin/accounts/1/unblock", page="/admin", why="cleared")
    assert ann.sign_in("Ann").status == 200
    assert admin.send("/admin/accounts/99/block", page="/admin", why="x").status == 404
