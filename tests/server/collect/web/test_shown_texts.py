"""What a study's pages say beside the rating: the title once, the link to hand out, the end, and whom to ask."""

from __future__ import annotations

import re

import pytest

from captau.server.collect.simulated_browser import Browser
from tests.server.collect.visitors import join_study, sign_in_admin


def texts_of(page):
    """Return the words of a page that a person sees, without those of its head."""
    _, _, body = page.text.partition("<body")
    return " ".join(re.sub("<[^>]+>", " ", body).split())


def rate_all(url):
    """Answer every unit of a study with good and bad, and return the last page."""
    browser = join_study(url)
    page = browser.get("/rate")
    while "key" in page.hidden:
        page = browser.post("/rate", {**page.hidden, "answer": "good"})
    return page


def test_the_first_page_has_the_title_once(serve_small):
    _, url = serve_small("good_bad", title="How good are these?", contact="ann@lab.example")
    page = Browser(url).get("/")
    assert page.heading == "How good are these?"
    assert texts_of(page).count("How good are these?") == 1
    assert "Questions about this study? Write to: ann@lab.example" in texts_of(page)
    # Where the heading is another one, the title stands above it.
    rating = join_study(url).get("/rate")
    assert texts_of(rating).count("How good are these?") == 1


def test_the_last_page_says_what_was_done_what_is_next_and_whom_to_ask(serve_small):
    site, url = serve_small("good_bad", contact="ann@lab.example")
    page = rate_all(url)
    n_units = sum(unit.pool == "main" for unit in site.store.units.values())
    assert page.heading == "Thank you: you have finished"
    for part in (
        f"Your answers: {n_units}. All of them are stored.",
        "There is nothing more to do: you may close this page.",
        "Questions about this study? Write to: ann@lab.example",
    ):
        assert part in texts_of(page)


def test_without_a_contact_no_page_speaks_of_one(serve_small):
    _, url = serve_small("good_bad")
    assert "Questions about" not in texts_of(rate_all(url))


@pytest.mark.parametrize(
    ("participants", "ending", "note"),
    [
        ("open", "/", "Anybody who has this link can take part."),
        ("crowd", "/?worker=WORKER", "Enter it on the crowd platform"),
        ("invitation", None, None),
    ],
)
def test_the_dashboard_has_the_link_to_hand_out(serve_small, participants, ending, note):
    site, url = serve_small("good_bad", participants=participants)
    page = sign_in_admin(site, url).get("/admin")
    links = re.findall(r'<h2 id="link">.*?<pre tabindex="0">([^<]+)</pre>', page.text, re.S)
    assert links == ([] if ending is None else [f"{url}{ending}"])
    if note:
        assert note in texts_of(page)


def test_before_the_first_answer_the_dashboard_says_so_once(serve_small):
    site, url = serve_small("good_bad")
    text = texts_of(sign_in_admin(site, url).get("/admin"))
    assert text.count("There are no answers yet.") == 1
    assert "undefined" not in text


def test_measures_without_a_value_stand_in_one_line(serve_small):
    """Two raters who say good to all agree, and no measure that corrects for chance is defined."""
    site, url = serve_small("good_bad")
    for _ in range(2):
        rate_all(url)
    page = sign_in_admin(site, url).get("/admin")
    text = texts_of(page)
    _, _, section = page.text.partition('<h2 id="agreement">')
    section, _, _ = section.partition('<h2 id="raters">')
    assert "Not defined yet: " in text
    assert "undefined" not in section
    assert '<td class="number">–</td>' not in section


def test_keys_are_named_where_there_are_some(serve_small):
    """The style sheet hides their names on a phone."""
    _, url = serve_small("ab")
    page = join_study(url).get("/rate")
    assert re.search(r'<span class="keys">\(keys 1 to 3, then Enter\)</span>', page.text)
    style = join_study(url).get("/static/captau.css").text
    assert "@media (hover: none) { .keys { display: none; } }" in style
