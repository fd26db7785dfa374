"""What figures show, to the letter: limits, ticks, lines, bars, squares, texts and legends with their places.

The golden files under `tests/golden/figures/` describe each figure in its own coordinates, which no version of
matplotlib changes, and not in pixels. `CAPTAU_GOLDEN=write pytest tests/benchmarks/reporting/test_drawn_figures.py`
writes them anew; read the difference before it is committed. The numbers are those of the runs whose files
`test_written_files.py` holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captau.benchmarks.evaluation.overview import DatasetsOverview
from captau.benchmarks.reporting import figure_files
from captau.benchmarks.reporting.charts import make_charts
from captau.benchmarks.reporting.coefficient_charts import make_overview_chart
from captau.benchmarks.reporting.run_parts import CHART_TITLES, run_parts
from captau.benchmarks.runs.finished_run import read_run
from captau.benchmarks.runs.tables import markdown_of
from tests.benchmarks.commands.test_written_files import CASES, write_files
from tests.conftest import run_captau

FixedLocator = pytest.importorskip("matplotlib.ticker").FixedLocator

GOLDEN = Path(__file__).parents[2] / "golden" / "figures"
#: Commands that draw a figure of their own.
DRAWING = (
    *("agree", "agree_words", "rank", "rank_pairs", "thresholds", "probe"),
    *("sensitivity_images", "sensitivity_raters", "sensitivity_length"),
)


def numbers(values: Iterable[Any]) -> str:
    """Four digits of each number, without what is smaller than a millionth."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return " ".join(f"{0.0 if abs(v) < 1e-6 else v:.4g}" for v in flat)


def colour(value: Any) -> str:
    from matplotlib.colors import to_hex

    return to_hex(value, keep_alpha=True)


def describe_text(text: Any) -> str:
    return f"{text.get_text()!r} {text.get_fontsize():g} {text.get_fontweight()} {colour(text.get_color())}"


def describe_legend(legend: Any, parent: Any) -> str:
    """Tell what a legend names and how, and where it stands in the coordinates of its axis or figure."""
    anchor = legend.get_bbox_to_anchor().transformed(parent.inverted())
    look = f"at {legend._loc} of {numbers(anchor.bounds)}, {legend._ncols} columns"
    looks = [
        f"{colour(h.get_edgecolor() if hasattr(h, 'get_edgecolor') else h.get_color())} {h.get_linestyle()}"
        for h in legend.legend_handles
        if not hasattr(h, "get_offsets")
    ]
    names = ", ".join(map(describe_text, legend.get_texts()))
    return f"  legend {look}, {legend.handlelength:g}, {legend.get_frame_on()}, {looks}: {names}"


def describe_side(name: str, side: Any) -> Iterator[str]:
    if not (ticks := side.get_major_ticks()):
        return
    locator, tick = side.get_major_locator(), ticks[0]
    grid = colour(tick.gridline.get_color()) if tick.gridline.get_visible() else "none"
    look = (
        f"grid {grid} {tick.gridline.get_linewidth():g}, length {tick.tick1line.get_markersize():g}"
    )
    width = f"{tick.tick1line.get_markeredgewidth():g} {colour(tick.tick1line.get_color())}"
    minor = type(side.get_minor_locator()).__name__
    yield f"  {name} {look}, width {width}, at most {getattr(locator, '_nbins', '')}, minor {minor}"
    if isinstance(locator, FixedLocator):  # others depend on the room
        labels = side.get_ticklabels()
        looks = {f"{t.get_rotation():g} {t.get_ha()} {t.get_rotation_mode()}" for t in labels}
        texts = ", ".join(map(describe_text, labels))
        yield f"  {name} ticks {numbers(side.get_ticklocs())}, {sorted(looks)}: {texts}"


