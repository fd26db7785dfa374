"""The pages through HTTP: accounts, teams, submissions, leaderboards, and what strangers do not get."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date
from urllib.parse import urlencode

import pytest
from sqlalchemy import select

from captau.server.challenge import tables as models
from captau.server.web.public_address import PublicAddress
from captau.server.web.rate_limits import RateLimiter
from tests.server.challenge.conftest import running
from tests.server.challenge.visitors import (
    IMAGES,
    PASSWORD,
    Visitor,
    begin,
    finish,
    good,
    judge,
    key_of,
    make_site,
    multipart,
    quick_passwords,
    row_of,
    score,
    signed_in_admin,
    write_challenge,
)

__all__ = ["quick_passwords"]


@pytest.fixture
def small(tmp_path):
    """A function that serves a small challenge until the test ends: site and address."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def serve(*paths, address=None, **changes):
            paths = paths or (write_challenge(tmp_path, **changes),)
            site = make_site(tmp_path, *paths, address=address)
            return site, stack.enter_context(running(site))

        yield serve


def rows_of(site, table):
    return [
        dict(r)
        for r in site.store.database.run_blocking(
            lambda c: c.execute(select(table)).mappings().all()
        )
    ]


def signed_up(url, name, **more):
    visitor = Visitor(url)
    page = visitor.sign_up(name, **more)
    assert page.status == 200, page.text
    return visitor


# Accounts.


def test_signing_up_in_and_out(small):
    site, url = small()
    ann = Visitor(url)
    page = ann.sign_up("Ann", team="Reds")
    assert page.heading == "Welcome, Ann"
    assert len(set(ann.codes)) == 8
    assert "Your team: Reds" in ann.get("/account").text
    ann.send("/signout")
    assert ann.raw("GET", "/account")[1]["location"] == "/signin?to=%2Faccount"
    wrong = ann.sign_in("Ann", "not the password")
    assert (wrong.status, "No account has that name and password." in wrong.text) == (403, True)
    unknown = ann.sign_in("Nobody", PASSWORD)
    assert re.sub("Nobody", "Ann", unknown.text).count("value=") == wrong.text.count("value=")
    assert "No account has that name and password." in unknown.text
    assert ann.sign_in(" aNN ").heading == "Challenges"
    assert "Your team: Reds" in ann.get("/account").text
    # Who is signed in is not asked again.
    assert ann.raw("GET", "/signup")[1]["location"] == "/submissions"
    (row,) = rows_of(site, models.accounts)
    assert row["password"].startswith("$argon2id$")
    assert PASSWORD not in str(row)
    hashes = [r["hash"] for r in rows_of(site, models.recoveries)]
    assert len(hashes) == 8
    assert not set(hashes) & set(ann.codes)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "<b>"}, "Your name has up to 32 letters"),
        ({"name": ""}, "Your name has up to 32 letters"),
        ({"name": "ANN"}, "Somebody has that name"),
        ({"team": "REDS"}, "Another team has that name"),
        ({"team": "x" * 33}, "A team&#39;s name has up to 32 letters"),
        ({"code": "abcde-abcde-abcde-abcde"}, "No team has that invitation code"),
        ({"password": "short", "again": "short"}, "A password has 10 to 200 characters"),
        ({"again": "another one altogether"}, "The two passwords are not the same"),
    ],
)
def test_what_signing_up_refuses(small, given, told):
    site, url = small()
    signed_up(url, "Ann", team="Reds")
    bob = Visitor(url)
    fields = {"name": "Bob", "team": "Blues", "password": PASSWORD, "again": PASSWORD, **given}
    page = bob.send("/signup", page="/signup", **fields)
    assert (page.status, told in page.text) == (400, True), page.text
    assert len(rows_of(site, models.accounts)) == len(rows_of(site, models.teams)) == 1
    assert bob.raw("GET", "/account")[0] == 303


def test_recovery_codes_hold_once_each_and_end_sessions(small):
    site, url = small()
    ann = signed_up(url, "Ann")
    code = ann.codes[3].upper()  # as somebody writes it down
    other = Visitor(url)
    new = {"password": "another one entirely", "again": "another one entirely"}
    for name, given in (("Ann", "abcde-abcde-abcde-abcde"), ("Bob", code)):
        page = other.send("/recover", page="/recover", name=name, code=given, **new)
        assert (page.status, "no recovery code" in page.text) == (403, True)
    page = other.send("/recover", page="/recover", name="ann", code=code, **new)
    assert page.heading == "Ann"
    assert "7 recovery codes left" in page.text
    assert ann.raw("GET", "/account")[0] == 303  # signed in before
    third = Visitor(url)
    assert third.send("/recover", page="/recover", name="Ann", code=code, **new).status == 403
    assert third.sign_in("Ann").status == 403
    assert third.sign_in("Ann", "another one entirely").status == 200
    # New codes end the old ones; they want the password.
    refused = third.send("/account/codes", old="wrong")
    assert (refused.status, "That is not your password." in refused.text) == (400, True)
    page = third.send("/account/codes", old="another one entirely")
    assert page.heading == "New recovery codes"
    fourth = Visitor(url)
    page = fourth.send("/recover", page="/recover", name="Ann", code=ann.codes[0], **new)
    assert page.status == 403
    assert {r["action"] for r in rows_of(site, models.audit)} >= {"sign up", "recover", "new codes"}


