"""A dataset with metrics' scores, and how they correlate with what people said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet
from ...metrics.base import Floats, Metric
from ..runs.progress_bar import StepProgress
from ..runs.results import (
    SCORE_COLUMNS,
    make_correlations,
)
from ..scoring.protocol import Protocol
from ..scoring.score_store import ScoreStore
from ..scoring.scorer import Scorer, metric_caveats, score_all
from ..statistics.bootstrap import StatisticsOptions, count_blocks
from ..statistics.coefficients import Coefficient, preference_accuracy
from ..statistics.intervals import (
    DISATTENUATED_COLUMNS,
    ExtraRow,
    Uncertainty,
    disattenuate,
    fisher_intervals,
    make_preference_panel,
    make_rating_panel,
)
from ..statistics.levels import correlate_at_level
from ..statistics.preferences import MEAN_CATEGORY, add_wilson_intervals
from ..statistics.rater_agreement import CEILINGS, RatingTable
from ..statistics.rater_agreement import compute_ceilings as ceilings_of
from ..statistics.significance import TEST_COEFFICIENTS, Panel, RatingPanel
from ..statistics.weighted_coefficients import Ints
from .floors import FLOOR_NOTES, floor_scores
from .wording import join_notes


class Measured:
    """One dataset under one protocol: its scores and correlations.

    Args:
        caption_set, protocol, items, metrics: what was measured.
        scores: by metric, in the order of `items`; those of companions are not correlated.
        ceilings: whether to add rows of `agreement.CEILINGS`.
        floors: whether to add rows of `FLOORS`.
        marks: what must be said beside a metric's correlations, by spec.
    """

    def __init__(
        self,
        caption_set: CaptionSet,
        protocol: Protocol,
        items: pd.DataFrame,
        metrics: Sequence[Metric],
        scores: Mapping[str, Floats],
        *,
        ceilings: bool = False,
        floors: bool = False,
        marks: Mapping[str, str] | None = None,
    ) -> None:
        self.caption_set = caption_set
        self.protocol = protocol
        self.items = items
        self.by_metric = {k: pd.Series(v, index=items["item_id"]) for k, v in scores.items()}
        #: The metrics that were asked for, companions left out.
        self.asked = tuple(m.spec for m in metrics)
        # Of a metric where less is better, the negative agrees with people.
        self._sign = {m.spec: 1.0 if m.higher_is_better else -1.0 for m in metrics}
        self._keys = items.set_index("item_id")[["image_id", "system"]]
        self._floors = floor_scores(items) if floors else {}
        self._extras: dict[str, list[ExtraRow]] = {}
        self.remark = ""
        #: What metrics remarked while they scored, by spec.
        self.remarks: dict[str, list[str]] = {}
        marks = marks or {}
        rows = [
            {**row, "note": join_notes(row["note"], marks.get(metric.spec, ""))}
            for metric in metrics
            for row in self._rows(metric.spec)
        ]
        for name in self._floors:
            rows += [
                {**row, "note": join_notes(row["note"], FLOOR_NOTES[name])}
                for row in self._rows(name)
            ]
        self.correlations = make_correlations(rows + (self._ceilings() if ceilings else []))
        self.statistics = StatisticsOptions(interval="none")
        self.uncertainty: Uncertainty | None = None
        self.ranks: dict[tuple[str, str, str], int] = {}
        self.disattenuated = pd.DataFrame(columns=pd.Index(DISATTENUATED_COLUMNS))

    @property
    def scores(self) -> pd.DataFrame:
        """Long form, columns `SCORE_COLUMNS`."""
        frames = [
            self.items.assign(dataset=self.caption_set.name, metric=metric, score=series.to_numpy())
            for metric, series in self.by_metric.items()
        ]
        return pd.concat(frames, ignore_index=True)[list(SCORE_COLUMNS)]

    def _common(self, metric: str) -> dict[str, Any]:
        return {
            "dataset": self.caption_set.name,
            "protocol": self.protocol.name,
            "metric": metric,
        }

    def _ceilings(self) -> list[dict[str, Any]]:
        """How well people do as a metric, where items have two ratings or more.

        Only where each rating is a data point: a metric that meets an item's mean rating has an
        easier task, and may well pass a person who meets single ratings.
        """
        rows: list[dict[str, Any]] = []
        rated = [c for c in self.protocol.coefficients if c != "accuracy"]
        for dimension in self.protocol.dimension:
            ratings = RatingTable.from_ratings(
                self.caption_set.ratings, self.items["item_id"], dimension
            )
            if not ratings.n_items or not rated:
                continue
            if self.protocol.ratings != "per_rating":
                self.remark = (
                    "No ceilings: people meet single ratings, protocol.ratings=per_rating."
                )
                continue
            if self.protocol.level != "pooled":
                self.remark = (
                    "No ceilings: they are of all ratings together, protocol.level=pooled."
                )
                continue
            for coefficient in rated:
                for name, found in ceilings_of(ratings, coefficient).items():
                    ceiling = Coefficient(found.value, float("nan"), found.note)
                    if not np.isnan(found.value):
                        extra = ExtraRow((name, dimension, coefficient), found.points)
                        self._extras.setdefault(dimension, []).append(extra)
                    rows.append(
                        {
                            **self._common(name),
                            "dimension": dimension,
                            "coefficient": coefficient,
                            **_cells(ceiling, found.n_items, found.n_ratings),
                        }
                    )
        # By ceiling, as the metrics' rows are by metric.
        return sorted(rows, key=lambda row: list(CEILINGS).index(row["metric"]))

    def _rows(self, metric: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        common = self._common(metric)
        rated = [c for c in self.protocol.coefficients if c != "accuracy"]
        for dimension in self.protocol.dimension:
            points = self.protocol.data_points(self.caption_set, self.items, dimension)
            for coefficient in rated:
                found, used = self._correlate(metric, points, coefficient)
                rows.append(
                    {
                        **common,
                        "dimension": dimension,
                        "coefficient": coefficient,
                        **_cells(found, used["item_id"].nunique(), len(used)),
                    }
                )
        if "accuracy" in self.protocol.coefficients:
            rows += [{**common, **row} for row in self._accuracy(metric)]
        if not rows:
            raise no_dimension(
                self.caption_set,
                "it has preferences and no ratings; set protocol.coefficients=[accuracy]",
            )
        return rows

    def _correlate(
        self, metric: str, points: pd.DataFrame, coefficient: str
    ) -> tuple[Coefficient, pd.DataFrame]:
        chosen = self._of(metric).loc[points["item_id"]]
        scores = np.asarray(chosen, dtype=np.float64)
        gaps = np.isnan(scores)
        dropped = ""
        if self.protocol.undefined == "drop" and gaps.any():
            dropped = f"{int(gaps.sum())} of {len(scores)} data points dropped: undefined score"
            points, scores = points[~gaps], scores[~gaps]
        keys = self._keys.loc[points["item_id"]]
        ratings = points["value"].to_numpy(dtype=float)
        found = correlate_at_level(self.protocol.level, scores, ratings, keys, coefficient)
        return Coefficient(found.value, found.p_value, join_notes(found.note, dropped)), points

    def _of(self, metric: str) -> pd.Series:
        """A metric's scores by item id; more is better."""
        if metric in self._floors:
            return self._floors[metric]
        return self._sign[metric] * self.by_metric[metric]

    def preferences(self) -> pd.DataFrame:
        """The dataset's, of two measured items each."""
        preferences = self.caption_set.preferences
        here = set(self.items["item_id"])
        return preferences[preferences["item_a"].isin(here) & preferences["item_b"].isin(here)]

    def panels(self) -> list[tuple[Panel, Ints]]:
        """The data points of each rated dimension, and the preferences, of metrics and floors; and
        the image of each item there.
        """
        scores = {m: self._of(m).to_numpy(dtype=np.float64) for m in (*self.asked, *self._floors)}
        drop = self.protocol.undefined == "drop"
        rated = [c for c in self.protocol.coefficients if c != "accuracy"]
        found: list[tuple[Panel, Ints]] = []
        for dimension in self.protocol.dimension if rated else ():
            points = self.protocol.data_points(self.caption_set, self.items, dimension)
            level = self.protocol.level
            found.append(
                make_rating_panel(
                    self.items, points, scores, dimension, rated, drop=drop, level=level
                )
            )
        pairs = self.preferences()
        if "accuracy" in self.protocol.coefficients and len(pairs):
            categories = list(dict.fromkeys(pairs["category"]))
            decided = pairs[pairs["winner"] != "tie"]
            panel = make_preference_panel(
                self.items, decided, scores, categories, MEAN_CATEGORY, drop=drop
            )
            found.append((panel, np.empty(0, dtype=np.int64)))
        return found

    def judge(
        self, options: StatisticsOptions, progress: StepProgress, tests: Sequence[str] = ()
    ) -> None:
        """Fill in intervals, rank clusters and differences; see `Uncertainty`.

        Args:
            options: which intervals, of what.
            progress: is told of each block of replicates and pair of metrics.
            tests: what `captau compare` wants to see; rank clusters rest on the bootstrap anyway.

        Raises:
            InputError: where there are tests and fewer than two images or metrics.
        """
        self.statistics = options
        if options.disattenuate:
            self.disattenuated = self._disattenuated(options)
        records: Any = self.correlations.to_dict("records")
        if options.interval == "fisher" and self.protocol.level != "pooled":
            raise InputError(
                f"statistics.interval=fisher is of data points; protocol.level={self.protocol.level} "
                f"takes statistics.interval=percentile or bca"
            )
        if options.interval == "fisher":
            intervals = fisher_intervals(records, options.level)
        elif options.uses_resampling:
            found = self.panels()
            panels = [panel for panel, _ in found]
            if tests:
                self._check_comparable(panels, tests)
            pairs = len(self.asked) * (len(self.asked) - 1) // 2
            steps = len(panels) * (count_blocks(options.replicates) + pairs)
            progress.add_steps(steps, f"{self.caption_set.name}: replicates")
            self.uncertainty = Uncertainty(
                panels,
                list(self.asked),
                options,
                tuple(dict.fromkeys(("bootstrap", *tests))),
                extras={
                    index: self._extras.get(panel.dimension, [])
                    for index, panel in enumerate(panels)
                    if isinstance(panel, RatingPanel)
                },
                image_of_item=[of_item for _, of_item in found],
                advance=progress.advance,
            )
            intervals = self.uncertainty.intervals
            competing = {
                row_key(r): float(r["value"]) for r in records if r["metric"] in self.asked
            }
            self.ranks = self.uncertainty.compute_ranks(competing)
        else:
            intervals = {}
        for row in records:
            one = intervals.get(row_key(row))
            if one is not None and not np.isnan(row["value"]):
                row |= {
                    "ci_low": one.low,
                    "ci_high": one.high,
                    "note": join_notes(row["note"], one.note),
                }
        if options.interval != "none":
            records = add_wilson_intervals(records, options.level)
        self.correlations = make_correlations(records)

    def _check_comparable(self, panels: Sequence[Panel], tests: Sequence[str]) -> None:
        """
        Raises:
            InputError: where there is nothing to compare, too little, or no test for it.
        """
        name = self.caption_set.name
        if not panels:
            raise InputError(
                f"dataset {name}: it has no preferences, and protocol.coefficients names accuracy "
                "alone; name a coefficient of ratings"
            )
        if (fewest := min(panel.n_images for panel in panels)) < 2:
            raise InputError(
                f"dataset {name}: too few images with judgements ({fewest}); a comparison needs two"
            )
        have = {"accuracy"} if any(not isinstance(p, RatingPanel) for p in panels) else set[str]()
        if any(isinstance(p, RatingPanel) for p in panels):
            have |= set(self.protocol.coefficients) - {"accuracy"}
        if not any(TEST_COEFFICIENTS.get(test, "") in ("", *have) for test in tests):
            raise InputError(
                f"dataset {name}: tests=[{','.join(tests)}] are of "
                f"{' and '.join(TEST_COEFFICIENTS[test] for test in tests)}; here is {', '.join(sorted(have))}: "
                "name another test, or another of protocol.coefficients"
            )
        if len(self.asked) < 2:
            raise InputError(
                f"dataset {name}: of the metrics {', '.join(self.asked)} alone can be computed here; "
                "a comparison needs two"
            )

    def _disattenuated(self, options: StatisticsOptions) -> pd.DataFrame:
        """Columns `DISATTENUATED_COLUMNS`."""
        rows: list[dict[str, Any]] = []
        for panel, of_item in self.panels():
            if isinstance(panel, RatingPanel):
                ratings = self.caption_set.ratings
                table = RatingTable.from_ratings(ratings, self.items["item_id"], panel.dimension)
                found = disattenuate(panel, table, of_item, self.protocol.ratings, options)
                rows += [{**self._common(row["metric"]), **row} for row in found]
        return pd.DataFrame(rows, columns=pd.Index(DISATTENUATED_COLUMNS))

    def _accuracy(self, metric: str) -> list[dict[str, Any]]:
        preferences = self.preferences()
        scores = self._of(metric)
        ties = preferences["winner"] == "tie"
        gaps = preferences[["item_a", "item_b"]].isin(scores.index[scores.isna()]).any(axis=1)
        out = ties | gaps if self.protocol.undefined == "drop" else ties
        rows: list[dict[str, Any]] = []
        for category in [*dict.fromkeys(preferences["category"]), MEAN_CATEGORY]:
            if category == MEAN_CATEGORY:
                used = preferences[~out]
                found = _mean({row["dimension"]: row["value"] for row in rows})
            else:
                within = preferences["category"] == category
                used = preferences[within & ~out]
                found = preference_accuracy(scores, used)
                decided = within & ~ties
                tied, lost = int((within & ties).sum()), int((decided & out).sum())
                notes = [
                    found.note,
                    f"{tied} pairs left out on which people tied" if tied else "",
                    f"{lost} of {int(decided.sum())} pairs dropped: undefined score"
                    if lost
                    else "",
                ]
                found = replace(found, note=join_notes(*notes))
            items = pd.concat([used["item_a"], used["item_b"]]).nunique()
            rows.append(
                {
                    "dimension": category,
                    "coefficient": "accuracy",
                    **_cells(found, items, len(used)),
                }
            )
        return rows


