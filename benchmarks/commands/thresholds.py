"""`captau thresholds`: what is kept, and how much of it is good, when captions are filtered by a metric.

Levinboim et al. 2021, section 6.2: a caption is served where its score is above a threshold; precision
is the share of good ones among those served, recall the share of the good ones that are served
(equations 2 and 3).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import Scale
from ...metrics.base import Floats
from ..evaluation.study import Study, told
from ..options import ThresholdsOptions
from ..reporting.figure_files import MUTED, SERIES, can_draw, files_of, legend
from ..reporting.figure_files import style as figure_style
from ..runs.progress_bar import StepProgress
from ..runs.results import table_files, to_csv, to_json
from ..runs.tables import ResultTable, format_number
from ..scoring.catalog import metric_style
from ..scoring.unavailable_metrics import installation_advice

THRESHOLD_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "metric",
    "threshold",
    "precision",
    "recall",
    "n_kept",
    "n_items",
)
SUMMARY_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "metric",
    "auc",
    "wanted_precision",
    "recall",
    "threshold",
    "n_good",
    "n_items",
    "note",
)


@dataclass(frozen=True)
class Curve:
    """Precision and recall by threshold: captions with a score of at least the threshold are kept.

    Attributes:
        thresholds: every score that occurs, from the greatest on, shape (n,).
        precision, recall: shape (n,).
        kept: how many captions, shape (n,).
    """

    thresholds: Floats
    precision: Floats
    recall: Floats
    kept: Floats

    @classmethod
    def of(cls, scores: Floats, good: Floats) -> Curve:
        """
        Args:
            scores: shape (n,), finite; more is better.
            good: shape (n,), 1 where the caption is good and 0 elsewhere; one good one at least.
        """
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        last = np.flatnonzero(np.append(np.diff(ranked) != 0, True))  # equal scores go together
        hits = np.cumsum(good[order])[last]
        kept = (last + 1).astype(np.float64)
        return cls(ranked[last], hits / kept, hits / good.sum(), kept)

    @property
    def auc(self) -> float:
        """Σ (Rₙ - Rₙ₋₁) Pₙ, the area under the curve in steps (average precision)."""
        return float(np.diff(self.recall, prepend=0.0) @ self.precision)

    def at(self, precision: float) -> tuple[float, float]:
        """The greatest recall at this precision or better, and its threshold; NaN where there is none."""
        enough = np.flatnonzero(self.precision >= precision)
        if not enough.size:
            return float("nan"), float("nan")
        best = enough[-1]
        return float(self.recall[best]), float(self.thresholds[best])


@dataclass(frozen=True)
class Thresholds:
    """What a run found.

    Attributes:
        rows: the curves, columns `THRESHOLD_COLUMNS`.
        summary_rows: a row a metric, columns `SUMMARY_COLUMNS`.
        run: what it takes to recompute them.
        tables: what is printed.
        pictures: the curves as files by name.
        summary: what to do to get the metrics that are missing; empty where none is.
    """

    rows: pd.DataFrame
    summary_rows: pd.DataFrame
    run: dict[str, Any]
    tables: list[ResultTable]
    pictures: dict[str, bytes]
    summary: str

    def files(self) -> dict[str, bytes]:
        """The run's files by name; `run.json` comes last, so its presence says all are there."""
        return {
            "thresholds.csv": to_csv(self.rows),
            "recall.csv": to_csv(self.summary_rows),
            **table_files(self.tables),
            **self.pictures,
            "run.json": to_json(self.run),
        }


