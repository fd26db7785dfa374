"""The site through HTTP: every form, exactly once, and what strangers do not get."""

from __future__ import annotations

import asyncio
import re

import pytest

from captau.server.collect.export.answer_collection import collect_answers
from captau.server.collect.simulation.browser import Browser, join_study
from tests.server.collect.conftest import CAPTIONS, make_site, running


def rows(site):
    return site.store.database.run_blocking(site.store.load_rows)


def tutored(url, nickname=""):
    """A player who is through the tutorial of two pairs."""
    browser = join_study(url, nickname)
    for _ in range(2):
        browser.post("/rate", {**browser.get("/rate").hidden, "rating": 4})
    return browser


def test_the_game_from_consent_to_feedback(small):
    site, url = small()
    browser = Browser(url)
    page = browser.get("/")
    assert "You take part in a test." in page.text
    refused = browser.post("/join", page.hidden)
    assert refused.status == 400
    assert "Tick the box" in refused.text
    assert rows(site)["raters"] == []
    browser = join_study(url, "Ann")
    page = browser.get("/rate")
    assert "Tutorial 1 of 2" in page.text
    assert page.captions == ["practice 0"]
    told = browser.post("/rate", {**page.hidden, "rating": 4})
    assert told.score == 2
    assert "It says what is there." in told.text
    page = browser.get("/rate")
    told = browser.post("/rate", {**page.hidden, "rating": 1})
    assert 'data-turn="tutorial_done"' in told.text
    page = browser.get("/rate")
    assert "0 points" in page.text
    # Tutorial answers are kept apart from the dataset's.
    assert {a["phase"] for a in rows(site)["answers"]} == {"tutorial"}
    assert sum(u["given"] for u in rows(site)["units"]) == 0
    browser.post("/rate", {**page.hidden, "rating": 3})
    assert [a["phase"] for a in rows(site)["answers"]][-1] == "trial"
    assert sum(u["given"] for u in rows(site)["units"]) == 1


def test_failing_the_trial_leads_to_probation_and_back(small):
    site, url = small()
    browser, turns = tutored(url, "Bob"), []
    for _ in range(40):
        page = browser.get("/rate")
        if "Practice" in page.text:
            rating = 4
        else:  # as far off as can be, until the trial is failed
            unit = site.store.units[rows_of_open(site)]
            rating = 1 if sum(unit.fixed) / 2 > 3 else 5
        told = browser.post("/rate", {**page.hidden, "rating": rating})
        turns += re.findall(r'data-turn="(\w+)"', told.text)
        if "probation_passed" in turns:
            break
    assert turns == ["trial_failed", "probation_passed"]
    rater = rows(site)["raters"][0]
    assert (rater["points"], rater["state"]["phase"]) == (0, "playing")
    phases = [a["phase"] for a in rows(site)["answers"]]
    assert phases == ["tutorial"] * 2 + ["trial"] * 3 + ["probation"] * 3


def rows_of_open(site):
    from sqlalchemy import select

    from captau.server.collect.store.tables import serves

    query = select(serves.c.unit).where(serves.c.answered_at.is_(None))
    return site.store.database.run_blocking(lambda c: c.execute(query).scalar_one())


def test_the_server_holds_the_wait(small):
    site, url = small(game={"wait": 60})
    browser = join_study(url)
    page = browser.get("/rate")
    early = browser.post("/rate", {**page.hidden, "rating": 4})
    assert early.status == 425
    assert early.hidden["key"] == page.hidden["key"]
    assert rows(site)["answers"] == []
    # Nor do a jump of the machine's clock, a second tab or another key help.
    site.store.clock._offset += 30
    assert browser.get("/rate").hidden["key"] == page.hidden["key"]
    assert browser.post("/rate", {**page.hidden, "rating": 4}).status == 425
    assert browser.post("/rate", {**page.hidden, "key": "made-up", "rating": 4}).status == 404
    site.store.clock._offset += 31
    assert browser.post("/rate", {**page.hidden, "rating": 4}).status == 200
    assert len(rows(site)["answers"]) == 1


