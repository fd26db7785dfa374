"""Charts with their numbers, and figures as files, in a notebook and inside a page: one look, and equal bytes for equal results."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ...runs.output_folder import write_file
from ...runs.tables import MISSING, Cell, ResultTable, number_cell

if TYPE_CHECKING:
    from xml.etree import ElementTree

#: What to say where there is none.
NO_FIGURES = "figures need matplotlib: pip install 'captau[report]'"

#: Text and axes; what matters less; grid lines; what lies beneath.
INK, MUTED, GRID, PAPER = "#1c1c1e", "#6e6e73", "#d6d6db", "#fefefe"
#: A cell that says neither one thing nor the other.
NEUTRAL = "#ececef"
#: Series apart for the colour-blind too, after Okabe and Ito; a page has lighter ones in the dark.
SERIES = ("#0072b2", "#d55e00", "#00805f", "#a3478f", "#8a6d00", "#4f5bd5")
#: What a page calls the colours, so that its style sheet decides.
_NAMES = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    PAPER: "var(--paper)",
    NEUTRAL: "var(--raised)",
} | {colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, 1)}

_RC: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.prop_cycle": f"cycler('linestyle', ['-', '--', ':']) * cycler('color', {list(SERIES)})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.unicode_minus": True,
    "figure.facecolor": PAPER,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "pdf.fonttype": 42,  # as conferences ask for it
    "svg.fonttype": "none",  # text stays text: to be read, searched and copied
    "svg.hashsalt": "captau",
    "text.color": INK,
    "text.parse_math": False,  # a metric may be called $x$
    "xtick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.color": INK,
    "ytick.major.width": 0.6,
}
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


#: The beginning of a picture's address in a page, by the ending of its file.
_DATA_KINDS = {"svg": "data:image/svg+xml;base64", "png": "data:image/png;base64"}


@dataclass(frozen=True, repr=False)
class Figures:
    """Figures of a run; a notebook shows those in SVG and PNG.

    Attributes:
        files: their bytes by file name.
        undrawn: a line for each kind of chart that the run has no data for.
    """

    files: Mapping[str, bytes]
    undrawn: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Figures({', '.join(self.files)})"

    def _repr_html_(self) -> str:
        html = ""
        for name, content in self.files.items():
            kind = _DATA_KINDS.get(name.rpartition(".")[2])
            # A notebook shows no PDF within its page.
            if kind:
                address = f"{kind},{base64.b64encode(content).decode()}"
                html += f'<img alt="{escape(name)}" style="max-width: 100%" src="{address}">'
        return html

    def save(self, folder: str | Path) -> list[Path]:
        """Write the figures into a folder, and return their paths.

        Raises:
            InputError: where one cannot be written.
        """
        paths = [expand_home(folder) / name for name in self.files]
        for path, content in zip(paths, self.files.values(), strict=True):
            write_file(path, content)
        return paths


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def require_packages(command: str, *packages: str) -> None:
    """Raise an InputError where a package is missing that a command cannot do without."""
    if missing_packages := [name for name in packages if find_spec(name) is None]:
        raise InputError(
            f"captau {command} needs {' and '.join(missing_packages)}: pip install 'captau[report]'"
        )


@contextmanager
def style(font_size: float = 8) -> Generator[None]:
    """Figures are made, drawn and saved in here, whatever a user's matplotlibrc says."""
    import warnings

    import matplotlib
    from matplotlib import rc_context

    with matplotlib.rc_context(matplotlib.rcParamsDefault), warnings.catch_warnings():
        # A script that DejaVu lacks shows as boxes in a PNG, and as it should in an SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        with rc_context(cast("Any", {**_RC, "font.size": font_size, "legend.fontsize": font_size})):
            yield


#: The formats of figures, and metadata that would differ from one run to the next.
FORMATS: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}


def files_of(figure: Any, name: str, formats: Sequence[str] = ("svg", "png")) -> dict[str, bytes]:
    """Return a figure as files, NAME.svg and so on; `style` is on."""
    files: dict[str, bytes] = {}
    for form in formats:
        files[f"{name}.{form}"] = _saved(figure, form, FORMATS[form])
    return files


