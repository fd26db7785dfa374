"""Predictions against mean ratings: ρ and squared error by hand, and the file that `captau train` writes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.rater_training import (
    RatingEstimates,
    error_rows,
    shuffle_labels,
)
from captau.metrics.learned.common.recipe import Examples
from tests.conftest import run_captau


def estimates(split: str, predictions: list[float], means: list[float]) -> RatingEstimates:
    return RatingEstimates("one", "qe", split, np.array(predictions), np.array(means))


def test_errors_are_those_of_table_3_by_hand():
    """Levinboim et al. 2021, section 6: the mean of (y − ŷ)², and ρ of y and ŷ, on each side."""
    parts = [
        estimates("validation", [0.5, 0.25], [0.5, 0.75]),
        estimates("test", [0.1, 0.2], [0.1, 0.4]),
        estimates("test", [0.3], [0.2]),  # another fold
        estimates("test", [], []),
    ]
    validation, test = error_rows(parts).to_dict("records")
    assert validation["mse"] == pytest.approx(0.125)
    assert validation["spearman"] == pytest.approx(-1)
    assert validation["n_items"] == 2
    # ranks 1, 2, 3 and 1, 3, 2: 1 − 6 · 2 / (3 · 8)
    assert test["spearman"] == pytest.approx(0.5)
    assert test["mse"] == pytest.approx((0 + 0.04 + 0.01) / 3)
    assert (test["rater"], test["n_items"]) == ("qe", 3)


def test_shuffled_labels_are_the_same_ones_in_other_places():
    """About half of the winners change: of 400, between 150 and 250 but once in a million draws."""
    ratings = tuple(np.array([float(n)]) for n in range(50))
    pairs = np.column_stack([np.arange(400), np.arange(400) + 1000])
    examples = Examples(range(50), ratings, pairs)
    shuffled = shuffle_labels(examples, seed=3)
    assert shuffled.rows is examples.rows
    assert sorted(rating[0] for rating in shuffled.ratings) == list(range(50))
    assert sum(a is not b for a, b in zip(shuffled.ratings, ratings, strict=True)) > 40
    np.testing.assert_array_equal(np.sort(shuffled.preferences, axis=1), pairs)
    assert 150 < (shuffled.preferences[:, 0] >= 1000).sum() < 250
    again, other = shuffle_labels(examples, 3), shuffle_labels(examples, 4)
    assert again.ratings == shuffled.ratings
    np.testing.assert_array_equal(again.preferences, shuffled.preferences)
    assert other.ratings != shuffled.ratings
    assert (other.preferences != shuffled.preferences).any()


@pytest.mark.neural
@pytest.mark.training
def test_a_training_writes_errors_in_the_units_of_its_scale(tmp_path):
    """Errors of 1 to 5 are 16 times those of 0 to 1: (4 · difference)²."""
    tables: list[pd.DataFrame] = []
    for scale in ("[0,1]", "[1,5]"):
        folder = tmp_path / scale
        quick = ["rater.epochs=2", "rater.hidden=[4]", f"rater.scale={scale}"]
        words = ["rater=icr", *quick, "statistics.interval=none", f"output_dir={folder}"]
        assert run_captau("train", *words) == 0
        tables.append(pd.read_csv(folder / "rating_errors.csv").set_index("split"))
    share, five = tables
    assert list(share.index) == ["validation", "test"]
    np.testing.assert_allclose(five["mse"], 16 * share["mse"])
    np.testing.assert_allclose(five["spearman"], share["spearman"])
    assert share["n_items"].to_list() == [60, 48]
