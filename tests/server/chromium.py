"""A page in headless Chromium, for the browser tests of both sites."""

from __future__ import annotations

import os
from pathlib import Path

from axe_core_python.sync_playwright import Axe
from playwright.sync_api import expect

#: Milliseconds to wait for an element or a page, on a busy machine too.
TIMEOUT = 60_000
expect.set_options(timeout=TIMEOUT)


class ChromiumPage:
    """A page of a given width, which collects the browser's errors.

    With `CAPTAU_SCREENSHOTS` set, it takes screenshots into that folder.
    """

    def __init__(self, chromium, url, width):
        self.url, self.width = url, width
        self.context = chromium.new_context(viewport={"width": width, "height": 800})
        self.page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT)
        self.errors = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._collect_error)

    def _collect_error(self, message):
        # Chromium logs the response of a refused form, which is a 4xx.
        if message.type == "error" and "status of 4" not in message.text:
            self.errors.append(message.text)

    def open(self, path="/"):
        self.page.goto(self.url + path)
        return self

    def check(self, name):
        """Check that nothing is inaccessible or wider than the page, and take a screenshot."""
        self.page.wait_for_load_state()  # a click may lead to a page that is only half here
        violations = Axe().run(self.page)["violations"]
        serious = [
            f"{v['id']}: {v['nodes'][0]['html']}"
            for v in violations
            if v["impact"] in ("serious", "critical")
        ]
        assert not serious, f"{name} at {self.width}: {serious}"
        width_needed = self.page.evaluate("document.documentElement.scrollWidth")
        assert width_needed <= self.width, f"{name} is {width_needed} wide at {self.width}"
        assert not self.errors
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
        self.page.wait_for_url("**/rate")
        return self
