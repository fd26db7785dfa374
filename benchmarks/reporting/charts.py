"""The charts of a finished run: what `captau report` shows and `captau plot` writes. Nothing is scored."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import Scale
from ...metrics.base import Floats
from ..evaluation.floors import FLOORS
from ..evaluation.threshold_curves import good_captions, metric_curve
from ..options.thresholds import CurveOptions
from ..runs.finished_run import FinishedRun
from ..runs.tables import COEFFICIENT_STYLE, MISSING, ResultTable, format_number
from ..scoring.catalog import METRIC_KINDS
from ..statistics.multiple_tests import p_value_column
from ..statistics.preferences import MEAN_CATEGORY
from ..statistics.rater_agreement import compute_measures
from ..statistics.rating_table import (
    AgreementMeasure,
    RatingTable,
    count_by_level,
    nearest_level,
    scale_levels,
)
from ..statistics.virtual_raters import CEILINGS
from .figure_files import GRID, INK, MUTED, NEUTRAL, PAPER, SERIES
from .threshold_figure import draw_curves

#: With more levels than this a scale is cut into ten.
MOST_LEVELS = 13
#: How many points of a curve are drawn.
POINTS = 150
#: Up to this a corrected p-value counts as significant, where the run says nothing else.
LEVEL = 0.95
#: Of what `agreement.measures` finds, what has 1 for its greatest value, and what it is called.
MEASURES = {
    "kendall_w": "Kendall's W",
    "fleiss_kappa": "Fleiss' κ",
    "cohen_kappa_quadratic": "Cohen's κ, quadratic weights",
    "krippendorff_alpha_ordinal": "Krippendorff's α, ordinal",
    "krippendorff_alpha_interval": "Krippendorff's α, interval",
    "icc1": "ICC(1), one rating",
    "icc1k": "ICC(1,k), mean of ratings",
    "percent_agreement": "equal ratings",
    "split_half": "split-half reliability",
    "leave_one_rater_out_tau_c": "one rater left out, τ_c",
    "leave_one_rater_out_spearman": "one rater left out, ρ",
    "ceiling_one_vs_rest": "ceiling: one human against the rest, τ_c",
    "ceiling_oracle": "ceiling: oracle (mean rating), τ_c",
}


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


@dataclass(frozen=True)
class RunDataset:
    """One dataset of a run under one protocol.

    Attributes:
        run, dataset, protocol: whose, and which.
        options: see `CurveOptions`.
    """

    run: FinishedRun
    dataset: str
    protocol: str
    options: CurveOptions = field(default_factory=CurveOptions)

    @cached_property
    def title(self) -> str:
        """The dataset's title."""
        return self.run.run.get("data", {}).get(self.dataset, {}).get("title", self.dataset)

    @cached_property
    def correlations(self) -> pd.DataFrame:
        """The run's, of this part."""
        frame = self.run.correlations
        in_part = (frame["dataset"] == self.dataset) & (frame["protocol"] == self.protocol)
        return frame[in_part].reset_index(drop=True)

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics correlated with people, in the order of tables; neither floors nor ceilings."""
        metrics = [
            m for m in dict.fromkeys(self.correlations["metric"]) if m not in _FLOORS_AND_CEILINGS
        ]
        styles = self.run.run.get("metrics", {})
        return sorted(metrics, key=lambda metric: styles.get(metric, {}).get("order", np.inf))

    def label(self, metric: str) -> str:
        """Return the label of a metric, floor or ceiling in tables."""
        if metric in _FLOORS_AND_CEILINGS:
            return _FLOORS_AND_CEILINGS[metric]
        return self.run.run.get("metrics", {}).get(metric, {}).get("label", metric)

    @property
    def has_anonymous_raters(self) -> bool:
        """Whether the names of raters only number an item's ratings."""
        return self.run.run["data"][self.dataset].get("anonymous_raters", False)

    def metric_kind(self, metric: str) -> str:
        """One of `METRIC_KINDS`, or what stands beside metrics."""
        if metric in _FLOORS_AND_CEILINGS:
            return "ceiling" if metric in CEILINGS else "floor"
        return self.run.run.get("metrics", {}).get(metric, {}).get("kind", "given")

    @cached_property
    def items(self) -> pd.DataFrame:
        """The run's, of this dataset; by item id."""
        items = self.run.items
        return items[items["dataset"] == self.dataset].set_index("item_id", drop=False)

    @cached_property
    def ratings(self) -> pd.DataFrame:
        """The run's, of this dataset."""
        ratings = self.run.ratings
        return ratings[ratings["dataset"] == self.dataset]

    @cached_property
    def preferences(self) -> pd.DataFrame:
        """The run's, of this dataset."""
        preferences = self.run.preferences
        return preferences[preferences["dataset"] == self.dataset]

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row an item and a column a metric, companions after what was asked for; as computed."""
        scores = self.run.scores
        wide = scores[scores["dataset"] == self.dataset].pivot(
            index="item_id", columns="metric", values="score"
        )
        scored_metrics = set(wide.columns)
        names = [m for m in self.metrics if m in scored_metrics]
        return wide.loc[self.items.index, [*names, *sorted(scored_metrics - set(names))]].astype(
            float
        )

    @cached_property
    def oriented(self) -> pd.DataFrame:
        """`scores` where more is better for every metric."""
        styles = self.run.run.get("metrics", {})
        sign = {
            m: 1 if styles.get(m, {}).get("higher_is_better", True) else -1 for m in self.scores
        }
        return self.scores * pd.Series(sign, dtype=float)

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """By rated dimension that the protocol looks at and has ratings here."""
        chosen_dimensions = self.run.run["protocols"][self.dataset]["dimension"] or ()
        rated = set(self.ratings["dimension"])
        scales = self.run.run["data"][self.dataset]["scales"]
        return {str(d): Scale(**scales[d]) for d in chosen_dimensions if d in rated}

    def people(self, dimension: str) -> pd.Series:
        """The mean rating of each item; NaN where there is none."""
        ratings = self.ratings[self.ratings["dimension"] == dimension]
        return ratings.groupby("item_id")["value"].mean().reindex(self.items.index)

    @property
    def judged(self) -> bool:
        """Tell whether the run kept its items and their ratings."""
        return self.run.has_file("items.parquet")


_FLOORS_AND_CEILINGS = {**FLOORS, **CEILINGS}


def parts_of(run: FinishedRun, options: CurveOptions | None = None) -> list[RunDataset]:
    """A run's datasets with their protocols."""
    frame = run.correlations
    pairs = dict.fromkeys(zip(frame["dataset"], frame["protocol"], strict=True))
    return [
        RunDataset(run, dataset, protocol, options or CurveOptions()) for dataset, protocol in pairs
    ]


