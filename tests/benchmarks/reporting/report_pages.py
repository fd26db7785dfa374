"""What report pages hold and show."""

from __future__ import annotations

import json
import re


def data_of(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(data)


def texts(page, selector):
    """Of each element that is shown."""
    return page.evaluate(
        "selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())"
        ".map(e => e.textContent.trim())",
        selector,
    )
