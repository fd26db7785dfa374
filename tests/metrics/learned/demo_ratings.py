"""The demo's ratings as examples, and the rule behind them, for tests that train raters; rows without ratings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import captau
from captau.benchmarks.evaluation.training.rater_training import correlate_for_training
from captau.datasets.sources import demo
from captau.metrics.base import Floats
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import Recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.rows import Rows


def demo_examples(split: str) -> Examples:
    """Return the demo's captions of a split with their ratings, from 0 to 1."""
    caption_set = captau.load("demo")
    items = caption_set.items[caption_set.items["split"] == split].reset_index(drop=True)
    ratings = {
        item_id: (values.to_numpy() - 1) / 4
        for item_id, values in caption_set.ratings.groupby("item_id")["value"]
    }
    return Examples(
        Rows(items.assign(dataset="demo")),
        tuple(ratings[item_id] for item_id in items["item_id"]),
        np.empty((0, 2), dtype=np.intp),
    )


def make_rows(captions: list[str], references: tuple[str, ...]) -> Rows:
    """Return captions of one image, all with the same references."""
    return Rows(pd.DataFrame({"caption": captions, "references": [references] * len(captions)}))


def start_session(seed: int = 0) -> TrainingSession:
    """Start a training with captau's coefficients, as `captau train` does."""
    return TrainingSession(seed, correlate=correlate_for_training)


def shuffle_ratings(examples: Examples) -> Examples:
    """Return examples whose ratings belong to other rows, as a control learns from."""
    order = np.random.default_rng(0).permutation(len(examples))
    return Examples(examples.rows, tuple(examples.ratings[i] for i in order), examples.preferences)


def correlate_with_rule(predictions: Floats, examples: Examples) -> float:
    """Return Spearman's coefficient of predictions and the noise-free rule behind the ratings."""
    rule = dict(zip(captau.load("demo").items["item_id"], demo.rule(), strict=True))
    item_ids = examples.rows.frame["item_id"]
    return float(stats.spearmanr(predictions, [rule[i] for i in item_ids]).statistic)


def check_learning(recipe: Recipe, folder: Path) -> None:
    """Assert that a rater learns the demo's rule, its control does not, and files hold all of it."""
    train, validation, test = map(demo_examples, ("train", "validation", "test"))
    model = recipe.fit(train, validation, start_session())
    predictions = model.predict(test.rows)
    assert correlate_with_rule(predictions, test) >= 0.8
    control = recipe.fit(shuffle_ratings(train), shuffle_ratings(validation), start_session())
    assert correlate_with_rule(control.predict(test.rows), test) < 0.5
    model.save(folder)
    loaded = recipe.load(folder)
    assert np.array_equal(loaded.predict(test.rows), predictions)
    # Neither order nor company of a row matters.
    order = np.random.default_rng(1).permutation(len(test))
    for rows in (order, order[:1]):
        np.testing.assert_allclose(
            loaded.predict(test.take(rows).rows), predictions[rows], atol=1e-6
        )
