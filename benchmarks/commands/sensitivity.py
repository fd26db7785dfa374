"""`captau sensitivity`: how far numbers move with images, raters, references and protocols, and which
differences a dataset can show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ...datasets.errors import InputError
from ...metrics.base import Floats
from ..evaluation.study import Study, told
from ..options import SensitivityOptions
from ..reporting.figure_files import can_draw, files_of, legend
from ..reporting.figure_files import style as figure_style
from ..runs.progress_bar import StepProgress
from ..runs.results import table_files, to_csv, to_json
from ..runs.tables import COEFFICIENT_STYLE, MISSING, ResultTable, format_number
from ..scoring.catalog import metric_style
from ..scoring.protocol import RATING_POLICIES, REFERENCE_POLICIES, Protocol
from ..scoring.unavailable_metrics import installation_advice
from ..statistics.bootstrap import BLOCK
from ..statistics.coefficients import Coefficient
from ..statistics.weighted_levels import prepare_at_level

SENSITIVITY_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "kind",
    "metric",
    "other",
    "coefficient",
    "size",
    "value",
    "low",
    "high",
    "difference",
    "power",
    "rank",
    "draws",
    "note",
)
#: Sizes of a curve over images, in parts of the dataset's.
PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2)
#: Of bands; of tests of differences; how often a difference that is there shall be found.
BAND, TEST, POWER = 0.95, 0.05, 0.8
#: The coefficients that `kind=protocols` goes through.
USUAL_COEFFICIENTS = ("tau_c", "tau_b", "spearman", "pearson")
#: How often each kind draws where `draws` does not say; `references` scores anew each time.
DRAWS = {"images": 1000, "raters": 50, "references": 5}


@dataclass(frozen=True)
class Sensitivity:
    """What a run found.

    Attributes:
        rows: columns `SENSITIVITY_COLUMNS`; values in their natural range.
        run: what it takes to recompute them.
        tables: what is printed.
        labels: what pictures call the metrics.
        summary: what to do to get the metrics that are missing; empty where none is.
    """

    rows: pd.DataFrame
    run: dict[str, Any]
    tables: list[ResultTable]
    labels: Mapping[str, str]
    summary: str

    def files(self) -> dict[str, bytes]:
        """The run's files by name; `run.json` comes last, so its presence says all are there."""
        return {
            "sensitivity.csv": to_csv(self.rows),
            **table_files(self.tables),
            **_pictures(self.rows, self.labels),
            "run.json": to_json(self.run),
        }


