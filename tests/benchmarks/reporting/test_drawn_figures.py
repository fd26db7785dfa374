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

from captau.benchmarks.reporting import figure_files
from captau.benchmarks.reporting.charts import make_charts
from captau.benchmarks.reporting.run_parts import CHART_TITLES, run_datasets
from captau.benchmarks.runs.finished_run import read_run
from captau.benchmarks.runs.tables import markdown_of
from tests.benchmarks.commands.test_written_files import CASES, FAST, FILE, PAIRS, write_files
from tests.conftest import run_captau

FixedLocator = pytest.importorskip("matplotlib.ticker").FixedLocator

GOLDEN = Path(__file__).parents[2] / "golden" / "figures"
#: A finished run by the name of its golden file, of which captau plot draws each kind of chart.
PLOTTED = {
    "compare": ["compare", *FILE, *FAST, "tests=bootstrap", "floors=true"],
    "compare_pairs": ["compare", *PAIRS, *FAST, "tests=bootstrap"],
    "compare_datasets": CASES["compare_datasets"],
    "score": CASES["score"],
}
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


def describe_axis(axis: Any) -> Iterator[str]:
    yield f"axis x {numbers(axis.get_xlim())} {axis.get_xscale()}, y {numbers(axis.get_ylim())}"
    yield f"  titles {axis.get_title('left')!r} {axis.get_xlabel()!r} {axis.get_ylabel()!r}"
    for name, side in (("x", axis.xaxis), ("y", axis.yaxis)):
        if isinstance(side.get_major_locator(), FixedLocator):  # others depend on the room
            labels = [f"{t.get_text()!r} {t.get_rotation():g}" for t in side.get_ticklabels()]
            yield f"  {name} ticks {numbers(side.get_ticklocs())}: {', '.join(labels)}"
    for line in axis.lines:
        points = np.asarray(line.get_xydata())
        step = max(1, len(points) // 8)
        look = colour(line.get_color()), line.get_linestyle(), line.get_marker()
        yield f"  line {' '.join(map(str, look))}: {len(points)} points, {numbers(points[::step])}"
    for patch in axis.patches:
        box = patch.get_path().transformed(patch.get_patch_transform()).get_extents()
        yield f"  patch {colour(patch.get_facecolor())} {numbers(box.extents)}"
    for collection in axis.collections:
        colours = {colour(c) for c in (*collection.get_facecolor(), *collection.get_edgecolor())}
        boxes = [path.get_extents().extents for path in collection.get_paths()[:8]]
        places = numbers(collection.get_offsets()[:8])
        yield f"  {type(collection).__name__} {' '.join(sorted(colours))}: {numbers(boxes)} at {places}"
    for text in axis.texts:
        look = f"{colour(text.get_color())} {text.get_ha()} {text.get_va()}"
        yield f"  text {text.get_text()!r} {numbers(text.get_position())} {look}"
    if legend := axis.get_legend():
        yield f"  legend {[t.get_text() for t in legend.get_texts()]}"


def describe(figure: Any) -> str:
    lines = [f"size {numbers(figure.get_size_inches())}"]
    lines += [f"  text {text.get_text()!r}" for text in figure.texts]
    lines += [f"  legend {[t.get_text() for t in each.get_texts()]}" for each in figure.legends]
    for axis in figure.axes:
        lines += describe_axis(axis) if axis.get_visible() else ["axis hidden"]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def tell_charts(folder: Path) -> Iterator[str]:
    """Yield what each chart of a run says beside its figure, and why kinds have none."""
    for part in run_datasets(read_run(folder)):
        for kind in CHART_TITLES:
            charts, reason = make_charts(part, kind)
            yield f"{part.dataset} {kind}: {len(charts)} charts {reason}\n"
            for chart in charts:
                yield f"{chart.name}\n{chart.description}\n{markdown_of(chart.table)}\n"


@pytest.mark.parametrize("name", [*DRAWING, *(f"plot_{name}" for name in PLOTTED)])
def test_golden(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(figure: Any, form: str, *_: object, **__: object) -> bytes:
        if form == "svg":
            drawn.append(describe(figure))
        return b""

    drawn: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figure_files, "_saved", save)
    write_files(tmp_path)
    plotted = PLOTTED.get(name.removeprefix("plot_")) if name.startswith("plot_") else None
    assert run_captau(*(plotted or CASES[name]), "output_dir=out") == 0
    if plotted:
        drawn[:] = tell_charts(tmp_path / "out") if "compare" in name else []
        assert run_captau("plot", "run=out", "kind=all") == 0
    made = "\n".join(drawn)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        golden.write_text(made, encoding="utf-8", newline="")
        pytest.skip("written anew")
    assert made
    assert made == golden.read_bytes().decode()