def test_another_password_and_signing_out_everywhere_end_sessions(small):
    _, url = small()
    here, there = signed_up(url, "Ann"), Visitor(url)
    there.sign_in("Ann")
    new = {"password": "another one entirely", "again": "another one entirely"}
    assert here.send("/account/password", old="wrong", **new).status == 400
    assert there.raw("GET", "/account")[0] == 200
    assert here.send("/account/password", old=PASSWORD, **new).status == 200
    assert there.raw("GET", "/account")[0] == 303
    assert here.raw("GET", "/account")[0] == 200
    there.sign_in("Ann", "another one entirely")
    here.send("/account/signout")
    assert there.raw("GET", "/account")[0] == here.raw("GET", "/account")[0] == 303


def test_tokens_are_shown_once_kept_as_hashes_and_revoked(small):
    site, url = small()
    ann, bob = signed_up(url, "Ann"), signed_up(url, "Bob")
    page = ann.send("/account/tokens", label="the cluster")
    token = re.search(r"captau_[\w-]{32}", page.text)[0]
    assert token not in ann.get("/account").text
    assert "the cluster" in ann.get("/account").text
    (row,) = rows_of(site, models.tokens)
    assert token not in str(row)
    status, _, body = ann.raw("GET", "/api/submissions", authorization=f"Bearer {token}")
    assert (status, json.loads(body)) == (200, {"submissions": []})
    assert bob.send(f"/account/tokens/{row['id']}/revoke").status == 404  # it is Ann's
    ann.send(f"/account/tokens/{row['id']}/revoke")
    assert "the cluster" not in ann.get("/account").text
    assert ann.raw("GET", "/api/submissions", authorization=f"Bearer {token}")[0] == 401
    for _ in range(20):
        ann.send("/account/tokens", label="more", follow=False)
    full = ann.send("/account/tokens", label="one too many")
    assert (full.status, "At most 20 tokens" in full.text) == (400, True)


def test_teams_are_joined_by_a_code_and_left(small):
    site, url = small()
    ann, bob = signed_up(url, "Ann", team="Reds"), signed_up(url, "Bob")
    page = ann.send("/team/invite")
    code = re.search(r"(?:\w{5}-){3}\w{5}", page.text)[0]
    assert code not in ann.get("/account").text
    assert code not in str(rows_of(site, models.teams))
    wrong = bob.send("/team/join", code="abcde-abcde-abcde-abcde")
    assert (wrong.status, "No team has that invitation code" in wrong.text) == (400, True)
    assert "Members: Ann, Bob." in bob.send("/team/join", code=f" {code.upper()} ").text
    # Bob's own team, with nothing in it, is gone, and its name free.
    assert [t["name"] for t in rows_of(site, models.teams)] == ["Reds"]
    again = bob.send("/team/join", code=code)
    assert (again.status, "You are in that team." in again.text) == (400, True)
    cid = signed_up(url, "Cid", code=code)
    assert "Members: Ann, Bob, Cid." in cid.get("/account").text
    taken = bob.send("/team/leave", name="reds")
    assert (taken.status, "Another team has that name" in taken.text) == (400, True)
    assert "Your team: Blues" in bob.send("/team/leave", name="Blues").text
    # Who left knows the code: it holds no more.
    assert bob.send("/team/join", code=code).status == 400
    assert "Your team: Crimsons" in ann.send("/team/rename", name="Crimsons").text
    assert (
        ann.send("/team/rename", name="crimsons").status == 200
    )  # its own name, otherwise written
    assert ann.send("/team/rename", name="BLUES").status == 400


def test_forms_need_this_session_s_token(small):
    site, url = small()
    ann, bob = signed_up(url, "Ann"), signed_up(url, "Bob")
    for token in ("", "x", bob.token()):
        assert ann.post("/account/tokens", {"token": token, "label": "forged"}).status == 400
        assert ann.post("/team/rename", {"token": token, "name": "Forged"}).status == 400
        assert ann.upload("small", "r.json", good(), token=token)[0] == 400
    stranger = Visitor(url)
    assert stranger.upload("small", "r.json", good(), token="x")[1]["location"] == "/signin"
    assert not rows_of(site, models.tokens)
    assert not rows_of(site, models.submissions)
    assert list((site.store.folder).glob("*/upload.*")) == []


def test_tries_are_limited(small):
    _, url = small(limits={"logins": 3, "joins": 2, "requests": 10_000})
    signed_up(url, "Ann")
    bob = Visitor(url)
    statuses = [bob.sign_in("Ann", "guess number something").status for _ in range(5)]
    assert statuses == [403, 403, 403, 429, 429]
    signed_up(url, "Bob")
    assert Visitor(url).sign_up("Cid").status == 429