def run(config: SensitivityOptions) -> Sensitivity:
    """Vary what a number rests on.

    Raises:
        InputError: on an unknown name, missing or malformed data, or a dataset without ratings.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    tables: list[ResultTable] = []
    with StepProgress(None) as progress:
        studies = [_Study(config, name, progress) for name in config.datasets]
        for study, kind in product(studies, config.kinds):
            with progress.step(f"{study.set.name}: {kind}"):
                found = list(getattr(study, kind)())
            rows += found
            tables += _tables(pd.DataFrame(found, columns=pd.Index(SENSITIVITY_COLUMNS)), config)
    frame = pd.DataFrame(rows, columns=pd.Index(SENSITIVITY_COLUMNS))
    return Sensitivity(
        rows=frame,
        run={
            **told("sensitivity", config, studies, started, time.perf_counter() - began),
            "kinds": list(config.kinds),
        },
        tables=tables,
        labels={m.spec: metric_style(m).label for m in config.metrics},
        summary=installation_advice([s.missing for s in studies]),
    )


class _Study(Study):
    """A dataset, and what is varied of it."""

    def __init__(self, config: SensitivityOptions, name: str, progress: StepProgress) -> None:
        super().__init__(config, name, progress)
        self.config = config

    def images(self) -> Iterator[dict[str, Any]]:
        """Of more and fewer images, drawn with replacement."""
        scores = self.scores(self.items, self.protocol)
        for dimension in self.protocol.dimension:
            points = self.protocol.data_points(self.set, self.items, dimension)
            for size in self._sizes(points, "images"):
                drawn = self._drawn(scores, points, size)
                for metric, table in drawn.items():
                    reason = self.points(scores[metric], points).reason
                    for coefficient, values in zip(self.coefficients, table, strict=True):
                        yield self._row(
                            "images", dimension, metric, coefficient, size, values, reason
                        )

    def raters(self) -> Iterator[dict[str, Any]]:
        """Of some of an item's ratings, drawn anew each time."""
        scores = self.scores(self.items, self.protocol)
        rng = np.random.default_rng(self.config.seed)
        for dimension in self.protocol.dimension:
            ratings = self.set.ratings
            ratings = ratings[ratings["dimension"] == dimension]
            ratings = ratings[ratings["item_id"].isin(self.items["item_id"])]
            counts = ratings["item_id"].value_counts()
            most = int(np.median(counts)) if len(counts) else 0
            if most < 2:
                raise InputError(
                    f"dataset {self.set.name}: most items have one rating of {dimension}; kind=raters "
                    f"needs two"
                )
            enough = set(counts.index[counts >= most])
            chosen = ratings[ratings["item_id"].isin(enough)]
            left_out = len(counts) - len(enough)
            note = f"{left_out} items left out, with fewer than {most} ratings" if left_out else ""
            for size in range(1, most + 1):
                found: dict[tuple[str, str, str], list[Coefficient]] = {}
                for _ in self._lots("raters", size, most, exhaustive=size == int(counts.max())):
                    lot = chosen.assign(lot=rng.random(len(chosen))).sort_values("lot")
                    kept = lot[lot.groupby("item_id", sort=False).cumcount() < size].sort_index()
                    points = self.protocol.data_points_of(kept, self.items, dimension)
                    self._add(found, scores, points, dimension)
                yield from self._curve("raters", size, found, note)

    def references(self) -> Iterator[dict[str, Any]]:
        """Of some of an image's references, drawn anew each time; every metric scores again."""
        metrics = [m for m in self.metrics if "references" in m.needs]
        if not metrics:
            raise InputError("kind=references: none of the metrics uses references")
        counts = self.items["references"].map(len)
        most = int(counts.max())
        if most < 2:
            raise InputError(
                f"dataset {self.set.name}: no item has two references; kind=references needs them"
            )
        rng = np.random.default_rng(self.config.seed)
        fewer = int((counts < most).sum())
        note = f"{fewer} items have fewer than {most} references" if fewer else ""
        for size in range(1, most + 1):
            found: dict[tuple[str, str, str], list[Coefficient]] = {}
            for _ in self._lots("references", size, most, exhaustive=size == most):
                items = self._with_references(size, rng)
                scores = self.scores(items, self.protocol, metrics)
                for dimension in self.protocol.dimension:
                    points = self.protocol.data_points(self.set, items, dimension)
                    self._add(found, scores, points, dimension)
            yield from self._curve("references", size, found, note)

    def _add(
        self,
        found: dict[tuple[str, str, str], list[Coefficient]],
        scores: Mapping[str, pd.Series],
        points: pd.DataFrame,
        dimension: str,
    ) -> None:
        """One more draw of every coefficient."""
        for metric, given in scores.items():
            here = self.points(given, points)
            for coefficient in self.coefficients:
                key = (dimension, metric, coefficient)
                found.setdefault(key, []).append(here.agreement(self.protocol, coefficient))

    def _curve(
        self,
        kind: str,
        size: int,
        found: Mapping[tuple[str, str, str], Sequence[Coefficient]],
        note: str,
    ) -> Iterator[dict[str, Any]]:
        """A point of each curve."""
        for key, drawn in found.items():
            values = np.array([one.value for one in drawn])
            reasons = dict.fromkeys(one.note for one in drawn if np.isnan(one.value))
            reason = ", ".join(r.removeprefix("undefined: ") for r in reasons)
            yield self._row(kind, *key, size, values, reason, note)

    def _with_references(self, size: int, rng: np.random.Generator) -> pd.DataFrame:
        """The items with so many references each, the same for all captions of an image."""
        order: dict[tuple[str, int], np.ndarray] = {}
        kept: list[tuple[str, ...]] = []
        for image, texts in zip(self.items["image_id"], self.items["references"], strict=True):
            key = (image, len(texts))
            if key not in order:
                order[key] = np.sort(rng.permutation(len(texts))[:size])
            kept.append(tuple(texts[i] for i in order[key]))
        return self.items.assign(references=pd.Series(kept, dtype=object))

    def power(self) -> Iterator[dict[str, Any]]:
        """The least difference of two metrics that is found four times in five, by bootstrap.

        Resampled datasets of a size give the standard error of a difference; the least difference
        is (z of the test + z of the power) times it. The power of the observed difference is the
        share of resampled datasets in which it would be significant.
        """
        scores = self.scores(self.items, self.protocol)
        if len(scores) < 2:
            raise InputError("kind=power compares metrics; name two at least")
        significant = float(stats.norm.ppf(1 - TEST / 2))
        needed = significant + float(stats.norm.ppf(POWER))
        for dimension in self.protocol.dimension:
            points = self.protocol.data_points(self.set, self.items, dimension)
            whole = {
                metric: [one.agreement(self.protocol, c).value for c in self.coefficients]
                for metric, s in scores.items()
                for one in [self.points(s, points)]
            }
            reasons = {metric: self.points(s, points).reason for metric, s in scores.items()}
            for size in self._sizes(points, "power"):
                drawn = self._drawn(scores, points, size)
                for (a, b), (row, coefficient) in product(
                    combinations(scores, 2), enumerate(self.coefficients)
                ):
                    apart = drawn[a][row] - drawn[b][row]
                    error = float(np.std(apart, ddof=1)) if len(apart) > 1 else float("nan")
                    undefined = bool(np.isnan(apart).any())
                    power = float((np.abs(apart) > significant * error).mean())
                    reason = reasons[a] or reasons[b] or "in some of the draws"
                    note = f"undefined: {reason}" if undefined else ""
                    yield {
                        **self._where("power", dimension, a, coefficient, size),
                        "other": b,
                        "value": needed * error,
                        "difference": whole[a][row] - whole[b][row],
                        "power": float("nan") if undefined else power,
                        "draws": len(apart),
                        "note": note,
                    }

    def protocols(self) -> Iterator[dict[str, Any]]:
        """Every combination of ratings, references, coefficient and duplicates that makes sense."""
        counts = self.items["references"].map(len)
        references = [r for r in REFERENCE_POLICIES if counts.max() > 1 or r == "all"]
        repeated = duplicates(self.items)
        for without, policy in product((False, True) if repeated.any() else (False,), references):
            items = self.items[~repeated.to_numpy()] if without else self.items
            k = 1 if policy == "first_k" else None
            for dimension in self.protocol.dimension:
                several = self._several(dimension)
                for ratings in RATING_POLICIES if several else (self.protocol.ratings,):
                    protocol = replace(
                        self.protocol,
                        references=policy,
                        k=k,
                        ratings=ratings,
                        dimension=(dimension,),
                    )
                    chosen = protocol.select_items(self.set)
                    chosen = chosen[chosen["item_id"].isin(items["item_id"])].reset_index(drop=True)
                    scores = self.scores(chosen, protocol)
                    points = protocol.data_points(self.set, chosen, dimension)
                    name = f"{ratings}, {policy}" + (" k=1" if k else "")
                    name += ", without duplicates" if without else ""
                    note = f"{int(repeated.sum())} duplicates left out" if without else ""
                    yield from self._ranked(scores, points, protocol, dimension, name, note)

    def _several(self, dimension: str) -> bool:
        """Whether any item has two ratings of a dimension."""
        ratings = self.set.ratings
        ratings = ratings[ratings["dimension"] == dimension]
        return bool(ratings["item_id"].duplicated().any())

    def _ranked(
        self,
        scores: Mapping[str, pd.Series],
        points: pd.DataFrame,
        protocol: Protocol,
        dimension: str,
        name: str,
        note: str,
    ) -> Iterator[dict[str, Any]]:
        """Each metric's value and rank under one protocol, coefficient by coefficient."""
        found = {metric: self.points(s, points) for metric, s in scores.items()}
        for coefficient in dict.fromkeys((*USUAL_COEFFICIENTS, *self.coefficients)):
            values = {m: one.agreement(protocol, coefficient).value for m, one in found.items()}
            ranks = stats.rankdata([-v for v in values.values()], "min", nan_policy="omit")
            for (metric, value), rank in zip(values.items(), ranks, strict=True):
                notes = [f"undefined: {found[metric].reason}" if found[metric].reason else "", note]
                yield {
                    **self._where("protocols", dimension, metric, coefficient, len(points)),
                    "protocol": name,
                    "value": value,
                    "rank": rank,
                    "note": "; ".join(n for n in notes if n),
                }

    def _sizes(self, points: pd.DataFrame, kind: str) -> list[int]:
        """Of a curve over images.

        Raises:
            InputError: where there is one image alone, of which all samples are alike.
        """
        n_images = self.image_of(points).nunique()
        if n_images < 2:
            raise InputError(
                f"dataset {self.set.name}: too few images with judgements ({n_images}); kind={kind} "
                "draws images and needs two"
            )
        return sorted({max(2, round(n_images * part)) for part in PARTS})

    def _drawn(
        self, scores: Mapping[str, pd.Series], points: pd.DataFrame, size: int
    ) -> dict[str, Floats]:
        """Of each metric the coefficients in samples of so many images, the same for all metrics.

        Shape (n_coefficients, n_draws).
        """
        n_images = self.image_of(points).nunique()
        n_draws = self._draws("images")
        rng = np.random.default_rng([self.config.seed, size])
        weights = rng.multinomial(size, np.full(n_images, 1 / n_images), n_draws).T.astype(float)
        drawn: dict[str, Floats] = {}
        for metric, given in scores.items():
            one = self.points(given, points)
            if one.reason:
                drawn[metric] = np.full((len(self.coefficients), n_draws), np.nan)
                continue
            statistic = prepare_at_level(
                self.protocol.level, one.scores, one.ratings, one.keys, self.coefficients, one.unit
            )
            drawn[metric] = np.concatenate(
                [statistic(weights[:, i : i + BLOCK]) for i in range(0, n_draws, BLOCK)], axis=1
            )
        return drawn

    def _draws(self, kind: str, exhaustive: bool = False) -> int:
        """How often to draw; once where there is nothing to draw."""
        return 1 if exhaustive else self.config.draws or DRAWS[kind]

    def _lots(self, kind: str, size: int, most: int, *, exhaustive: bool) -> Iterator[int]:
        """The draws of a size, counted on the bar."""
        n_draws = self._draws(kind, exhaustive)
        for lot in range(n_draws):
            told = f"{self.set.name}: {size} of {most} {kind}, draw {lot + 1} of {n_draws}"
            with self.progress.step(told):
                yield lot

    def _where(
        self, kind: str, dimension: str, metric: str, coefficient: str, size: int
    ) -> dict[str, Any]:
        return {
            "dataset": self.set.name,
            "protocol": self.protocol.name,
            "dimension": dimension,
            "kind": kind,
            "metric": metric,
            "coefficient": coefficient,
            "size": size,
        }

    def _row(
        self,
        kind: str,
        dimension: str,
        metric: str,
        coefficient: str,
        size: int,
        drawn: Floats,
        reason: str,
        note: str = "",
    ) -> dict[str, Any]:
        """A point of a curve: the mean over draws, and the band that holds most of them."""
        known = drawn[~np.isnan(drawn)]
        lost = len(drawn) - len(known)
        undefined = f"undefined in {lost} of {len(drawn)} draws" + (f": {reason}" if reason else "")
        notes = [(undefined if len(known) else f"undefined: {reason}") if lost else "", note]
        value, low, high = (float("nan"),) * 3
        if len(known):
            value = float(known.mean())
        if len(known) > 1:
            low, high = map(float, np.quantile(known, [(1 - BAND) / 2, (1 + BAND) / 2]))
        return {
            **self._where(kind, dimension, metric, coefficient, size),
            "value": value,
            "low": low,
            "high": high,
            "draws": len(drawn),
            "note": "; ".join(n for n in notes if n),
        }