def describe_line(line: Any) -> str:
    points = np.asarray(line.get_xydata())
    step = max(1, len(points) // 8)
    look = colour(line.get_color()), line.get_linestyle(), line.get_marker()
    sizes = f"{line.get_linewidth():g} {line.get_markersize():g} {line.get_drawstyle()}"
    return f"{' '.join(map(str, look))} {sizes}: {len(points)} points, {numbers(points[::step])}"


def describe_patch(patch: Any) -> str:
    look = f"{colour(patch.get_facecolor())} {colour(patch.get_edgecolor())} {patch.get_fill()}"
    line = f"{patch.get_linewidth():g} {patch.get_linestyle()}"
    if hasattr(patch, "get_data"):
        values, edges, baseline = patch.get_data()
        return f"{look} {line}: {numbers(values)} at {numbers(edges)} from {baseline}"
    box = patch.get_path().transformed(patch.get_patch_transform()).get_extents()
    return f"{look} {line} {numbers(box.extents)}"


def describe_collection(collection: Any) -> str:
    colours = {colour(c) for c in (*collection.get_facecolor(), *collection.get_edgecolor())}
    paths = collection.get_paths()
    boxes = [path.get_extents().extents for path in paths[:8]]
    sizes = f"{numbers(collection.get_linewidths())} {[len(path.vertices) for path in paths[:8]]}"
    if hasattr(collection, "get_sizes"):
        sizes += f" {numbers(collection.get_sizes())}"
    places = numbers(collection.get_offsets()[:8])
    return f"{' '.join(sorted(colours))} {sizes}: {numbers(boxes)} at {places}"


def describe_axis(axis: Any) -> Iterator[str]:
    yield f"axis x {numbers(axis.get_xlim())} {axis.get_xscale()}, y {numbers(axis.get_ylim())}"
    if not axis.axison:
        yield "  off"
        return
    titles = axis._left_title, axis.title, axis.xaxis.label, axis.yaxis.label
    yield f"  titles {', '.join(map(describe_text, titles))}"
    spines = {
        n: s
        for n, s in axis.spines.items()
        if s.get_visible() and n in ("left", "bottom", "top", "right")
    }
    yield f"  spines {[f'{n} {colour(s.get_edgecolor())} {s.get_linewidth():g}' for n, s in spines.items()]}"
    if axis.get_label() == "<colorbar>":
        return
    for name, side in (("x", axis.xaxis), ("y", axis.yaxis)):
        yield from describe_side(name, side)
    for line in axis.lines:
        yield f"  line {describe_line(line)}"
    for patch in axis.patches:
        yield f"  patch {describe_patch(patch)}"
    for collection in axis.collections:
        name = type(collection).__name__.removeprefix("FillBetween")
        yield f"  {name} {describe_collection(collection)}"
    for image in axis.images:
        yield f"  image {image.get_cmap().name} {image.get_clim()}: {numbers(image.get_array())}"
    for text in axis.texts:
        place = f"{numbers(text.get_position())} {text.get_ha()} {text.get_va()}"
        if arrow := getattr(text, "arrow_patch", None):
            place += f" to {numbers(text.xy)} {text.arrowprops} {colour(arrow.get_edgecolor())}"
        yield f"  text {describe_text(text)} {place}"
    if legend := axis.get_legend():
        yield describe_legend(legend, axis.transAxes)


def describe(figure: Any) -> str:
    lines = [
        f"size {numbers(figure.get_size_inches())}, {type(figure.get_layout_engine()).__name__}"
    ]
    lines += [f"  {describe_text(text)}" for text in figure.texts]
    lines += [describe_legend(each, figure.transFigure) for each in figure.legends]
    for axis in figure.axes:
        lines += describe_axis(axis) if axis.get_visible() else ["axis hidden"]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def compare(made: str, golden: Path) -> None:
    assert made
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        golden.write_text(made, encoding="utf-8", newline="")
    assert made == golden.read_bytes().decode()


@pytest.fixture
def drawn(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command draws."""

    def save(figure: Any, form: str, *_: object, **__: object) -> bytes:
        if form == "svg":
            figures.append(describe(figure))
        return b""

    figures: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figure_files, "_saved", save)
    write_files(tmp_path)
    assert run_captau(*CASES[request.param], "output_dir=out") == 0
    return "\n".join(figures)


@pytest.mark.parametrize(("name", "drawn"), [(n, n) for n in DRAWING], indirect=["drawn"])
def test_commands_draw(name: str, drawn: str) -> None:
    compare(drawn, GOLDEN / f"{name}.txt")


@pytest.mark.parametrize(
    ("finished_run", "kind"),
    [
        *(("compare", kind) for kind in CHART_TITLES),
        *(("compare_pairs", kind) for kind in ("forest", "categories", "significance", "ratings")),
        *(("score", kind) for kind in CHART_TITLES if kind != "categories"),
    ],
    indirect=["finished_run"],
)
def test_charts_of_a_run(finished_run: Path, kind: str) -> None:
    """Each chart with its name, title, description and numbers, and the reason where there is none."""
    made: list[str] = []
    for part in run_parts(read_run(finished_run), 0.5, 0.8):
        charts, reason = make_charts(part, kind)
        made.append(f"{part.title}: {len(charts)} charts {reason}".strip() + "\n")
        with figure_files.style():
            for chart in charts:
                assert chart.kind == kind
                made.append(f"{chart.name}\n{chart.description}\n{markdown_of(chart.table)}\n")
                made.append(describe(chart.draw()))
    compare("\n".join(made), GOLDEN / f"{finished_run.name}_{kind}.txt")


@pytest.mark.parametrize("finished_run", ["bench_datasets"], indirect=True)
def test_the_overview_of_several_datasets(finished_run: Path) -> None:
    overview = DatasetsOverview.of_run(read_run(finished_run))
    assert overview is not None
    chart = make_overview_chart(overview)
    with figure_files.style(9):
        figure = describe(chart.draw())
    made = [chart.kind, chart.name, chart.description, markdown_of(chart.table), figure]
    compare("\n".join(made), GOLDEN / "bench_datasets_overview.txt")