def test_after_signing_in_one_is_where_one_came_from(small):
    _, url = small(visibility={"leaderboard": "public"})
    signed_up(url, "Ann")
    ann = Visitor(url)
    asked = "/challenges/small/submit"
    page = ann.get(asked)  # sent on to sign in
    assert page.heading == "Sign in"
    assert page.hidden["to"] == asked
    fields = {**page.hidden, "name": "Ann"}
    wrong = ann.post("/signin", {**fields, "password": "a wrong one"})
    assert (wrong.status, wrong.hidden["to"]) == (403, asked)
    page = ann.post("/signin", {**fields, "password": PASSWORD})
    assert page.heading == "Submit to The small challenge"
    # From a page that everybody sees too, by the link on it, with all that its address says.
    bob = Visitor(url)
    link = re.search(r'href="(/signin[^"]*)"', bob.get("/challenges/small/board?turn=yes").text)[1]
    page = bob.get(link.replace("&amp;", "&"))
    assert page.hidden["to"].startswith("/challenges/small/board?")
    assert "turn=yes" in page.hidden["to"]
    fields = {**page.hidden, "name": "Ann", "password": PASSWORD}
    assert bob.post("/signin", fields, follow=False).heading == ""
    assert bob.raw("GET", link.replace("&amp;", "&"))[1]["location"] == fields["to"]
    # What is sent without a session is not asked again; then, and without more, the list is next.
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
def test_one_lands_on_this_site_alone(small, to):
    _, url = small()
    signed_up(url, "Ann")
    ann = Visitor(url)
    page = ann.get("/signin?" + urlencode({"to": to}))
    assert page.hidden["to"] == "/"
    sent = {"token": page.hidden["token"], "to": to, "name": "Ann", "password": PASSWORD}
    body = urlencode(sent).encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    status, headers, _ = ann.raw("POST", "/signin", body, **kind)
    assert (status, headers["location"]) == (303, "/")
    assert ann.raw("GET", "/signin?" + urlencode({"to": to}))[1]["location"] == "/"


def test_the_log_has_sign_ins_of_the_desk_and_all_that_fail(small):
    site, url = small()
    ann = signed_up(url, "Ann")
    admin = signed_in_admin(site, url)
    admin.send("/admin/logout", page="/admin")
    other = Visitor(url)
    for password in ("not the password", PASSWORD):
        other.send("/admin/login", page="/admin/login", password=password)
    assert other.get("/admin").heading == "Dashboard"
    ann.send("/signout")
    ann.sign_in("Ann", "not the password")
    ann.sign_in("my own password", PASSWORD)
    new = {"password": PASSWORD, "again": PASSWORD}
    ann.send("/recover", page="/recover", name="Ann", code="abcde-abcde-abcde-abcde", **new)
    ann.send("/recover", page="/recover", name="Nobody", code=ann.codes[0], **new)
    other.send("/admin/accounts/1/block", page="/admin", why="five accounts")
    ann.sign_in("Ann")
    done = [(r["account"], r["action"], r["what"], r["why"]) for r in rows_of(site, models.audit)]
    here = "from 127.0.0.1"
    assert done == [
        (1, "sign up", "team 1", ""),
        (None, "password", "dashboard", here),
        (None, "sign out", "dashboard", "everywhere"),
        (None, "failed sign in", "dashboard", here),
        (None, "sign in", "dashboard", here),
        (None, "failed sign in", "account 1", here),
        (None, "failed sign in", "no account", here),
        (None, "failed recover", "account 1", here),
        (None, "failed recover", "no account", here),
        (None, "block", "account 1", "five accounts"),
        (None, "failed sign in", "account 1", here),
    ]
    shown = other.get("/admin").text
    assert shown.count("<td>somebody</td><td>failed") == 6
    assert "<td>admin</td><td>sign in</td><td>dashboard</td>" in shown
    for secret in (PASSWORD, "not the password", "my own password", ann.codes[0]):
        assert secret not in str(done)


def test_tries_for_one_account_are_limited_however_its_name_is_spelt(small):
    site, url = small()
    signed_up(url, "Ann")
    site.names = RateLimiter(2, 1e-6)
    bob = Visitor(url)
    tries = [
        bob.sign_in(name, "guess number something").status for name in ("Ann", " aNN", "ＡＮＮ")
    ]
    assert tries == [403, 403, 429]


# Submitting.


