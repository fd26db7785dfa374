"""Figures as files and within a page, and what figures are made of: by hand."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from captau.benchmarks.reporting.charts import figure_files as figures
from captau.benchmarks.reporting.charts.figure_files import Figures, Square, inline
from tests.conftest import says

pytest.importorskip("matplotlib")

SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def figure_of(content: str, asked: list[dict[str, Any]] | None = None) -> Any:
    """Return a figure that saves itself as this text, and notes how it was asked to."""

    def savefig(buffer: Any, **options: Any) -> None:
        buffer.write(content.encode())
        if asked is not None:
            asked.append(options)

    return SimpleNamespace(savefig=savefig)


def test_a_figure_in_a_page_is_as_wide_as_it_was_drawn() -> None:
    """Matplotlib draws in points, of which 72 are as long as a page's 96 pixels: 90 are 120."""
    asked: list[dict[str, Any]] = []
    svg = f'<svg {SVG} viewBox="0 0 90 60.456" width="90pt" height="60pt" version="1.1"><metadata/></svg>'
    text = inline(figure_of(svg, asked), "one", "Title", "It says <this>")
    metadata = {"Date": None}
    assert asked == [{"format": "svg", "dpi": 150, "metadata": metadata, "transparent": True}]
    assert text == (
        '<svg viewBox="0 0 90 60.46" role="img" aria-labelledby="one-title one-desc" style="--drawn: 120px">'
        '<title id="one-title">Title</title><desc id="one-desc">It says &lt;this&gt;</desc></svg>'
    )


def test_a_figure_in_a_page_keeps_what_is_needed_and_takes_the_pages_colours() -> None:
    """Ids that nothing points to go, with their groups; others begin with the figure's own."""
    body = f"""<metadata><a/></metadata>
 <defs><style type="text/css">*{{stroke-linejoin: round}}</style></defs>
 <g id="figure_1"><g id="patch_1">
  <circle r="1"/><path id="m1" d="M 1.2345 -2.5001 L 10 0.004 z" clip-path="url(#p1)" style="fill: {figures.INK}"/></g>
  <g id="text_1"><text style="font-family: 'DejaVu Sans'; font-size: 8px; fill: #123456" x="1.239" y="2"
   transform="rotate(-0 1 2)" opacity="1.2345" fill="{figures.INK}">a b</text></g>
  <g id="keep"><use xlink:href="#m1" x="7.126" y="-0.001" width="3.999" height="2.5"
   style="fill: {figures.SERIES[1]}; stroke: {figures.MUTED}" transform="rotate(-45.678 1 2)"/>
  <a xlink:href="https://example.org/#x"/></g></g>
 <g id="kept" clip-path="url(#p1)"><g id="gone"><path d="M 0 0"/></g></g>
 <defs><clipPath id="p1"><rect id="r" x="0.5" y="0"/></clipPath></defs>"""
    svg = f'<svg {SVG} viewBox="0 0 30 20">\n{body}\n</svg>'
    assert inline(figure_of(svg), "i", "T", "D") == (
        '<svg viewBox="0 0 30 20" role="img" aria-labelledby="i-title i-desc" style="--drawn: 40px">'
        '<title id="i-title">T</title><desc id="i-desc">D</desc>'
        '<circle r="1" /><path d="M 1.23 -2.5 L 10 0 z" clip-path="url(#i-p1)" style="fill: currentColor" id="i-m1" />'
        '<text style="font-size: 8px; fill: #123456" x="1.24" y="2" opacity="1.2345" fill="#1c1c1e">a b</text>'
        '<use href="#i-m1" x="7.13" y="-0" width="4" height="2.5"'
        ' style="fill: var(--series-2); stroke: var(--muted)" transform="rotate(-45.68 1 2)" />'
        '<a href="https://example.org/#x" /><g clip-path="url(#i-p1)"><path d="M 0 0" /></g>'
        '<defs><clipPath id="i-p1"><rect x="0.5" y="0" /></clipPath></defs></svg>'
    )


