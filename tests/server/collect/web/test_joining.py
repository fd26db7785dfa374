"""Joining a study through HTTP: nicknames, invitations and crowd platforms."""

from __future__ import annotations

import asyncio
import re

import pytest
from sqlalchemy import update

from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.store.tables import raters
from tests.server.collect.visitors import load_rows, open_unit_id, sign_in_admin


def test_a_nickname_belongs_to_one_person(serve_small):
    _, url = serve_small()
    join_study(url, "Ann")
    with pytest.raises(RuntimeError, match="400"):
        join_study(url, "ann")
    with pytest.raises(RuntimeError, match="400"):
        join_study(url, "<script>")


def test_nicknames_are_compared_in_every_script(serve_small):
    _, url = serve_small()
    for first, equal_nickname in (
        ("Élan", "éLAN"),
        ("ΣΑΣ", "σας"),
        ("Straße", "STRASSE"),
        ("Ann", "Ａｎｎ"),
    ):
        join_study(url, first)
        with pytest.raises(RuntimeError, match="400"):
            join_study(url, equal_nickname)
    join_study(url, "Ana")  # and another is another


def test_an_invitation_is_for_one_person(serve_small):
    site, url = serve_small("good_bad", participants="invitation")
    with pytest.raises(RuntimeError, match="400"):
        join_study(url)
    admin = sign_in_admin(site, url)
    token = admin.get("/admin").hidden["token"]
    page = admin.post("/admin/invitations", {"token": token, "many": 2, "note": "lab"})
    links = re.findall(r"http://\S+(/i/[\w-]+)", page.text)
    assert len(links) == 2
    ann = join_study(url, path=links[0])
    (rater,) = load_rows(site)["raters"]
    assert (rater["points"], rater["excluded_at"]) == (0, None)
    key = ann.get("/rate").hidden["key"]
    elsewhere = Browser(url)  # the same person, by the link, on another device
    assert elsewhere.get(links[0]).hidden["key"] == key
    assert join_study(url, path=links[1]).get("/rate").hidden["key"] != key
    assert len(load_rows(site)["raters"]) == 2


def test_a_wrong_invitation_says_so_and_signs_that_mail_adds_to_a_link_are_passed_over(serve_small):
    site, url = serve_small("good_bad", participants="invitation", contact="lab@example.org")
    (token,) = asyncio.run(site.store.participants.invite("lab", 1))

    for path in ("/i/made-up", f"/i/{token[:-1]}", "/i/%20"):
        page = Browser(url).get(path)
        assert page.status == 404
        assert "No invitation has this link." in page.text
        assert "lab@example.org" in page.text
        assert 'name="consent"' not in page.text

    for link in (f"/i/{token}.", f"/i/{token}),", f"/i/%3C{token}%3E"):
        page = Browser(url).get(link)
        assert page.status == 200
        assert page.hidden["invitation"] == token


def test_an_invitation_that_two_forms_hold_makes_one_participant(serve_small):
    site, url = serve_small("good_bad", participants="invitation")
    (token,) = asyncio.run(site.store.participants.invite("lab", 1))
    first, second = Browser(url), Browser(url)
    pages = [browser.get(f"/i/{token}") for browser in (first, second)]  # nobody has joined yet
    keys = set()
    for browser, page in zip((first, second), pages, strict=True):
        joined = browser.post("/join", {**page.hidden, "consent": "yes"})
        keys.add(joined.hidden["key"])
    assert len(keys) == len(load_rows(site)["raters"]) == 1
    (invitation,) = load_rows(site)["invitations"]
    assert (invitation["rater"], invitation["note"]) == (1, "lab")