def charts_of(part: RunDataset, kind: str) -> tuple[list[Chart], str]:
    """The charts of a kind, or why there are none.

    Raises:
        InputError: where a file of the run is damaged.
    """
    if kind in _NEED_ITEMS and not part.judged:
        return [], f"captau {part.run.command} keeps no items and ratings; captau bench does"
    try:
        charts = list(_MAKERS[kind](part))
    except _UnavailableChart as reason:
        return [], str(reason)
    return charts, "" if charts else "the run has nothing of the kind"


class _UnavailableChart(Exception):  # noqa: N818
    """Why there is nothing to draw."""


def _percent(value: float) -> str:
    return format_number(value, 100, 1)


def _four(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else MISSING


def _times(text: str, sign: str) -> str:
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


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure with one axis, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _rows_figure(labels: Sequence[str], width: float = 3.9) -> tuple[Any, Any]:
    """An axis with a row for each label, the first on top."""
    figure, axis = _figure(width, 0.75 + 0.19 * len(labels))
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_yticks(range(len(labels)), labels)
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")
    axis.spines["left"].set_visible(False)
    return figure, axis


def _forest(part: RunDataset) -> Iterator[Chart]:
    rows = part.correlations
    overall_rows = rows[(rows["coefficient"] != "accuracy") | (rows["dimension"] == MEAN_CATEGORY)]
    yield from _forests(part, overall_rows, "forest")


def _categories(part: RunDataset) -> Iterator[Chart]:
    rows = part.correlations
    category_rows = rows[(rows["coefficient"] == "accuracy") & (rows["dimension"] != MEAN_CATEGORY)]
    if category_rows.empty:
        raise _UnavailableChart("the dataset has no preferences, or accuracy was not asked for")
    yield from _forests(part, category_rows, "categories")


def _forests(part: RunDataset, rows: pd.DataFrame, kind: str) -> Iterator[Chart]:
    for (dimension, coefficient), coefficient_rows in rows.groupby(
        ["dimension", "coefficient"], sort=False
    ):
        yield _one_forest(part, coefficient_rows, str(dimension), str(coefficient), kind)


def _one_forest(
    part: RunDataset, rows: pd.DataFrame, dimension: str, coefficient: str, kind: str
) -> Chart:
    sign, _, factor, decimals = COEFFICIENT_STYLE[coefficient]
    is_floor_or_ceiling = rows["metric"].isin(_FLOORS_AND_CEILINGS)
    rows = pd.concat(
        [
            rows[~is_floor_or_ceiling].sort_values("value", ascending=False, kind="stable"),
            rows[is_floor_or_ceiling].sort_values("value", kind="stable"),
        ]
    )
    labels = [part.label(m) for m in rows["metric"]]
    kinds = [part.metric_kind(m) for m in rows["metric"]]
    cells = [
        [
            *(
                format_number(float(row[c]), factor, decimals)
                for c in ("value", "ci_low", "ci_high")
            ),
            f"{int(row['n_items']):,}",
            f"{int(row['n_ratings']):,}",
            row["note"],
        ]
        for row in rows.to_dict("records")
    ]
    points = "pairs" if coefficient == "accuracy" else "ratings"
    title = f"{part.title}, {dimension}: {sign}"
    table = ResultTable(
        _times(title, sign),
        "metric",
        ["value", "from", "to", "items", points, "remark"],
        list(zip(labels, cells, strict=True)),
    )

    def draw() -> Any:
        figure, axis = _rows_figure(labels)
        handles: dict[str, Any] = {}
        for y, (row, metric_kind) in enumerate(zip(rows.to_dict("records"), kinds, strict=True)):
            value, low, high = (factor * row[c] for c in ("value", "ci_low", "ci_high"))
            if np.isnan(value):
                continue
            is_metric = metric_kind in METRIC_KINDS
            colour = SERIES[METRIC_KINDS.index(metric_kind)] if is_metric else MUTED
            marker = {"ceiling": "D", "floor": "s"}.get(metric_kind, "o")
            if not np.isnan(low):
                axis.plot([low, high], [y, y], color=colour, linestyle="-", linewidth=1.2)
            (handles[metric_kind],) = axis.plot(
                value, y, marker, color=colour, markersize=4.5, linestyle="none"
            )
        count = int((~rows["metric"].isin(_FLOORS_AND_CEILINGS)).sum())
        if 0 < count < len(labels):
            axis.axhline(count - 0.5, color=GRID, linewidth=0.8, linestyle="-")
        if coefficient == "accuracy":
            axis.axvline(50, color=MUTED, linewidth=0.8, linestyle=":")
        axis.set_xlabel(_times(sign, sign))
        axis.set_title(f"{part.title}, {dimension}")
        if len(handles) > 1:
            order = [k for k in (*METRIC_KINDS, "floor", "ceiling") if k in handles]
            figure.legend(
                [handles[k] for k in order],
                order,
                loc="outside lower center",
                ncols=min(3, len(order)),
            )
        return figure

    ranked = [
        f"{label} {cell[0]}"
        for label, cell, metric_kind in zip(labels, cells, kinds, strict=True)
        if metric_kind in METRIC_KINDS and cell[0] != MISSING
    ]
    ranking = f"From the greatest to the least: {', '.join(ranked)}." if ranked else "No value."
    name = slug(kind, part.dataset, part.protocol, dimension, coefficient)
    return Chart(kind, name, title, f"Points with intervals. {ranking}", table, draw)


def _significance(part: RunDataset) -> Iterator[Chart]:
    if not part.run.has_file("significance.csv"):
        raise _UnavailableChart(
            "captau compare tests every two metrics; this is a run without tests"
        )
    frame = part.run.significance
    frame = frame[(frame["dataset"] == part.dataset) & (frame["protocol"] == part.protocol)]
    frame = frame[(frame["coefficient"] != "accuracy") | (frame["dimension"] == MEAN_CATEGORY)]
    for (dimension, coefficient), tested_pairs in frame.groupby(
        ["dimension", "coefficient"], sort=False
    ):
        tests = set(tested_pairs["test"])
        test = "bootstrap" if "bootstrap" in tests else sorted(tests)[0]
        yield _one_matrix(
            part, tested_pairs[tested_pairs["test"] == test], str(dimension), str(coefficient)
        )


def _one_matrix(part: RunDataset, rows: pd.DataFrame, dimension: str, coefficient: str) -> Chart:
    sign, _, factor, decimals = COEFFICIENT_STYLE[coefficient]
    options = part.run.run["config"].get("statistics", {})
    p_value = p_value_column(options.get("correction", "bh"))
    level = 1 - options.get("level", LEVEL)
    test = rows["test"].iloc[0]
    values = dict(zip(rows["metric_a"], rows["value_a"], strict=True))
    values |= dict(zip(rows["metric_b"], rows["value_b"], strict=True))
    order = sorted(values, key=lambda m: -np.nan_to_num(values[m], nan=-np.inf))
    index_of = {metric: index for index, metric in enumerate(order)}
    differences = np.full((len(order), len(order)), np.nan)
    p_values = np.full_like(differences, np.nan)
    cells: list[tuple[str, list[str]]] = []
    for row in rows.to_dict("records"):
        a, b = index_of[row["metric_a"]], index_of[row["metric_b"]]
        differences[a, b], differences[b, a] = row["difference"], -row["difference"]
        p_values[a, b] = p_values[b, a] = row[p_value]
        cells.append(
            (
                f"{part.label(row['metric_a'])} − {part.label(row['metric_b'])}",
                [
                    *(format_number(float(row[c]), factor, decimals) for c in _ENDS),
                    "<0.001" if row[p_value] < 0.001 else format_number(float(row[p_value]), 1, 3),
                ],
            )
        )
    labels = [part.label(metric) for metric in order]
    title = f"{part.title}, {dimension}: differences of {sign}"
    how = f"{test}, {options.get('correction', 'bh')}"
    table = ResultTable(
        f"{_times(title, sign)} ({how})", "metrics", ["difference", "from", "to", "p"], cells
    )

    def draw() -> Any:
        figure, axis = _square(len(labels))
        signs = np.where(p_values < level, np.sign(differences), 0.0)
        _cells(
            axis,
            [
                [
                    _Square(
                        _DIFFER[int(signs[i, j])],
                        format_number(float(differences[i, j]), factor, decimals),
                    )
                    if i != j
                    else None
                    for j in range(len(labels))
                ]
                for i in range(len(labels))
            ],
        )
        _label_square(axis, labels)
        axis.set_title(f"{part.title}, {dimension}: row less column, {_times(sign, sign)}")
        return figure

    significant = int((rows[p_value] < level).sum())
    description = (
        f"Each row's coefficient less each column's; coloured where p is below {level:.2g} ({how}): blue "
        f"where the row is better, orange where the column is. {significant} of {len(rows)} pairs differ "
        f"significantly."
    )
    name = slug("significance", part.dataset, part.protocol, dimension, coefficient)
    return Chart("significance", name, title, description, table, draw)


_ENDS = ("difference", "ci_low", "ci_high")
#: Where the column is better, where nobody knows, where the row is better.
_DIFFER = {-1: "#f4c9a8", 0: NEUTRAL, 1: "#a9cfee"}


@dataclass(frozen=True)
class _Square:
    """A coloured square with a number in it."""

    colour: str
    text: str


def _square(count: int) -> tuple[Any, Any]:
    size = 1.6 + 0.34 * count
    return _figure(size, size * 0.92)


def _cells(axis: Any, cells: Sequence[Sequence[_Square | None]]) -> None:
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
            axis.text(j, i, cell.text, ha="center", va="center", fontsize=6, color=ink)


def _label_square(axis: Any, labels: Sequence[str]) -> None:
    count = len(labels)
    axis.set_xlim(-0.5, count - 0.5)
    axis.set_ylim(count - 0.5, -0.5)
    axis.set_xticks(range(count), labels, rotation=45, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(count), labels)
    axis.tick_params(length=0)
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)


