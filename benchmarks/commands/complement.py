"""`captau complement`: which metrics say the same, and which add to one another.

Correlations among metrics, partial correlations with ratings given a caption's length, and forward
selection of metrics by how well their linear combination predicts ratings of images it has not seen
(Hessel et al. 2021, Figure 2), with bootstrap inclusion frequencies.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ...datasets.errors import InputError
from ...metrics.base import Floats
from ..evaluation.study import Study, told
from ..options import ComplementOptions
from ..runs.progress_bar import StepProgress
from ..runs.results import table_files, to_csv, to_json
from ..runs.tables import MISSING, ResultTable, format_number
from ..scoring.catalog import metric_style
from ..scoring.unavailable_metrics import installation_advice
from ..statistics.bootstrap import number_images
from ..statistics.coefficients import correlate, undefined_reason
from ..statistics.weighted_coefficients import Ints

COMPLEMENT_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "kind",
    "criterion",
    "step",
    "metric",
    "other",
    "coefficient",
    "value",
    "n_items",
    "note",
)
#: What stands for the number of words of a caption.
LENGTH = "length"
FOLDS = 5
#: How the combinations are chosen: by R², or by Kendall's τ_b of predictions and ratings.
CRITERIA = ("r2", "tau_b")
#: Singular values below this share of the largest count as nought: metrics that say just the same.
CUTOFF = 1e-9


@dataclass(frozen=True)
class Complement:
    """What a run found.

    Attributes:
        rows: columns `COMPLEMENT_COLUMNS`; values in their natural range.
        run: what it takes to recompute them.
        tables: what is printed.
        summary: what to do to get the metrics that are missing; empty where none is.
    """

    rows: pd.DataFrame
    run: dict[str, Any]
    tables: list[ResultTable]
    summary: str

    def files(self) -> dict[str, bytes]:
        """The run's files by name; `run.json` comes last, so its presence says all are there."""
        return {
            "complementarity.csv": to_csv(self.rows),
            **table_files(self.tables),
            "run.json": to_json(self.run),
        }


