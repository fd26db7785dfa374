"""Curves, drawn references, sizes and the power of a difference on small data: worked by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.sensitivity_analysis import (
    SensitivityAnalysis,
    _curve_point,
    draw_references,
    find_duplicates,
)
from captau.benchmarks.evaluation.study import StudiedDataset
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from tests.conftest import says

NAN = math.nan


@pytest.mark.parametrize(
    ("drawn", "reason", "note", "expected"),
    [
        ([1.0, 3.0], "", "n", (2.0, 1.05, 2.95, 2, "n")),
        ([1.0], "", "", (1.0, NAN, NAN, 1, "")),
        ([1.0, NAN, 3.0], "why", "n", (2.0, 1.05, 2.95, 3, "undefined in 1 of 3 draws: why; n")),
        ([1.0, NAN], "", "", (1.0, NAN, NAN, 2, "undefined in 1 of 2 draws")),
        ([NAN, NAN], "why", "n", (NAN, NAN, NAN, 2, "undefined: why; n")),
    ],
)
def test_a_point_is_the_mean_and_the_band_of_its_draws(
    drawn: list[float], reason: str, note: str, expected: tuple[Any, ...]
) -> None:
    point = _curve_point(np.array(drawn), reason, note)
    assert list(point) == ["value", "low", "high", "draws", "note"]
    np.testing.assert_allclose(list(point.values())[:3], expected[:3])
    assert (point["draws"], point["note"]) == expected[3:]


def test_all_captions_of_an_image_have_the_references_that_were_drawn() -> None:
    items = make_items(
        ["1", "1", "2", "3"], ["a", "b", "c", "d"],
        [("p", "q", "r"), ("p", "q", "r"), ("s",), ("t", "u", "v", "w")],
    )  # fmt: skip
    drawn = draw_references(items, 2, np.random.default_rng(0))["references"].tolist()
    assert drawn[0] == drawn[1]
    assert [len(texts) for texts in drawn] == [2, 2, 1, 2]
    assert drawn[2] == ("s",)
    assert list(drawn[0]) == sorted(drawn[0])  # in their order
    assert list(drawn[3]) == sorted(drawn[3])
    whole = draw_references(items, 4, np.random.default_rng(0))["references"].tolist()
    assert whole == items["references"].tolist()


def test_duplicates_repeat_a_reference_or_an_earlier_caption_of_the_image() -> None:
    items = make_items(
        ["1", "1", "1", "2", "2"], ["A dog.", "a dog", "a cat", "a dog", "P q!"],
        [("p q",)] * 5, systems=list("abcab"),
    )  # fmt: skip
    assert find_duplicates(items).tolist() == [False, True, False, False, True]


def analysis(
    scores: Mapping[str, list[float]], ratings: list[list[float]], n_draws: int | None = 30
) -> SensitivityAnalysis:
    """An image with one caption for each list of ratings."""
    n = len(ratings)
    words = [["a", "b", "c", "d", "e", "f", "g", "h"][: k + 1] for k in range(n)]
    items = make_items([str(k) for k in range(n)], [" ".join(w) for w in words], [("r", "s")] * n)
    rows = [
        (item, "x", f"r{k}", value)
        for item, values in zip(items["item_id"], ratings, strict=True)
        for k, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    about = Card(*("made", "Made", "1", "none", "none", "none"), scales={"x": Scale(0, 10)})
    protocol = Protocol.resolve("made", {"dimension": "x"}, {"ratings": "mean"})
    selection = EvaluationSet.select(CaptionSet(items, ratings=frame, card=about), protocol)
    by_item = {m: pd.Series(v, index=items["item_id"]) for m, v in scores.items()}
    study = SimpleNamespace(
        selection=selection,
        name="made",
        metrics=list(scores),
        coefficients=["pearson"],
        scores=lambda *_: by_item,
    )
    return SensitivityAnalysis(cast(StudiedDataset, study), 3, n_draws)


SCORES = {"m": [1.0, 2.0, 4.0, 3.0], "n": [2.0, 1.0, 1.5, 4.0]}
RATINGS = [[1.0], [2.0], [3.0], [4.0]]


def test_sizes_are_parts_of_the_number_of_images() -> None:
    made = analysis(SCORES, RATINGS)
    assert made._sizes(made.selection.points("x"), "images") == [2, 4, 8]
    one = analysis({"m": [1.0]}, RATINGS[:1])
    with says(
        "dataset made: too few images with judgements (1); kind=images draws images and needs"
    ):
        one.rows("images")


def test_the_least_difference_is_z_of_test_and_power_times_the_error() -> None:
    """z of 0.975 is 1.959964 and of 0.8 is 0.841621."""
    made = analysis(SCORES, RATINGS, 200)
    rows = made.rows("power")
    assert [(r["size"], r["metric"], r["other"]) for r in rows] == [
        (size, "m", "n") for size in (2, 4, 8)
    ]
    points = made.selection.points("x")
    m, n = (np.corrcoef(SCORES[name], [1, 2, 3, 4])[0, 1] for name in "mn")
    drawn = made._resample(made.study.scores(), points, 8)
    differences = drawn["m"][0] - drawn["n"][0]
    row = rows[2]
    assert row["difference"] == pytest.approx(m - n)
    assert (row["kind"], row["dimension"], row["coefficient"], row["draws"]) == (
        "power", "x", "pearson", 200,
    )  # fmt: skip
    error = np.std(differences, ddof=1)
    assert row["value"] == pytest.approx(2.801585 * error, rel=1e-6)
    assert row["power"] == np.mean(np.abs(differences) > 1.959964 * error)
    assert row["note"] == ""
    assert math.isnan(rows[0]["power"])  # two draws of one image
    assert math.isnan(rows[0]["value"])
    assert rows[0]["note"] != ""
    with says("dataset made: kind=power compares metrics; name two at least"):
        analysis({"m": SCORES["m"]}, RATINGS).rows("power")


def test_raters_need_two_ratings_and_complete_items() -> None:
    with says("dataset made: most items have one rating of x; kind=raters needs two"):
        analysis(SCORES, RATINGS).rows("raters")
