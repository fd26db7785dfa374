"""A chart with its numbers, and the figures that charts are drawn on."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..runs.tables import MISSING, ResultTable, format_number
from .figure_files import INK, NEUTRAL, PAPER


@dataclass(frozen=True)
class Chart:
    """One figure.

    Attributes:
        kind: one of `config.CHARTS`.
        name: of its files, without ending.
        title: what it shows of what.
        description: what can be read from it, for those who do not see it.
        table: its numbers.
        draw: makes the figure; `figures.style` has to be on.
    """

    kind: str
    name: str
    title: str
    description: str
    table: ResultTable
    draw: Callable[[], Any]


class UnavailableChart(Exception):  # noqa: N818
    """Why there is nothing to draw."""


def format_percent(value: float) -> str:
    return format_number(value, 100, 1)


def format_short(value: float) -> str:
    """Return a number with four digits, and 0 where it is smaller than half a thousandth."""
    if not math.isfinite(value):
        return MISSING
    return "0" if abs(value) < 0.0005 else f"{value:.4g}"


def with_factor(text: str, sign: str) -> str:
    """A text with the factor behind it, but where the coefficient is in percent."""
    return text if sign.endswith("%") else f"{text} ×100"


def slug(*words: str) -> str:
    """A file's name from names; one that had to be changed gets a hash, so that no two are alike."""
    plain = "_".join(words)
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", plain).strip("_.")
    if safe == plain and len(safe) < 120:
        return safe
    digest = hashlib.blake2s(plain.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{safe[:100]}-{digest}"


def make_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure with one axis, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def make_row_figure(labels: Sequence[str]) -> tuple[Any, Any]:
    """Return a figure and its axis with a row for each label, the first on top."""
    figure, axis = make_figure(3.9, 0.75 + 0.19 * len(labels))
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_yticks(range(len(labels)), labels)
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")
    axis.spines["left"].set_visible(False)
    return figure, axis


@dataclass(frozen=True)
class Square:
    """A coloured square with a number in it."""

    colour: str
    text: str


def make_square_figure(count: int) -> tuple[Any, Any]:
    size = 1.6 + 0.34 * count
    return make_figure(size, size * 0.92)


def draw_squares(axis: Any, cells: Sequence[Sequence[Square | None]]) -> None:
    from matplotlib.patches import Rectangle

    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if cell is None:
                continue
            axis.add_patch(
                Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=cell.colour, edgecolor=PAPER)
            )
            red, green, blue = (int(cell.colour[k : k + 2], 16) for k in (1, 3, 5))
            bright = 0.299 * red + 0.587 * green + 0.114 * blue > 140
            # But for the neutral one a cell is of one colour by day and by night, and so its number.
            ink = INK if cell.colour == NEUTRAL else "#111112" if bright else "#fbfbfd"
            axis.text(j, i, cell.text, ha="center", va="center", fontsize=7, color=ink)


def label_square(axis: Any, labels: Sequence[str]) -> None:
    count = len(labels)
    axis.set_xlim(-0.5, count - 0.5)
    axis.set_ylim(count - 0.5, -0.5)
    axis.set_xticks(range(count), labels, rotation=45, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(count), labels)
    axis.tick_params(length=0)
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)
