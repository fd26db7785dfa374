"""Leaderboards through HTTP: order, filters, files, shown digits, and publication."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re

import pytest

from captau.server.challenge import tables
from captau.server.challenge.leaderboard.leaderboards import BoardPages
from captau.server.challenge.submissions import save_human_scores
from tests.server.challenge.visitors import (
    Visitor,
    load_table,
    quick_passwords,
    read_board,
    read_tables,
    score,
    score_three_teams,
    serve_small,
    sign_up,
    sign_up_admin,
    submission_key,
    valid_captions,
)

__all__ = ["quick_passwords", "serve_small"]

BOARD = "/challenges/small/board"
PUBLIC = {"leaderboard": "public"}


def systems(text):
    return [row[2] for row in read_board(text)]


def test_a_public_leaderboard_has_ranks_filters_and_permalinks(serve_small):
    site, url = serve_small(visibility=PUBLIC)
    teams = score_three_teams(site, url)
    stranger = Visitor(url)
    page = stranger.get(BOARD)
    expected = [
        ("1", "Reds", "Reds 1"),
        ("1", "Blues", "Blues 0"),
        ("2", "Greens", "Greens 0"),
    ]
    assert read_board(page.text) == expected
    assert page.text.count('aria-sort="descending"') == 1
    all_submissions = stranger.get(f"{BOARD}?which=all")
    assert systems(all_submissions.text) == ["Reds 1", "Blues 0", "Reds 0", "Greens 0"]
    assert read_board(stranger.get(f"{BOARD}?which=latest").text) == expected
    is_reversed = stranger.get(f"{BOARD}?sort=cider%40c2&turn=yes")
    assert read_board(is_reversed.text) == expected[::-1]
    assert 'aria-sort="ascending"' in is_reversed.text
    # Filters hide rows and move no places; the permalink repeats them.
    number = re.search(r'<option value="(\d+)">Greens', page.text)[1]
    filtered = stranger.get(f"{BOARD}?team={number}")
    assert read_board(filtered.text) == expected[2:]
    link = re.search(r'href="([^"]+)">Permalink', filtered.text)[1].replace("&amp;", "&")
    assert f"team={number}" in link
    assert read_board(stranger.get(link).text) == expected[2:]
    empty = stranger.get(f"{BOARD}?since=2099-01-01")
    assert read_board(empty.text) == [("No submission to show.",)]
    for invalid_day in ("since=yesterday", "until=2026-13-01"):
        page = stranger.get(f"{BOARD}?{invalid_day}")
        assert (page.status, "is not a day" in page.text) == (400, True)
    for ignored in ("sort=nothing", "which=odd", "phase=none", "team=x", "turn=1"):
        assert read_board(stranger.get(f"{BOARD}?{ignored}").text) == expected
    assert 'class="own-team"' in teams["Blues"].get(BOARD).text
    assert 'class="own-team"' not in stranger.get(BOARD).text


def test_csv_and_json_files_agree_with_the_page(serve_small):
    site, url = serve_small(visibility=PUBLIC)
    score_three_teams(site, url)
    stranger = Visitor(url)
    _, headers, body = stranger.raw("GET", f"{BOARD}.csv?which=all")
    assert headers["content-type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(body.decode())))
    assert [line["system"] for line in lines] == ["Reds 1", "Blues 0", "Reds 0", "Greens 0"]
    assert (lines[0]["cider@c2"], lines[0]["cider@c2_low"]) == ("0.8", "0.788")
    _, _, body = stranger.raw("GET", f"{BOARD}.json?which=all")
    table = json.loads(body)
    assert [row["rank"] for row in table["rows"]] == [int(line["rank"]) for line in lines]
    assert table["signatures"]["cider"] == "cider|backend:x"
    assert "12345" not in body.decode()  # digits beyond those that tables print
    assert stranger.raw("GET", f"{BOARD}.xml")[0] == 422


@pytest.mark.parametrize(
    ("exact", "expected"),
    [
        (False, [("1", "0.5"), ("1", "0.5004")]),
        (True, [("1", "0.5004"), ("2", "0.5")]),
    ],
)
def test_places_and_ranks_reveal_no_hidden_digits(serve_small, exact, expected):
    """Otherwise a changed caption would show whether it gained: its submission is above, or below."""
    site, url = serve_small(visibility={"leaderboard": "public", "exact": exact})
    ann, admin = sign_up(url, "Ann"), sign_up_admin(site, url)
    for value in (0.5, 0.5004):
        key = submission_key(ann.upload("small", "r.json", valid_captions(), system=str(value)))
        score(site, key, value, spread=0.02, seed=7)  # the same samples of images
    rows = read_board(ann.get(f"{BOARD}?which=all").text)
    assert [(rank, system) for rank, _, system in rows] == expected
    assert systems(ann.get(BOARD).text) == [expected[0][1]]
    _, _, body = ann.raw("GET", f"{BOARD}.json?which=all")
    assert [str(r["rank"]) for r in json.loads(body)["rows"]] == [rank for rank, _ in expected]
    admin_rows = read_board(admin.get(f"/admin{BOARD}?which=all").text)
    assert [row[0] for row in admin_rows] == ["1", "2"]


def test_a_leaderboard_says_if_its_scores_are_of_different_versions(serve_small):
    site, url = serve_small(visibility=PUBLIC)
    ann, bob = sign_up(url, "Ann"), sign_up(url, "Bob")
    for visitor, backend, is_different in ((ann, "x", False), (bob, "y", True)):
        key = submission_key(visitor.upload("small", "r.json", valid_captions()))
        score(site, key, 0.5, backend=backend)
        assert ("by the same versions" in ann.get(BOARD).text) == is_different
        table = json.loads(ann.raw("GET", f"{BOARD}.json")[2])
        assert table["signatures"]["cider"] == f"cider|backend:{backend}"
        assert table["signatures_differ"] == is_different


def test_all_digits_are_shown_if_the_challenge_says_so(serve_small):
    site, url = serve_small(visibility={"leaderboard": "public", "exact": True})
    ann = sign_up(url, "Ann")
    key = submission_key(ann.upload("small", "r.json", valid_captions()))
    score(site, key, 0.123456789)
    assert b",0.123456789," in Visitor(url).raw("GET", f"{BOARD}.csv")[2]
    bearer = {"authorization": f"Bearer {ann.create_token()}"}
    (submission,) = json.loads(ann.raw("GET", "/api/submissions", **bearer)[2])["submissions"]
    assert {row["value"] for row in submission["scores"]} == {0.123456789}


def test_a_team_sees_only_its_own_submissions_until_publication(serve_small):
    site, url = serve_small()
    teams = score_three_teams(site, url)
    keys = [row["key"] for row in load_table(site, tables.submissions)]
    reds, stranger = teams["Reds"], Visitor(url)
    page = reds.get(f"{BOARD}?which=all")
    assert "Not published yet" in page.text
    assert systems(page.text) == ["Reds 1", "Reds 0"]
    assert not re.search("Blues|Greens", page.text)
    for ending in ("", ".csv", ".json"):
        _, _, body = stranger.raw("GET", f"{BOARD}{ending}?which=all")
        assert not re.search(rb"Reds|Blues|Greens", body)
    assert [reds.get(f"/submissions/{k}").status for k in keys] == [200, 200, 404, 404]
    assert [stranger.get(f"/submissions/{k}").status for k in keys] == [404] * 4
    admin = sign_up_admin(site, url)
    refused = admin.send("/admin/challenges/small/publish", page="/admin")
    assert (refused.status, "Give a reason" in refused.text) == (400, True)
    admin.send("/admin/challenges/small/publish", page="/admin", why="it is over")
    page = stranger.get(f"{BOARD}?which=all")
    assert systems(page.text) == ["Reds 1", "Blues 0", "Reds 0", "Greens 0"]
    # Strangers see the scores; verdict, file and note are for the team.
    page = stranger.get(f"/submissions/{keys[0]}")
    assert page.status == 200
    assert ">60.0<" in page.text
    assert not re.search("r.json|SHA-256|valid: 6", page.text)
    assert stranger.raw("GET", f"/submissions/{keys[0]}/state")[0] == 303
    assert reds.raw("GET", f"/submissions/{keys[2]}/state")[0] == 404
    admin.send("/admin/challenges/small/unpublish", page="/admin", why="a mistake")
    assert read_board(stranger.get(BOARD).text) == [("No submission to show.",)]


def test_human_scores_stand_among_the_rows_without_a_place(serve_small):
    site, url = serve_small(visibility=PUBLIC)
    score_three_teams(site, url)
    rows = [
        {"references": "c2", "metric": "cider", "value": 0.79, "ci_low": 0.7, "ci_high": 0.8},
        {"references": "c5", "metric": "cider", "value": None, "ci_low": None, "ci_high": None},
    ]
    challenge = site.challenges["small"]
    site.store.database.run_blocking(lambda c: save_human_scores(c, challenge, rows))
    assert [row[:2] for row in read_board(Visitor(url).get(BOARD).text)] == [
        ("1", "Reds"),
        ("1", "Blues"),
        ("–", "people"),
        ("2", "Greens"),
    ]
    additional = [{**row, "people": "additional captions", "value": 0.99} for row in rows[:1]]
    site.store.database.run_blocking(lambda c: save_human_scores(c, challenge, rows + additional))
    board = json.loads(Visitor(url).raw("GET", f"{BOARD}.json")[2])
    systems = [(row["system"], row["human"]) for row in board["rows"] if row["human"]]
    assert systems == [("additional captions", True), ("captions held out", True)]


def test_a_page_of_a_leaderboard_is_made_once_until_the_leaderboard_changes(
    serve_small, monkeypatch
):
    site, url = serve_small(visibility=PUBLIC)
    teams = score_three_teams(site, url)
    stranger, made = Visitor(url), []
    render = site.render_for
    monkeypatch.setattr(site, "render_for", lambda *a, **k: made.append(1) or render(*a, **k))

    def view(visitor=stranger, query=""):
        before = len(made)
        page = visitor.get(f"{BOARD}?{query}").text
        return page, len(made) - before

    page, n_made = view()
    assert (view(), n_made) == ((page, 0), 1)
    assert view(query="which=all")[1] == 1
    reds = view(teams["Reds"])
    assert (">of Reds</a>" in reds[0], reds[1], view(teams["Reds"])) == (True, 1, (reds[0], 0))
    assert view()[0] == page
    # What people, workers and the admin change is seen at once.
    teams["Greens"].send("/team/rename", name="Limes")
    assert [row[1] for row in read_board(view()[0])] == ["Reds", "Blues", "Limes"]
    response = teams["Greens"].upload("small", "r.json", valid_captions(), system="better")
    score(site, submission_key(response), 0.9)
    assert [row[2] for row in read_board(view()[0])] == ["better", "Reds 1", "Blues 0"]
    human = [{"references": "c2", "metric": "cider", "value": 0.79, "ci_low": 0.7, "ci_high": 0.8}]
    challenge = site.challenges["small"]
    site.store.database.run_blocking(lambda c: save_human_scores(c, challenge, human))
    assert [row[1] for row in read_board(view()[0])] == ["Limes", "Reds", "Blues", "people"]
    admin, key = sign_up_admin(site, url), load_table(site, tables.submissions)[0]["key"]
    admin.send(f"/admin/submissions/{key}/disqualified", page="/admin", why="seen before")
    assert "seen before" in view()[0]


class Shelf:
    """Pages of a leaderboard whose revision and renderings a test counts."""

    def __init__(self):
        self.pages, self.revision, self.rendered = BoardPages(), 1, []

    async def get(self, key="all"):
        async def read_revision():
            return (self.revision, 1, 1.0, "[]")

        async def render():
            text = f"{key} {self.revision}"
            await asyncio.sleep(0.01)  # the others ask meanwhile
            self.rendered.append(text)
            return text.encode()

        return await self.pages.get(key, read_revision, render)


def test_fifty_pages_of_leaderboards_are_kept_those_shown_last():
    async def view():
        for key in (*range(50), 0, 50, 0, 2, 1):
            await shelf.get(key)

    shelf = Shelf()
    asyncio.run(view())
    assert shelf.rendered == [f"{key} 1" for key in (*range(51), 1)]


def test_a_page_is_made_anew_when_its_leaderboard_has_changed():
    async def view():
        texts = [await shelf.get(), await shelf.get()]
        shelf.revision = 2
        return [*texts, await shelf.get()]

    shelf = Shelf()
    assert asyncio.run(view()) == [b"all 1", b"all 1", b"all 2"]
    assert shelf.rendered == ["all 1", "all 2"]


def test_a_crowd_shares_pages_that_are_no_older_than_its_questions():
    async def crowd():
        first = [asyncio.create_task(shelf.get()) for _ in range(20)]
        await asyncio.sleep(0)  # they have asked, and the first page is being made
        shelf.revision = 2
        late = [asyncio.create_task(shelf.get()) for _ in range(20)]
        return await asyncio.gather(*first), await asyncio.gather(*late)

    shelf = Shelf()
    first, late = asyncio.run(crowd())
    # A page is made for the first who asked, and another for all who asked while it was made.
    assert (first[0], set(first[1:]), set(late)) == (b"all 1", {b"all 2"}, {b"all 2"})
    assert shelf.rendered == ["all 1", "all 2"]


@pytest.mark.parametrize(("is_tested", "head"), [(True, "rank"), (False, "place")])
def test_a_leaderboard_has_ranks_or_places_and_not_both(serve_small, is_tested, head):
    """Without replicates nothing is tested, so that the place by the score alone stands where ranks would."""
    site, url = serve_small(visibility=PUBLIC)
    score_three_teams(site, url)
    if not is_tested:
        for replicates in site.store.folder.rglob("drawn.parquet"):
            replicates.unlink()
    page = Visitor(url).get(BOARD).text
    assert read_tables(page)[0][:2] == (head, "system, team, sent (UTC)")
    last_rank = "2" if is_tested else "3"
    assert read_board(page)[-1] == (last_rank, "Greens", "Greens 0")
    assert ("Submissions that share a rank" in page) == is_tested
