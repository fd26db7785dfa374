"""A metric's scores as answers on people's scale: as they are, or cut where other images say.

A judge that answers 1 to 5, or yes and no, as people do is taken at its word. Any other score is cut at thresholds so that
each answer is as frequent as among people's ratings. The thresholds of one half of the images are found on the other half,
and the other way round, so that no caption has a part in the thresholds that its own answer rests on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...statistics.rating_table import Floats, Ints, RatingTable
from ...statistics.weighted_pairs import Mask
from .calibration import draw_first_half

#: Fewer images of a half than this do not say where to cut.
LEAST_IMAGES = 5
#: More answers than a person can tell apart are no levels.
MOST_LEVELS = 30
#: On a scale that states no steps, ratings with more distinct values than this are no answers to choose from.
MOST_VALUES = 11


@dataclass(frozen=True)
class MetricAnswers:
    """A metric's answers on people's scale.

    Attributes:
        answers: each of them a level, shape (n_items,).
        is_cut: whether scores were cut at thresholds.
    """

    answers: Floats
    is_cut: bool

    @property
    def note(self) -> str:
        """The source of the answers."""
        if self.is_cut:
            return "scores cut so that each answer is as frequent as among people, at thresholds of other images"
        return "scores are answers on people's scale"


def answer_on_scale(
    scores: Floats, table: RatingTable, levels: Floats, image: Ints, n_images: int, seed: int
) -> MetricAnswers:
    """Turn a metric's scores into answers.

    Args:
        scores: finite, more is better, shape (table.n_items,).
        table: people's ratings, more is better.
        levels: of people's scale, ascending.
        image: the number of each item's image, shape (table.n_items,).
        n_images: `2 * LEAST_IMAGES` or more.
        seed: of the halves.
    """
    nearest = np.abs(scores[:, None] - levels).argmin(axis=1)
    if np.abs(scores - levels[nearest]).max(initial=0) < 1e-9:
        return MetricAnswers(levels[nearest], is_cut=False)

    is_first = draw_first_half(n_images, seed)[image]
    answers = np.empty(len(scores))
    for is_fitted in (is_first, ~is_first):
        thresholds = _fit_thresholds(scores, table, levels, is_fitted)
        places = np.searchsorted(thresholds, scores[~is_fitted], side="right")
        answers[~is_fitted] = levels[places]
    return MetricAnswers(answers, is_cut=True)


def _fit_thresholds(scores: Floats, table: RatingTable, levels: Floats, is_fitted: Mask) -> Floats:
    """Return the lowest score of each level but the first, ascending, shape (n_levels - 1,).

    Each item counts once, however many ratings it has. Of the scores at which one can cut, that one is taken below
    which the share of scores is nearest to people's share below the level; infinity is one of them.
    """
    weight = np.where(is_fitted, 1 / table.count, 0.0)[table.item]
    level = np.searchsorted(levels, table.value)
    shares = np.bincount(level, weight, minlength=len(levels)) / is_fitted.sum()
    shares_below = np.cumsum(shares)[:-1]

    values, counts = np.unique(scores[is_fitted], return_counts=True)
    cuts = np.append(values, np.inf)
    scores_below = np.append(0, np.cumsum(counts)) / counts.sum()
    # Rounded, so that of two cuts that are as near the lower one is taken.
    gaps = np.round(np.abs(scores_below - shares_below[:, None]), 12)
    return cuts[gaps.argmin(axis=1)]
