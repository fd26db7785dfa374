"""The alternative-annotator test: does a metric agree with people at least as well as one of them would?

One rater at a time is left out. On each item that this rater rated, the metric's answer and the rater's are held against the
ratings of the others: whichever is nearer to them, by the root mean square distance, is ahead, and both are where they are
level. The share of items on which the metric is ahead or level is its advantage over that rater; their mean over raters is
the advantage probability. A one-sided t test asks whether the rater is ahead more often than the metric by `epsilon` or more,
what a person costs beside a metric; the share of raters of whom that is rejected is the winning rate. A metric passes with
a half of them. Calderon, Reichart and Dror 2025, "The Alternative Annotator Test for LLM-as-a-Judge".

    duels = RaterDuels.compare(table, answers, pools_raters=False)
    duels.advantage, duels.winning_rate(epsilon=0.2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .distributions import student_share
from .intervals import correct_p_values
from .rating_table import Floats, Ints, RatingTable
from .weighted_pairs import Mask, Statistic

#: Raters with fewer items are left out: the t test rests on a mean that is nearly normal.
MIN_RATER_ITEMS = 30
#: The share of false findings among the raters that a metric wins against.
FALSE_SHARE = 0.05
#: A metric passes that wins against so large a share of the raters.
PASSING_RATE = 0.5


@dataclass(frozen=True)
class RaterDuels:
    """The comparisons of a metric with each rater, a row a rating of an item that another person rated too.

    Attributes:
        rater: the number of each comparison's rater, from 0, shape (n,).
        item: the index of its item in the table, shape (n,).
        metric_leads: whether the metric's answer is as near to the other ratings as the rater's, or nearer, shape (n,).
        rater_leads: whether the rater's is as near as the metric's, or nearer, shape (n,).
        n_skipped: the number of raters that are left out, with fewer than `MIN_RATER_ITEMS`.
    """

    rater: Ints
    item: Ints
    metric_leads: Mask
    rater_leads: Mask
    n_skipped: int

    @classmethod
    def compare(cls, table: RatingTable, answers: Floats, *, pools_raters: bool) -> RaterDuels:
        """Compare a metric's answers with every rating of the items that have two.

        Args:
            table: the ratings.
            answers: on people's scale, shape (table.n_items,).
            pools_raters: whether all ratings count as those of one rater, where nobody knows who gave which.
        """
        has_others = table.count[table.item] > 1
        item = table.item[has_others]
        own = table.value[has_others]
        answer = answers[item]
        n_others = table.count[item] - 1.0

        # Σ (x - v)² over the others' ratings v is n x² - 2 x Σ v + Σ v².
        others_sum = np.bincount(table.item, table.value)[item] - own
        others_squares = np.bincount(table.item, table.value**2)[item] - own**2
        metric_distance = n_others * answer**2 - 2 * answer * others_sum + others_squares
        rater_distance = n_others * own**2 - 2 * own * others_sum + others_squares
        # Rounded, so that equal distances are level whatever the order of their sums.
        lead = np.round(rater_distance - metric_distance, 9)

        raters = np.zeros(len(item), dtype=np.int64) if pools_raters else table.rater[has_others]
        numbers, codes, counts = np.unique(raters, return_inverse=True, return_counts=True)
        is_large = counts >= MIN_RATER_ITEMS
        is_counted = is_large[codes]
        # Those that are counted get the numbers from 0 on, without gaps.
        number_by_code = np.cumsum(is_large) - 1
        rater = number_by_code[codes[is_counted]]

        return cls(
            rater=rater.astype(np.int64),
            item=item[is_counted],
            metric_leads=(lead >= 0)[is_counted],
            rater_leads=(lead <= 0)[is_counted],
            n_skipped=len(numbers) - int(is_large.sum()),
        )

    @property
    def n_raters(self) -> int:
        return int(self.rater.max(initial=-1)) + 1

    @property
    def n_items(self) -> int:
        return len(np.unique(self.item))

    @property
    def advantages(self) -> Floats:
        """The share of each rater's items on which the metric is ahead or level, shape (n_raters,)."""
        return np.bincount(self.rater, self.metric_leads) / np.bincount(self.rater)

    @property
    def advantage(self) -> float:
        """The advantage probability ρ: the mean of `advantages`; NaN without raters."""
        return float(self.advantages.mean()) if self.n_raters else math.nan

    def p_values(self, epsilon: float) -> Floats:
        """Return the p-value of each rater's being ahead by `epsilon` or more, shape (n_raters,)."""
        differences = self.rater_leads.astype(np.float64) - self.metric_leads
        p_values: list[float] = []
        for rater in range(self.n_raters):
            own = differences[self.rater == rater]
            p_values.append(_test_below(own, epsilon))
        return np.array(p_values)

    def winning_rate(self, epsilon: float) -> float:
        """Return the winning rate ω: the share of raters against whom the metric wins; NaN without raters."""
        if not self.n_raters:
            return math.nan
        corrected = correct_p_values(self.p_values(epsilon), "by")
        return float((corrected <= FALSE_SHARE).mean())

    def statistic(self, image_of_item: Ints, n_images: int) -> Statistic:
        """Return the advantage probability as a function of images' weights; a rater without an item does not count.

        Args:
            image_of_item: the number of each item's image, shape (table.n_items,).
            n_images: the number of images.
        """
        image = image_of_item[self.item]
        # The cells of a table of images by raters, row by row.
        cell = image * self.n_raters + self.rater
        size = n_images * self.n_raters
        shape = (n_images, self.n_raters)
        leads = np.bincount(cell, self.metric_leads, minlength=size).reshape(shape)
        counts = np.bincount(cell, minlength=size).reshape(shape).astype(np.float64)

        def of_sample(weights: Floats) -> Floats:
            with np.errstate(invalid="ignore"):
                shares = (leads.T @ weights) / (counts.T @ weights)
            is_there = ~np.isnan(shares)
            n_there = is_there.sum(axis=0)
            sums = np.where(is_there, shares, 0.0).sum(axis=0)
            # A sample without any rater has no mean; 1 only spares it a division by 0.
            means = sums / np.maximum(n_there, 1)
            return np.where(n_there > 0, means, np.nan)[None, :]

        return of_sample


def _test_below(values: Floats, limit: float) -> float:
    """Return the p-value of a mean's being the limit or more: Student's t, one-sided."""
    n = len(values)
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(n)
    if error == 0:
        # Without any spread it is certain on which side of the limit the mean is.
        return 1.0 if mean >= limit else 0.0
    return student_share((mean - limit) / error, n - 1)