def duplicates(items: pd.DataFrame) -> pd.Series:
    """Which items say again what is there: a reference of theirs, or an earlier caption of the image.

    Captions are compared without regard to case and to blanks around them.
    """
    said = items["caption"].str.strip().str.casefold()
    quoted = [
        caption in {r.strip().casefold() for r in references}
        for caption, references in zip(said, items["references"], strict=True)
    ]
    again = pd.DataFrame({"image": items["image_id"], "caption": said}).duplicated()
    return again | pd.Series(quoted, index=items.index)


def _tables(rows: pd.DataFrame, config: SensitivityOptions) -> list[ResultTable]:
    """What one dataset and kind is printed as."""
    labels = {m.spec: metric_style(m).label for m in config.metrics}
    tables: list[ResultTable] = []
    for (dimension, coefficient), part in rows.groupby(["dimension", "coefficient"], sort=False):
        kind, dataset = part["kind"].iloc[0], part["dataset"].iloc[0]
        sign = COEFFICIENT_STYLE[str(coefficient)][0]
        title = f"{dataset}, {dimension}: {sign} "
        if kind == "power":
            tables.append(_power_table(part, title, labels))
        elif kind != "protocols":
            tables.append(_curve_table(part, title, labels))
    if len(rows) and rows["kind"].iloc[0] == "protocols":
        for _, part in rows.groupby("dimension", sort=False):
            tables += _protocol_tables(part, labels)
    return tables


