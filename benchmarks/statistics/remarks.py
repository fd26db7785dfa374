"""Codes of what limits a result, and the one sentence that each code stands for.

Results of this package are `Remarked`. Other modules compare codes, and print `note` without looking into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self


class Undefined(Enum):
    """Reasons why a result has no value; each member's value is the sentence for people."""

    # coefficients
    TOO_FEW_POINTS = "too few data points ({n_points}); two are needed"
    UNDEFINED_SCORES = "{n_undefined} of {n_points} data points have an undefined score"
    UNDEFINED_RATINGS = "{n_undefined} of {n_points} data points have an undefined rating"
    CONSTANT_SCORES = "all scores are equal"
    CONSTANT_RATINGS = "all ratings are equal"
    CONSTANT_OTHER_SCORES = "all of the other's scores are equal"
    INFINITE_SCORE = "an infinite score, which has no mean"
    INFINITE_DIFFERENCE = "an infinite score, whose differences have no threshold"
    TOO_MANY_VALUES = "too many distinct scores and ratings to find a threshold"
    ROUNDING = "the numbers are too alike to compute with"
    NO_DETECTION = "ratings other than 0 and 1, or of one kind alone"
    OFF_SCALE = (
        "{n_off} of {n_points} scores are no answer on people's scale: no rating has their value"
    )
    ANSWERS_OF_GROUPS = "answers are compared over all data points together"
    MEANS_ARE_NO_ANSWERS = "systems' means are no answers on people's scale"
    NO_PREFERENCES = "no preferences"
    UNDEFINED_PAIRS = "{n_undefined} of {n_pairs} pairs have an undefined score"
    UNDEFINED_DIMENSIONS = "accuracy of {dimensions}"
    IN_SOME_DRAWS = "in some of the draws"
    EXPLAINED_BY_LENGTH = "a caption's length says all of it"
    # levels
    SMALL_GROUP = "fewer than two data points"
    SMALL_GROUPS = "no {group} has two data points"
    NO_GROUP = "in all {n_groups} {group}s: {reasons}"
    NO_DIFFERENCES = "all scores, or all ratings, of each {group} are equal"
    ONE_SYSTEM = "one system alone; two are needed"
    CONSTANT_MEAN_SCORES = "all systems' mean scores are equal"
    CONSTANT_MEAN_RATINGS = "all systems' mean ratings are equal"
    NO_COMMON_IMAGES = "{n_images} images have a caption of every system"
    # tests of differences
    UNDEFINED_METRIC = "a metric has undefined scores"
    UNDEFINED_COEFFICIENT = "a coefficient is"
    UNDEFINED_SYSTEM_SCORE = "a score is"
    INFINITE_STANDARD_SCORE = "an infinite score has no standard score"
    SWAPPED_THRESHOLD = "swapped scores have no threshold of their own"
    SWAPPED_ANSWERS = "swapped standard scores are no answers on people's scale"
    WILLIAMS_AT_LEVEL = "Williams' test is of all data points together"
    SAME_SCORES = "the two metrics' scores are the same, or there are too few"
    # corrections for the ratings' noise
    UNKNOWN_RELIABILITY = "the {ratings} of ratings has no known reliability"
    TOO_FEW_RERATED = "fewer than two items have two ratings"
    UNDEFINED_THIS_METRIC = "the metric has undefined scores"
    NO_RELIABILITY = "the ratings' reliability is not above 0"
    UNDEFINED_PEARSON = "Pearson's r is"
    # agreement among raters
    NO_SECOND_RATING = "no item has two ratings"
    NO_THIRD_RATING = "no item has three ratings, which the virtual raters need"
    CONSTANT_RATERS = "every rater gives all items one rating"
    NO_COMMON_ITEMS = "no two raters have {min_items} items in common"
    ONE_ITEM = "two items are needed"
    CONSTANT_MEANS = "all items have one mean rating"
    SINGLE_VALUE = "the scale has a single value"
    OPPOSITE_HALVES = "the halves are opposite"