def row_key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["metric"], row["dimension"], row["coefficient"]


def _mean(values: Mapping[str, float]) -> Coefficient:
    """The mean of the categories' accuracies."""
    gaps = [category for category, value in values.items() if np.isnan(value)]
    if gaps or not values:
        return Coefficient.undefined(f"accuracy of {', '.join(gaps)}" if gaps else "no preferences")
    return Coefficient(
        float(np.mean(list(values.values()))), float("nan"), "mean of the categories"
    )


def no_dimension(caption_set: CaptionSet, otherwise: str) -> InputError:
    """The error where no rated dimension is left to look at; `otherwise` where there are none."""
    if known := caption_set.dimensions:
        otherwise = f"protocol.dimension is empty; name one at least: {', '.join(known)}"
    return InputError(f"dataset {caption_set.name}: {otherwise}")


def _cells(found: Coefficient, n_items: int, n_ratings: int) -> dict[str, Any]:
    return {
        "value": found.value,
        "n_items": n_items,
        "n_ratings": n_ratings,
        "p_value": found.p_value,
        "note": found.note,
    }


def measure(
    caption_set: CaptionSet,
    protocol: Protocol,
    metrics: Sequence[Metric],
    store: ScoreStore,
    progress: StepProgress,
    ceilings: bool = False,
    floors: bool = False,
) -> Measured:
    """Score one dataset and correlate; see `Measured`.

    Raises:
        InputError: where a metric has corpus statistics and the dimensions' items other weights.
    """
    protocol = protocol.for_dataset(caption_set)
    items = protocol.select_items(caption_set)
    if of_corpus := [m.spec for m in metrics if m.depends_on_corpus]:
        protocol.check_equal_weights(caption_set, items, of_corpus[0])
    marks = metric_caveats(metrics, items)
    scorer = Scorer(caption_set.name, items, protocol)
    scores = score_all(scorer, metrics, store, progress)
    found = Measured(
        caption_set,
        protocol,
        items,
        metrics,
        scores,
        ceilings=ceilings,
        floors=floors,
        marks=marks,
    )
    found.remarks = {
        m.spec: [*scorer.remarks.get(m.spec, []), *([marks[m.spec]] if m.spec in marks else [])]
        for m in metrics
    }
    return found