def _ratings(part: RunDataset) -> Iterator[Chart]:
    for dimension, scale in _rated(part).items():
        ratings = part.ratings[part.ratings["dimension"] == dimension]
        cut = _cut(scale)
        levels = scale_levels(cut)
        item_counts = np.array(list(count_by_level(ratings, cut).values()))
        level_indices = nearest_level(ratings["value"].to_numpy(dtype=float), cut)
        rating_counts = np.bincount(level_indices, minlength=len(levels))
        title = f"{part.title}, {dimension}: how people rated"
        rows = [
            (
                f"{level:g}",
                [
                    f"{int(a):,}",
                    _percent(a / rating_counts.sum()),
                    f"{int(b):,}",
                    _percent(b / item_counts.sum()),
                ],
            )
            for level, a, b in zip(levels, rating_counts, item_counts, strict=True)
        ]
        columns = ["ratings", "% of ratings", "items by mean rating", "% of items"]
        commonest = levels[int(item_counts.argmax())]
        yield Chart(
            "ratings",
            slug("ratings", part.dataset, part.protocol, dimension),
            title,
            f"Bars: the share of ratings, and of items by their mean rating, at each of {len(levels)} "
            f"levels from {cut.low:g} to {cut.high:g}. Most items are nearest to {commonest:g}.",
            ResultTable(title, "level", columns, rows),
            _bars(part, dimension, levels, rating_counts, item_counts),
        )