def test_files_have_no_dates_and_no_characters_that_xml_forbids() -> None:
    asked: list[dict[str, Any]] = []
    text = "a\x00\x08\x0b\x0c\x0e\x1fb\t\n\r"
    files = figures.files_of(figure_of(text, asked), "name")
    assert files == {"name.svg": b"a??????b\t\n\r", "name.png": text.encode()}
    figures.files_of(figure_of(text, asked), "name", ["pdf"])
    assert asked == [
        {"format": "svg", "dpi": 150, "metadata": {"Date": None}},
        {"format": "png", "dpi": 150, "metadata": {"Software": None}},
        {"format": "pdf", "dpi": 150, "metadata": {"CreationDate": None}},
    ]


def test_a_notebook_shows_figures_that_a_browser_can(tmp_path: Path) -> None:
    shown = Figures({"a.svg": b"x", "b&.png": b"yy", "c.pdf": b"z"}, ["no d"])
    assert repr(shown) == "Figures(a.svg, b&.png, c.pdf)"
    assert shown._repr_html_() == (
        '<img alt="a.svg" style="max-width: 100%" src="data:image/svg+xml;base64,eA==">'
        '<img alt="b&amp;.png" style="max-width: 100%" src="data:image/png;base64,eXk=">'
    )
    paths = shown.save(tmp_path / "new")
    assert [path.name for path in paths] == ["a.svg", "b&.png", "c.pdf"]
    assert [path.read_bytes() for path in paths] == [b"x", b"yy", b"z"]
    assert Figures({}).undrawn == ()


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert figures.can_draw()
    figures.require_packages("plot", "matplotlib", "jinja2")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert not figures.can_draw()
    with says("captau report needs matplotlib and jinja2: pip install 'captau[report]'"):
        figures.require_packages("report", "matplotlib", "pandas", "jinja2")


def test_figures_look_the_same_whatever_a_user_has_set() -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        with figures.style():
            sizes = [matplotlib.rcParams[n] for n in ("font.size", "legend.fontsize")]
            assert (sizes, matplotlib.rcParams["lines.linewidth"]) == ([8, 8], 1.5)
        with figures.style(9), warnings.catch_warnings(record=True) as seen:
            assert matplotlib.rcParams["font.size"] == matplotlib.rcParams["legend.fontsize"] == 9
            for name in ("pdf.fonttype", "svg.fonttype", "svg.hashsalt", "text.parse_math"):
                assert matplotlib.rcParams[name] == {
                    "pdf.fonttype": 42,
                    "svg.fonttype": "none",
                    "svg.hashsalt": "captau",
                    "text.parse_math": False,
                }.get(name)
            assert matplotlib.rcParams["axes.axisbelow"] is True
            assert matplotlib.rcParams["axes.unicode_minus"] is True
            cycle = list(matplotlib.rcParams["axes.prop_cycle"])
            assert len(cycle) == 18
            assert cycle[6] == {"linestyle": "--", "color": figures.SERIES[0]}
            warnings.warn("Glyph 7 (x) missing from font(s) DejaVu Sans.", stacklevel=1)
        assert seen == []
        assert matplotlib.rcParams["font.size"] == 30


def test_every_colour_has_its_name_in_the_page() -> None:
    colours = (figures.INK, figures.MUTED, figures.GRID, figures.PAPER, figures.NEUTRAL)
    names = ("currentColor", "var(--muted)", "var(--line)", "var(--paper)", "var(--raised)")
    series = {c: f"var(--series-{n + 1})" for n, c in enumerate(figures.SERIES)}
    assert dict(zip(colours, names, strict=True)) | series == figures._NAMES


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0"), (0.000499, "0"), (-0.000499, "0"), (0.0005, "0.0005"), (-0.0005, "-0.0005")),
        *((1.23456, "1.235"), (12345.6, "1.235e+04"), (100, "100")),
        *((float("nan"), "–"), (float("inf"), "–"), (float("-inf"), "–")),
    ],
)
def test_short_numbers(value: float, text: str) -> None:
    assert figures.short_cell(value).text == text