def run(config: ComplementOptions) -> Complement:
    """Compare metrics with one another.

    Raises:
        InputError: on an unknown name, missing or malformed data, one metric alone, or a dataset
            without ratings.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    if len(config.metrics) < 2:
        raise InputError("captau complement compares metrics; name two at least")
    rows: list[dict[str, Any]] = []
    tables: list[ResultTable] = []
    labels = {LENGTH: "words", **{m.spec: metric_style(m).label for m in config.metrics}}
    with StepProgress(None) as progress:
        studies = [Study(config, name, progress) for name in config.datasets]
        for study in studies:
            scores = study.scores(study.items, study.protocol)
            for dimension in study.protocol.dimension:
                found = [
                    {
                        "dataset": study.set.name,
                        "protocol": study.protocol.name,
                        "dimension": dimension,
                        **row,
                    }
                    for row in _of_dimension(study, scores, dimension, config)
                ]
                rows += found
                frame = pd.DataFrame(found, columns=pd.Index(COMPLEMENT_COLUMNS))
                tables += _tables(frame, f"{study.set.name}, {dimension}", labels, config.draws)
    return Complement(
        rows=pd.DataFrame(rows, columns=pd.Index(COMPLEMENT_COLUMNS)),
        run=told("complement", config, studies, started, time.perf_counter() - began),
        tables=tables,
        summary=installation_advice([s.missing for s in studies]),
    )


def _of_dimension(
    study: Study, scores: Mapping[str, pd.Series], dimension: str, config: ComplementOptions
) -> Iterator[dict[str, Any]]:
    points = study.protocol.data_points(study.set, study.items, dimension)
    rated = points["item_id"].unique()
    captions = study.items.set_index("item_id")["caption"]
    words = captions.str.split().map(len).astype(float)
    by_item = {**{m: s.loc[rated] for m, s in scores.items()}, LENGTH: words.loc[rated]}
    for (a, x), (b, y) in combinations(by_item.items(), 2):
        both = ~(np.isnan(x.to_numpy()) | np.isnan(y.to_numpy()))
        for coefficient in ("pearson", "tau_b"):
            found = correlate(x.to_numpy()[both], y.to_numpy()[both], coefficient)
            note = found.note.replace("all ratings", "all of the other's scores")
            yield {
                "kind": "correlation",
                "metric": a,
                "other": b,
                "coefficient": coefficient,
                "value": found.value,
                "n_items": int(both.sum()),
                "note": note,
            }
    lengths = np.array(words.loc[points["item_id"]], dtype=np.float64)
    usable: dict[str, Floats] = {}
    for metric, given in scores.items():
        one = given.loc[points["item_id"]].to_numpy(dtype=np.float64)
        keep = ~np.isnan(one)
        ratings = points["value"].to_numpy(dtype=np.float64)
        reason = undefined_reason(one[keep], ratings[keep])
        if np.isinf(one).any():
            reason = "an infinite score, which has no mean"
        elif not keep.all() and study.protocol.undefined != "drop":
            reason = undefined_reason(one, ratings)
        for coefficient in ("pearson", "spearman"):
            value = float("nan")
            if not reason:
                x, y, z = one[keep], ratings[keep], lengths[keep]
                if coefficient == "spearman":
                    x, y, z = (stats.rankdata(v).astype(np.float64) for v in (x, y, z))
                value = partial(x, y, z)
            why = reason or ("a caption's length says all of it" if np.isnan(value) else "")
            yield {
                "kind": "partial",
                "metric": metric,
                "other": LENGTH,
                "coefficient": coefficient,
                "value": value,
                "n_items": int(points["item_id"][keep].nunique()),
                "note": f"undefined: {why}" if why else "",
            }
        if not reason:
            usable[metric] = one
    yield from _selected(study, points, usable, config)


def partial(x: Floats, y: Floats, given: Floats) -> float:
    """Pearson's r of what is left of x and y when a third is taken out of both by regression.

    (r_xy - r_xz r_yz) / √((1 - r_xz²)(1 - r_yz²)); plain r where the third is constant, and NaN where
    it leaves nothing.

    Args:
        x, y, given: shape (n_points,), finite; x and y not constant.
    """
    if np.ptp(given) == 0:
        return correlate(x, y, "pearson").value
    xy, xz, yz = (correlate(a, b, "pearson").value for a, b in ((x, y), (x, given), (y, given)))
    left = (1 - xz**2) * (1 - yz**2)
    return float((xy - xz * yz) / np.sqrt(left)) if left > 1e-12 else float("nan")


@dataclass(frozen=True)
class Fit:
    """Linear combinations of metrics, fitted on some images and tried on others.

    Attributes:
        columns: a one, each metric standardised, and the rating, shape (n_points, n_metrics + 2).
        image: of each point, from 0, shape (n_points,).
        grams: sums of products of the columns by image, shape (n_images, p, p).
        fold: of each image, shape (n_images,).
    """

    columns: Floats
    image: Ints
    grams: Floats
    fold: Ints

    @classmethod
    def of(cls, scores: Sequence[Floats], ratings: Floats, image: Ints, seed: int) -> Fit:
        """Folds are drawn; all points of an image are in one fold.

        Args:
            scores: of each metric, shape (n_points,), finite and not constant.
        """
        x = [(s - s.mean()) / s.std() for s in (s / np.abs(s).max() for s in scores)]
        columns = np.stack([np.ones(len(ratings)), *x, ratings - ratings.mean()], axis=1)
        n_images = int(image.max()) + 1
        grams = np.zeros((n_images, columns.shape[1], columns.shape[1]))
        np.add.at(grams, image, columns[:, :, None] * columns[:, None, :])
        folds = np.arange(n_images) % min(FOLDS, n_images)
        return cls(columns, image, grams, np.random.default_rng(seed).permutation(folds))

    @property
    def n_metrics(self) -> int:
        return self.columns.shape[1] - 2

    def r2(self, chosen: Sequence[int], weights: Floats) -> float:
        """1 - squared errors / squared distances from the mean, both on images that were left out.

        Args:
            chosen: metrics' numbers.
            weights: of the images, shape (n_images,).
        """
        errors = distances = 0.0
        for held, beta in self._fits(chosen, weights):
            errors += _squares(held, beta, [0, *(c + 1 for c in chosen)])
        for held, beta in self._fits([], weights):
            distances += _squares(held, beta, [0])
        return 1 - errors / distances if distances > 0 else float("nan")

    def tau(self, chosen: Sequence[int], weights: Floats) -> float:
        """Kendall's τ_b of ratings and what is predicted of images that were left out."""
        from ..statistics.weighted_coefficients import RankedPairs

        used = [0, *(c + 1 for c in chosen)]
        predicted = np.zeros(len(self.columns))
        for fold, (_, beta) in zip(np.unique(self.fold), self._fits(chosen, weights), strict=True):
            here = self.fold[self.image] == fold
            predicted[here] = self.columns[here][:, used] @ beta
        ranked = RankedPairs(np.round(predicted, 10), self.columns[:, -1], self.image)
        return float(ranked.pairs(weights[:, None]).tau_b[0])

    def _fits(self, chosen: Sequence[int], weights: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Of each fold the sums of its images, and the coefficients fitted on the others."""
        weighted = weights[:, None, None] * self.grams
        whole = weighted.sum(axis=0)
        used = [0, *(c + 1 for c in chosen)]
        for fold in np.unique(self.fold):
            held = weighted[self.fold == fold].sum(axis=0)
            rest = whole - held
            beta = np.linalg.lstsq(rest[np.ix_(used, used)], rest[used, -1], rcond=CUTOFF)[0]
            yield held, beta

    def select(self, criterion: str, weights: Floats) -> list[tuple[int, float]]:
        """Metrics in the order in which each adds most, with what is reached."""
        measure = self.r2 if criterion == "r2" else self.tau
        path: list[tuple[int, float]] = []
        left = list(range(self.n_metrics))
        while left:
            chosen = [metric for metric, _ in path]
            reached = [measure([*chosen, metric], weights) for metric in left]
            if np.isnan(reached).all():
                break
            best = int(np.nanargmax(reached))
            path.append((left.pop(best), reached[best]))
        return path


def _squares(gram: Floats, beta: Floats, used: list[int]) -> float:
    """The sum of squared errors of a fit on points of which the sums of products are known."""
    inner = beta @ gram[np.ix_(used, used)] @ beta - 2 * beta @ gram[used, -1] + gram[-1, -1]
    return max(float(inner), 0.0)


def _selected(
    study: Study, points: pd.DataFrame, usable: Mapping[str, Floats], config: ComplementOptions
) -> Iterator[dict[str, Any]]:
    """Forward selection, on the points on which all usable metrics are defined."""
    keep = np.ones(len(points), dtype=bool)
    for given in usable.values():
        keep &= ~np.isnan(given)
    image, n_images = number_images(study.image_of(points)[keep])
    ratings = points["value"].to_numpy(dtype=np.float64)[keep]
    left_out = [m.spec for m in study.metrics if m.spec not in usable]
    note = f"without {', '.join(left_out)}, which are undefined" if left_out else ""
    if dropped := int((~keep).sum()):
        note = "; ".join(n for n in (note, f"{dropped} data points dropped: undefined score") if n)
    common = {"n_items": int(points["item_id"][keep].nunique())}
    reason = ""
    if not usable:
        reason = "no metric is defined"
    elif n_images < 2:
        reason = f"{n_images} images; two are needed"
    elif np.ptp(ratings) == 0:
        reason = "all ratings are equal"
    if reason:
        for criterion in CRITERIA:
            yield {
                **common,
                "kind": "selection",
                "criterion": criterion,
                "value": float("nan"),
                "note": f"undefined: {reason}",
            }
        return
    names = list(usable)
    fit = Fit.of([s[keep] for s in usable.values()], ratings, image, config.seed)
    ones = np.ones(n_images)
    for criterion in CRITERIA:
        path = fit.select(criterion, ones)
        for step in range(1, len(path) + 1):
            chosen = [metric for metric, _ in path[:step]]
            for coefficient, value in (
                ("r2", fit.r2(chosen, ones)),
                ("tau_b", fit.tau(chosen, ones)),
            ):
                yield {
                    **common,
                    "kind": "selection",
                    "criterion": criterion,
                    "step": step,
                    "metric": names[chosen[-1]],
                    "coefficient": coefficient,
                    "value": value,
                    "note": note,
                }
        counts = np.zeros((len(names), len(names)))
        rng = np.random.default_rng(config.seed)
        for lot in range(config.draws):
            told = f"{study.set.name}: selection by {criterion}, draw {lot + 1} of {config.draws}"
            with study.progress.step(told):
                weights = rng.multinomial(n_images, ones / n_images).astype(np.float64)
                for step, (metric, _) in enumerate(fit.select(criterion, weights)):
                    counts[metric, step:] += 1
        for (metric, name), step in ((m, s) for m in enumerate(names) for s in range(len(names))):
            yield {
                **common,
                "kind": "inclusion",
                "criterion": criterion,
                "step": step + 1,
                "metric": name,
                "value": counts[metric, step] / config.draws,
                "note": note,
            }


def _tables(
    rows: pd.DataFrame, title: str, labels: Mapping[str, str], draws: int
) -> list[ResultTable]:
    tables = [_matrix(rows[rows["kind"] == "correlation"], title, labels)]
    partials = rows[rows["kind"] == "partial"]
    tables.append(
        ResultTable(
            f"{title}: correlation with ratings at equal length",
            "metric",
            ["partial r", "partial ρ"],
            [
                (labels[str(m)], [format_number(v, 100, 1) for v in part["value"]])
                for m, part in partials.groupby("metric", sort=False)
            ],
            notes=["×100, given a caption's number of words.", *_notes(partials)],
        )
    )
    for criterion, name in zip(CRITERIA, ("R²", "τ_b"), strict=True):
        part = rows[rows["criterion"] == criterion]
        path, included = (part[part["kind"] == k] for k in ("selection", "inclusion"))
        frequency = {(r["metric"], int(r["step"])): r["value"] for r in included.to_dict("records")}
        printed: list[tuple[str, list[str]]] = []
        for step, here in path.dropna(subset=["step"]).groupby("step", sort=False):
            metric = here["metric"].iloc[0]
            often = frequency.get((metric, int(str(step).partition(".")[0])), float("nan"))
            cells = [format_number(v, 100, 1) for v in here["value"]]
            printed.append(
                (f"{step:.0f}. {labels[metric]}", [*cells, format_number(often, 100, 0)])
            )
        tables.append(
            ResultTable(
                f"{title}: forward selection by {name}",
                "step",
                ["R²", "τ_b", "included %"],
                printed,
                notes=[
                    f"×100, on images that the fit has not seen ({FOLDS} folds); included: in how many of "
                    f"{draws:,} resampled datasets the metric is among the first so many.",
                    *_notes(path),
                ],
            )
        )
    return tables


def _matrix(rows: pd.DataFrame, title: str, labels: Mapping[str, str]) -> ResultTable:
    """Pearson's r above the diagonal and τ_b below it."""
    names = list(dict.fromkeys([*rows["metric"], *rows["other"]]))
    known = {
        (r["metric"], r["other"], r["coefficient"]): r["value"] for r in rows.to_dict("records")
    }
    printed: list[tuple[str, list[str]]] = []
    for i, a in enumerate(names):
        cells: list[str] = []
        for j, b in enumerate(names):
            key = (a, b, "pearson") if i < j else (b, a, "tau_b")
            cells.append(MISSING if i == j else format_number(known[key], 100, 1))
        printed.append((labels[a], cells))
    return ResultTable(
        f"{title}: correlation among metrics",
        "r above, τ_b below",
        [labels[n] for n in names],
        printed,
        notes=["×100, over items.", *_notes(rows)],
    )


def _notes(rows: pd.DataFrame) -> list[str]:
    return [f"{note}." for note in dict.fromkeys(rows["note"]) if note]
