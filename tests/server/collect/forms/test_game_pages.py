"""The rating game through HTTP: phases, feedback, wait and points."""

from __future__ import annotations

import re

from captau.server.collect.forms.game_rules import score
from captau.server.collect.simulated_browser import Browser, join_study
from tests.server.collect.visitors import finish_tutorial, load_rows, open_unit_id


def test_a_player_goes_from_consent_to_feedback(serve_small):
    site, url = serve_small()
    browser = Browser(url)
    page = browser.get("/")
    assert "You take part in a test." in page.text
    refused = browser.post("/join", page.hidden)
    assert refused.status == 400
    assert "Tick the box" in refused.text
    assert load_rows(site)["raters"] == []
    browser = join_study(url, "Ann")
    page = browser.get("/rate")
    assert "Tutorial 1 of 2" in page.text
    assert page.captions == ["practice 0"]
    feedback = browser.post("/rate", {**page.hidden, "rating": 4})
    assert feedback.score == 2
    assert "It says what is there." in feedback.text
    page = browser.get("/rate")
    feedback = browser.post("/rate", {**page.hidden, "rating": 1})
    assert 'data-turn="tutorial_done"' in feedback.text
    page = browser.get("/rate")
    assert "<span>Pair 1 of 3, 0 points</span>" in page.text
    # Tutorial answers are kept apart from the dataset's.
    assert {a["phase"] for a in load_rows(site)["answers"]} == {"tutorial"}
    assert sum(u["given"] for u in load_rows(site)["units"]) == 0
    feedback = browser.post("/rate", {**page.hidden, "rating": 3})
    assert "<span>Pair 1 of 3, " in feedback.text
    assert "<span>Pair 2 of 3, " in browser.get("/rate").text
    assert [a["phase"] for a in load_rows(site)["answers"]][-1] == "trial"
    assert sum(u["given"] for u in load_rows(site)["units"]) == 1


def test_a_failed_trial_leads_to_probation_and_back(serve_small):
    site, url = serve_small()
    browser, turns = finish_tutorial(url, "Bob"), []
    for _ in range(40):
        page = browser.get("/rate")
        if "Practice" in page.text:
            assert re.search(r"Practice [123] of 3, [0246] points", page.text)
            rating = 4
        else:  # as far off as can be, until the trial is failed
            unit = site.store.units[open_unit_id(site)]
            rating = 1 if sum(unit.fixed) / 2 > 3 else 5
        feedback = browser.post("/rate", {**page.hidden, "rating": rating})
        turns += re.findall(r'data-turn="(\w+)"', feedback.text)
        if "probation_passed" in turns:
            break
    assert turns == ["trial_failed", "probation_passed"]
    rater = load_rows(site)["raters"][0]
    assert (rater["points"], rater["state"]["phase"]) == (0, "playing")
    phases = [a["phase"] for a in load_rows(site)["answers"]]
    assert phases == ["tutorial"] * 2 + ["trial"] * 3 + ["probation"] * 3


def test_the_server_enforces_the_wait(serve_small):
    site, url = serve_small(game={"wait": 60})
    browser = join_study(url)
    page = browser.get("/rate")
    early = browser.post("/rate", {**page.hidden, "rating": 4})
    assert early.status == 425
    assert early.hidden["key"] == page.hidden["key"]
    assert load_rows(site)["answers"] == []
    # Nor do a jump of the machine's clock, a second tab or another key help.
    site.store.clock._offset += 30
    assert browser.get("/rate").hidden["key"] == page.hidden["key"]
    assert browser.post("/rate", {**page.hidden, "rating": 4}).status == 425
    assert browser.post("/rate", {**page.hidden, "key": "made-up", "rating": 4}).status == 404
    site.store.clock._offset += 31
    assert browser.post("/rate", {**page.hidden, "rating": 4}).status == 200
    assert len(load_rows(site)["answers"]) == 1