class Note(Enum):
    """Remarks on a result that has a value, or on an interval; each member's value is the sentence."""

    # coefficients
    TIED_IF_EQUAL = "equal scores alone are tied"
    TIED_WITHIN = "scores that differ by {threshold:.6g} or less are tied"
    EQUAL_ANSWERS = "{share:.1f} % of the answers are equal to people's"
    CHANCE_LEVEL = "{chance:.3f} by chance"
    HALF_COUNTED_PAIRS = "{n_pairs} tied pairs count half"
    DROPPED_POINTS = "{n_dropped} of {n_points} data points dropped: undefined score"
    OTHER_RATERS = "each answer predicted by the others, the mean over them"
    MEAN_STRENGTH = "each answer predicted by the mean of the pair's answers"
    LEFT_OUT_TIES = "{n_pairs} pairs left out that the metric ties"
    BOTH_ORDERS = "each pair in both orders"
    TIED_PAIRS = "{n_pairs} pairs left out on which people tied"
    DROPPED_PAIRS = "{n_dropped} of {n_pairs} pairs dropped: undefined score"
    MEAN_OF_DIMENSIONS = "mean of the dimensions"
    # levels
    MEAN_OVER_GROUPS = "mean over {n_groups} {group}s"
    UNDEFINED_GROUPS = "undefined in {n_groups}: {reasons}"
    PAIRS_WITHIN_GROUPS = "pairs of data points of {n_groups} {group}s"
    SYSTEMS = "{n_systems} systems"
    PERMUTED_SYSTEMS = "{n_systems} systems, {permutations:,} permutations"
    INCOMPLETE_IMAGES = "{n_left_out} of {n_images} images left out, which lack a system"
    # intervals
    UNDEFINED_REPLICATES = "{n_undefined:,} of {replicates:,} replicates undefined"
    TOO_FEW_REPLICATES = "no interval: {n_undefined:,} of {replicates:,} replicates undefined"
    TOO_FEW_IMAGES = "no interval: too few images ({n_images}); two are needed"
    FEW_IMAGES = "interval of {n_images} images; from {min_images} on it is reliable"
    ONE_SIDED_REPLICATES = "no BCa interval: all replicates lie {side} the value"
    FISHER = "Fisher interval, data points taken as independent"
    TOO_FEW_FOR_FISHER = "no Fisher interval: too few data points ({n_points}); four are needed"
    NO_FISHER = "no Fisher interval of {coefficient}"
    WILSON = "Wilson interval"
    # tests of differences
    UNDEFINED_PERMUTATIONS = "{n_undefined} of {permutations} permutations undefined"
    MCNEMAR = "better on {n_better} pairs and worse on {n_worse} of {n_pairs}; asymptotic p {asymptotic:.6g}"
    # agreement among raters
    UNDEFINED_DRAWS = "{n_undefined} of {draws} draws undefined"
    DRAWS_OF_THREE = "mean of {draws} draws of three ratings an item"
    HALVINGS = "mean of {draws} random halvings"
    TOO_FEW_RATINGS = "items left out, with fewer than {min_ratings} ratings: {n_items}"
    RATER_PAIRS = "mean over pairs of raters with {min_items} or more common items: {n_pairs}"
    CONSTANT_PAIRS = "pairs left out, since all ratings are equal: {n_pairs}"
    ANONYMOUS_RATERS = "raters are anonymous: a column of answers comes from different people"
    SORTED_RATINGS = "every item's ratings ascend from rater to rater: the ratings are sorted, and a rater's name stands for no person"
    UNEQUAL_COUNTS = "k = {k:.2f}: items differ in their number of ratings"
    ONE_PERSON = "each rating against each other rating of its item"
    BEST_RATER = (
        "each item's ratings are sorted, as if one rater had given all the lowest and another all the highest; the best of "
        "these virtual raters, the one with the {place} ratings ({rater}-{others}), is compared with each of the others"
    )
    BEST_RATER_DRAWS = BEST_RATER + ", mean of {draws} draws"
    ORACLE = "an item's mean rating against each of its ratings"


@dataclass(frozen=True)
class Remark:
    """A code with the numbers and names that its sentence mentions; `str` makes the sentence."""

    code: Undefined | Note
    values: Mapping[str, Any]

    @property
    def phrase(self) -> str:
        """The sentence without the word `undefined`."""
        return self.code.value.format_map(self.values)

    def __str__(self) -> str:
        return f"undefined: {self.phrase}" if isinstance(self.code, Undefined) else self.phrase


def remark(code: Undefined | Note, **values: Any) -> Remark:
    """Return a remark whose sentence mentions the given values."""
    return Remark(code, values)


@dataclass(frozen=True)
class Remarked:
    """Base of results: whatever limits them, in the order in which people read it."""

    remarks: tuple[Remark, ...] = field(default=(), kw_only=True)

    @property
    def reason(self) -> Undefined | None:
        """The reason why there is no value; None where there is one."""
        for made_remark in self.remarks:
            if isinstance(made_remark.code, Undefined):
                return made_remark.code
        return None

    @property
    def note(self) -> str:
        """The remarks as people read them."""
        return "; ".join(map(str, self.remarks))

    @property
    def explanation(self) -> str:
        """The remarks without the word `undefined`."""
        return "; ".join(r.phrase for r in self.remarks)

    def with_remarks(self, *remarks: Remark) -> Self:
        """Return the same result with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))
