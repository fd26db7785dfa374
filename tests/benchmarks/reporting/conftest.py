"""A browser that opens report pages."""

from __future__ import annotations

import pytest


@pytest.fixture
def looked_at(chromium):
    """A function that opens a run's page, which must ask for nothing else and say nothing."""
    asked, said = [], []
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))

    def open_(folder, width=1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((folder / "report.html").as_uri())
        return page

    yield open_
    context.close()
    assert asked
    assert all(url.startswith(("file:", "data:")) for url in asked), asked
    assert said == []