def test_from_upload_to_scores(small):
    site, url = small()
    ann = signed_up(url, "Ann", team="Reds")
    page = ann.get("/challenges/small/submit")
    assert "<b>2</b> left today" in page.text
    uploaded = ann.upload("small", "my results.json", good(), system="mine <1>", note="a try")
    key = key_of(uploaded)
    page = ann.get(f"/submissions/{key}")
    assert page.heading == "mine &lt;1&gt;"
    assert "It is being checked." in page.text
    assert ann.get("/challenges/small/submit").text.count("<b>2</b> left today") == 1
    judge(site, key)
    assert "waits for its turn" in ann.get(f"/submissions/{key}").text
    assert "<b>1</b> left today" in ann.get("/challenges/small/submit").text
    number = begin(site, key)
    store = site.store
    store.database.run_blocking(lambda c: store.advance(c, number, "w", 0.25, "cider"))
    told = json.loads(ann.raw("GET", f"/submissions/{key}/state")[2])
    assert told == {"state": "running", "progress": 0.25, "step": "cider", "done": False}
    assert 'value="0.250"' in ann.get(f"/submissions/{key}").text
    store.database.run_blocking(lambda c: store.give_up(c, "w", "it was ended"))
    # Tried again, and scored.
    begin(site, key, "v")
    finish(site, key, 0.423456789, "v")
    page = ann.get(f"/submissions/{key}")
    assert page.text.count(">42.3<") == 4  # two metrics, two sets of references side by side
    assert '<th scope="col" class="n">c2</th>' in page.text
    assert "cider|backend:x" in page.text
    # No more digits than are printed, to programs neither.
    assert "42.345" not in page.text
    token = re.search(r"captau_[\w-]{32}", ann.send("/account/tokens").text)[0]
    told = json.loads(ann.raw("GET", f"/api/submissions/{key}", authorization=f"Bearer {token}")[2])
    assert {(r["value"], r["ci_low"], r["ci_high"]) for r in told["scores"]} == {
        (0.423, 0.411, 0.436)
    }
    kept = rows_of(site, models.results)[0]["scores"]
    assert {r["value"] for r in kept} == {0.423456789}
    listed = ann.get("/submissions").text
    assert f'href="/submissions/{key}"' in listed
    assert "42.3 <small>CIDEr, c2</small>" in listed


def test_an_invalid_one_shows_all_faults_and_counts_for_nothing(small):
    site, url = small()
    ann = signed_up(url, "Ann")
    key = key_of(ann.upload("small", "r.json", b"[]"))
    faults = [f"r.json: no caption of image '{i}' <b>" for i in IMAGES]
    judge(site, key, faults)
    page = ann.get(f"/submissions/{key}")
    assert "Not valid: 6 faults" in page.text
    assert page.text.count("no caption of image &#39;p") == 6
    assert "<b>&#39;" not in page.text
    assert "<b>2</b> left today" in ann.get("/challenges/small/submit").text
    assert json.loads(ann.raw("GET", f"/submissions/{key}/state")[2])["done"]


def test_limits_of_a_day_hold_for_the_team_and_go_with_its_members(small):
    site, url = small()
    ann = signed_up(url, "Ann", team="Reds")
    for n in range(2):
        score(site, key_of(ann.upload("small", f"{n}.json", good())))
    status, _, body = ann.upload("small", "3.json", good())
    assert (status, b"has made its 2 submissions on a day" in body) == (400, True)
    code = re.search(r"(?:\w{5}-){3}\w{5}", ann.send("/team/invite").text)[0]
    bob = signed_up(url, "Bob", code=code)
    assert bob.upload("small", "4.json", good())[0] == 400
    # A new team brings no fresh limit to whoever used it up; Bob has made none.
    ann.send("/team/leave", name="Reds again")
    assert ann.upload("small", "5.json", good())[0] == 400
    bob.send("/team/leave", name="Blues")
    assert bob.upload("small", "6.json", good())[0] == 303
    # What was submitted stays the old team's.
    assert "0.json" not in ann.get("/submissions").text


def test_what_an_upload_refuses(small):
    site, url = small(limits={"megabytes": 1})
    ann = signed_up(url, "Ann")
    for name, content, told in (
        ("r.exe", good(), b"a file called .json"),
        ("", good(), b"Choose a file."),
        (None, b"", b"Choose a file."),
    ):
        status, _, body = ann.upload("small", name, content)
        assert (status, told in body) == (400, True), (name, body[-500:])
    status, _, body = ann.upload("small", "big.json", b"[" + b" " * (1 << 20) + b"]")
    assert (status, b"more than 1 MB" in body) == (400, True)
    status, _, body = ann.upload("small", "huge.json", b" " * (2 << 20))
    assert status == 413
    # Two files, and what is no form at all.
    token = ann.token("/challenges/small/submit")
    body, kind = multipart({"token": token}, "a.json", good())
    two = body.replace(b"--x--\r\n", b"") + body
    path = "/challenges/small/submissions"
    assert ann.raw("POST", path, two, **{"content-type": kind})[0] == 400
    assert ann.raw("POST", path, b"--y", **{"content-type": kind})[0] == 400
    assert ann.upload("nowhere", "r.json", good(), token=token)[0] == 404
    assert not rows_of(site, models.submissions)
    assert [p for p in site.store.folder.iterdir() if p.is_dir()] == []