def run(config: ThresholdsOptions) -> Thresholds:
    """Find the curves.

    Raises:
        InputError: on an unknown name, missing or malformed data, or a dataset without ratings, or
            with good captions alone, or none.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    with StepProgress(None) as progress:
        studies = [Study(config, name, progress) for name in config.datasets]
        for study in studies:
            scores = study.scores(study.items, study.protocol)
            for dimension in study.protocol.dimension:
                good = good_of(
                    study.set.ratings[study.set.ratings["item_id"].isin(study.items["item_id"])],
                    dimension,
                    study.set.card.scales[dimension],
                    config.good,
                    study.set.name,
                )
                common = {
                    "dataset": study.set.name,
                    "protocol": study.protocol.name,
                    "dimension": dimension,
                }
                for metric, column in scores.items():
                    of_metric, summary = curve_of(
                        column.loc[good.index].to_numpy(dtype=np.float64), good, config.precision
                    )
                    mark = study.marks.get(metric, "")
                    note = "; ".join(n for n in (summary.pop("note"), mark) if n)
                    rows += [{**common, "metric": metric, **row} for row in of_metric]
                    found.append({**common, "metric": metric, **summary, "note": note})
    labels = {m.spec: metric_style(m).label for m in config.metrics}
    frame = pd.DataFrame(rows, columns=pd.Index(THRESHOLD_COLUMNS))
    summaries = pd.DataFrame(found, columns=pd.Index(SUMMARY_COLUMNS))
    return Thresholds(
        rows=frame,
        summary_rows=summaries,
        run=told("thresholds", config, studies, started, time.perf_counter() - began),
        tables=_tables(summaries, labels, config),
        pictures=_pictures(frame, labels),
        summary=installation_advice([s.missing for s in studies]),
    )


def good_of(
    ratings: pd.DataFrame, dimension: str, scale: Scale, least: float, dataset: str
) -> pd.Series:
    """By item id, 1 where most of its ratings are `least` or more of the scale, else 0.

    Raises:
        InputError: where all are good, or none is.
    """
    ratings = ratings[ratings["dimension"] == dimension]
    high = scale.share(ratings["value"]) >= least - 1e-9
    share = high.groupby(ratings["item_id"], sort=False).mean()
    good = (share > 0.5).astype(float)
    if good.nunique() < 2:
        what = "every caption is" if good.all() else "no caption is"
        raise InputError(
            f"dataset {dataset}, {dimension}: {what} good at good={least:g} of the scale {scale}; "
            f"set good= between 0 and 1 to another share of it"
        )
    return good


def curve_of(
    scores: Floats, good: pd.Series, wanted: float
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a metric's curve, and what they come to; columns of both by name, but for the names.

    Args:
        scores: shape (n_items,).
        good: as `good_of` gives it, in the same order.
        wanted: the precision at which the recall is asked for.
    """
    n_items, n_good = len(good), int(good.sum())
    gaps = int((~np.isfinite(scores)).sum())
    if gaps:
        nothing = {"auc": np.nan, "recall": np.nan, "threshold": np.nan}
        note = f"undefined: {gaps} of {n_items} captions have no finite score"
        counts = {"wanted_precision": wanted, "n_good": n_good, "n_items": n_items}
        return [], {**nothing, **counts, "note": note}
    curve = Curve.of(scores, good.to_numpy(dtype=np.float64))
    recall, threshold = curve.at(wanted)
    rows = [
        {"threshold": t, "precision": p, "recall": r, "n_kept": int(k), "n_items": n_items}
        for t, p, r, k in zip(
            curve.thresholds, curve.precision, curve.recall, curve.kept, strict=True
        )
    ]
    return rows, {
        "auc": curve.auc,
        "wanted_precision": wanted,
        "recall": recall,
        "threshold": threshold,
        "n_good": n_good,
        "n_items": n_items,
        "note": "" if recall == recall else "no threshold reaches the wanted precision",
    }


def _tables(
    found: pd.DataFrame, labels: Mapping[str, str], config: ThresholdsOptions
) -> list[ResultTable]:
    tables: list[ResultTable] = []
    wanted = f"recall at precision {config.precision:g}"
    for (dataset, dimension), part in found.groupby(["dataset", "dimension"], sort=False):
        rows: list[tuple[str, list[str]]] = []
        for row in part.to_dict("records"):
            # Downwards: the caption whose score the threshold is must stay above what is printed.
            threshold = np.floor(row["threshold"] * 1e4) / 1e4
            cells = [format_number(row["auc"], 100, 1), format_number(row["recall"], 100, 1)]
            rows.append((labels[row["metric"]], [*cells, format_number(float(threshold), 1, 4)]))
        first = part.iloc[0]
        notes = [
            f"AUC and recall ×100. {first['n_good']:,} of {first['n_items']:,} captions are good: most of "
            f"their ratings are {config.good:g} of the scale or more. Kept are scores of at least the "
            f"threshold.",
            *(
                f"{labels[metric]}: {note}."
                for metric, note in zip(part["metric"], part["note"], strict=True)
                if note
            ),
        ]
        columns = ["AUC", wanted, "threshold"]
        tables.append(
            ResultTable(
                f"{dataset}, {dimension}: filtering captions", "metric", columns, rows, notes=notes
            )
        )
    return tables


def _pictures(rows: pd.DataFrame, labels: Mapping[str, str]) -> dict[str, bytes]:
    """Precision over recall, a panel a dataset and dimension; none where nothing can draw them."""
    panels: Sequence[Any] = list(rows.groupby(["dataset", "dimension"], sort=False))
    if not panels or not can_draw():
        return {}
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(6, 4 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), 1, squeeze=False).ravel()
        for axis, (key, part) in zip(axes, panels, strict=True):
            draw_curves(axis, part, labels)
            axis.set_title(", ".join(map(str, key)))
        return files_of(figure, "precision_recall")


def draw_curves(axis: Any, rows: pd.DataFrame, labels: Mapping[str, str]) -> None:
    """Precision over recall on matplotlib's axis; the best curves in colour, by area.

    Args:
        axis: to draw on.
        rows: columns `metric, recall, precision`, in the curves' order.
        labels: what the metrics are called.
    """
    curves = {str(metric): line for metric, line in rows.groupby("metric", sort=False)}
    areas = {
        metric: float(np.diff(line["recall"], prepend=0.0) @ line["precision"])
        for metric, line in curves.items()
    }
    best = sorted(curves, key=lambda metric: -areas[metric])[: len(SERIES)]
    handles: dict[str, Any] = {}
    for metric in [m for m in curves if m not in best] + best[::-1]:
        line = curves[metric]
        how: dict[str, Any] = (
            {"color": SERIES[best.index(metric)], "linewidth": 1.4}
            if metric in best
            else {"color": MUTED, "linewidth": 0.5}
        )
        (handles[metric],) = axis.step(
            line["recall"], line["precision"], where="pre", linestyle="-", **how
        )
    shown, names = [handles[m] for m in best], [labels[m] for m in best]
    if others := [handles[m] for m in curves if m not in best]:
        shown, names = [*shown, others[0]], [*names, f"{len(others)} more"]
    axis.set_xlabel("recall")
    axis.set_ylabel("precision")
    axis.set_ylim(0, 1.02)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
    legend(axis, shown, names, **below)