def test_the_page_is_the_same_whatever_others_rated(small, tmp_path):
    site, url = small(game={"tutorial_pairs": 0, "tutorial": []})
    browser = join_study(url)
    before = browser.get("/rate").text
    unit = site.store.units[rows_of_open(site)]
    site.store.units[unit.id] = type(unit)(**{**vars(unit), "fixed": (1, 1)})
    assert browser.get("/rate").text == before


def test_an_answer_counts_once_and_the_first_stands(small):
    site, url = small()
    browser = tutored(url)
    page = browser.get("/rate")
    sent = {**page.hidden, "rating": 3}
    first = browser.post("/rate", sent)
    again = browser.post("/rate", sent)
    assert first.score == again.score
    assert "that rating stands" not in again.text
    other = browser.post("/rate", {**sent, "rating": 5})
    assert "that rating stands" in other.text
    assert "You said <b>3</b>" in other.text
    counted = [a for a in rows(site)["answers"] if a["phase"] == "trial"]
    assert [a["value"] for a in counted] == [{"overall": 3}]
    assert sum(u["given"] for u in rows(site)["units"]) == 1
    assert rows(site)["raters"][0]["points"] == first.score


def test_two_tabs_show_one_pair(small):
    _, url = small()
    browser = tutored(url)
    assert browser.get("/rate").hidden["key"] == browser.get("/rate").hidden["key"]


def test_computed_ratings_give_way_to_peoples(small):
    from captau.server.collect.forms.game_rules import score

    site, url = small(ratings=6, items={"limit": 3}, game={"pairs": 3, "points": -100})
    seen = {}
    for k, rating in enumerate((5, 4, 1, 2)):
        browser = tutored(url, f"player {k}")
        for _ in range(3):
            page = browser.get("/rate")
            unit = site.store.units[rows_of_open(site)]
            people = seen.setdefault(unit.id, [])
            told = browser.post("/rate", {**page.hidden, "rating": rating})
            previous = [*people, *unit.fixed[min(2, len(people)) :]]
            assert len(previous) == max(2, len(people))
            assert told.score == score(rating, previous)
            people.append(rating)
    assert {u["given"] for u in rows(site)["units"] if u["pool"] == "main"} == {4}


def test_ratings_stay_even(small):
    site, url = small(game={"points": -100}, ratings=5)
    browsers = [tutored(url, f"p{k}") for k in range(5)]
    for turn in range(14):
        for browser in browsers:
            browser.post("/rate", {**browser.get("/rate").hidden, "rating": 1 + turn % 5})
        given = [u["given"] for u in rows(site)["units"] if u["pool"] == "main"]
        assert max(given) - min(given) <= 1


def test_good_bad_skip_until_all_are_in(small):
    site, url = small("good_bad", ratings=2)
    for _ in range(2):
        browser = join_study(url)
        for k in range(len(CAPTIONS)):
            page = browser.get("/rate")
            browser.post("/rate", {**page.hidden, "answer": ("good", "bad", "skip")[k % 3]})
        assert "you are through" in browser.get("/rate").text
    assert {u["given"] for u in rows(site)["units"]} == {2}
    assert "the study has all its answers" in join_study(url).get("/rate").text
    bad = browser.post("/rate", {**page.hidden, "answer": "perhaps"})
    assert bad.status == 400


def test_attention_items_come_in_between_and_stay_apart(small):
    known = {"image": "p0.png", "caption": "not at all this", "accepted": [0]}
    site, url = small("good_bad", attention=[known], attention_every=4)
    browser = join_study(url)
    for _ in range(10):
        page = browser.get("/rate")
        browser.post("/rate", {**page.hidden, "answer": "good"})
    phases = [a["phase"] for a in rows(site)["answers"]]
    assert [k for k, p in enumerate(phases) if p == "attention"] == [4]
    from captau.server.collect.quality.rater_figures import compute_rater_figures

    (figures,) = compute_rater_figures(site.store, rows(site)).values()
    assert (figures.n_attention, figures.n_attention_right) == (1, 0)
    assert "missed most known answers" in figures.notes
    assert figures.n_answers == 9


