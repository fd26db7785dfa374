"""Rows of published tables that a learned rater of one's own fills: which rater fits, and what only raters have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from ....datasets.reading.table import read_table
from ....metrics.base import Metric
from ....metrics.learned.rater import RaterCard, RaterMetric, find_rater_folder
from ..evaluation_set import EvaluationSet
from ..training.rater_training import HISTORY_FILE


def fits_row(card: RaterCard, description: Mapping[str, Any]) -> bool:
    """Tell whether a rater is of the kind that `PaperTable.row_raters` describes."""
    if card.rater != description["rater"]:
        return False

    # A rater that learns from captions alone has no dataset that it must be of.
    datasets = description.get("trained_on")
    if datasets is not None and set(card.about.get("data", ())) != set(datasets):
        return False

    for name, described_option in (description.get("options") or {}).items():
        option = card.options.get(name)
        # A card may have a path where a paper says only that there is a file.
        if isinstance(described_option, bool):
            option = bool(option)
        if option != described_option:
            return False

    return True


def find_training_images(card: RaterCard, image_ids: Iterable[str]) -> set[str]:
    """Return those of some images that a rater was trained on; images that only chose it are no part of them."""
    trained = set(card.images) - set(card.about.get("validation_images", ()))
    return trained & set(image_ids)


def compute_rating_error(rater: Metric, selection: EvaluationSet) -> float:
    """Return the mean squared error of predictions against mean ratings, both from 0 to 1; NaN where it predicts none."""
    if not isinstance(rater, RaterMetric) or rater.rating_scale is None:
        return math.nan

    dimension = selection.protocol.dimension[0]
    points = selection.points(dimension).set_index("item_id")["value"]
    shares = selection.caption_set.card.scales[dimension].share(points)

    low, high = rater.rating_scale
    predictions = pd.Series(rater.score(selection.items), selection.items["item_id"])
    # Both as shares of their scales, which need not be the same.
    errors = (predictions[points.index] - low) / (high - low) - shares
    return float((errors**2).mean())


def read_best_validation(rater: Metric, stage: str) -> float:
    """Return the validation score of the chosen epoch of a training's stage; NaN without such a stage.

    Args:
        stage: how its name begins, such as `pretraining`.
    """
    if not isinstance(rater, RaterMetric):
        return math.nan

    history = read_table(find_rater_folder(rater.path) / HISTORY_FILE)
    stages = history.column("stage")
    are_best = history.column("best")
    validations = history.column("validation")
    for name, is_best, validation in zip(stages, are_best, validations, strict=True):
        if str(name).startswith(stage) and str(is_best).lower() == "true":
            return float(validation)

    return math.nan
