"""Rating tables made of matrices, in which tests write ratings."""

from __future__ import annotations

import numpy as np

from captau.benchmarks.statistics.rating_table import RatingTable


def table_of_matrix(ratings: np.ndarray) -> RatingTable:
    """Make a table of a matrix of shape (n_items, n_raters), NaN where a rater did not rate an item."""
    item, rater = np.nonzero(~np.isnan(ratings))
    source, numbers = np.unique(item, return_inverse=True)
    return RatingTable(numbers, rater, ratings[item, rater], source).at_least(2)