def test_thumb_is_blind_and_settled_by_both(small):
    site, url = small("thumb", ratings=2, items={"limit": 2})
    one, two = join_study(url), join_study(url)
    given = {"precision": 4, "recall": 3, "inclusive": 0}
    for browser, more in ((one, {}), (two, {"fault": ["grammar", "broken"], "tenths_broken": 15})):
        for _ in range(2):
            page = browser.get("/rate")
            assert page.captions[0].endswith(".")
            assert "sys-" not in page.text
            browser.post("/rate", {**page.hidden, **given, **more})
    page = one.get("/resolve")
    assert page.text.count("<section") == 2
    assert page.text.count(">1.9<") == 2  # (4 + 3) / 2 - 0.1 - 1.5
    settled = one.post(page.action, {"token": page.hidden["token"], **given, "fault": ["grammar"]})
    assert settled.text.count("<section") == 1
    # The other's page knows; a second settling changes nothing; the versions are kept.
    assert two.get("/resolve").text.count("<section") == 1
    assert (
        two.post(page.action, {"token": two.get("/resolve").hidden["token"], **given}).status == 404
    )
    found = rows(site)
    assert len(found["resolutions"]) == 1
    assert len(found["answers"]) == 4
    stranger = join_study(url)
    token = stranger.get("/resolve").hidden.get("token", "")
    assert "None: you agree" in stranger.get("/resolve").text
    assert stranger.post(page.action, {"token": token, **given}).status in (400, 404)


def test_what_an_annotator_settled_who_is_left_out_is_open_again(small):
    site, url = small("thumb", ratings=3, items={"limit": 1})
    people = [join_study(url) for _ in range(3)]
    for k, browser in enumerate(people):
        page = browser.get("/rate")
        browser.post("/rate", {**page.hidden, "precision": 3 + k, "recall": 3, "inclusive": 0})

    def settle(browser, precision):
        page = browser.get("/resolve")
        given = {"precision": precision, "recall": 1, "inclusive": 0}
        return browser.post(page.action, {"token": page.hidden["token"], **given})

    def is_open():
        return [b.get("/resolve").text.count("<section") for b in people]

    assert is_open() == [1, 1, 1]
    settle(people[0], 1)
    assert is_open() == [0, 0, 0]
    asyncio.run(site.store.participants.set_excluded(1, "not careful", excluded=True))
    assert is_open() == [0, 1, 1]
    assert not collect_answers(site.store, rows(site)).settled
    settle(people[1], 2)
    assert is_open() == [0, 0, 0]
    asyncio.run(site.store.participants.set_excluded(1, "a mistake", excluded=False))
    (value,) = collect_answers(site.store, rows(site)).settled.values()
    assert value["precision"] == 2  # the last one holds


def test_four_captions_at_once_in_any_order(small):
    site, url = small("four", ratings=8)
    orders = set()
    for _ in range(6):
        browser = join_study(url)
        page = browser.get("/rate")
        orders.add(tuple(c.split(" number")[0] for c in page.captions))
        assert "a reference of picture" in page.text
        missing = browser.post("/rate", {**page.hidden, "overall_1": 5})
        assert missing.status == 400
        browser.post(
            "/rate",
            {**page.hidden, **{f"overall_{k}": k for k in range(1, len(page.captions) + 1)}},
        )
        # Each value went to the caption that stood at its place.
        said = {a["item"]: a["value"]["overall"] for a in rows(site)["answers"][-3:]}
        items = {i.id: i.caption for u in site.store.units.values() for i in u.items}
        assert {items[i]: v for i, v in said.items()} == {
            c: k for k, c in enumerate(page.captions, start=1)
        }
    assert len(orders) > 1


def test_references_are_checked_while_typing_and_when_sent(small):
    site, url = small("references", ratings=2)
    browser = join_study(url)
    page = browser.get("/rate")
    assert page.captions == []
    status, _, body = browser.raw("GET", "/check?text=There%20is%20a%20dog")
    assert status == 200
    assert b"at least 8 words; there are 4" in body
    assert "There is" in body.decode()
    refused = browser.post(
        "/rate", {**page.hidden, "text": "There is a very large dog on the grass"}
    )
    assert refused.status == 400
    good = "A very large dog lies on the green grass."
    assert b"Ready" in browser.raw("GET", "/check?text=" + good.replace(" ", "%20"))[2]
    browser.post("/rate", {**page.hidden, "text": good})
    assert [a["value"] for a in rows(site)["answers"]] == [{"text": good}]
    assert browser.get("/rate").hidden["key"] != page.hidden["key"]


