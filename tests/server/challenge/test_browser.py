"""The pages in headless Chromium: phone and desktop, light and dark, by keyboard, with axe-core."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

import captau
from captau.server.challenge.site_opening import open_site
from captau.server.challenge.submission_lifecycle import SubmissionLifecycle
from tests.server.challenge.conftest import serve_options, serve_site
from tests.server.challenge.visitors import (
    PASSWORD,
    Visitor,
    begin_evaluation,
    finish_evaluation,
    make_site,
    record_verdict,
    score,
    submission_key,
    valid_captions,
    write_challenge,
)
from tests.server.chromium import ChromiumPage

pytestmark = pytest.mark.browser

SIZES = ((390, "dark"), (1280, "light"))


def open_browser(chromium, url, width, scheme):
    browser = ChromiumPage(chromium, url, width)
    browser.page.emulate_media(color_scheme=scheme)
    return browser


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_team_from_signing_up_to_the_leaderboard(chromium, tmp_path, width, scheme):
    site = make_site(tmp_path, write_challenge(tmp_path, visibility={"leaderboard": "public"}))
    with serve_site(site) as url:
        browser = open_browser(chromium, url, width, scheme)
        sign_up_by_keyboard(browser)
        submit_and_follow(browser, site, url)
        submit_invalid_file(browser, site, url)
        # Another team's submission, and the leaderboard sorted without leaving the page.
        bob = Visitor(url)
        bob.sign_up("Bob", team="Blues")
        key = submission_key(bob.upload("small", "theirs.json", valid_captions()))
        score(site, key, 0.4, seed=1)
        sort_and_filter_leaderboard(browser, url)
        page = browser.page
        page.goto(f"{url}/account")
        page.click("text=Create a token")
        page.wait_for_selector("pre:has-text('captau_')")
        for summary in page.locator("summary").all():
            summary.click()
        browser.check("account")


def sign_up_by_keyboard(browser):
    browser.open("/").check("challenges")
    page = browser.page
    page.click("text=Take part")
    browser.check("challenge")
    page.click("text=Sign up")
    browser.check("sign-up")
    page.focus("#name")
    for text in ("Ann", PASSWORD, PASSWORD, "Reds"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Welcome, Ann')")
    browser.check("codes")
    assert len(page.text_content("pre").split()) == 8


def submit_file(browser, url, name, content):
    """Submit a file and return its key."""
    page = browser.page
    page.goto(f"{url}/challenges/small/submit")
    file = {"name": name, "mimeType": "application/json", "buffer": content}
    page.set_input_files("#file", files=[file])
    page.fill("#system", name.removesuffix(".json"))
    page.click("main button")
    page.wait_for_selector("text=It is being checked.")
    return page.url.rsplit("/", 1)[1]


def submit_and_follow(browser, site, url):
    """Submit a valid file; the page that waits follows it to its scores by itself."""
    page = browser.page
    page.goto(f"{url}/challenges/small/submit")
    browser.check("submit")
    key = submit_file(browser, url, "mine.json", valid_captions())
    browser.check("being-checked")
    record_verdict(site, key)
    page.wait_for_selector("text=waiting for its turn")
    number = begin_evaluation(site, key)
    SubmissionLifecycle(site.store).record_progress(number, "w", 0.5, "cider")
    page.wait_for_selector("text=It is being scored.")
    expect(page.locator("progress")).to_have_js_property("value", 0.5)
    expect(page).to_have_title(re.compile("^50 %"))
    finish_evaluation(site, key, 0.5)
    page.wait_for_selector("h2:has-text('Scores')")
    page.click("summary:has-text('Versions and options')")
    browser.check("scored")


def submit_invalid_file(browser, site, url):
    key = submit_file(browser, url, "broken.json", b"{}")
    record_verdict(site, key, [f"broken.json: fault {k}" for k in range(5)])
    browser.page.wait_for_selector("text=Not valid: 5 faults")
    browser.check("not-valid")
    browser.page.goto(f"{url}/submissions")
    browser.check("submissions")


def sort_and_filter_leaderboard(browser, url):
    page = browser.page
    page.goto(f"{url}/challenges/small/board")
    browser.check("leaderboard")
    page.evaluate("window.isSamePage = true")
    link = page.locator("a[data-swap]").nth(1)
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=cider%40c5**")
    page.keyboard.press("Enter")  # the focus stays; the order is reversed
    page.wait_for_url("**turn=yes**")
    assert page.evaluate("window.isSamePage")
    places = page.locator("table.board tbody tr td:first-child").all_text_contents()
    assert places == ["2", "1"]
    page.go_back()
    expect(page.locator("tbody td").first).to_have_text("1")
    page.click("summary:has-text('Filters')")
    page.select_option("#team", label="Blues")
    page.click("button:has-text('Show')")
    page.wait_for_url("**team=**")
    assert page.locator("table.board tbody tr").count() == 1
    browser.check("leaderboard-filtered")
    with page.expect_download() as download:
        page.click("text=CSV")
    assert download.value.suggested_filename == "small.csv"


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_admin_publishes_disqualifies_and_requeues(chromium, tmp_path, width, scheme):
    site = make_site(tmp_path)
    with serve_site(site) as url:
        ann = Visitor(url)
        ann.sign_up("Ann", team="Reds")
        key = submission_key(ann.upload("small", "ours.json", valid_captions()))
        score(site, key, 0.5)
        failed_key = submission_key(ann.upload("small", "failed.json", valid_captions()))
        record_verdict(site, failed_key)
        begin_evaluation(site, failed_key)
        reason = "it took more memory than is given"
        SubmissionLifecycle(site.store).give_up("w", reason, is_final=True)
        browser = open_browser(chromium, url, width, scheme)
        page = browser.open(f"/admin/setup?code={site.setup_code}").page
        page.fill("#password", PASSWORD)
        page.fill("#again", PASSWORD)
        page.click("button:has-text('Set')")
        page.wait_for_selector("h1:has-text('Dashboard')")
        browser.check("dashboard")
        page.get_by_label("Why: publish The small challenge").fill("it is over")
        page.click("button:has-text('Publish')")
        page.wait_for_selector("td:has-text('it is over')")
        page.goto(f"{url}/admin/challenges/small/board")
        browser.check("admin-leaderboard")
        page.goto(f"{url}/admin/submissions/{key}")
        page.get_by_label("Why: disqualify").fill("copied")
        page.click("button:has-text('Disqualify')")
        page.wait_for_selector("text=: copied")
        browser.check("admin-submission")
        page.goto(f"{url}/admin/submissions/{failed_key}")
        page.get_by_label("Why: evaluate once more").fill("more memory")
        page.click("button:has-text('Evaluate once more')")
        page.wait_for_selector("text=waiting")
        page.goto(f"{url}/challenges/small/board")
        page.wait_for_selector("text=of Reds: copied")
        browser.check("disqualified")
        assert not browser.errors


def demo_submissions():
    """Return good, poor and broken submissions to both demo challenges."""
    items = captau.load("demo").items
    by_image = items.groupby("image_id", sort=False)
    captions = [{"image_id": i, "caption": g["caption"].iloc[0]} for i, g in by_image]
    broken = [*captions[2:], {"image_id": "nowhere.png", "caption": " . "}]
    poor = [{**row, "caption": "a picture"} for row in captions]
    lengths, ids = items["caption"].str.len(), items[["item_id"]]
    return {
        ("demo_captions", "json"): {
            "good": json.dumps(captions),
            "poor": json.dumps(poor),
            "broken": json.dumps(broken),
        },
        ("demo_metrics", "csv"): {
            "good": ids.assign(score=lengths).to_csv(index=False),
            "poor": ids.assign(score=range(len(items))).to_csv(index=False),
            "broken": "item_id,score\nnone,high\n",
        },
    }


def test_the_demo_scores_good_and_poor_submissions_and_refuses_broken_ones(chromium, tmp_path):
    """With workers, as `captau serve challenge=demo`."""
    database = tmp_path / "demo.sqlite3"
    options = serve_options(tmp_path, challenge="demo", database=database, files=None)
    with serve_site(open_site(options)) as url:
        browser = ChromiumPage(chromium, url, 1280).open("/signup")
        page = browser.page
        for field, text in (("name", "Ann"), ("password", PASSWORD), ("again", PASSWORD)):
            page.fill(f"#{field}", text)
        page.click("main button")
        page.wait_for_selector("pre")
        for (challenge, ending), files in demo_submissions().items():
            for system, content in files.items():
                page.goto(f"{url}/challenges/{challenge}/submit")
                file = {"name": f"{system}.{ending}", "mimeType": "text/plain"}
                page.set_input_files("#file", files=[{**file, "buffer": content.encode()}])
                page.click("main button")
                is_broken = system == "broken"
                outcome = "text=Not valid" if is_broken else "h2:has-text('Scores')"
                page.wait_for_selector(outcome, timeout=300_000)
                browser.check(f"{challenge}-{system}")
            assert "no" in page.text_content(".faults")
            page.goto(f"{url}/challenges/{challenge}/board?which=all")
            page.wait_for_selector("table.board")
            browser.check(f"{challenge}-board")
            systems = page.locator("table.board tbody a").all_text_contents()
            assert systems == ["good", "poor"]
        page.goto(f"{url}/challenges/demo_captions/board")
        assert "people" in page.text_content("table.board")
        assert re.search(r"rank", page.text_content("table.board thead"))
        assert not browser.errors
