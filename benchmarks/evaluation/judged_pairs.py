"""Floors, which every metric has to beat; and comparisons of two captions as data points, with what people reach.

`EvaluationSet.judged_pairs` makes them; `correlation_rows` and `measured_dataset` measure metrics on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from ...datasets.schema import Scale
from ..statistics.bootstrap import number_images
from ..statistics.panels import PreferencePanel, RatingPanel
from ..statistics.preferences import (
    MEAN_DIMENSION,
    PairOutcomes,
    judge_differences,
    pair_differences,
)
from ..statistics.weighted_pairs import Floats, Ints

#: The floors, as tables call them.
FLOORS = {
    "floor_random": "random scores",
    "floor_length": "longer caption",
    "floor_position": "first caption",
}
#: The floors that every table of preferences has.
PAIR_FLOORS = ("floor_length", "floor_position")
#: The note where the first caption's row is left out, see `EvaluationSet.order_is_source`.
ORDER_NOTE = "The row of the first caption is left out: in every pair of this dataset the first place says whose caption it is."
FLOOR_NOTES = {
    "floor_random": "each score is a random number",
    "floor_length": "the number of words in the caption",
    "floor_position": "prefers the first caption of each pair",
}


def count_words(items: pd.DataFrame) -> pd.Series:
    """Return the number of words of each caption, by item id."""
    words = [float(len(caption.split())) for caption in items["caption"]]
    return pd.Series(words, index=items["item_id"], dtype=np.float64)


def floor_scores(items: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the scores of each floor of captions by item id; the random ones are the same in every run."""
    random = pd.Series(np.random.default_rng(0).random(len(items)), index=items["item_id"])
    return {"floor_random": random, "floor_length": count_words(items)}