def _bars(
    part: RunDataset, dimension: str, levels: Sequence[float], rating_counts: Any, item_counts: Any
) -> Callable[[], Any]:
    def draw() -> Any:
        figure, axis = _figure(3.9, 2.8)
        x = np.arange(len(levels))
        bars = [
            axis.bar(x + shift, 100 * counts / counts.sum(), width=0.38, color=colour)
            for shift, counts, colour in (
                (-0.2, rating_counts, SERIES[0]),
                (0.2, item_counts, SERIES[1]),
            )
        ]
        axis.set_xticks(x, [f"{level:g}" for level in levels])
        axis.grid(False, axis="x")
        axis.set_xlabel("rating, to the nearest level")
        axis.set_ylabel("%")
        axis.set_title(f"{part.title}, {dimension}")
        names = ["ratings", "items, mean rating"]
        figure.legend(bars, names, loc="outside lower center", ncols=2)
        return figure

    return draw


def _rated(part: RunDataset) -> dict[str, Scale]:
    if not part.scales:
        raise _UnavailableChart("nobody rated these items; people preferred one of two")
    return part.scales


def _cut(scale: Scale) -> Scale:
    """The scale, in ten where it has too many levels to show each."""
    many = scale.step is not None and (scale.high - scale.low) / scale.step >= MOST_LEVELS
    return Scale(scale.low, scale.high) if many else scale