def test_captions_are_escaped(small):
    _, url = small("good_bad")
    browser = join_study(url)
    for _ in range(len(CAPTIONS)):
        page = browser.get("/rate")
        assert "<b>bold</b>" not in page.text
        if "bold" in page.captions[0]:
            assert page.captions[0].startswith("<b>bold</b> & 'quoted'")
            return
        browser.post("/rate", {**page.hidden, "answer": "good"})
    pytest.fail("the caption with markup was not shown")


def test_what_is_another_s_is_not_to_be_had(small):
    _, url = small()
    ann, bob = tutored(url, "Ann"), tutored(url, "Bob")
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
    for path in ("/rate", "/board", "/done", f"/image/{key}", f"/told/{key}", "/resolve", "/check"):
        assert stranger.raw("GET", path)[0] == 303
    for path in ("/admin", "/admin/export/captau"):
        assert ann.raw("GET", path)[1]["location"] == "/admin/login"
    for path in ("/image/..%2f..%2fetc%2fpasswd", "/image/../study.yaml", "/static/../app.py"):
        assert ann.raw("GET", path)[0] in (404, 422)


def test_forms_need_this_session_s_token(small):
    site, url = small()
    ann, bob = tutored(url, "Ann"), tutored(url, "Bob")
    page = ann.get("/rate")
    for token in ("", "x", bob.get("/rate").hidden["token"]):
        assert ann.post("/rate", {**page.hidden, "token": token, "rating": 3}).status == 400
    assert not [a for a in rows(site)["answers"] if a["phase"] == "trial"]
    forged = Browser(url)
    forged.cookies["captau"] = ann.cookies["captau"][:-2] + "xx"
    assert forged.raw("GET", "/rate")[0] == 303


def test_cookies_and_headers(small):
    _, url = small()
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


def test_bodies_are_bounded(small):
    _, url = small()
    browser = join_study(url)
    page = browser.get("/rate")
    huge = {**page.hidden, "rating": "4", "more": "x" * 70_000}
    status, _, _ = browser.raw("POST", "/rate", "&".join(f"{k}={v}" for k, v in huge.items()))
    assert status == 413
    # The same in pieces, of no told length.
    import http.client

    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    pieces = (b"x" * 8192 for _ in range(20))
    headers = {"cookie": f"captau={browser.cookies['captau']}", "transfer-encoding": "chunked"}
    headers["content-type"] = "application/x-www-form-urlencoded"
    connection.request("POST", "/rate", pieces, headers, encode_chunked=True)
    assert connection.getresponse().status == 413


def test_limits(small):
    _, url = small(limits={"joins": 2, "logins": 2, "requests": 2})
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


def test_a_nickname_is_one_person_s(small):
    _, url = small()
    join_study(url, "Ann")
    with pytest.raises(RuntimeError, match="400"):
        join_study(url, "ann")
    with pytest.raises(RuntimeError, match="400"):
        join_study(url, "<script>")


def test_a_nickname_is_one_person_s_in_every_script(small):
    _, url = small()
    for first, other in (
        ("Élan", "éLAN"),
        ("ΣΑΣ", "σας"),
        ("Straße", "STRASSE"),
        ("Ann", "Ａｎｎ"),
    ):
        join_study(url, first)
        with pytest.raises(RuntimeError, match="400"):
            join_study(url, other)
    join_study(url, "Ana")  # and another is another


def test_answers_are_spread_over_all_while_people_are_at_it(small):
    """18 captions, 12 people at once: nothing gets its second answer while another awaits its first."""
    site, url = small("good_bad", ratings=9)
    browsers = [join_study(url) for _ in range(12)]
    for turn in range(6):
        pages = [browser.get("/rate") for browser in browsers]
        if turn % 2:  # those who leave in the midst are not waited for by the others
            pages.reverse()
            browsers.reverse()
        for browser, page in zip(browsers, pages, strict=True):
            browser.post("/rate", {**page.hidden, "answer": "good"}, follow=False)
        given = [u["given"] for u in rows(site)["units"]]
        assert max(given) - min(given) <= 1