def test_percent_and_factors() -> None:
    assert figures.percent_cell(0.1234).text == "12.3"
    assert figures.with_factor("acc. %", "acc. %") == "acc. %"
    assert figures.with_factor("title", "τ_c") == "title ×100"


def hashed(plain: str, safe: str) -> str:
    digest = hashlib.blake2s(plain.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{safe}-{digest}"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("forest", "a-b.c"), "forest_a-b.c"),
        (("a", ""), hashed("a_", "a")),
        (("é b", "c"), hashed("é b_c", "b_c")),
        (("a  b!?c",), hashed("a  b!?c", "a_b_c")),
        (("x" * 119,), "x" * 119),
        (("x" * 120,), hashed("x" * 120, "x" * 100)),
        (("\ud800",), hashed("\ud800", "")),
    ],
)
def test_a_file_is_named_by_its_words_or_has_a_hash(words: Sequence[str], name: str) -> None:
    assert figures.slug(*words) == name


@pytest.mark.parametrize(
    ("count", "most", "size", "shape"),
    [(1, 3, (2, 1), 1), (3, 3, (6, 1), 3), (4, 3, (6, 2), 6), (7, 3, (6, 3), 9), (2, 1, (2, 2), 2)],
)
def test_panels_stand_in_rows(count: int, most: int, size: tuple[int, int], shape: int) -> None:
    figure, axes = figures.make_panels(count, most, 2, 1)
    assert tuple(figure.get_size_inches()) == size
    assert len(axes) == count
    assert axes == figure.axes[:count]
    visible = [axis.get_visible() for axis in figure.axes]
    assert visible == [True] * count + [False] * (shape - count)


@pytest.mark.parametrize(("value", "shade"), [(1, 0.92), (-1, 0.08), (0, 0.5), (0.5, 0.71)])
def test_squares_are_red_below_zero_and_blue_above(value: float, shade: float) -> None:
    """Neither end of matplotlib's colours is reached, which would be too dark."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    assert figures.shade_square(value, "t") == Square(to_hex(colormaps["RdBu"](shade)), "t")
    assert figures.shade_square(float("nan"), "t") == Square("#ececef", "t")


@pytest.mark.parametrize(
    ("colour", "ink"),
    [
        *((figures.NEUTRAL, figures.INK), ("#8d8d8d", "#111112"), ("#8b8b8b", "#fbfbfd")),
        *(("#00ef00", "#111112"), ("#00ee00", "#fbfbfd"), ("#ff0000", "#fbfbfd")),
        *(("#ff7000", "#111112"), ("#ff6a00", "#fbfbfd"), ("#00d5ff", "#111112")),
        *(("#00b400", "#fbfbfd"), ("#0000ff", "#fbfbfd"), ("#ff00ff", "#fbfbfd")),
    ],
)
def test_numbers_are_dark_on_bright_squares(colour: str, ink: str) -> None:
    """The brightness of red, green and blue counts 0.299, 0.587 and 0.114; above 140 of 255 a square is bright."""
    _, axis = figures.make_figure(1, 1)
    figures.draw_squares(axis, [[None, Square(colour, "1")]])
    ((patch,), (text,)) = axis.patches, axis.texts
    assert (patch.get_xy(), patch.get_width(), patch.get_height()) == ((0.5, -0.5), 1, 1)
    assert (text.get_position(), text.get_text(), text.get_color()) == ((1, 0), "1", ink)


def test_a_legend_names_what_begins_with_an_underscore() -> None:
    _, axis = figures.make_figure(1, 1)
    lines = [axis.plot([0, 1], [0, n])[0] for n in range(2)]
    figures.legend(axis, lines, ["_a", "b_"], ncols=2)
    legend = axis.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["\u200b_a", "b_"]
    assert legend._ncols == 2
