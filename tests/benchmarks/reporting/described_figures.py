"""What figures show, in words: limits, ticks, lines, bars, squares, texts and legends with their places and looks.

Each figure is described in its own coordinates, which no version of matplotlib changes, and not in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

FixedLocator = pytest.importorskip("matplotlib.ticker").FixedLocator


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
