"""Tables of participants, for paying them, and of every answer, for research."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import astuple

import pandas as pd
import pytest

from captau.server.collect.export import export_files
from captau.server.collect.forms.game_rules import consensus, score
from captau.server.collect.rater_figures import compute_rater_figures
from captau.server.collect.simulated_browser import join_study
from tests.conftest import says
from tests.server.challenge.visitors import read_tables
from tests.server.collect.visitors import finish_tutorial, load_rows, open_unit_id, sign_in_admin


def read_table(site, export_format, name):
    files = export_files(site.store, load_rows(site), export_format)
    assert set(files) == {name, "run.json"}
    return pd.read_csv(io.BytesIO(files[name]), keep_default_na=False)


def test_the_game_s_log_has_the_consensus_shown_order_and_time(serve_small):
    site, url = serve_small(ratings=6, items={"limit": 3}, game={"points": -100})
    expected, ratings_by_unit = [], {}
    for rating in (5, 2):
        browser = finish_tutorial(url)
        for _ in range(3):
            page = browser.get("/rate")
            unit = site.store.units[open_unit_id(site)]
            ratings = ratings_by_unit.setdefault(unit.id, [])
            previous = [*ratings, *unit.fixed[len(ratings) :]]
            browser.post("/rate", {**page.hidden, "rating": rating})
            expected.append((rating, consensus(previous), score(rating, previous)))
            ratings.append(rating)
    log = read_table(site, "log", "log.csv")
    trial = log[log["phase"] == "trial"]
    shown = zip(trial["overall"], trial["consensus"], trial["score"], strict=True)
    assert list(shown) == expected
    assert log["number"].tolist() == [1, 2, 3, 4, 5] * 2
    assert log["phase"].tolist() == [*["tutorial"] * 2, *["trial"] * 3] * 2
    assert log["turn"].tolist()[1] == "tutorial_done"
    assert log["minutes"].is_monotonic_increasing
    assert log["minutes"].iloc[0] == 0
    assert log["rater"].nunique() == 2


def test_participants_are_listed_with_points_phase_minutes_and_agreement(serve_small):
    site, url = serve_small(ratings=6, items={"limit": 3}, game={"points": -100})
    for rating in (5, 4):
        browser = finish_tutorial(url)
        for k in range(3):
            browser.post("/rate", {**browser.get("/rate").hidden, "rating": rating - k})
    join_study(url)  # and does nothing
    rows = load_rows(site)
    for answer in rows["answers"]:
        answer["seconds"] = 30.0 if answer["phase"] == "tutorial" else 40_000.0
    rows["raters"][0]["excluded_at"] = 1.0
    files = export_files(site.store, rows, "participants")
    table = pd.read_csv(io.BytesIO(files["participants.csv"]), keep_default_na=False)
    assert table["rater"].tolist() == [site.store.rater_code(k) for k in (1, 2, 3)]
    assert table["points"].tolist() == [rater["points"] for rater in rows["raters"]]
    assert table["phase"].tolist() == ["playing", "playing", "tutorial"]
    assert table["answers"].tolist() == [3, 3, 0]
    # Two of the tutorial, half a minute each, and three pages left open, which count ten minutes each.
    assert table["minutes"].tolist() == [31.0, 31.0, 0.0]
    assert table["excluded"].tolist() == ["yes", "", ""]
    assert "invitation" not in table


def test_participants_are_listed_with_the_notes_of_their_invitations(serve_small):
    site, url = serve_small("good_bad", participants="invitation")
    admin = sign_in_admin(site, url)
    for note in ("first class", "second class"):
        page = admin.post("/admin/invitations", {**admin.get("/admin").hidden, "note": note})
        token = page.text.split(f"{url}/i/")[1].split()[0].split("<")[0]
        join_study(url, path=f"/i/{token}")
    table = read_table(site, "participants", "participants.csv")
    assert table["invitation"].tolist() == ["first class", "second class"]


def test_a_crowd_s_participants_are_listed_with_their_codes(serve_small):
    site, url = serve_small("four", participants="crowd", ratings=1, items={"limit": 1})
    browser = join_study(url, path="/?worker=w1")
    page = browser.get("/rate")
    levels = {f"overall_{k}": 3 for k in range(1, len(page.captions) + 1)}
    end = browser.post("/rate", {**page.hidden, **levels})
    table = read_table(site, "participants", "participants.csv")
    (code,) = table["completion"]
    assert code in end.text
    log = read_table(site, "log", "log.csv")
    assert set(log["number"]) == {1}  # all captions of one page
    assert "consensus" not in log


def test_every_file_of_a_small_study_is_as_it_was(serve_small, clock, monkeypatch):
    """Two raters of two captions, 7 and 90 s an answer, worked by hand."""
    site, url = serve_small("good_bad", ratings=2, items={"limit": 2, "seed": 1})
    monkeypatch.setattr(site.store, "rater_code", lambda number: f"r{number}")
    for seconds, answers in ((7, ("good", "bad")), (90, ("good", "skip"))):
        browser = join_study(url)
        for answer in answers:
            page = browser.get("/rate")
            clock[0] += seconds
            browser.post("/rate", {**page.hidden, "answer": answer}, follow=False)
    splits = [site.store.units[number].items[0].split for number in (1, 2)]
    first, second = (
        (unit.image_id, unit.items[0].caption, unit.items[0].references[0], unit.items[0].system)
        for unit in sorted(site.store.units.values(), key=lambda unit: unit.id)
    )
    rows = load_rows(site)
    by_hand = {
        "log": [
            ["rater", "number", "phase", "image", "caption", "system", "good"],
            ["r1", "1", "main", *first[:2], first[3], "1"],
            ["r1", "2", "main", *second[:2], second[3], "0"],
            ["r2", "1", "main", *first[:2], first[3], "1"],
            ["r2", "2", "main", *second[:2], second[3], ""],
        ],
        "participants": [
            ["rater", "answers", "minutes", "agreement", "distance", "known", "excluded"],
            ["r1", "2", "0.2", "", "0", "0/0", ""],
            ["r2", "2", "3.0", "", "0", "0/0", ""],
        ],
        "captau": [
            ["image", "caption", "references", "system"],
            *([*row[:2], f'["{row[2]}"]', row[3]] for row in (first, second, first)),
        ],
    }
    ends = {
        "log": [
            ["seconds", "minutes", "excluded"],
            *(["7.0", "0.00", ""], ["7.0", "0.12", ""], ["90.0", "1.62", ""], ["90.0", "3.12", ""]),
        ],
        "participants": [[]] * 3,
        "captau": [
            ["split", "rater", "dimension", "value", "seconds"],
            *([splits[0], "r1", "good", "1", "7.0"], [splits[1], "r1", "good", "0", "7.0"]),
            [splits[0], "r2", "good", "1", "90.0"],
        ],
    }
    names = {"log": "log.csv", "participants": "participants.csv", "captau": "ratings.csv"}
    for export_format, name in names.items():
        files = export_files(site.store, rows, export_format)
        table = list(csv.reader(io.StringIO(files[name].decode())))
        expected = zip(by_hand[export_format], ends[export_format], strict=True)
        assert table == [[*row, *end] for row, end in expected], export_format
        record = json.loads(files["run.json"])
        assert record == {
            **{"command": "collect export", "study": "small", "title": "A small study"},
            **{"protocol": "good_bad", "form": export_format, "answers": 4, "raters": 2},
            "left_out": {"excluded_raters": 0, "pairs_of_more_than_2_skips": 0},
            **{"conditions": {}, "scales": {"good": "0 to 1 in steps of 1"}},
        }
    with says("unknown form 'csv': known: captau, log, paper, participants"):
        export_files(site.store, rows, "csv")
    figures = compute_rater_figures(site.store, rows)
    assert [astuple(figures[number]) for number in (1, 2)] == [
        (2, 7.0, 0.0, None, 0.5, 1, 0, 0, ()),
        (2, 90.0, 0.0, None, 0.5, 1, 0, 0, ()),
    ]
    admin = sign_in_admin(site, url)
    admin.post("/admin/raters/2/exclude", {**admin.get("/admin").hidden, "why": "<asleep>"})
    page = admin.get("/admin").text
    joined, ends = "2027-01-15 08:00", ("50", "1", "0/0", "")
    tables = read_tables(page)
    assert tables[:3] == [
        ("answers so far", "captions"),
        ("1", "2"),
        (
            *("rater", "joined (UTC)", "answers", "median s", "distance", "r"),
            *("same %", "run", "known", "notes", "actions"),
        ),
    ]
    assert [row[:-1] for row in tables[3:]] == [
        ("r1", joined, "2", "7.0", "–", "–", *ends),  # nobody else counts
        ("r2", joined, "2", "90.0", "0.00", "–", *ends),
    ]
    assert re.findall(r"<title>(2027[^<]+)</title>", page) == [
        f"2027-01-15 08:0{minute}: {count}" for minute, count in enumerate((2, 1, 0, 1))
    ]
    text = " ".join(re.sub("<[^>]+>", " ", page).split())
    for part in (
        "2 of 4 answers (50.0 %)",
        "0 2027-01-15 08:00 2027-01-15 08:03",  # the ends of the axes
        "No caption has two ratings yet.",
        "2027-01-15 08:03 UTC: exclude r2: &lt;asleep&gt;",
    ):
        assert part in text


@pytest.mark.parametrize("tag", ["1234567890abcdef", "12345678e9abcdef"])
def test_a_completion_code_is_never_read_as_a_number(serve_small, monkeypatch, tag):
    site, url = serve_small("four", participants="crowd")
    join_study(url, path="/?worker=w1")
    monkeypatch.setattr(site.store, "tag", lambda *_: tag)
    table = read_table(site, "participants", "participants.csv")
    assert table["completion"].tolist() == [f"C{tag[:10].upper()}"]


@pytest.mark.parametrize("protocol", ["thumb", "ab", "references"])
def test_every_form_has_both_tables(serve_small, protocol):
    site, url = serve_small(protocol)
    join_study(url)
    assert len(read_table(site, "participants", "participants.csv")) == 1
    assert len(read_table(site, "log", "log.csv")) == 0