def test_closed_phases_take_nothing_and_say_so(small):
    past = {"name": "past", "from": date(2020, 1, 1), "to": date(2020, 2, 1)}
    _, url = small(phases=[past])
    ann = signed_up(url, "Ann")
    assert "no phase is open" in ann.get("/").text
    assert "from 2020-01-01 00:00 to 2020-02-01 00:00 UTC" in ann.get("/challenges/small").text
    assert "No phase takes submissions now." in ann.get("/challenges/small/submit").text
    status, _, body = ann.upload("small", "r.json", good())
    assert (status, b"No phase of The small challenge takes submissions now." in body) == (
        400,
        True,
    )


# Leaderboards.


def three_teams(site, url, challenge="small"):
    """Reds with two submissions, Blues with one as good as theirs, Greens far behind."""
    made = {}
    for name, values in (("Reds", (0.6, 0.8)), ("Blues", (0.799,)), ("Greens", (0.2,))):
        made[name] = signed_up(url, f"of {name}", team=name)
        for n, value in enumerate(values):
            key = key_of(made[name].upload(challenge, "r.json", good(), system=f"{name} {n}"))
            score(site, key, value, spread=0.02, seed=len(made) + 10 * n)
    return made


def lines(text):
    """Places, ranks, teams and systems of a leaderboard's page."""
    body = re.search(r"<table class=\"board\">.*?<tbody>(.*?)</tbody>", text, re.S)[1]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in body.split("</tr>")]
    found = [[re.sub("<[^>]+>", "\t", c).strip() for c in row] for row in cells if row]
    # The system stands above its team.
    return [(*r[:2], *reversed(re.split(r"\t+", r[2]))) if r[2:] else (r[0],) for r in found]


def test_a_public_leaderboard_with_ranks_filters_and_permalinks(small):
    site, url = small(visibility={"leaderboard": "public"})
    teams = three_teams(site, url)
    stranger = Visitor(url)
    page = stranger.get("/challenges/small/board")
    expected = [
        ("1", "1", "Reds", "Reds 1"),
        ("2", "1", "Blues", "Blues 0"),
        ("3", "2", "Greens", "Greens 0"),
    ]
    assert lines(page.text) == expected
    assert page.text.count('aria-sort="descending"') == 1
    every = stranger.get("/challenges/small/board?which=all")
    assert [r[3] for r in lines(every.text)] == ["Reds 1", "Blues 0", "Reds 0", "Greens 0"]
    latest = stranger.get("/challenges/small/board?which=latest")
    assert lines(latest.text) == expected
    turned = stranger.get("/challenges/small/board?sort=cider%40c2&turn=yes")
    assert lines(turned.text) == expected[::-1]
    assert 'aria-sort="ascending"' in turned.text
    # Filters hide lines and move no places; a permalink says all of it.
    number = re.search(r'<option value="(\d+)">Greens', page.text)[1]
    greens = stranger.get(f"/challenges/small/board?team={number}")
    assert lines(greens.text) == expected[2:]
    link = re.search(r'href="([^"]+)">Permalink', greens.text)[1].replace("&amp;", "&")
    assert f"team={number}" in link
    assert lines(stranger.get(link).text) == expected[2:]
    assert lines(stranger.get("/challenges/small/board?since=2099-01-01").text) == [
        ("No submission to show.",)
    ]
    for wrong in ("since=yesterday", "until=2026-13-01"):
        page = stranger.get(f"/challenges/small/board?{wrong}")
        assert (page.status, "is no day" in page.text) == (400, True)
    for odd in ("sort=nothing", "which=odd", "phase=none", "team=x", "turn=1"):
        assert lines(stranger.get(f"/challenges/small/board?{odd}").text) == expected
    assert 'class="own"' in teams["Blues"].get("/challenges/small/board").text
    assert 'class="own"' not in page.text


def test_downloads_say_what_the_page_says(small):
    site, url = small(visibility={"leaderboard": "public"})
    three_teams(site, url)
    _, headers, body = Visitor(url).raw("GET", "/challenges/small/board.csv?which=all")
    assert headers["content-type"].startswith("text/csv")
    read = list(csv.DictReader(io.StringIO(body.decode())))
    assert [r["system"] for r in read] == ["Reds 1", "Blues 0", "Reds 0", "Greens 0"]
    assert (read[0]["cider@c2"], read[0]["cider@c2_low"]) == ("0.8", "0.788")
    _, _, body = Visitor(url).raw("GET", "/challenges/small/board.json?which=all")
    told = json.loads(body)
    assert [r["rank"] for r in told["rows"]] == [int(r["rank"]) for r in read]
    assert told["signatures"]["cider"] == "cider|backend:x"
    assert "12345" not in body.decode()  # digits beyond those printed
    assert Visitor(url).raw("GET", "/challenges/small/board.xml")[0] == 422