def _agreement(part: RunDataset) -> Iterator[Chart]:
    for dimension, scale in _rated(part).items():
        table = RatingTable.from_ratings(
            part.ratings, part.items.index, dimension, is_anonymous=part.has_anonymous_raters
        )
        if not table.n_items:
            continue
        # As captau agree has them, whose seed and number of draws are the usual ones as well.
        measures, _ = compute_measures(table, scale)
        shown_measures = {name: measures[name] for name in MEASURES if name in measures}
        title = f"{part.title}, {dimension}: how well people agree"
        rows = [
            (
                MEASURES.get(name, name),
                [
                    _percent(measure.value),
                    _percent(measure.std),
                    f"{measure.n_items:,}",
                    measure.note,
                ],
            )
            for name, measure in measures.items()
        ]
        alpha = _percent(measures["krippendorff_alpha_ordinal"].value)
        yield Chart(
            "agreement",
            slug("agreement", part.dataset, part.protocol, dimension),
            title,
            f"Points: measures of agreement. Krippendorff's α (ordinal) is {alpha}, of "
            f"{table.n_items:,} items with two ratings or more.",
            ResultTable(
                f"{title} ×100", "measure", ["value", "± over draws", "items", "remark"], rows
            ),
            _dots(part, dimension, shown_measures),
        )
    if all(
        not RatingTable.from_ratings(part.ratings, part.items.index, d).n_items for d in part.scales
    ):
        raise _UnavailableChart("no item has two ratings, which agreement is of")


def _dots(
    part: RunDataset, dimension: str, measures: Mapping[str, AgreementMeasure]
) -> Callable[[], Any]:
    def draw() -> Any:
        figure, axis = _rows_figure([MEASURES[name] for name in measures])
        for y, (name, measure) in enumerate(measures.items()):
            ceiling = name in CEILINGS
            colour = MUTED if ceiling else SERIES[0]
            axis.plot(100 * measure.value, y, "D" if ceiling else "o", color=colour, markersize=4.5)
            if np.isfinite(measure.std):
                ends = 100 * np.array([measure.value - measure.std, measure.value + measure.std])
                axis.plot(ends, [y, y], color=colour, linestyle="-", linewidth=1.2)
        axis.set_xlabel("×100")
        axis.set_xlim(min(0, *(100 * measure.value for measure in measures.values())) - 2, 102)
        axis.set_title(f"{part.title}, {dimension}")
        return figure

    return draw