def test_who_was_asked_first_and_answers_late_is_counted_in(small):
    """A caption with an answer awaited counts as having it: the next goes to one with fewer."""
    site, url = small("good_bad", ratings=9, items={"limit": 2})
    ann, bob = join_study(url), join_study(url)  # each is shown one
    page = bob.get("/rate")
    assert page.captions != ann.get("/rate").captions
    bob.post("/rate", {**page.hidden, "answer": "good"}, follow=False)
    bob.get("/rate")  # Ann's too: one answered, one awaited twice
    assert join_study(url).get("/rate").captions == page.captions
    assert sorted(u["given"] for u in rows(site)["units"]) == [0, 1]


def test_an_excluded_rater_does_not_fill_the_study(small):
    site, url = small("good_bad", ratings=1, items={"limit": 2})
    ann, bob = join_study(url), join_study(url)
    page = ann.get("/rate")
    admin = signed_in(site, url)
    why = {"token": admin.get("/admin").hidden["token"], "why": "asleep"}
    admin.post("/admin/raters/1/exclude", why)
    # What waits for Ann waits for everybody else, and what she says counts for nobody.
    seen = set()
    for _ in range(2):
        shown = bob.get("/rate")
        seen.add(shown.captions[0])
        ann.post("/rate", {**page.hidden, "answer": "bad"}, follow=False)
        bob.post("/rate", {**shown.hidden, "answer": "good"}, follow=False)
    assert len(seen) == 2
    assert [u["given"] for u in rows(site)["units"]] == [1, 1]
    admin.post("/admin/raters/1/include", why)
    assert sorted(u["given"] for u in rows(site)["units"]) == [1, 2]


def signed_in(site, url, password="correct horse battery"):
    admin = Browser(url)
    page = admin.get(f"/admin/setup?code={site.setup_code}")
    done = admin.post("/admin/setup", {**page.hidden, "password": password, "again": password})
    assert done.heading == "Dashboard"
    return admin


def test_the_admin_s_password_is_chosen_once_and_asked_for(small):
    from sqlalchemy import select

    from captau.server.collect.store.tables import site_settings

    site, url = small()
    admin = Browser(url)
    assert "No password is set" in admin.get("/admin/login").text
    page = admin.get(f"/admin/setup?code={site.setup_code}")
    short = admin.post("/admin/setup", {**page.hidden, "password": "short", "again": "short"})
    assert short.status == 400
    signed_in(site, url)
    assert Browser(url).raw("GET", f"/admin/setup?code={site.setup_code}")[0] == 404
    kept = site.store.database.run_blocking(
        lambda c: c.execute(
            select(site_settings.c.value).where(site_settings.c.key == "password")
        ).scalar_one()
    )
    assert kept.startswith("$argon2id$")
    other = Browser(url)
    page = other.get("/admin/login")
    assert other.post("/admin/login", {**page.hidden, "password": "wrong"}).status == 403
    assert other.raw("GET", "/admin")[0] == 303
    page = other.get("/admin/login")
    good = other.post("/admin/login", {**page.hidden, "password": "correct horse battery"})
    assert good.heading == "Dashboard"
    out = other.post("/admin/logout", other.get("/admin").hidden)
    assert out.heading != "Dashboard"
    assert other.raw("GET", "/admin")[0] == 303


def test_signing_out_and_another_password_end_the_dashboard_s_sessions(tmp_path, monkeypatch):
    site = make_site(tmp_path, "good_bad")
    with running(site) as url:
        here = signed_in(site, url)
        there = Browser(url)
        page = there.get("/admin/login")
        there.post("/admin/login", {**page.hidden, "password": "correct horse battery"})
        kept = dict(here.cookies)
        assert there.get("/admin").heading == "Dashboard"
        here.post("/admin/logout", here.get("/admin").hidden)
        here.cookies = kept  # copied before
        assert here.raw("GET", "/admin")[0] == 303
        assert there.raw("GET", "/admin")[0] == 303
        page = there.get("/admin/login")
        there.post("/admin/login", {**page.hidden, "password": "correct horse battery"})
    # The same password handed over again ends nothing, nor does a restart; another one does.
    for password, status in (
        (None, 200),
        ("correct horse battery", 200),
        ("another one altogether", 303),
    ):
        if password:
            monkeypatch.setenv("CAPTAU_ADMIN_PASSWORD", password)
        with running(make_site(tmp_path)) as url:
            again = Browser(url)
            again.cookies = dict(there.cookies)
            assert again.raw("GET", "/admin")[0] == status


