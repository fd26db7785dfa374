"""The agreement of predictions with the ratings of examples, by which a training chooses among epochs or weights.

The coefficients are those of `benchmarks/statistics`, which metrics do not import: the caller of a training hands
them in (`TrainingSession.correlate`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ...base import Floats
from .examples import Examples

#: The names of the coefficients that a training may choose by.
Coefficient = Literal["tau_c", "spearman"]
#: The option that selects an epoch: a coefficient on the validation rows, or `last`, which takes the last epoch.
Selection = Literal[Coefficient, "last"]
#: A function of scores and ratings, shape (n_points,) each, and a coefficient's name; NaN where it is undefined.
Correlate = Callable[[Floats, Floats, Coefficient], float]


def correlate_with_ratings(
    predictions: Floats, examples: Examples, coefficient: Coefficient, correlate: Correlate | None
) -> float:
    """Correlate predictions with ratings: τ_c with each single rating, Spearman's ρ with their means.

    Args:
        predictions: shape (n,).
        examples: n rows with ratings.
        coefficient: its name.
        correlate: computes it.

    Returns:
        The coefficient; NaN if either side is constant.

    Raises:
        ValueError: where there is nothing to compute it.
    """
    if correlate is None:
        raise ValueError(
            "this rater compares predictions with ratings; make the TrainingSession with correlate="
        )

    if coefficient == "spearman":
        return correlate(predictions, examples.mean_ratings, coefficient)

    # τ_c is of single ratings: a caption's prediction stands once for each rating of it.
    rating_counts = [len(ratings) for ratings in examples.ratings]
    repeated_predictions = np.repeat(predictions, rating_counts)
    single_ratings = np.concatenate(examples.ratings)
    return correlate(repeated_predictions, single_ratings, coefficient)