def _saved(figure: Any, form: str, metadata: dict[str, None], **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=150, metadata=metadata, **options)
    content = buffer.getvalue()
    # A system's name may hold what XML does not allow.
    return re.sub(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", b"?", content) if form == "svg" else content


def inline(figure: Any, identity: str, title: str, description: str) -> str:
    """A figure as an `<svg>` for a page, in the page's colours and font; `style` is on.

    Args:
        figure: matplotlib's.
        identity: begins every id in it, and so differs within the page.
        title, description: for those who hear the page.
    """
    from xml.etree import ElementTree

    root = ElementTree.fromstring(_saved(figure, "svg", {"Date": None}, transparent=True))
    width, height = root.get("viewBox", "0 0 1 1").split()[2:]
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    # Its own style sheet would be the page's, and its metadata tell nobody anything.
    for child in list(root):
        if child.tag == f"{{{_SVG}}}g":
            continue
        if child.tag != f"{{{_SVG}}}defs" or child.find(f"{{{_SVG}}}style") is not None:
            root.remove(child)

    # Ids that nothing points to would only make the page longer.
    links = _links(root)
    for element in root.iter():
        if (name := element.attrib.pop("id", None)) in links:
            element.set("id", f"{identity}-{name}")
        for key in list(element.attrib):
            value = _paged(key, element.attrib.pop(key), identity)
            if value:
                element.set(key.replace(f"{{{_LINK}}}", ""), value)

    root.set("role", "img")
    root.set("aria-labelledby", f"{identity}-title {identity}-desc")
    for index, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{identity}-{tag}"})
        element.text = text
        root.insert(index, element)

    pixels = float(width) * 4 / 3
    # As wide as its place, within what can be read; the page scrolls it where there is no room.
    root.set("style", f"--drawn: {pixels:.0f}px")
    root.set("viewBox", f"0 0 {_short(width)} {_short(height)}")

    # A page knows SVG without the names of XML.
    text = ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
    text = re.sub(r'\sxmlns:ns\d+="[^"]*"', "", text)
    text = re.sub(r"(</?)ns\d+:", r"\1", text)
    text = re.sub(r">\s+<", "><", text)
    while (shorter := re.sub(r"<g>((?:<(?!/?g\b)[^>]*>[^<]*)*)</g>", r"\1", text)) != text:
        text = shorter  # groups that held an id
    return text


def _links(root: ElementTree.Element) -> set[str]:
    """The ids that something in a figure points to."""
    names: set[str] = set()
    for element in root.iter():
        for value in element.attrib.values():
            names.update(re.findall(r"(?:^|url\()#([\w-]+)", value))
    return names


def _paged(key: str, value: str, identity: str) -> str:
    """An attribute of a figure as a page has it."""
    if key.endswith("href") and value.startswith("#"):
        return f"#{identity}-{value[1:]}"
    if key in ("d", "transform", "x", "y", "width", "height"):
        value = re.sub(r"-?\d+\.\d+", lambda number: _short(number.group()), value)
        return "" if value.startswith("rotate(-0 ") else " ".join(value.split())
    if key == "clip-path":
        return value.replace("#", f"#{identity}-")
    if key == "style":
        value = re.sub(r"font-family: [^;]*;? ?", "", value)
        value = re.sub(
            r"#[0-9a-f]{6}", lambda colour: _NAMES.get(colour.group(), colour.group()), value
        )
    return value


def _short(number: str) -> str:
    """A coordinate to a hundredth of a point."""
    return f"{float(number):.2f}".rstrip("0").rstrip(".")


def legend(axis: Any, handles: list[Any], labels: list[str], **options: Any) -> None:
    """A legend that also names what begins with an underscore, which matplotlib would leave out."""
    visible_labels: list[str] = []
    for label in labels:
        # A blank without width in front makes it another beginning.
        visible_labels.append(f"\u200b{label}" if label.startswith("_") else label)
    axis.legend(handles, visible_labels, **options)


@dataclass(frozen=True)
class Chart:
    """One figure.

    Attributes:
        kind: one of `run_parts.CHART_TITLES`.
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


def percent_cell(value: float) -> Cell:
    return number_cell(value, 100, 1)


def short_cell(value: float) -> Cell:
    """Return the cell of a number with four digits, and 0 where it is smaller than half a thousandth."""
    if not math.isfinite(value):
        return Cell(MISSING)
    text = "0" if abs(value) < 0.0005 else f"{value:.4g}"
    return Cell(text, value, value)


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


#: What matplotlib leaves between a figure's edge, its labels and its axes, in points.
_GAPS = 16.0


def fold_title(title: str, figure: Any, labels: Sequence[str]) -> str:
    """Return a title in lines that are no longer than the room over an axis; `style` is on.

    Args:
        title: of the axis, which begins at its left end.
        figure: with this one axis.
        labels: those left of the axis.
    """
    from matplotlib import rcParams

    points_per_inch = 72.0
    widest_label = max(_width_in_points(label, rcParams["font.size"]) for label in labels)
    room = figure.get_figwidth() * points_per_inch - widest_label - _GAPS
    lines: list[str] = []
    for word in title.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _width_in_points(longer, rcParams["axes.titlesize"]) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def _width_in_points(text: str, font_size: float) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text, prop=FontProperties(size=font_size)).get_extents().width)


def make_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure with one axis, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def make_panels(count: int, most_in_row: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """Return a figure with so many panels, each of a width and height in inches, and their axes."""
    from matplotlib.figure import Figure

    n_columns = min(most_in_row, count)
    n_rows = -(-count // n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    axes = list(figure.subplots(n_rows, n_columns, squeeze=False).ravel())
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def make_stacked_panels(heights: Sequence[float], width: float) -> tuple[Any, list[Any]]:
    """Return a figure with a panel of each height below one another, in inches, and their axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), squeeze=False, height_ratios=heights)
    return figure, list(axes.ravel())


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


def shade_square(value: float, text: str) -> Square:
    """Return a square in a shade from red (-1) to blue (1); without a value it is neutral."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    colour = to_hex(colormaps["RdBu"](0.5 + 0.42 * value)) if value == value else NEUTRAL
    return Square(colour, text)


def draw_squares(axis: Any, cells: Sequence[Sequence[Square | None]]) -> None:
    from matplotlib.patches import Rectangle

    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if cell is None:
                continue
            corner = j - 0.5, i - 0.5
            axis.add_patch(Rectangle(corner, 1, 1, facecolor=cell.colour, edgecolor=PAPER))
            red, green, blue = (int(cell.colour[k : k + 2], 16) for k in (1, 3, 5))
            bright = 0.299 * red + 0.587 * green + 0.114 * blue > 140
            # But for the neutral one a cell is of one colour by day and by night, and so its number.
            ink = INK if cell.colour == NEUTRAL else "#111112" if bright else "#fbfbfd"
            # A hyphen is shorter than the minus of the axes.
            text = cell.text.replace("-", "−")
            axis.text(j, i, text, ha="center", va="center", fontsize=7, color=ink)


def label_squares(axis: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Name the rows and columns of squares."""
    axis.set_xlim(-0.5, len(columns) - 0.5)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xticks(range(len(columns)), columns, rotation=45, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(length=0)
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)