def test_exclusion_is_recorded_and_undone_and_deletion_is_for_good(small):
    site, url = small(game={"points": -100})
    ann, bob = tutored(url, "Ann"), tutored(url, "Bob")
    for browser in (ann, bob):
        for _ in range(4):
            browser.post("/rate", {**browser.get("/rate").hidden, "rating": 2})
    admin = signed_in(site, url)
    token = admin.get("/admin").hidden["token"]
    number = next(r["id"] for r in rows(site)["raters"] if r["nickname"] == "Bob")
    code = site.store.rater_code(number)

    def given():
        return sum(u["given"] for u in rows(site)["units"])

    assert given() == 8
    assert admin.post(f"/admin/raters/{number}/exclude", {"token": token}).status == 400
    why = {"token": token, "why": "asleep"}
    page = admin.post(f"/admin/raters/{number}/exclude", why)
    assert f"exclude {code}: asleep" in page.text
    assert given() == 4
    assert "Bob" not in ann.get("/board").text
    page = admin.post(f"/admin/raters/{number}/include", {**why, "why": "awake"})
    assert f"include {code}: awake" in page.text
    assert given() == 8
    assert admin.post(f"/admin/raters/{number}/delete", why).status == 400
    page = admin.post(f"/admin/raters/{number}/delete", {**why, "sure": "yes"})
    assert f"delete {code}: asleep" in page.text
    assert given() == 4
    left = rows(site)
    assert [r["nickname"] for r in left["raters"]] == ["Ann"]
    assert number not in {a["rater"] for a in left["answers"]}
    # Whose session it was is a stranger now, and the number is nobody else's.
    assert "Before you begin" in bob.get("/rate").text
    join_study(url, "Cid")
    assert number not in {r["id"] for r in rows(site)["raters"]}
    assert ann.post(f"/admin/raters/{number}/delete", why).status == 200  # the page to sign in


def test_invitations_are_for_one_person_each(small):
    site, url = small("good_bad", participants="invitation")
    with pytest.raises(RuntimeError, match="400"):
        join_study(url)
    admin = signed_in(site, url)
    token = admin.get("/admin").hidden["token"]
    page = admin.post("/admin/invitations", {"token": token, "many": 2, "note": "lab"})
    links = re.findall(r"http://\S+(/i/[\w-]+)", page.text)
    assert len(links) == 2
    ann = join_study(url, path=links[0])
    key = ann.get("/rate").hidden["key"]
    elsewhere = Browser(url)  # the same person, by the link, on another device
    assert elsewhere.get(links[0]).hidden["key"] == key
    assert join_study(url, path=links[1]).get("/rate").hidden["key"] != key
    assert len(rows(site)["raters"]) == 2
    assert Browser(url).raw("GET", "/i/made-up")[0] == 404


def test_a_crowd_s_worker_gets_a_code_and_takes_part_once(small):
    site, url = small(
        "good_bad",
        participants="crowd",
        crowd={"parameter": "PROLIFIC_PID", "completion": "C0DE-123"},
        per_rater=2,
    )
    with pytest.raises(RuntimeError, match="400"):
        join_study(url)
    browser = join_study(url, path="/?PROLIFIC_PID=worker-77")
    for _ in range(2):
        page = browser.get("/rate")
        assert "C0DE-123" not in browser.get("/done").text
        browser.post("/rate", {**page.hidden, "answer": "good"})
    assert "C0DE-123" in browser.get("/rate").text
    with pytest.raises(RuntimeError, match="400"):
        join_study(url, path="/?PROLIFIC_PID=worker-77")
    assert "worker-77" not in str(rows(site))  # a hash is kept