@dataclass(frozen=True)
class JudgedPairs:
    """The comparisons that a protocol counts, a row a data point.

    Attributes:
        frame: columns `pair_id, item_a, item_b, dimension, strength`.
        ties: the protocol's.
        n_tied: by dimension, how many comparisons are left out on which people tied.
        image: the number of each comparison's image, that of its first caption, shape (n_pairs,).
        n_images: the number of images.
    """

    frame: pd.DataFrame
    ties: str
    n_tied: Mapping[str, int]
    image: Ints
    n_images: int

    @classmethod
    def select(
        cls, preferences: pd.DataFrame, ratings: str, ties: str, image_of_item: pd.Series
    ) -> JudgedPairs:
        """Make data points of preferences.

        Args:
            preferences: as `CaptionSet.preferences`.
            ratings: `per_rating`, where each rater's answer is a point; else what makes one of a pair's answers.
            ties: `half`, `drop` or `calibrated`; the first two leave out what people tie.
            image_of_item: image ids by item id, in the order that the comparisons are to have.
        """
        frame = _summarise(preferences, ratings)

        n_tied = dict.fromkeys(frame["dimension"], 0)
        place_a = image_of_item.index.get_indexer(pd.Index(frame["item_a"]))
        place_b = image_of_item.index.get_indexer(pd.Index(frame["item_b"]))
        frame = frame.iloc[np.lexsort((frame["strength"], frame["dimension"], place_b, place_a))]

        is_tied = (frame["strength"] == 0).to_numpy()
        if ties != "calibrated":
            n_tied |= frame.loc[is_tied, "dimension"].value_counts().to_dict()
            frame = frame[~is_tied]

        image, n_images = number_images(image_of_item.loc[frame["item_a"]])

        return cls(frame.reset_index(drop=True), ties, n_tied, image, n_images)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The judged dimensions, those included in which people tied every pair."""
        return tuple(self.n_tied)

    @cached_property
    def dimension(self) -> Ints:
        """The number of each comparison's dimension, shape (n_pairs,)."""
        codes = pd.Index(self.dimensions).get_indexer(pd.Index(self.frame["dimension"]))
        return codes.astype(np.int64)

    @cached_property
    def strengths(self) -> Floats:
        """Shape (n_pairs,)."""
        return self.frame["strength"].to_numpy(dtype=np.float64)

    @property
    def graded_dimensions(self) -> list[str]:
        """The dimensions in which people prefer more and less strongly."""
        sizes = self.frame["strength"].abs()
        counts = sizes[sizes > 0].groupby(self.frame["dimension"], sort=False).nunique()
        return [d for d in self.dimensions if counts.get(d, 0) > 1]

    def differences(self, scores: pd.Series) -> Floats:
        """Return the first caption's score less the second's, shape (n_pairs,); NaN where one is undefined."""
        return pair_differences(scores, self.frame)

    def outcomes(self, differences: Floats) -> list[PairOutcomes]:
        """Return the outcomes of each dimension's comparisons."""
        outcomes: list[PairOutcomes] = []
        for number in range(len(self.dimensions)):
            is_own = self.dimension == number
            outcomes.append(
                judge_differences(differences[is_own], self.strengths[is_own], self.ties)
            )

        return outcomes

    def floors(self, items: pd.DataFrame) -> dict[str, Floats]:
        """Return the differences of the floors of `PAIR_FLOORS`.

        Args:
            items: columns `item_id, caption`.
        """
        length = self.differences(count_words(items))
        return {"floor_length": length, "floor_position": np.ones(len(self.frame))}

    def ceilings(self, answers: JudgedPairs) -> dict[str, PairOutcomes]:
        """Return the outcomes of people as if they were metrics, on pairs that two raters judged at least.

        `ceiling_one_vs_one` is each other rater's answer, the mean over them; `ceiling_oracle` the mean strength.

        Args:
            answers: the comparisons with people's ties, a row an answer; `EvaluationSet.all_pairs`.

        Returns:
            By ceiling, shape (n_pairs,); empty where no pair has two answers.
        """
        group, turn = answers.groups
        oriented = np.sign(answers.strengths) * turn
        # For each group, the numbers of answers for the second caption, for a tie, and for the first.
        counts = np.stack([np.bincount(group, oriented == sign) for sign in (-1, 0, 1)])
        sums = np.bincount(group, answers.strengths * turn)

        # The points are the answers themselves, without ties where the rule leaves them out.
        is_point = np.ones(len(group), dtype=bool)
        if self.ties != "calibrated":
            is_point = answers.strengths != 0
        group = group[is_point]
        turn = turn[is_point]
        oriented = oriented[is_point]

        n_answers = counts[:, group].sum(axis=0)
        if (n_answers < 2).all():
            return {}

        # Less one, as a rater is compared with the other raters.
        n_same = counts[oriented.astype(int) + 1, group] - 1
        n_tied = counts[1, group]
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = {
                "half": (n_same + n_tied / 2) / (n_answers - 1),
                "drop": n_same / (n_answers - 1 - n_tied),
                "calibrated": n_same / (n_answers - 1),
            }[self.ties]

        means = sums[group] / n_answers * turn
        # Strengths that cancel out need not sum to exactly 0.
        signs = np.where(np.abs(means) < 1e-12, 0.0, np.sign(means))
        oracle = (signs == np.sign(self.strengths)).astype(np.float64)
        is_oracle = n_answers > 1
        if self.ties != "calibrated":
            oracle[signs == 0] = 0.5
            is_oracle &= (signs != 0) | (self.ties == "half")

        is_rest = (n_answers > 1) & np.isfinite(shares)
        return {
            "ceiling_one_vs_one": PairOutcomes(np.where(is_rest, shares, 0.0), is_rest),
            "ceiling_oracle": PairOutcomes(oracle, is_oracle),
        }

    @cached_property
    def groups(self) -> tuple[Ints, Floats]:
        """Number the answers about the same captions and dimension, and give -1 if their order is turned.

        Shape (n_pairs,) each.
        """
        captions, turn = self.captions
        keys = pd.MultiIndex.from_arrays([self.dimension, captions])
        return pd.factorize(keys)[0].astype(np.int64), turn

    @cached_property
    def captions(self) -> tuple[Ints, Floats]:
        """Number the answers about the same captions in any dimension; otherwise as `groups`."""
        a = self.frame["item_a"].astype(str).to_numpy(dtype=object)
        b = self.frame["item_b"].astype(str).to_numpy(dtype=object)
        is_turned = (a > b).astype(bool)
        keys = pd.MultiIndex.from_arrays([np.where(is_turned, b, a), np.where(is_turned, a, b)])
        numbers, _ = pd.factorize(keys)

        return numbers.astype(np.int64), np.where(is_turned, -1.0, 1.0)

    def outcome_panel(
        self, differences: Mapping[str, Floats], ceilings: Mapping[str, PairOutcomes], *, drop: bool
    ) -> PreferencePanel:
        """Return the panel of accuracies.

        Args:
            differences: of each metric.
            ceilings: as `ceilings` returns them.
            drop: see `Panel.drops_undefined`.
        """
        values = {name: ceiling.values for name, ceiling in ceilings.items()}
        counted = {name: ceiling.is_counted for name, ceiling in ceilings.items()}

        for metric, column in differences.items():
            values[metric] = np.full(len(self.frame), np.nan)
            counted[metric] = np.zeros(len(self.frame), dtype=bool)
            for number, outcomes in enumerate(self.outcomes(column)):
                is_own = self.dimension == number
                values[metric][is_own] = outcomes.values
                counted[metric][is_own] = outcomes.is_counted

        return PreferencePanel(
            image=self.image,
            n_images=self.n_images,
            item=np.arange(len(self.frame), dtype=np.int64),
            drops_undefined=drop,
            dimensions=self.dimensions,
            dimension=self.dimension,
            outcomes=values,
            counted=counted,
            captions=self.captions[0],
            mean_dimension=MEAN_DIMENSION,
        )

    def graded_panel(
        self,
        differences: Mapping[str, Floats],
        dimension: str,
        coefficients: Sequence[str],
        *,
        drop: bool,
    ) -> RatingPanel:
        """Return the panel of a graded dimension's differences and strengths, each pair in both orders."""
        is_own = (self.frame["dimension"] == dimension).to_numpy()
        image, n_images = number_images(self.image[is_own].tolist())

        return RatingPanel(
            image=np.tile(image, 2),
            n_images=n_images,
            item=np.tile(np.arange(is_own.sum(), dtype=np.int64), 2),
            drops_undefined=drop,
            dimension=dimension,
            coefficients=tuple(coefficients),
            scores={m: both_orders(column[is_own]) for m, column in differences.items()},
            ratings=both_orders(self.strengths[is_own]),
        )

    def without(self, is_left_out: np.ndarray) -> JudgedPairs:
        """Return the comparisons without some, shape (n_pairs,)."""
        frame = self.frame[~is_left_out].reset_index(drop=True)
        return replace(self, frame=frame, image=self.image[~is_left_out])


