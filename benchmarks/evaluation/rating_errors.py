"""Differences between a rater's predictions and people's mean ratings, on its validation and test rows.

`captau train` writes it as `rating_errors.csv`. Spearman's ρ and the mean squared error on both sides are
the columns of Levinboim et al. 2021, Table 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...metrics.base import Floats
from ...metrics.learned.common.recipe import Examples, RaterModel, Recipe
from ..runs.tables import ResultTable, format_number
from ..statistics.coefficients.registry import correlate
from .training_designs import TrainingCorpus, TrainingJob

#: `mse` is in squared units of the predictions; `n_items` counts captions with a rating.
ERROR_COLUMNS = ("dataset", "rater", "split", "spearman", "mse", "n_items")


@dataclass(frozen=True)
class RatingEstimates:
    """A rater's predictions beside mean ratings on the same scale, both of shape (n_items,)."""

    dataset: str
    rater: str
    split: str
    predictions: Floats
    mean_ratings: Floats


def estimate_ratings(
    recipe: Recipe,
    job: TrainingJob,
    model: RaterModel,
    test_predictions: Mapping[str, Floats],
    corpora: Mapping[str, TrainingCorpus],
) -> Iterator[RatingEstimates]:
    """Yield a job's estimates of each dataset's validation and test rows; none of a recipe that only orders.

    Args:
        test_predictions: by dataset, for the rows of `job.test`.
    """
    if recipe.rating_scale is None:
        return
    low, high = recipe.rating_scale

    def pair(dataset: str, split: str, predictions: Floats, examples: Examples) -> RatingEstimates:
        has_rating = examples.has_rating
        means = low + (high - low) * examples.mean_ratings[has_rating]
        return RatingEstimates(dataset, job.label, split, predictions[has_rating], means)

    datasets = job.validation.rows.frame["dataset"]
    for dataset in datasets.unique():
        examples = job.validation.take(np.flatnonzero(datasets == dataset))
        yield pair(str(dataset), "validation", model.predict(examples.rows), examples)
    for dataset, rows in job.test.items():
        examples = corpora[dataset].examples.take(rows)
        yield pair(dataset, "test", test_predictions[dataset], examples)


def error_rows(estimates: Sequence[RatingEstimates]) -> pd.DataFrame:
    """Return columns `ERROR_COLUMNS`; the folds of one rater are pooled, rows without ratings left out."""
    grouped: dict[tuple[str, str, str], list[RatingEstimates]] = {}
    for part in estimates:
        if len(part.predictions):
            grouped.setdefault((part.dataset, part.rater, part.split), []).append(part)
    rows: list[tuple[str | float, ...]] = []
    for key, parts in grouped.items():
        predictions = np.concatenate([part.predictions for part in parts])
        means = np.concatenate([part.mean_ratings for part in parts])
        spearman = correlate(predictions, means, "spearman").value
        mse = float(np.mean((predictions - means) ** 2))
        rows.append((*key, spearman, mse, len(means)))
    return pd.DataFrame(rows, columns=pd.Index(ERROR_COLUMNS))


def error_table(errors: pd.DataFrame) -> ResultTable:
    """Return the rows as a table."""
    rows: list[tuple[str, list[str]]] = []
    for dataset, rater, split, spearman, mse, n_items in errors.to_numpy().tolist():
        numbers = [format_number(float(value), 1, 3) for value in (spearman, mse)]
        rows.append((f"{rater}: {dataset}, {split}", [*numbers, f"{n_items:,}"]))
    title = "Predictions and mean ratings"
    return ResultTable(title, "rater: dataset, rows", ["Spearman", "MSE", "captions"], rows)
