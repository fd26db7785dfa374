"""The pages in real headless Chromium, on a phone's width and a desk's, by keyboard, with axe-core."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.server.collect.conftest import make_site, running
from tests.server.collect.test_site import rows

WIDTHS = (390, 1280)


class Looker:
    """A page of a width; it collects what goes wrong, and takes pictures where these are wanted."""

    def __init__(self, chromium, url, width):
        self.url, self.width = url, width
        self.context = chromium.new_context(viewport={"width": width, "height": 800})
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._said)

    def _said(self, message):
        # A refused form is a response of 4xx, which Chromium remarks upon.
        if message.type == "error" and "status of 4" not in message.text:
            self.faults.append(message.text)

    def open(self, path="/"):
        self.page.goto(self.url + path)
        return self

    def look(self, name):
        """No serious fault of accessibility, nothing wider than the page; a picture if asked for."""
        from axe_core_python.sync_playwright import Axe

        found = Axe().run(self.page)["violations"]
        grave = [
            f"{v['id']}: {v['nodes'][0]['html']}"
            for v in found
            if v["impact"] in ("serious", "critical")
        ]
        assert not grave, f"{name} at {self.width}: {grave}"
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= self.width, f"{name} is {wide} wide at {self.width}"
        assert not self.faults
        if folder := os.environ.get("CAPTAU_SCREENSHOTS"):
            path = Path(folder) / f"{name}-{self.width}.png"
            self.page.screenshot(path=str(path), full_page=True)
        return self

    def join(self, nickname=""):
        self.open()
        if nickname:
            self.page.fill("#nickname", nickname)
        self.page.check("#consent")
        self.page.click("main button")
        return self


@pytest.mark.parametrize("width", WIDTHS)
def test_tutorial_game_and_probation_by_keyboard(chromium, tmp_path, width):
    site = make_site(tmp_path, game={"wait": 0.4})
    with running(site) as url:
        looker = Looker(chromium, url, width).open().look("landing")
        page = looker.join("Ann").look("tutorial").page
        turns = []
        for _ in range(12):
            page.wait_for_selector("[data-submit]:enabled")
            practice = "Practice" in page.text_content("header")
            tutorial = "Tutorial" in page.text_content("header")
            shown = page.text_content(".caption")
            unit = next(u for u in site.store.units.values() if u.items[0].caption == shown)
            # Rightly in tutorial and practice; as wrong as can be in the first pairs.
            known = round(sum(unit.fixed) / len(unit.fixed))
            key = str(known if practice or tutorial else 1 if known > 2 else 5)
            page.keyboard.press(key)
            assert page.is_checked(f"input[value='{key}']")
            page.keyboard.press("Enter")
            page.wait_for_selector("[data-turn]")
            turn = page.get_attribute("[data-turn]", "data-turn")
            turns += [turn] if turn else []
            if turn:
                looker.look(f"told-{turn}")
            if turn == "probation_passed":
                break
            page.keyboard.press("Enter")
        assert turns == ["tutorial_done", "trial_failed", "probation_passed"]
        page.goto(f"{url}/board")
        looker.look("board")
        assert "Ann" in page.text_content("table")


def test_the_wait_is_shown(chromium, tmp_path):
    with running(make_site(tmp_path, game={"wait": 500})) as url:
        page = Looker(chromium, url, 390).join().page
        page.wait_for_selector("[data-submit]:disabled")
        assert page.text_content("[data-submit]").startswith("Rate (")
        page.keyboard.press("3")
        page.keyboard.press("Enter")
        assert page.url.endswith("/rate")
        assert page.locator("[data-turn]").count() == 0


def test_zoom_back_button_and_two_tabs(chromium, tmp_path):
    site = make_site(tmp_path, game={"tutorial_pairs": 0, "tutorial": [], "points": -100})
    with running(site) as url:
        looker = Looker(chromium, url, 390).join()
        page = looker.page
        page.click(".picture")
        assert page.is_visible("dialog img")
        assert page.evaluate("document.querySelector('dialog img').naturalWidth") == 40
        page.keyboard.press("Escape")
        assert not page.is_visible("dialog img")
        tab = looker.context.new_page()
        tab.goto(f"{url}/rate")
        page.keyboard.press("4")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-turn]")
        tab.keyboard.press("2")  # the other tab answers the same pair otherwise
        tab.keyboard.press("Enter")
        tab.wait_for_selector("text=that rating stands")
        page.go_back()
        page.reload()
        page.keyboard.press("5")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-turn]")
        answers = rows(site)["answers"]
        assert [a["value"]["overall"] for a in answers] == [4, 5]
        assert len({a["item"] for a in answers}) == 2


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("protocol", ["good_bad", "thumb", "four", "references"])
def test_each_form(chromium, tmp_path, protocol, width):
    site = make_site(tmp_path, protocol, ratings=2)
    with running(site) as url:
        looker = Looker(chromium, url, width).join().look(protocol)
        page = looker.page
        if protocol == "good_bad":
            for key in "123":
                page.keyboard.press(key)
                page.wait_for_selector(f"text={key} done")
        elif protocol == "thumb":
            page.check("input[name=precision][value='4']")
            page.check("input[name=recall][value='5']")
            page.check("#fault_broken")
            page.select_option("select[name=tenths_broken]", "10")
            page.wait_for_selector("text=Total: 3.5")
            looker.look("thumb-total")
            page.click("[data-submit]")
            page.wait_for_selector("text=1 done")
        elif protocol == "four":
            for k in range(1, page.locator(".caption").count() + 1):
                page.check(f"input[name=overall_{k}][value='{k}']")
            page.click("[data-submit]")
            page.wait_for_selector("text=1 done")
        else:
            page.fill("textarea", "There is a plain picture")
            page.wait_for_selector("text=at least 8 words; there are 5")
            looker.look("references-faults")
            page.fill("textarea", "A plain picture of one colour, seen from very near.")
            page.wait_for_selector("text=Ready.")
            page.click("[data-submit]")
            page.wait_for_selector("text=1 done")
        assert rows(site)["answers"]
        assert not looker.faults


@pytest.mark.parametrize("width", WIDTHS)
def test_dashboard_and_disagreements(chromium, tmp_path, width):
    from captau.server.collect.simulation.browser import join_study

    site = make_site(tmp_path, "thumb", ratings=3, participants="open")
    with running(site) as url:
        for k in range(3):
            other = join_study(url)
            for n in range(12):
                page = other.get("/rate")
                level = {"precision": 1 + (n + k) % 5, "recall": 1 + n % 5, "inclusive": 0}
                other.post("/rate", {**page.hidden, **level})
        looker = Looker(chromium, url, width).open(f"/admin/setup?code={site.setup_code}")
        looker.look("setup")
        page = looker.page
        page.fill("#password", "correct horse battery")
        page.fill("#again", "correct horse battery")
        page.click("button:has-text('Set')")
        page.wait_for_selector("h1:has-text('Dashboard')")
        looker.look("dashboard")
        assert "krippendorff_alpha_interval" in page.text_content("main")
        page.locator("summary").first.click()
        page.locator("input[name=why]").first.fill("a test")
        page.click("button:has-text('Leave out')")
        page.wait_for_selector("text=: a test")
        looker.look("dashboard-excluded")
        with page.expect_download() as download:
            page.click("text=For captau")
        assert download.value.suggested_filename == "small-captau.zip"
        visitor = Looker(chromium, url, width)
        visitor.context.add_cookies(
            [{"name": "captau", "value": other.cookies["captau"], "url": url}]
        )
        visitor.open("/resolve").look("resolve")
        assert visitor.page.locator("section").count() > 0
