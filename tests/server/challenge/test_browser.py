"""The pages in real headless Chromium: phone and desk, light and dark, by keyboard, with axe-core."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

import captau
from tests.server.challenge.conftest import running
from tests.server.challenge.visitors import (
    PASSWORD,
    Visitor,
    begin,
    finish,
    good,
    judge,
    key_of,
    make_site,
    score,
    write_challenge,
)
from tests.server.collect.test_browser import Looker

SIZES = ((390, "dark"), (1280, "light"))


def looker(chromium, url, width, scheme):
    found = Looker(chromium, url, width)
    found.page.emulate_media(color_scheme=scheme)
    return found


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_team_from_signing_up_to_the_leaderboard(chromium, tmp_path, width, scheme):
    site = make_site(tmp_path, write_challenge(tmp_path, visibility={"leaderboard": "public"}))
    with running(site) as url:
        at = looker(chromium, url, width, scheme).open("/").look("challenges")
        page = at.page
        page.click("text=Take part")
        at.look("challenge")
        page.click("text=Sign up")
        at.look("sign-up")
        # By keyboard alone, field after field.
        page.focus("#name")
        for text in ("Ann", PASSWORD, PASSWORD, "Reds"):
            page.keyboard.type(text)
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Welcome, Ann')")
        at.look("codes")
        assert len(page.text_content("pre").split()) == 8
        page.goto(f"{url}/challenges/small/submit")
        at.look("submit")
        file = {"name": "mine.json", "mimeType": "application/json", "buffer": good()}
        page.set_input_files("#file", files=[file])
        page.fill("#system", "ours")
        page.click("main button")
        page.wait_for_selector("text=It is being checked.")
        key = page.url.rsplit("/", 1)[1]
        at.look("being-checked")
        # The page that waits follows by itself.
        judge(site, key)
        page.wait_for_selector("text=waits for its turn")
        number = begin(site, key)
        store = site.store
        store.database.run_blocking(lambda c: store.advance(c, number, "w", 0.5, "cider"))
        page.wait_for_selector("text=It is being scored.")
        expect(page.locator("progress")).to_have_js_property("value", 0.5)
        expect(page).to_have_title(re.compile("^50 %"))
        finish(site, key, 0.5)
        page.wait_for_selector("h2:has-text('Scores')")
        page.click("summary:has-text('What the numbers rest on')")
        at.look("scored")
        page.goto(f"{url}/challenges/small/submit")
        page.set_input_files("#file", files=[{**file, "name": "broken.json", "buffer": b"{}"}])
        page.click("main button")
        page.wait_for_selector("text=It is being checked.")
        judge(site, page.url.rsplit("/", 1)[1], [f"broken.json: fault {k}" for k in range(5)])
        page.wait_for_selector("text=Not valid: 5 faults")
        at.look("not-valid")
        page.goto(f"{url}/submissions")
        at.look("submissions")
        # Another team's, and the leaderboard sorted without leaving the page.
        bob = Visitor(url)
        bob.sign_up("Bob", team="Blues")
        score(site, key_of(bob.upload("small", "theirs.json", good())), 0.4, seed=1)
        page.goto(f"{url}/challenges/small/board")
        at.look("leaderboard")
        page.evaluate("window.here = true")
        link = page.locator("a[data-swap]").nth(1)
        link.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**sort=cider%40c5**")
        page.keyboard.press("Enter")  # the focus stays; turned round
        page.wait_for_url("**turn=yes**")
        assert page.evaluate("window.here")
        places = page.locator("table.board tbody tr td:first-child").all_text_contents()
        assert places == ["2", "1"]
        page.go_back()
        expect(page.locator("tbody td").first).to_have_text("1")
        page.click("summary:has-text('Choose what is shown')")
        page.select_option("#team", label="Blues")
        page.click("button:has-text('Show')")
        page.wait_for_url("**team=**")
        assert page.locator("table.board tbody tr").count() == 1
        at.look("leaderboard-filtered")
        with page.expect_download() as download:
            page.click("text=CSV")
        assert download.value.suggested_filename == "small.csv"
        page.goto(f"{url}/account")
        page.click("text=Make a token")
        page.wait_for_selector("pre:has-text('captau_')")
        for summary in page.locator("summary").all():
            summary.click()
        at.look("account")


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_desk(chromium, tmp_path, width, scheme):
    site = make_site(tmp_path)
    with running(site) as url:
        ann = Visitor(url)
        ann.sign_up("Ann", team="Reds")
        score(site, key := key_of(ann.upload("small", "ours.json", good())), 0.5)
        failed = key_of(ann.upload("small", "failed.json", good()))
        judge(site, failed)
        begin(site, failed)
        site.store.database.run_blocking(
            lambda c: site.store.give_up(c, "w", "it took more memory than is given", final=True)
        )
        at = looker(chromium, url, width, scheme).open(f"/admin/setup?code={site.setup_code}")
        page = at.page
        page.fill("#password", PASSWORD)
        page.fill("#again", PASSWORD)
        page.click("button:has-text('Set')")
        page.wait_for_selector("h1:has-text('Dashboard')")
        at.look("desk")
        page.get_by_label("Why: publish The small challenge").fill("it is over")
        page.click("button:has-text('Publish')")
        page.wait_for_selector("td:has-text('it is over')")
        page.goto(f"{url}/admin/challenges/small/board")
        at.look("desk-leaderboard")
        page.goto(f"{url}/admin/submissions/{key}")
        page.get_by_label("Why: disqualify").fill("copied")
        page.click("button:has-text('Disqualify')")
        page.wait_for_selector("text=: copied")
        at.look("desk-submission")
        page.goto(f"{url}/admin/submissions/{failed}")
        page.get_by_label("Why: evaluate once more").fill("more memory")
        page.click("button:has-text('Evaluate once more')")
        page.wait_for_selector("text=waiting")
        page.goto(f"{url}/challenges/small/board")
        page.wait_for_selector("text=of Reds: copied")
        at.look("disqualified")
        assert not at.faults


def test_the_demo_good_poor_and_broken(chromium, tmp_path):
    """With workers, as `captau serve challenge=demo`: three submissions to a challenge of each kind."""
    from captau.server.challenge.commands import open_site

    items = captau.load("demo").items
    by_image = items.groupby("image_id", sort=False)
    first = [{"image_id": i, "caption": g["caption"].iloc[0]} for i, g in by_image]
    files = {
        "demo_captions": {
            "good": json.dumps(first),
            "poor": json.dumps([{**row, "caption": "a picture"} for row in first]),
            "broken": json.dumps([*first[2:], {"image_id": "nowhere.png", "caption": " . "}]),
        },
        "demo_metrics": {
            "good": items[["item_id"]].assign(score=items["caption"].str.len()).to_csv(index=False),
            "poor": items[["item_id"]].assign(score=range(len(items))).to_csv(index=False),
            "broken": "item_id,score\nnone,high\n",
        },
    }
    options = {
        "challenge": "demo",
        "title": None,
        "database": str(tmp_path / "demo.sqlite3"),
        "files": None,
        "queue": None,
        "workers": 1,
        "rescore": False,
        "url": None,
        "data": {"root": None},
    }
    with running(open_site(options)) as url:
        at = Looker(chromium, url, 1280).open("/signup")
        page = at.page
        for field, text in (("name", "Ann"), ("password", PASSWORD), ("again", PASSWORD)):
            page.fill(f"#{field}", text)
        page.click("main button")
        page.wait_for_selector("pre")
        for challenge, ending in (("demo_captions", "json"), ("demo_metrics", "csv")):
            for system, content in files[challenge].items():
                page.goto(f"{url}/challenges/{challenge}/submit")
                file = {"name": f"{system}.{ending}", "mimeType": "text/plain"}
                page.set_input_files("#file", files=[{**file, "buffer": content.encode()}])
                page.click("main button")
                verdict = "Not valid" if system == "broken" else "h2:has-text('Scores')"
                shown = f"text={verdict}" if system == "broken" else verdict
                page.wait_for_selector(shown, timeout=300_000)
                at.look(f"{challenge}-{system}")
            assert "no" in page.text_content(".faults")
            page.goto(f"{url}/challenges/{challenge}/board?which=all")
            page.wait_for_selector("table.board")
            at.look(f"{challenge}-board")
            systems = page.locator("table.board tbody a").all_text_contents()
            assert systems == ["good", "poor"]
        page.goto(f"{url}/challenges/demo_captions/board")
        assert "people" in page.text_content("table.board")
        assert re.search(r"rank", page.text_content("table.board thead"))
        assert not at.faults
