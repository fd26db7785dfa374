"""Figures within a page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from captau.benchmarks.reporting.figure_files import inline


def test_a_figure_in_a_page_is_as_wide_as_it_was_drawn() -> None:
    """Matplotlib draws in points, of which 72 are as long as a page's 96 pixels: 90 are 120."""

    def savefig(buffer: Any, **options: Any) -> None:
        assert options["transparent"]
        buffer.write(
            b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 60" width="90pt" height="60pt" version="1.1">'
            b"<metadata/><g/></svg>"
        )

    text = inline(SimpleNamespace(savefig=savefig), "one", "Title", "It says <this>")
    assert 'style="--drawn: 120px"' in text
    assert 'viewBox="0 0 90 60"' in text
    assert 'aria-labelledby="one-title one-desc"' in text
    for gone in ("metadata", "version=", "width=", "height="):
        assert gone not in text
    assert text.index('id="one-title">Title<') < text.index('id="one-desc">It says &lt;this&gt;<')