def test_there_is_no_code_for_no_answers(small):
    site, url = small("good_bad", participants="crowd", ratings=1, items={"limit": 1})
    ann = join_study(url, path="/?worker=a")
    bob = join_study(url, path="/?worker=b").get("/rate")
    assert "Others are at the rest just now" in bob.text
    assert "no completion code yet" in bob.text
    done = ann.post("/rate", {**ann.get("/rate").hidden, "answer": "good"})
    assert "you are through" in done.heading
    assert site.store.completion_code(1) in done.text
    cid = join_study(url, path="/?worker=c").get("/rate")
    assert "the study has all its answers" in cid.heading
    assert "return your place" in cid.text
    assert not [k for k in (1, 2, 3) if site.store.completion_code(k) in bob.text + cid.text]


def test_a_crowd_s_player_who_fails_practice_for_good_is_done_without_a_code(small):
    site, url = small(
        participants="crowd", game={"attempts": 1, "tutorial_pairs": 0, "tutorial": []}
    )
    browser = join_study(url, path="/?worker=a")
    for turn in range(6):
        page = browser.get("/rate")
        unit = site.store.units[rows_of_open(site)]
        rating = 1 if sum(unit.fixed) / len(unit.fixed) > 3 else 5
        told = browser.post("/rate", {**page.hidden, "rating": rating})
        if turn == 2:
            assert (
                "You have 1 attempt; without the points there is no completion code." in told.text
            )
    assert "that was the last attempt" in told.text
    done = browser.get("/rate")
    assert done.heading == "Thank you: your part ends here"
    assert "There is no completion code for that" in done.text
    assert site.store.completion_code(1) not in done.text
    assert rows(site)["raters"][0]["state"]["phase"] == "out"


def test_nobody_practises_where_nothing_is_left(small):
    site, url = small(ratings=1, items={"limit": 3}, game={"points": -100})
    ann = tutored(url)
    for _ in range(3):
        ann.post("/rate", {**ann.get("/rate").hidden, "rating": 3})
    assert "the study has all its answers" in join_study(url).get("/rate").heading
    assert [r["given"] for r in rows(site)["raters"]] == [3, 0]


def test_another_worker_s_link_in_the_same_browser_is_another_person_s(small):
    site, url = small("good_bad", participants="crowd")
    browser = join_study(url, path="/?worker=W1")
    key = browser.get("/rate").hidden["key"]
    assert browser.get("/?worker=W1").hidden["key"] == key  # goes on
    assert browser.get("/").hidden["key"] == key
    page = browser.get("/?worker=W3")
    assert "Before you begin" in page.text
    browser.post("/join", {**page.hidden, "consent": "yes"})
    assert browser.get("/rate").hidden["key"] != key
    assert len({r["worker"] for r in rows(site)["raters"]}) == 2


def test_no_address_is_made_of_a_host_header(small):
    site, url = small("good_bad", participants="invitation", url="https://lab.example")
    browser = Browser(url)
    for path in ("/rate/", "/admin/login/", "//evil.example/rate/"):
        status, headers, _ = browser.raw("GET", path, host="evil.example")
        assert (status, headers.get("location")) == (404, None)
    admin = signed_in(site, url)
    body = f"token={admin.get('/admin').hidden['token']}&many=1"
    _, _, page = admin.raw("POST", "/admin/invitations", body, host="evil.example")
    assert b"https://lab.example/i/" in page
    assert b"evil.example" not in page


def test_head_is_answered_like_get(small):
    _, url = small("good_bad")
    for path in ("/", "/health", "/admin/login", "/static/captau.js"):
        status, headers, body = Browser(url).raw("HEAD", path)
        assert (status, body) == (200, b"")
        assert "content-security-policy" in headers


def test_a_fault_of_our_own_has_the_headers_too(small, monkeypatch):
    site, url = small("good_bad")
    monkeypatch.setattr(site.admin_account, "load_password_hash", None)  # cannot be called
    status, headers, body = Browser(url).raw("GET", "/health")
    assert status == 500
    assert b"Something went wrong here" in body
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


def test_a_site_below_a_path(small):
    _, url = small("good_bad", url="https://lab.example/study")
    browser = Browser(url)
    status, headers, body = browser.raw("GET", "/study/")
    assert status == 200
    assert "secure" in headers["set-cookie"].lower()
    assert "path=/study" in headers["set-cookie"].lower()
    assert b'action="/study/join"' in body
    assert browser.raw("GET", "/study/static/captau.css")[0] == 200
    assert browser.raw("GET", "/study")[1]["location"] == "/study/"