def test_the_scoreboard_has_the_best_twenty_by_points_then_by_fewer_answers(serve_small):
    site, _ = serve_small()
    for k in range(25):
        asyncio.run(site.store.participants.join(f"player {k}" if k else "", "", ""))
    # Points fall with the number; 3 and 4 have equal ones, 4 with fewer answers; 5 has no answer; 6 is excluded.
    rows = {k + 1: (100 - k, 7) for k in range(25)} | {4: (90, 9), 5: (90, 8), 6: (99, 0)}
    for rater, (points, given) in rows.items():
        change = update(raters).where(raters.c.id == rater).values(points=points, given=given)
        site.store.database.run_blocking(lambda c, change=change: c.execute(change) and None)
    asyncio.run(site.store.participants.set_excluded(7, "asleep", excluded=True))
    board = asyncio.run(site.store.participants.load_scoreboard())
    expected = [1, 2, *range(7, 11), 4, 3, *range(11, 25)]
    assert [int(name.split()[1]) for name, _, _ in board] == expected[:20]
    assert board[6:8] == [("player 4", 90, 8), ("player 3", 90, 9)]


def test_a_crowd_worker_gets_a_code_and_takes_part_once(serve_small):
    site, url = serve_small(
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
    assert "worker-77" not in str(load_rows(site))  # a hash is kept


def test_a_crowd_worker_without_answers_gets_no_code(serve_small):
    site, url = serve_small("good_bad", participants="crowd", ratings=1, items={"limit": 1})
    ann = join_study(url, path="/?worker=a")
    bob = join_study(url, path="/?worker=b").get("/rate")
    assert "Others are answering the rest at the moment" in bob.text
    assert "no completion code yet" in bob.text
    end = ann.post("/rate", {**ann.get("/rate").hidden, "answer": "good"})
    assert "you have finished" in end.heading
    assert site.store.completion_code(1) in end.text
    cid = join_study(url, path="/?worker=c").get("/rate")
    assert "the study has all its answers" in cid.heading
    assert "return your place" in cid.text
    assert not [k for k in (1, 2, 3) if site.store.completion_code(k) in bob.text + cid.text]


def test_a_crowd_player_who_fails_practice_ends_without_a_code(serve_small):
    site, url = serve_small(
        participants="crowd", game={"attempts": 1, "tutorial_pairs": 0, "tutorial": []}
    )
    browser = join_study(url, path="/?worker=a")
    for turn in range(6):
        page = browser.get("/rate")
        unit = site.store.units[open_unit_id(site)]
        rating = 1 if sum(unit.fixed) / len(unit.fixed) > 3 else 5
        feedback = browser.post("/rate", {**page.hidden, "rating": rating})
        if turn == 2:
            assert (
                "Attempts that you have: 1. Without the points there is no completion code."
                in feedback.text
            )
    assert "That was the last attempt." in feedback.text
    end = browser.get("/rate")
    assert end.heading == "Thank you: your part ends here"
    assert "There is no completion code for this" in end.text
    assert site.store.completion_code(1) not in end.text
    assert load_rows(site)["raters"][0]["state"]["phase"] == "out"


def test_a_browser_can_join_as_another_crowd_worker(serve_small):
    site, url = serve_small("good_bad", participants="crowd")
    browser = join_study(url, path="/?worker=W1")
    key = browser.get("/rate").hidden["key"]
    assert browser.get("/?worker=W1").hidden["key"] == key  # goes on
    assert browser.get("/").hidden["key"] == key
    page = browser.get("/?worker=W3")
    assert "Before you begin" in page.text
    browser.post("/join", {**page.hidden, "consent": "yes"})
    assert browser.get("/rate").hidden["key"] != key
    assert len({r["worker"] for r in load_rows(site)["raters"]}) == 2


def test_of_a_nickname_that_is_too_long_64_characters_are_kept_in_the_form(serve_small):
    _, url = serve_small("game", nicknames=True)
    browser = Browser(url)
    fields = {**browser.get("/").hidden, "consent": "yes", "nickname": "x" * 70}
    page = browser.post("/join", fields)
    assert page.status == 400
    assert f'value="{"x" * 64}"' in page.text
    assert "x" * 65 not in page.text