def test_a_page_does_not_depend_on_the_ratings_of_others(serve_small, tmp_path):
    site, url = serve_small(game={"tutorial_pairs": 0, "tutorial": []})
    browser = join_study(url)
    before = browser.get("/rate").text
    unit = site.store.units[open_unit_id(site)]
    site.store.units[unit.id] = type(unit)(**{**vars(unit), "fixed": (1, 1)})
    assert browser.get("/rate").text == before


def test_only_the_first_answer_counts(serve_small):
    site, url = serve_small()
    browser = finish_tutorial(url)
    page = browser.get("/rate")
    fields = {**page.hidden, "rating": 3}
    first = browser.post("/rate", fields)
    repeated = browser.post("/rate", fields)
    assert first.score == repeated.score
    assert "that rating stands" not in repeated.text
    changed = browser.post("/rate", {**fields, "rating": 5})
    assert "that rating stands" in changed.text
    assert "You said <b>3</b>" in changed.text
    counted = [a for a in load_rows(site)["answers"] if a["phase"] == "trial"]
    assert [a["value"] for a in counted] == [{"overall": 3}]
    assert sum(u["given"] for u in load_rows(site)["units"]) == 1
    assert load_rows(site)["raters"][0]["points"] == first.score


def test_two_tabs_show_the_same_pair(serve_small):
    _, url = serve_small()
    browser = finish_tutorial(url)
    assert browser.get("/rate").hidden["key"] == browser.get("/rate").hidden["key"]


def test_ratings_of_people_replace_computed_ratings(serve_small):
    site, url = serve_small(ratings=6, items={"limit": 3}, game={"pairs": 3, "points": -100})
    ratings_by_unit = {}
    for k, rating in enumerate((5, 4, 1, 2)):
        browser = finish_tutorial(url, f"player {k}")
        for _ in range(3):
            page = browser.get("/rate")
            unit = site.store.units[open_unit_id(site)]
            ratings = ratings_by_unit.setdefault(unit.id, [])
            feedback = browser.post("/rate", {**page.hidden, "rating": rating})
            previous = [*ratings, *unit.fixed[min(2, len(ratings)) :]]
            assert len(previous) == max(2, len(ratings))
            assert feedback.score == score(rating, previous)
            ratings.append(rating)
    assert {u["given"] for u in load_rows(site)["units"] if u["pool"] == "main"} == {4}


def test_pairs_get_their_second_answer_before_new_ones_are_opened(serve_small):
    site, url = serve_small(game={"points": -100}, ratings=5)
    browsers = [finish_tutorial(url, f"p{k}") for k in range(5)]
    for turn in range(14):
        for browser in browsers:
            browser.post("/rate", {**browser.get("/rate").hidden, "rating": 1 + turn % 5})
        counts = [u["given"] for u in load_rows(site)["units"] if u["pool"] == "main"]
        assert counts.count(1) <= 1
        assert max(counts) <= 2 or max(counts) - min(counts) <= 1


def test_nobody_practises_when_the_study_is_complete(serve_small):
    site, url = serve_small(ratings=1, items={"limit": 3}, game={"points": -100})
    ann = finish_tutorial(url)
    for _ in range(3):
        ann.post("/rate", {**ann.get("/rate").hidden, "rating": 3})
    assert "the study has all its answers" in join_study(url).get("/rate").heading
    assert [r["given"] for r in load_rows(site)["raters"]] == [3, 0]


def test_a_german_game_is_german_from_tutorial_to_feedback(serve_small):
    _, url = serve_small(lang="de")
    browser = join_study(url)
    page = browser.get("/rate")
    assert "Einführung 1 von 2" in page.text
    feedback = browser.post("/rate", {**page.hidden, "rating": 4})
    assert feedback.heading == "Sie sehen es wie die anderen"
    assert (feedback.score, feedback.consensus) == (2, 4)
    assert "+2 Punkte" in feedback.text
    browser.post("/rate", {**browser.get("/rate").hidden, "rating": 4})
    assert "<span>Paar 1 von 3, 0 Punkte</span>" in browser.get("/rate").text