def _scores(part: RunDataset) -> Iterator[Chart]:
    for dimension, scale in _rated(part).items():
        cut = _cut(scale)
        points = _points(part, dimension)
        places = nearest_level(points["value"].to_numpy(dtype=float), cut)
        for metric in part.metrics:
            if metric in part.scores:
                scores = part.scores[metric].loc[points["item_id"]].to_numpy(dtype=float)
                yield _one_violin(part, dimension, metric, scale_levels(cut), places, scores)


def _points(part: RunDataset, dimension: str) -> pd.DataFrame:
    """Columns `item_id, value`: single ratings or, where the protocol takes means, those."""
    if part.run.run["protocols"][part.dataset]["ratings"] == "per_rating":
        return part.ratings[part.ratings["dimension"] == dimension][["item_id", "value"]]
    return part.people(dimension).dropna().rename("value").reset_index()


def _one_violin(
    part: RunDataset,
    dimension: str,
    metric: str,
    levels: Sequence[float],
    places: Any,
    scores: Floats,
) -> Chart:
    finite = np.isfinite(scores)
    groups = [scores[finite & (places == k)] for k in range(len(levels))]
    rows: list[tuple[str, list[str]]] = []
    for level, group in zip(levels, groups, strict=True):
        quarters = np.quantile(group, [0.25, 0.5, 0.75]) if len(group) else [np.nan] * 3
        mean = float(group.mean()) if len(group) else np.nan
        cells = [f"{len(group):,}", *map(_four, map(float, quarters)), _four(mean)]
        rows.append((f"{level:g}", cells))
    label = part.label(metric)
    title = f"{part.title}, {dimension}: {label} by rating"
    lost = int((~finite).sum())
    notes = [f"{lost:,} of {len(scores):,} scores are not finite and left out."] if lost else []

    def draw() -> Any:
        figure, axis = _figure(2.9, 2.2)
        filled = [k for k, group in enumerate(groups) if len(group)]
        if filled:
            drawn = axis.violinplot(
                [groups[k] for k in filled], filled, widths=0.9, showextrema=False, points=30
            )
            for body in drawn["bodies"]:
                body.set(facecolor=SERIES[0], edgecolor="none", alpha=0.35)
            means = [float(groups[k].mean()) for k in filled]
            axis.plot(
                filled, means, marker="o", color=INK, markersize=2.5, linewidth=0.9, linestyle="-"
            )
        axis.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        axis.set_xlim(-0.6, len(levels) - 0.4)
        axis.grid(False, axis="x")
        axis.set_xlabel("rating")
        axis.set_title(label)
        return figure

    medians = ", ".join(f"{cells[2]} at {level}" for level, cells in rows if cells[2] != MISSING)
    return Chart(
        "scores",
        slug("scores", part.dataset, part.protocol, dimension, metric),
        title,
        f"Violins of the scores at each rating, with a line through their means. Medians: {medians}.",
        ResultTable(title, "rating", ["n", "25 %", "median", "75 %", "mean"], rows, notes=notes),
        draw,
    )