def _percent(value: float) -> str:
    return format_number(value, 100, 1)


def _curve_table(rows: pd.DataFrame, title: str, labels: Mapping[str, str]) -> ResultTable:
    kind = rows["kind"].iloc[0]
    sizes = list(dict.fromkeys(rows["size"]))
    cells: dict[str, list[str]] = {}
    for row in rows.to_dict("records"):
        text = _percent(row["value"])
        if not np.isnan(row["low"]):
            text += f" [{_percent(row['low'])}, {_percent(row['high'])}]"
        cells.setdefault(labels[row["metric"]], []).append(text)
    how = {
        "images": "drawn with replacement",
        "raters": "of an item's ratings, drawn by lot",
        "references": "of an image's references, drawn by lot",
    }[kind]
    notes = [
        f"×100, mean and {BAND:.0%} of the draws; {kind} {how}, {int(rows['draws'].max()):,} times.",
        *(f"{note}." for note in dict.fromkeys(rows["note"]) if note),
    ]
    return ResultTable(
        f"{title}by number of {kind}",
        "metric",
        [f"{size:,}" for size in sizes],
        list(cells.items()),
        notes=notes,
    )


def _power_table(rows: pd.DataFrame, title: str, labels: Mapping[str, str]) -> ResultTable:
    """At the dataset's own number of images."""
    sizes = sorted(set(rows["size"]))
    size = sizes[-2] if len(sizes) > 1 else sizes[-1]  # the last is twice as many
    printed: list[tuple[str, list[str]]] = []
    for row in rows[rows["size"] == size].to_dict("records"):
        apart = row["difference"]
        images = size * (row["value"] / apart) ** 2 if apart else float("inf")
        printed.append(
            (
                f"{labels[row['metric']]} − {labels[row['other']]}",
                [
                    _percent(apart),
                    _percent(row["value"]),
                    format_number(row["power"], 100, 0),
                    f"{images:,.0f}" if np.isfinite(images) else MISSING,
                ],
            )
        )
    notes = [
        f"×100. Detectable: the least difference that a two-sided test at {TEST:.0%} on {size:,} images "
        f"finds with a chance of {POWER:.0%}; power: the chance that it finds the observed one; images: "
        f"how many would find that with {POWER:.0%}.",
        *(f"{note}." for note in dict.fromkeys(rows["note"]) if note),
    ]
    return ResultTable(
        f"{title}which differences {size:,} images can show",
        "metrics",
        ["difference", "detectable", "power %", "images"],
        printed,
        notes=notes,
    )