@dataclass(frozen=True)
class PairAnswers:
    """Preferences as ratings of pairs in both orders, as `captau agree` measures them.

    Attributes:
        ratings: columns `item_id, dimension, rater, value`; an item is a pair of captions in one order,
            and each pair stands there in both.
        item_ids: the pairs in both orders.
        scales: by dimension, from the strongest preference for one caption to that for the other.
    """

    ratings: pd.DataFrame
    item_ids: list[str]
    scales: Mapping[str, Scale]

    @classmethod
    def from_preferences(cls, preferences: pd.DataFrame, item_ids: Sequence[str]) -> PairAnswers:
        """Return each answer for both orders of its captions, so that no measure depends on the order.

        Args:
            preferences: as `CaptionSet.preferences`.
            item_ids: of the captions, in the order that the pairs are to have.
        """
        a = preferences["item_a"].astype(str)
        b = preferences["item_b"].astype(str)
        answers = preferences[["dimension", "rater"]]
        in_order = answers.assign(item_id=a + "|" + b, value=preferences["strength"])
        ratings = add_turned_pairs(in_order, b + "|" + a)

        scales: dict[str, Scale] = {}
        for dimension, values in ratings.groupby("dimension", sort=False)["value"]:
            largest = float(values.abs().max())
            is_whole = bool((values == values.round()).all())
            # Strengths that are whole numbers are answers on a scale of steps.
            step = 1.0 if is_whole and largest else None
            scales[str(dimension)] = Scale(-largest, largest, step)

        find_places = pd.Index(item_ids).get_indexer
        first_place = find_places(pd.Index(pd.concat([a, b])))
        second_place = find_places(pd.Index(pd.concat([b, a])))
        order = np.lexsort((second_place, first_place))

        return cls(ratings, list(ratings["item_id"].iloc[order].unique()), scales)


def add_turned_pairs(ratings: pd.DataFrame, turned_ids: pd.Series) -> pd.DataFrame:
    """Return ratings of pairs, and those of the same pairs in the other order, whose signs turn.

    Args:
        ratings: columns `item_id, value` and others, a row a rating of a pair.
        turned_ids: of each row, the id of its pair in the other order.
    """
    turned = ratings.assign(item_id=turned_ids, value=-ratings["value"])
    return pd.concat([ratings, turned], ignore_index=True)


def both_orders(values: Floats) -> Floats:
    """Return the differences of pairs, and of the same pairs with the captions exchanged.

    With both, a coefficient does not depend on which caption of a pair stands first.
    """
    return np.concatenate([values, -values])


def _summarise(preferences: pd.DataFrame, ratings: str) -> pd.DataFrame:
    """Return one row an answer, or one row a pair and dimension, with the mean or median of its strengths.

    Halves are rounded away from 0, so that neither caption gains by standing first.
    """
    columns = ["pair_id", "item_a", "item_b", "dimension", "strength"]
    if ratings == "per_rating":
        return preferences[columns]

    grouped = preferences.groupby(columns[:-1], sort=False)["strength"]
    strengths = grouped.median() if ratings == "median" else grouped.mean()

    if ratings == "rounded_mean":
        strengths = np.sign(strengths) * np.floor(strengths.abs() + 0.5)

    return strengths.reset_index()