def _correlations(part: RunDataset) -> Iterator[Chart]:
    metrics = [m for m in part.metrics if m in part.oriented]
    columns = {part.label(m): part.oriented[m] for m in metrics}
    columns |= {f"people: {d}": part.people(d) for d in part.scales}
    frame = pd.DataFrame(columns, index=part.items.index)
    if len(frame.columns) < 2:
        raise _UnavailableChart("one metric alone has nothing to be compared with")
    matrix = frame.rank().corr().to_numpy()
    labels = [str(c) for c in frame.columns]
    rows = [
        (label, [_percent(float(v)) for v in row])
        for label, row in zip(labels, matrix, strict=True)
    ]
    title = f"{part.title}: Spearman's ρ of every two metrics"
    pairs = [
        (matrix[i, j], labels[i], labels[j])
        for i in range(len(metrics))
        for j in range(i)
        if np.isfinite(matrix[i, j])
    ]
    extremes = ""
    if pairs:
        least_alike, most_alike = min(pairs), max(pairs)
        extremes = (
            f" Most alike: {most_alike[2]} and {most_alike[1]}, {_percent(most_alike[0])}; least: {least_alike[2]} and "
            f"{least_alike[1]}, {_percent(least_alike[0])}."
        )

    def draw() -> Any:
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        figure, axis = _square(len(labels))
        shades = colormaps["RdBu"]
        _cells(
            axis,
            [
                [
                    _Square(
                        to_hex(shades(0.5 + 0.42 * v)) if v == v else NEUTRAL,
                        format_number(v, 100, 0),
                    )
                    for v in map(float, row)
                ]
                for row in matrix
            ],
        )
        _label_square(axis, labels)
        axis.set_title(f"{part.title}: ρ ×100")
        return figure

    yield Chart(
        "correlations",
        slug("correlations", part.dataset, part.protocol),
        title,
        f"Spearman's rank correlation over {len(frame):,} items, in shades from red (−1) to blue (1).{extremes}",
        ResultTable(f"{title} ×100", "", labels, rows),
        draw,
    )


def _precision_recall(part: RunDataset) -> Iterator[Chart]:
    reasons: list[str] = []
    for dimension, scale in _rated(part).items():
        try:
            good = good_captions(part.ratings, dimension, scale, part.options.good, part.dataset)
        except InputError as error:
            reasons.append(str(error))
            continue
        rows: list[dict[str, Any]] = []
        cells: list[tuple[str, list[str]]] = []
        for metric in (m for m in part.metrics if m in part.oriented):
            scores = part.oriented[metric].loc[good.index].to_numpy(dtype=np.float64)
            curve, summary = metric_curve(scores, good, part.options.precision)
            indices = np.unique(np.linspace(0, len(curve) - 1, POINTS).round().astype(int))
            rows += [{"metric": metric, **curve[k]} for k in indices if curve]
            # Downwards, as in captau thresholds.
            threshold = np.floor(summary["threshold"] * 1e4) / 1e4
            texts = [
                _percent(summary["auc"]),
                _percent(summary["recall"]),
                format_number(threshold, 1, 4),
            ]
            cells.append((part.label(metric), [*texts, summary["note"]]))
        frame = pd.DataFrame(rows, columns=pd.Index(["metric", "recall", "precision"]))
        title = f"{part.title}, {dimension}: filtering captions"
        recall_label = f"recall at precision {part.options.precision:g}"
        ranked = sorted(cells, key=lambda row: -_sortable(row[1][0]))
        areas = ", ".join(f"{label} {texts[0]}" for label, texts in ranked)
        share = (
            f"{int(good.sum()):,} of {len(good):,} captions are good: most of their ratings are "
        )
        share += f"{part.options.good:g} of the scale or more."
        yield Chart(
            "precision_recall",
            slug("precision_recall", part.dataset, part.protocol, dimension),
            title,
            f"Precision over recall when captions are kept whose score is above a threshold. {share} "
            f"Area under the curve: {areas}.",
            ResultTable(
                f"{title} ×100",
                "metric",
                ["AUC", recall_label, "threshold", "remark"],
                cells,
                notes=[share],
            ),
            _curves(part, dimension, frame, float(good.mean())),
        )
    if reasons and len(reasons) == len(part.scales):
        raise _UnavailableChart("; ".join(reasons))


def _sortable(text: str) -> float:
    return float(text) if text != MISSING else -np.inf


def _curves(part: RunDataset, dimension: str, rows: pd.DataFrame, base: float) -> Callable[[], Any]:
    def draw() -> Any:
        figure, axis = _figure(3.9, 3.2)
        draw_curves(axis, rows, {m: part.label(m) for m in part.metrics})
        axis.axhline(base, color=MUTED, linewidth=0.8, linestyle=":")
        axis.set_title(f"{part.title}, {dimension}")
        return figure

    return draw


_MAKERS: dict[str, Callable[[RunDataset], Iterator[Chart]]] = {
    "forest": _forest,
    "categories": _categories,
    "significance": _significance,
    "ratings": _ratings,
    "agreement": _agreement,
    "scores": _scores,
    "correlations": _correlations,
    "precision_recall": _precision_recall,
}
_NEED_ITEMS = ("ratings", "agreement", "scores", "correlations", "precision_recall")