def _protocol_tables(rows: pd.DataFrame, labels: Mapping[str, str]) -> list[ResultTable]:
    """How far each metric moves, and what each protocol says by the first coefficient."""
    dataset, dimension = rows["dataset"].iloc[0], rows["dimension"].iloc[0]
    coefficients = list(dict.fromkeys(rows["coefficient"]))
    signs = {c: COEFFICIENT_STYLE[c][0] for c in coefficients}
    spread: list[tuple[str, list[str]]] = []
    for metric, part in rows.groupby("metric", sort=False):
        cells: list[str] = []
        for coefficient in coefficients:
            values = part.loc[part["coefficient"] == coefficient, "value"]
            cells.append(f"{_percent(values.min())} – {_percent(values.max())}")
        ranks = part["rank"].dropna()
        cells.append(f"{int(ranks.min())} – {int(ranks.max())}" if len(ranks) else MISSING)
        spread.append((labels[str(metric)], cells))
    n_protocols = len(rows[["protocol", "coefficient"]].drop_duplicates())
    swapped, n_pairs = _swaps(rows)
    notes = [
        f"×100, least and greatest over {rows['protocol'].nunique()} protocols a coefficient.",
        f"Of {n_pairs} pairs of metrics {swapped} change their order between some two of the "
        f"{n_protocols} protocols.",
    ]
    first = rows[rows["coefficient"] == coefficients[0]]
    by_protocol: dict[str, list[str]] = {}
    for row in first.to_dict("records"):
        rank = "" if np.isnan(row["rank"]) else f" ({int(row['rank'])})"
        by_protocol.setdefault(row["protocol"], []).append(_percent(row["value"]) + rank)
    told = [f"{note}." for note in dict.fromkeys(rows["note"]) if note]
    return [
        ResultTable(
            f"{dataset}, {dimension}: how far protocols move each metric",
            "metric",
            [*(signs[c] for c in coefficients), "rank"],
            spread,
            notes=notes,
        ),
        ResultTable(
            f"{dataset}, {dimension}: {signs[coefficients[0]]} by protocol",
            "protocol",
            [labels[m] for m in dict.fromkeys(first["metric"])],
            list(by_protocol.items()),
            notes=["×100; in brackets the rank.", *told],
        ),
    ]