@pytest.mark.parametrize(
    ("exact", "ranks"),
    [
        (False, [("1", "1", "0.5"), ("1", "1", "0.5004")]),
        (True, [("1", "1", "0.5004"), ("2", "2", "0.5")]),
    ],
)
def test_places_and_ranks_tell_no_digits_that_are_not_told(small, exact, ranks):
    """Else one changed caption would show whether it gained: its submission stands above, or below."""
    site, url = small(visibility={"leaderboard": "public", "exact": exact})
    ann, admin = signed_up(url, "Ann"), signed_in_admin(site, url)
    for value in (0.5, 0.5004):
        key = key_of(ann.upload("small", "r.json", good(), system=str(value)))
        score(site, key, value, spread=0.02, seed=7)  # the same drawn images
    board = lines(ann.get("/challenges/small/board?which=all").text)
    assert [(r[0], r[1], r[3]) for r in board] == ranks
    assert [r[3] for r in lines(ann.get("/challenges/small/board").text)] == [ranks[0][2]]
    _, _, body = ann.raw("GET", "/challenges/small/board.json?which=all")
    assert [str(r["rank"]) for r in json.loads(body)["rows"]] == [r[1] for r in ranks]
    desk = lines(admin.get("/admin/challenges/small/board?which=all").text)
    assert [r[:2] for r in desk] == [("1", "1"), ("2", "2")]


def test_scores_of_other_versions_are_told_apart(small):
    site, url = small(visibility={"leaderboard": "public"})
    ann, bob = signed_up(url, "Ann"), signed_up(url, "Bob")
    for team, backend, differ in ((ann, "x", False), (bob, "y", True)):
        score(site, key_of(team.upload("small", "r.json", good())), 0.5, backend=backend)
        assert ("by the same versions" in ann.get("/challenges/small/board").text) == differ
        _, _, body = ann.raw("GET", "/challenges/small/board.json")
        told = json.loads(body)
        assert (told["signatures"]["cider"], told["signatures_differ"]) == (
            f"cider|backend:{backend}",
            differ,
        )


def test_all_digits_where_the_challenge_says_so(small):
    site, url = small(visibility={"leaderboard": "public", "exact": True})
    ann = signed_up(url, "Ann")
    score(site, key_of(ann.upload("small", "r.json", good())), 0.123456789)
    _, _, body = Visitor(url).raw("GET", "/challenges/small/board.csv")
    assert b",0.123456789," in body
    token = re.search(r"captau_[\w-]{32}", ann.send("/account/tokens").text)[0]
    body = ann.raw("GET", "/api/submissions", authorization=f"Bearer {token}")[2]
    (told,) = json.loads(body)["submissions"]
    assert {r["value"] for r in told["scores"]} == {0.123456789}


def test_until_it_is_published_a_team_sees_its_own_alone(small):
    site, url = small()
    teams = three_teams(site, url)
    keys = [r["key"] for r in rows_of(site, models.submissions)]
    reds, stranger = teams["Reds"], Visitor(url)
    page = reds.get("/challenges/small/board?which=all")
    assert "Not published yet" in page.text
    assert [r[3] for r in lines(page.text)] == ["Reds 1", "Reds 0"]
    assert not re.search("Blues|Greens", page.text)
    for ending in ("", ".csv", ".json"):
        _, _, body = stranger.raw("GET", f"/challenges/small/board{ending}?which=all")
        assert not re.search(rb"Reds|Blues|Greens", body)
    assert [reds.get(f"/submissions/{k}").status for k in keys] == [200, 200, 404, 404]
    assert [stranger.get(f"/submissions/{k}").status for k in keys] == [404] * 4
    admin = signed_in_admin(site, url)
    refused = admin.send("/admin/challenges/small/publish", page="/admin")
    assert (refused.status, "Say why" in refused.text) == (400, True)
    admin.send("/admin/challenges/small/publish", page="/admin", why="it is over")
    page = stranger.get("/challenges/small/board?which=all")
    assert [r[3] for r in lines(page.text)] == ["Reds 1", "Blues 0", "Reds 0", "Greens 0"]
    # Others see scores; verdict, file and note are the team's.
    page = stranger.get(f"/submissions/{keys[0]}")
    assert page.status == 200
    assert ">60.0<" in page.text
    assert not re.search("r.json|SHA-256|valid: 6", page.text)
    assert stranger.raw("GET", f"/submissions/{keys[0]}/state")[0] == 303
    assert reds.raw("GET", f"/submissions/{keys[2]}/state")[0] == 404
    admin.send("/admin/challenges/small/unpublish", page="/admin", why="a mistake")
    assert lines(stranger.get("/challenges/small/board").text) == [("No submission to show.",)]


def test_people_s_own_row(small):
    site, url = small(visibility={"leaderboard": "public"})
    three_teams(site, url)
    rows = [
        {"references": "c2", "metric": "cider", "value": 0.79, "ci_low": 0.7, "ci_high": 0.8},
        {"references": "c5", "metric": "cider", "value": None, "ci_low": None, "ci_high": None},
    ]
    site.store.database.run_blocking(lambda c: site.store.set_human(c, "small", rows))
    page = Visitor(url).get("/challenges/small/board")
    assert [r[:3] for r in lines(page.text)] == [
        ("1", "1", "Reds"),
        ("2", "1", "Blues"),
        ("–", "–", "people"),
        ("3", "2", "Greens"),
    ]


