"""Metrics as raters: κ, α and equal answers with people's ratings, and the alternative-annotator test, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.schema import Scale
from ...statistics.alternative_annotator import (
    MIN_RATER_ITEMS,
    PASSING_RATE,
    RaterDuels,
)
from ...statistics.bootstrap import StatisticsOptions, number_images, resample, statistic_intervals
from ...statistics.metric_as_rater import MEASURES as MEETING_MEASURES
from ...statistics.metric_as_rater import MeetingAnswers, meet_metric, meet_people
from ...statistics.rating_table import Floats, Ints, RatingTable, scale_levels
from ...statistics.weighted_pairs import Statistic
from ..wording import join_notes
from .calibration import Measure
from .metric_answers import LEAST_IMAGES, MOST_LEVELS, MOST_VALUES, MetricAnswers, answer_on_scale

#: What is measured of a metric as a rater.
MEASURES = (*MEETING_MEASURES, "advantage_probability", "winning_rate")
#: The row of one person against another, which metrics are compared with.
PEOPLE = "people"


@dataclass(frozen=True)
class ComparedRaters:
    """The ratings of a dimension, which metrics are compared with.

    Attributes:
        dataset, dimension: their names.
        table: the ratings, more is better, an item with one rating or more.
        levels: that raters answer in, ascending; None where there are too many.
        item_ids: of the items, in the table's order.
        image: the number of each item's image, shape (n_items,).
        n_images: the number of images.
        are_people_known: whether a rater's name stands for one person.
        epsilon: what a person costs beside a metric, in the alternative-annotator test.
        seed: of the halves and of resampling.
    """

    dataset: str
    dimension: str
    table: RatingTable
    levels: Floats | None
    item_ids: pd.Index
    image: Ints
    n_images: int
    are_people_known: bool
    epsilon: float
    seed: int

    @classmethod
    def select(
        cls,
        ratings: pd.DataFrame,
        clusters: pd.Series,
        dataset: str,
        dimension: str,
        *,
        scale: Scale,
        is_fault: bool,
        is_anonymous: bool,
        epsilon: float,
        seed: int,
    ) -> ComparedRaters:
        """Select the ratings of a dimension.

        Args:
            ratings: columns `item_id, dimension, rater, value`.
            clusters: the image of each item, by item id, in the order that the items are to have.
            dataset, dimension: their names.
            scale: of the ratings.
            is_fault: whether a higher rating is worse.
            is_anonymous: whether nobody knows who gave which rating.
            epsilon, seed: see the class.
        """
        sign = -1.0 if is_fault else 1.0
        signed = ratings.assign(value=0.0 + sign * ratings["value"])
        table = RatingTable.from_ratings(
            signed, clusters.index, dimension, is_anonymous=is_anonymous, min_ratings=1
        )
        item_ids = clusters.index[table.source_index]
        image, n_images = number_images(clusters.loc[item_ids])

        levels = _find_levels(table, scale, sign)
        if levels is not None and table.n_items:
            # A rating such as 2/3 is its level but for rounding.
            nearest = np.abs(table.value[:, None] - levels).argmin(axis=1)
            table = replace(table, value=levels[nearest])
        return cls(
            dataset=dataset,
            dimension=dimension,
            table=table,
            levels=levels,
            item_ids=item_ids,
            image=image,
            n_images=n_images,
            are_people_known=not is_anonymous and not table.has_sorted_ratings,
            epsilon=epsilon,
            seed=seed,
        )

    @property
    def lack(self) -> str:
        """The reason why nothing can be compared; empty where it can."""
        if not self.table.n_items:
            return "no caption has a rating"
        if self.levels is None:
            return f"people rate on a scale without steps, or with more than {MOST_LEVELS}"
        if self.table.is_constant:
            return "all ratings are equal"
        if self.n_images < 2 * LEAST_IMAGES:
            return f"{self.n_images} images; {2 * LEAST_IMAGES} are needed"
        return ""

    def compare_metric(self, scores: pd.Series) -> list[Measure]:
        """Measure a metric as a rater, in the order of `MEASURES`.

        Args:
            scores: more is better, by item id.
        """
        column = scores.loc[self.item_ids].to_numpy(dtype=np.float64)
        lack = self.lack
        n_undefined = int((~np.isfinite(column)).sum())
        if n_undefined and not lack:
            lack = f"{n_undefined:,} of {len(column):,} captions have no finite score"
        if not lack and (column == column[0]).all():
            lack = "all scores are equal"
        if lack or self.levels is None:
            return self._undefined(lack)

        answers = answer_on_scale(
            column, self.table, self.levels, self.image, self.n_images, self.seed
        )
        meeting = meet_metric(self.table, answers.answers, self.levels, self.image, self.n_images)
        reason = "all of the metric's answers are equal"
        measures = self._measure_meeting(meeting, self.table.n_items, answers.note, reason)
        return [*measures, *self._test_alternative(answers)]

    def compare_people(self) -> list[Measure]:
        """Measure one person against another, in the order of `MEASURES` without the test; empty without second ratings."""
        if self.lack or self.levels is None or self.table.count.max() < 2:
            return []

        meeting = meet_people(self.table, self.levels, self.image, self.n_images)
        n_items = int((self.table.count > 1).sum())
        note = "each rating against each other rating of its item; α of people's ratings alone"
        return self._measure_meeting(meeting, n_items, note, "all ratings are equal")

    def _undefined(self, reason: str) -> list[Measure]:
        note = f"undefined: {reason}"
        n_items = self.table.n_items
        return [Measure(name, math.nan, n_items=n_items, note=note) for name in MEASURES]

    def _measure_meeting(
        self, meeting: MeetingAnswers, n_items: int, note: str, reason: str
    ) -> list[Measure]:
        """Return κ, α and the share of equal answers with intervals.

        Args:
            meeting: of the two sides.
            n_items: the number of items that count.
            note: on the answers.
            reason: why a measure is undefined, where one is.
        """
        values = meeting.values
        intervals = self._intervals(meeting.of_sample, np.array(list(values.values())))
        measures: list[Measure] = []
        for (name, value), (low, high, interval_note) in zip(
            values.items(), intervals, strict=True
        ):
            own_note = f"undefined: {reason}" if math.isnan(value) else note
            measures.append(
                Measure(name, value, low, high, n_items, join_notes(own_note, interval_note))
            )
        return measures

    def _test_alternative(self, answers: MetricAnswers) -> list[Measure]:
        """Return the advantage probability and the winning rate."""
        names = ("advantage_probability", "winning_rate")
        if self.table.count.max() < 2:
            note = "undefined: no item has two ratings, one to be left out and one to compare with"
            return [Measure(name, math.nan, note=note) for name in names]

        duels = RaterDuels.compare(
            self.table, answers.answers, pools_raters=not self.are_people_known
        )
        if not duels.n_raters:
            note = f"undefined: no rater has {MIN_RATER_ITEMS} items that another rated too"
            return [Measure(name, math.nan, note=note) for name in names]

        statistic = duels.statistic(self.image, self.n_images)
        low, high, interval_note = self._intervals(statistic, np.array([duels.advantage]))[0]
        n_items = duels.n_items
        if not self.are_people_known:
            note = "raters are not known: all ratings together, each left out in turn"
            advantage = Measure(
                names[0], duels.advantage, low, high, n_items, join_notes(note, interval_note)
            )
            reason = "undefined: raters are not known, and each needs a test"
            return [advantage, Measure(names[1], math.nan, n_items=n_items, note=reason)]

        note = f"mean over {duels.n_raters} raters"
        if duels.n_skipped:
            note += f"; {duels.n_skipped} left out with fewer than {MIN_RATER_ITEMS} items"
        advantage = Measure(
            names[0], duels.advantage, low, high, n_items, join_notes(note, interval_note)
        )
        rate = duels.winning_rate(self.epsilon)
        passes = "passes" if rate >= PASSING_RATE else "does not pass"
        rate_note = f"{passes}, at ε {self.epsilon:g}; {note}; no interval: it counts tests"
        return [advantage, Measure(names[1], rate, n_items=n_items, note=rate_note)]

    def _intervals(self, statistic: Statistic, values: Floats) -> list[tuple[float, float, str]]:
        """Return both ends of the interval of each value, and a note."""
        options = StatisticsOptions(seed=self.seed)
        replicates = resample([statistic], self.n_images, options.replicates, options.seed)[0]
        intervals = statistic_intervals(statistic, values, replicates, self.n_images, options)
        return [(i.low, i.high, i.note) for i in intervals]


def _find_levels(table: RatingTable, scale: Scale, sign: float) -> Floats | None:
    """Return the answers that raters can give, ascending: the scale's levels, or the ratings' few values if it states none."""
    levels = np.unique(table.value)
    most = MOST_VALUES
    if scale.step:
        levels = np.sort(0.0 + sign * np.array(scale_levels(scale)))
        most = MOST_LEVELS
    return levels if len(levels) <= most else None


@dataclass(frozen=True)
class ComparedDimension:
    """The measures of the metrics of a dimension.

    Attributes:
        raters: its ratings.
        measures: by metric, or `PEOPLE`, the latter last.
        notes: sentences on the data.
    """

    raters: ComparedRaters
    measures: Mapping[str, list[Measure]]
    notes: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `metric_raters.csv`."""
        names = {"dataset": self.raters.dataset, "dimension": self.raters.dimension}
        rows: list[dict[str, Any]] = []
        for metric, measures in self.measures.items():
            rows += [{**names, "metric": metric, **vars(measure)} for measure in measures]
        return rows

    def find(self, metric: str, measure: str) -> Measure:
        """Return a measure of a metric; NaN where there is none."""
        found = [m for m in self.measures[metric] if m.measure == measure]
        return found[0] if found else Measure(measure, math.nan)