def _swaps(rows: pd.DataFrame) -> tuple[int, int]:
    """How many pairs of metrics some protocol orders one way and another the other way."""
    wide = rows.pivot_table(index=["protocol", "coefficient"], columns="metric", values="value")
    pairs = list(combinations(wide.columns, 2))
    signs = [np.sign(wide[a] - wide[b]) for a, b in pairs]
    return sum(bool((s > 0).any() and (s < 0).any()) for s in signs), len(pairs)


def _pictures(rows: pd.DataFrame, labels: Mapping[str, str]) -> dict[str, bytes]:
    """The curves as SVG and PNG, a panel a dataset, dimension, coefficient and kind.

    None where there is no curve, or nothing to draw with.
    """
    curves = rows[rows["kind"].isin(["images", "raters", "references"]) & rows["value"].notna()]
    if curves.empty or not can_draw():
        return {}
    from matplotlib.figure import Figure

    panels = list(curves.groupby(["dataset", "dimension", "coefficient", "kind"], sort=False))
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    with figure_style():
        figure = Figure(figsize=(6 * across, 4 * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for axis, (key, part) in zip(axes, panels, strict=False):
            dataset, dimension, coefficient, kind = map(str, key)
            handles: dict[str, Any] = {}
            for metric, line in part.groupby("metric", sort=False):
                (handles[str(metric)],) = axis.plot(line["size"], 100 * line["value"], marker="o")
                axis.fill_between(line["size"], 100 * line["low"], 100 * line["high"], alpha=0.15)
            axis.set_title(f"{dataset}, {dimension}")
            axis.set_xlabel(f"number of {kind}")
            axis.set_ylabel(f"{COEFFICIENT_STYLE[coefficient][0]} × 100")
            if kind == "images":
                axis.set_xscale("log")
            legend(axis, list(handles.values()), [labels[metric] for metric in handles])
        return files_of(figure, "sensitivity")