def test_scores_of_captions_only_where_the_challenge_shows_them(small, tmp_path):
    shut = write_challenge(tmp_path, "shut")
    open_ = write_challenge(tmp_path, "open", visibility={"per_item": True})
    site, url = small(shut, open_)
    ann, bob = signed_up(url, "Ann"), signed_up(url, "Bob")
    tokens = {
        one.name: {"authorization": f"Bearer {found[0]}"}
        for one in (ann, bob)
        if (found := re.search(r"captau_[\w-]{32}", one.send("/account/tokens").text))
    }
    missing = b'{"error":"there is no such thing, or it is somebody else\'s"}'
    for name, there in (("shut", False), ("open", True)):
        key = key_of(ann.upload(name, "r.json", good()))
        assert ann.raw("GET", f"/submissions/{key}/items.csv")[0] == 404  # not scored yet
        score(site, key)
        assert ("Each caption" in ann.get(f"/submissions/{key}").text) == there
        status, _, body = ann.raw("GET", f"/submissions/{key}/items.csv")
        assert status == (200 if there else 404)
        assert bob.raw("GET", f"/submissions/{key}/items.csv")[0] == 404
        # The same by a token.
        path = f"/api/submissions/{key}/items.csv"
        assert ann.raw("GET", path, **tokens["Ann"])[::2] == (
            (200, body) if there else (404, missing)
        )
        assert ann.raw("GET", path, **tokens["Bob"])[::2] == (404, missing)
        assert ann.raw("GET", path)[0] == 401
    read = list(csv.DictReader(io.StringIO(body.decode())))
    assert [r["image_id"] for r in read] == IMAGES
    assert set(read[0]) == {"image_id", "cider@c2", "cider@c5", "rouge_l@c2", "rouge_l@c5"}


# Whoever runs the site.


def test_hidden_and_disqualified_submissions(small):
    site, url = small(visibility={"leaderboard": "public"})
    teams = three_teams(site, url)
    keys = {r["system"]: r["key"] for r in rows_of(site, models.submissions)}
    admin, stranger = signed_in_admin(site, url), Visitor(url)
    best = keys["Reds 1"]
    page = admin.get(f"/admin/submissions/{best}")
    assert page.heading == "Reds 1"
    assert admin.send(f"/admin/submissions/{best}/hidden", page="/admin").status == 400
    admin.send(f"/admin/submissions/{best}/hidden", page="/admin", why="a <test>")
    assert [r[3] for r in lines(stranger.get("/challenges/small/board").text)] == [
        "Blues 0",
        "Reds 0",
        "Greens 0",
    ]
    assert stranger.get(f"/submissions/{best}").status == 404
    own = teams["Reds"].get(f"/submissions/{best}").text
    assert "Hidden: a &lt;test&gt;" in own
    admin.send(f"/admin/submissions/{best}/disqualified", page="/admin", why="two accounts")
    page = stranger.get("/challenges/small/board")
    assert "Reds 1" not in str(lines(page.text))
    assert "<s>Reds 1</s> of Reds: two accounts" in page.text
    admin.send(f"/admin/submissions/{best}/reinstate", page="/admin", why="cleared")
    assert lines(stranger.get("/challenges/small/board").text)[0][3] == "Reds 1"
    log = admin.get("/admin").text
    for action in ("hidden", "disqualified", "reinstate"):
        assert f"<td>admin</td><td>{action}</td><td>submission {best}</td>" in log
    assert admin.send(f"/admin/submissions/{'0' * 16}/hidden", page="/admin", why="x").status == 404


def test_freezing_resetting_and_evaluating_again(small):
    site, url = small()
    ann, admin = signed_up(url, "Ann", team="Reds"), signed_in_admin(site, url)
    for _ in range(2):
        score(site, key_of(ann.upload("small", "r.json", good())))
    assert ann.upload("small", "r.json", good())[0] == 400
    (team,) = rows_of(site, models.teams)
    admin.send(
        f"/admin/teams/{team['id']}/forgive",
        page="/admin",
        why="a fault of ours",
        challenge="small",
    )
    assert (
        "<b>2</b> left today and <b>3</b> left in this phase" in ann.get("/challenges/small").text
    )
    key = key_of(ann.upload("small", "r.json", good()))
    admin.send("/admin/challenges/small/freeze", page="/admin", why="moving")
    assert "No submissions are taken for the moment." in ann.get("/challenges/small").text
    judge(site, key)
    status, _, body = ann.upload("small", "r.json", good())
    assert (status, b"takes no submissions for the moment" in body) == (400, True)
    admin.send("/admin/challenges/small/unfreeze", page="/admin", why="moved")
    begin(site, key)
    store = site.store
    store.database.run_blocking(
        lambda c: store.give_up(c, "w", "the metrics could not be computed", final=True)
    )
    page = ann.get(f"/submissions/{key}")
    assert "It could not be scored: the metrics could not be computed" in page.text
    again = admin.send(f"/admin/submissions/{key}/requeue", page="/admin", why="mended")
    assert again.status == 200
    assert row_of(site, key).state == "queued"
    refused = admin.send(f"/admin/submissions/{key}/requeue", page="/admin", why="twice")
    assert (refused.status, "Only what failed" in refused.text) == (400, True)
    assert (
        admin.send("/admin/teams/99/forgive", page="/admin", why="x", challenge="small").status
        == 404
    )
    assert (
        admin.send("/admin/teams/1/forgive", page="/admin", why="x", challenge="none").status == 404
    )


