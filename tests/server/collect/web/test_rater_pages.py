"""The other forms through HTTP: answers, attention items and assignment."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from captau.server.collect.rater_figures import compute_rater_figures
from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.web.rater_pages import image_response
from captau.server.web.errors import NotFoundError
from tests.server.collect.conftest import CAPTIONS, make_site
from tests.server.collect.visitors import finish_tutorial, load_rows, sign_in_admin


def test_a_good_bad_study_ends_when_it_has_all_answers(serve_small):
    site, url = serve_small("good_bad", ratings=2)
    for _ in range(2):
        browser = join_study(url)
        for k in range(len(CAPTIONS)):
            page = browser.get("/rate")
            browser.post("/rate", {**page.hidden, "answer": ("good", "bad", "skip")[k % 3]})
        assert "you have finished" in browser.get("/rate").text
    assert {u["given"] for u in load_rows(site)["units"]} == {2}
    assert "the study has all its answers" in join_study(url).get("/rate").text
    refused = browser.post("/rate", {**page.hidden, "answer": "perhaps"})
    assert refused.status == 400


def test_an_answer_takes_the_seconds_from_showing_to_answering(serve_small, clock):
    site, url = serve_small("good_bad")
    browser = join_study(url)
    for seconds in (7, 60):
        page = browser.get("/rate")
        clock[0] += seconds
        browser.post("/rate", {**page.hidden, "answer": "good"}, follow=False)
    assert [a["seconds"] for a in load_rows(site)["answers"]] == pytest.approx([7, 60])


def test_attention_items_come_in_between_and_do_not_count(serve_small):
    attention_item = {"image": "p0.png", "caption": "not at all this", "accepted": [0]}
    site, url = serve_small("good_bad", attention=[attention_item], attention_every=4)
    browser = join_study(url)
    for _ in range(10):
        page = browser.get("/rate")
        browser.post("/rate", {**page.hidden, "answer": "good"})
    phases = [a["phase"] for a in load_rows(site)["answers"]]
    assert [k for k, p in enumerate(phases) if p == "attention"] == [4]
    (figures,) = compute_rater_figures(site.store, load_rows(site)).values()
    assert (figures.n_attention, figures.n_attention_right) == (1, 0)
    assert "missed most known answers" in figures.notes
    assert figures.n_answers == 9


@pytest.mark.parametrize("protocol", ["four", "extrinsic"])
def test_attention_items_come_in_between_captions_judged_by_levels(serve_small, protocol):
    item = {"image": "p0.png", "caption": "not at all this", "accepted": [1]}
    site, url = serve_small(protocol, attention=[item], attention_every=2)
    browser = join_study(url)
    for _ in range(4):
        page = browser.get("/rate")
        levels = {
            f"{dimension}_{k}": 1
            for dimension in site.study.form.scales
            for k in range(1, len(page.captions) + 1)
        }
        assert browser.post("/rate", {**page.hidden, **levels}).status == 200
    phases = {a["serve"]: a["phase"] for a in load_rows(site)["answers"]}
    assert list(phases.values()) == ["main", "main", "attention", "main"]
    (figures,) = compute_rater_figures(site.store, load_rows(site)).values()
    assert (figures.n_attention, figures.n_attention_right) == (1, 1)


def test_four_captions_are_shuffled_and_answers_go_to_their_captions(serve_small):
    site, url = serve_small("four", ratings=8)
    orders = set()
    for _ in range(6):
        browser = join_study(url)
        page = browser.get("/rate")
        orders.add(tuple(c.split(" number")[0] for c in page.captions))
        assert "a reference of picture" in page.text
        incomplete = browser.post("/rate", {**page.hidden, "overall_1": 5})
        assert incomplete.status == 400
        browser.post(
            "/rate",
            {**page.hidden, **{f"overall_{k}": k for k in range(1, len(page.captions) + 1)}},
        )
        # Each value went to the caption that stood at its place.
        ratings = {a["item"]: a["value"]["overall"] for a in load_rows(site)["answers"][-3:]}
        captions = {i.id: i.caption for u in site.store.units.values() for i in u.items}
        assert {captions[i]: v for i, v in ratings.items()} == {
            c: k for k, c in enumerate(page.captions, start=1)
        }
    assert len(orders) > 1


def test_references_are_checked_while_typing_and_when_sent(serve_small):
    site, url = serve_small("references", ratings=2)
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
    sentence = "A very large dog lies on the green grass."
    assert b"Ready" in browser.raw("GET", "/check?text=" + sentence.replace(" ", "%20"))[2]
    browser.post("/rate", {**page.hidden, "text": sentence})
    assert [a["value"] for a in load_rows(site)["answers"]] == [{"text": sentence}]
    assert browser.get("/rate").hidden["key"] != page.hidden["key"]


def test_captions_are_escaped(serve_small):
    _, url = serve_small("good_bad")
    browser = join_study(url)
    for _ in range(len(CAPTIONS)):
        page = browser.get("/rate")
        assert "<b>bold</b>" not in page.text
        if "bold" in page.captions[0]:
            assert page.captions[0].startswith("<b>bold</b> & 'quoted'")
            return
        browser.post("/rate", {**page.hidden, "answer": "good"})
    pytest.fail("the caption with markup was not shown")


def test_units_reach_their_second_rater_before_new_ones_are_opened(serve_small):
    """12 people at once on 18 captions: never more than one caption waits for its second answer."""
    site, url = serve_small("good_bad", ratings=9)
    browsers = [join_study(url) for _ in range(12)]
    for turn in range(6):
        pages = [browser.get("/rate") for browser in browsers]
        if turn % 2:  # those who leave in the midst are not waited for by the others
            pages.reverse()
            browsers.reverse()
        for browser, page in zip(browsers, pages, strict=True):
            browser.post("/rate", {**page.hidden, "answer": "good"}, follow=False)
        counts = [u["given"] for u in load_rows(site)["units"]]
        assert counts.count(1) <= 1
        assert max(counts) <= 2 or min(counts) >= 2
        assert max(counts) - min(counts) <= 2


@pytest.mark.parametrize("turns", ["one after the other", "in turn"])
def test_two_raters_of_twelve_answers_answer_the_same_items(serve_small, turns):
    site, url = serve_small("good_bad", ratings=3)
    browsers = [join_study(url), join_study(url)]
    order = [0] * 12 + [1] * 12 if turns == "one after the other" else [0, 1] * 12
    for k in order:
        page = browsers[k].get("/rate")
        browsers[k].post("/rate", {**page.hidden, "answer": "good"}, follow=False)
    answers = load_rows(site)["answers"]
    items_by_rater = [{a["item"] for a in answers if a["rater"] == r} for r in (1, 2)]
    assert items_by_rater[0] == items_by_rater[1]
    assert len(items_by_rater[0]) == 12


def test_a_pending_answer_counts_for_assignment(serve_small):
    """A caption with one answer awaited gets its second rater; with two awaited, the next is opened."""
    _, url = serve_small("good_bad", ratings=9, items={"limit": 2})
    captions = [join_study(url).get("/rate").captions for _ in range(4)]
    assert captions[0] == captions[1] != captions[2] == captions[3]


def test_an_excluded_rater_does_not_fill_the_study(serve_small):
    site, url = serve_small("good_bad", ratings=1, items={"limit": 2})
    ann, bob = join_study(url), join_study(url)
    page = ann.get("/rate")
    admin = sign_in_admin(site, url)
    reason = {"token": admin.get("/admin").hidden["token"], "why": "asleep"}
    admin.post("/admin/raters/1/exclude", reason)
    # What waits for Ann waits for everybody else, and what she says counts for nobody.
    captions = set()
    for _ in range(2):
        bob_page = bob.get("/rate")
        captions.add(bob_page.captions[0])
        ann.post("/rate", {**page.hidden, "answer": "bad"}, follow=False)
        bob.post("/rate", {**bob_page.hidden, "answer": "good"}, follow=False)
    assert len(captions) == 2
    assert [u["given"] for u in load_rows(site)["units"]] == [1, 1]
    admin.post("/admin/raters/1/include", reason)
    assert sorted(u["given"] for u in load_rows(site)["units"]) == [1, 2]


def test_an_image_is_kept_a_day_and_is_what_its_content_says(tmp_path):
    make_site(tmp_path, "good_bad").store.database.close()
    (tmp_path / "x.jpg").write_bytes((tmp_path / "p0.png").read_bytes())
    response = image_response(str(tmp_path / "x.jpg"))
    assert response.media_type == "image/png"
    assert response.headers["cache-control"] == "private, max-age=86400, immutable"
    (tmp_path / "y.png").write_text("no image")
    for name in ("y.png", "none.png"):
        with pytest.raises(NotFoundError):
            image_response(str(tmp_path / name))


def test_scores_are_shown_where_a_study_has_nicknames(serve_small):
    _, url = serve_small("game", nicknames=True)
    page = finish_tutorial(url, "Zoë").get("/board")
    assert (page.heading, "Nobody yet." in page.text) == ("Scores", True)
    assert Browser(url).get("/board").heading != "Scores"


def test_without_nicknames_there_are_no_scores(serve_small):
    _, url = serve_small("game", nicknames=False)
    assert join_study(url).get("/board").status == 404


def test_the_pages_script_is_told_where_an_answer_leads(serve_small):
    _, url = serve_small("good_bad", url="http://127.0.0.1/study")
    browser = Browser(url)
    landing = browser.get("/study/")
    page = browser.post(landing.action, {**landing.hidden, "consent": "yes"})
    fields = {**page.hidden, "answer": "good"}

    def send(fields):
        status, _, content = browser.raw(
            "POST", "/study/rate", urlencode(fields), accept="application/json"
        )
        return status, content.decode()

    assert send(fields) == (200, '{"page":"/study/rate"}')
    assert send(fields) == (200, '{"page":"/study/rate"}')
    told = f'{{"page":"/study/told/{page.hidden["key"]}?other=yes"}}'
    assert send({**fields, "answer": "bad"}) == (200, told)

    recorded = browser.get(json.loads(told)["page"])
    assert recorded.heading == "You had rated this before; that rating stands."
    assert "Your answer is recorded" not in recorded.text
