"""Rows that a rater of one's own fills: which rater fits, and its error and validation, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.papers.rater_rows import (
    compute_rating_error,
    find_training_images,
    fits_row,
    read_best_validation,
)
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from captau.metrics.learned.rater import RaterCard, RaterMetric
from captau.metrics.registry import metric


def card(**about: Any) -> RaterCard:
    return RaterCard("qe", {"pretrain": "x", "deep": None}, 0, ("1", "2", "3"), "f", about)


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"rater": "icr"}, False),
        ({"trained_on": ["a"]}, False),
        ({"trained_on": ["a", "b"]}, True),
        ({"options": {"pretrain": True}}, True),
        ({"options": {"pretrain": False}}, False),
        ({"options": {"deep": False, "pretrain": True, "none": False}}, True),
        ({"options": {"deep": True, "pretrain": True}}, False),
        ({"options": None}, True),
        ({"options": {"pretrain": "x"}}, True),
        ({"options": {"pretrain": "y"}}, False),
    ],
)
def test_a_row_wants_a_recipe_its_data_and_options(changes: dict[str, Any], fits: bool) -> None:
    wanted = {"rater": "qe", "trained_on": ["b", "a"], **changes}
    assert fits_row(card(data={"a": 1, "b": 2}), wanted) is fits
    assert not fits_row(card(), wanted)


def test_a_row_without_datasets_is_of_any_data() -> None:
    assert fits_row(card(), {"rater": "qe"})
    assert fits_row(card(data={"a": 1}), {"rater": "qe"})


def test_images_that_only_chose_a_rater_are_not_those_that_trained_it() -> None:
    assert find_training_images(card(), ["2", "4", "3"]) == {"2", "3"}
    assert find_training_images(card(validation_images=["3"]), ["2", "4", "3"]) == {"2"}


class Fixed(RaterMetric):
    """Predicts 1, 2, 3 … in the items' order, on a scale from 1 to 5."""

    ends: ClassVar[tuple[float, float] | None] = (1.0, 5.0)

    @property
    def rating_scale(self) -> tuple[float, float] | None:
        return self.ends

    def score(self, items: Any, *_: Any, **__: Any) -> list[float]:
        return [float(n) for n in range(1, len(items) + 1)]


class WithoutScale(Fixed):
    ends = None


def test_an_error_is_the_mean_square_of_shares_of_both_scales() -> None:
    """Predictions 1, 2, 3 of 1 to 5 are 0, 1/4, 1/2; mean ratings 10, 5 and none of 0 to 10 are 1, 1/2."""
    items = make_items(["1", "2", "3"], ["a", "b", "c"], [("r",)] * 3)
    ids = items["item_id"]
    rows = [(ids[1], "x", "r", 4.0), (ids[1], "x", "s", 6.0), (ids[0], "x", "r", 10.0)]
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    about = Card(*("made", "Made", "1", "none", "none", "none"), scales={"x": Scale(0, 10)})
    protocol = Protocol.resolve("made", {"dimension": "x"}, {"ratings": "mean"})
    selection = EvaluationSet.select(CaptionSet(items, ratings=ratings, card=about), protocol)
    assert compute_rating_error(Fixed("nowhere"), selection) == pytest.approx((1 + 1 / 16) / 2)
    assert math.isnan(compute_rating_error(WithoutScale("nowhere"), selection))
    assert math.isnan(compute_rating_error(metric("bleu_1"), selection))


def test_the_validation_is_that_of_the_chosen_epoch_of_a_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "history.csv").write_text(
        "stage,epoch,best,validation\n"
        "pretraining a,1,False,0.1\npretraining a,2,True,0.2\npretraining b,1,True,0.3\n"
        "training,1,true,0.5\ntraining,2,false,0.4\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(
        "captau.benchmarks.evaluation.papers.rater_rows.find_rater_folder", lambda _: tmp_path
    )
    monkeypatch.setattr(
        "captau.benchmarks.evaluation.papers.rater_rows.HISTORY_FILE", "history.csv"
    )
    assert read_best_validation(Fixed("x"), "pretraining") == 0.2
    assert read_best_validation(Fixed("x"), "training") == 0.5
    assert math.isnan(read_best_validation(Fixed("x"), "other"))
    assert math.isnan(read_best_validation(metric("bleu_1"), "training"))