def test_a_blocked_account_is_out_with_its_tokens(small):
    site, url = small()
    ann, admin = signed_up(url, "Ann"), signed_in_admin(site, url)
    token = re.search(r"captau_[\w-]{32}", ann.send("/account/tokens").text)[0]
    admin.send("/admin/accounts/1/block", page="/admin", why="five accounts")
    assert ann.raw("GET", "/account")[0] == 303
    page = ann.sign_in("Ann")
    assert (page.status, "This account is blocked." in page.text) == (403, True)
    assert "blocked" not in ann.sign_in("Ann", "a wrong password").text
    assert ann.raw("GET", "/api/submissions", authorization=f"Bearer {token}")[0] == 401
    new = {"password": PASSWORD, "again": PASSWORD}
    assert ann.send("/recover", page="/recover", name="Ann", code=ann.codes[0], **new).status == 403
    admin.send("/admin/accounts/1/unblock", page="/admin", why="cleared")
    assert ann.sign_in("Ann").status == 200
    assert admin.send("/admin/accounts/99/block", page="/admin", why="x").status == 404


def test_the_desk_is_whoever_runs_the_site_s_alone(small):
    site, url = small(visibility={"leaderboard": "public"})
    ann = signed_up(url, "Ann")
    score(site, key := key_of(ann.upload("small", "r.json", good())))
    for path in (
        "/admin",
        "/admin/challenges/small/board",
        "/admin/challenges/small/board.csv",
        f"/admin/submissions/{key}",
    ):
        assert ann.raw("GET", path)[1]["location"] == "/admin/login"
    admin = signed_in_admin(site, url)
    # Theirs have all digits; a team's own pages have those that are printed.
    _, _, body = admin.raw("GET", "/admin/challenges/small/board.csv")
    assert b"0.487654322" in body
    for path in ("/admin/challenges/small/publish", f"/admin/submissions/{key}/hidden"):
        assert (
            ann.post(path, {"token": ann.token(), "why": "x"}).heading == "Sign in to the dashboard"
        )
    assert (
        "Its file says"
        in admin.send("/admin/challenges/small/unpublish", page="/admin", why="x").text
    )
    assert row_of(site, key).standing == ""


# What every page has.


def test_no_page_shows_references_and_all_have_the_headers(small):
    site, url = small(visibility={"leaderboard": "public", "per_item": True})
    three_teams(site, url)
    ann, admin = signed_up(url, "Ann"), signed_in_admin(site, url)
    score(site, key := key_of(ann.upload("small", "r.json", good())))
    broken = key_of(ann.upload("small", "r.json", b"[]"))
    judge(site, broken, ["r.json: no captions in it"])
    paths = [
        *("/", "/signup", "/signin", "/recover", "/account", "/submissions", "/nowhere"),
        *("/challenges/small", "/challenges/small/submit", "/challenges/none"),
        *(f"/challenges/small/board{e}?which=all" for e in ("", ".csv", ".json")),
        *(f"/submissions/{k}{e}" for k in (key, broken) for e in ("", "/state", "/items.csv")),
    ]
    desk = ["/admin", "/admin/challenges/small/board", f"/admin/submissions/{key}"]
    for visitor, asked in ((ann, paths), (admin, desk)):
        for path in asked:
            status, headers, body = visitor.raw("GET", path)
            assert status < 500
            assert b"zyxreference" not in body, path
            assert b"zyxsecret" not in body, path
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store"
            if headers.get("content-type", "").startswith("text/html"):
                assert not re.search(rb"<script(?![^>]*src=)|\son\w+=|style=", body), path
            assert visitor.raw("HEAD", path)[::2] == (status, b"")


def test_a_site_below_a_path_and_no_address_of_a_host_header(small):
    _, url = small(address=PublicAddress("/lab", True, "https://lab.example"))
    visitor = Visitor(url)
    status, headers, body = visitor.raw("GET", "/lab/signup", host="evil.example")
    assert status == 200
    assert "path=/lab" in headers["set-cookie"].lower()
    assert "secure" in headers["set-cookie"].lower()
    for link in re.findall(rb'(?:href|action|src)="([^"]*)"', body):
        assert link.startswith((b"/lab/", b"#")), link
    _, _, body = visitor.raw("GET", "/lab/challenges/small", host="evil.example")
    assert b"url=https://lab.example/lab" in body
    assert b"evil.example" not in body
