"""Preferences as data points: rules of ties, raters, grades, floors and ceilings, by hand and in `captau.bench`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

import captau
from captau.benchmarks.evaluation.judged_pairs import (
    JudgedPairs,
    PairAnswers,
    count_words,
    floor_scores,
)
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import Scale
from tests.benchmarks.printed import lines_of
from tests.conftest import says

HEADER = "image,caption_a,caption_b,strength,rater,dimension,references\n"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Three pairs, two raters, two dimensions; the metric counts a caption's letters, and ties on the third pair."""
    pairs = {"i1": ("a b c", "a"), "i2": ("a b", "a bb ccc"), "i3": ("dd", "e f")}
    answers = {
        "fit": {"i1": (2, 1), "i2": (-1, 1), "i3": (0, -1)},
        "style": {"i1": (1, 1), "i2": (1, 0), "i3": (-2, -2)},
    }
    lines = [
        f"{image},{a},{b},{strength},{rater},{dimension},r\n"
        for dimension, by_image in answers.items()
        for image, strengths in by_image.items()
        for rater, strength in zip(("ann", "bob"), strengths, strict=True)
        for a, b in (pairs[image],)
    ]
    (tmp_path / "pairs.csv").write_text(HEADER + "".join(lines), encoding="utf-8")
    (tmp_path / "letters.py").write_text(
        "def count(items):\n    return items['caption'].str.replace(' ', '').str.len().astype(float)\n"
    )
    monkeypatch.chdir(tmp_path)
    return {"file": {"path": "pairs.csv"}, "statistics": {"replicates": 50}}


def accuracies(table, **protocol):
    frame = captau.bench("file", "python(letters:count)", protocol=protocol, **table).correlations
    return frame[frame["coefficient"] == "accuracy"].set_index(["metric", "dimension"])


def metric_of(frame):
    return next(name for name, _ in frame.index if not name.startswith(("floor_", "ceiling_")))


def test_ties_count_half(table):
    """Letters prefer a, then b, then tie. Fit: right, right; right, wrong; tied by ann, a half for bob."""
    frame = accuracies(table)
    metric = metric_of(frame)
    assert frame.at[(metric, "fit"), "value"] == (1 + 1 + 1 + 0 + 0.5) / 5
    assert frame.at[(metric, "fit"), "n_ratings"] == 5
    assert "1 pairs left out on which people tied" in frame.at[(metric, "fit"), "note"]
    assert frame.at[(metric, "style"), "value"] == (1 + 1 + 0 + 0.5 + 0.5) / 5
    assert frame.at[(metric, "mean"), "value"] == pytest.approx((3.5 + 3) / 10)


def test_ties_are_dropped(table):
    frame = accuracies(table, ties="drop")
    metric = metric_of(frame)
    assert frame.at[(metric, "fit"), "value"] == 3 / 4
    assert frame.at[(metric, "fit"), "n_ratings"] == 4
    assert "1 pairs left out that the metric ties" in frame.at[(metric, "fit"), "note"]


def test_ties_are_calibrated(table):
    """All six answers of fit count; without a threshold four are right, ann's tie on the third among them."""
    frame = accuracies(table, ties="calibrated")
    metric = metric_of(frame)
    assert frame.at[(metric, "fit"), "value"] == 4 / 6
    assert frame.at[(metric, "fit"), "n_ratings"] == 6
    assert "equal scores alone are tied" in frame.at[(metric, "fit"), "note"]
    protocol = {"ties": "calibrated"}
    (printed, *_) = captau.bench("file", "python(letters:count)", protocol=protocol, **table).tables
    start = "fit accuracy, style accuracy: equal scores alone are tied"
    assert [note for note in printed.notes if note.startswith(start)]


def test_answers_of_a_pair_are_averaged(table):
    """Means of fit: 1.5, 0, -0.5; of the two decided pairs letters get one right, and tie the other."""
    frame = accuracies(table, ratings="mean")
    assert frame.at[(metric_of(frame), "fit"), "value"] == 1.5 / 2


def test_length_and_position_stand_below_the_metrics(table):
    """Words: a has more on the first pair, b on the other two. The first caption wins three of five answers on fit."""
    frame = accuracies(table)
    assert frame.at[("floor_length", "fit"), "value"] == (1 + 1 + 1 + 0 + 1) / 5
    assert frame.at[("floor_position", "fit"), "value"] == 3 / 5
    tables = captau.bench("file", "python(letters:count)", **table).tables
    labels = [label for label, _ in lines_of(tables[0])]
    assert {"longer caption", "first caption"} <= set(labels)


def test_ceilings_are_what_raters_reach(table):
    """Fit: on the first pair both agree, on the second neither, on the third bob's answer is ann's tie, half."""
    frame = accuracies(table)
    assert frame.at[("ceiling_one_vs_one", "fit"), "value"] == (1 + 1 + 0 + 0 + 0.5) / 5
    # The mean strengths are 1.5, 0 and -0.5.
    assert frame.at[("ceiling_oracle", "fit"), "value"] == (1 + 1 + 0.5 + 0.5 + 1) / 5


def test_graded_preferences_have_tau_whatever_the_order(table):
    """SciPy on the differences in both orders; exchanging the captions changes nothing."""
    frame = captau.bench("file", "python(letters:count)", **table).correlations
    row = frame[(frame["coefficient"] == "tau_b") & (frame["dimension"] == "fit")].iloc[0]
    differences = np.array([2.0, 2, -4, -4, 0, 0])
    strengths = np.array([2.0, 1, -1, 1, 0, -1])
    both = (np.append(values, -values) for values in (differences, strengths))
    assert row["value"] == pytest.approx(scipy.stats.kendalltau(*both).statistic)
    assert row["n_ratings"] == 6
    assert "each pair in both orders" in row["note"]
    lines = pd.read_csv("pairs.csv")
    turned = lines.rename(columns={"caption_a": "caption_b", "caption_b": "caption_a"})
    turned.assign(strength=-lines["strength"]).to_csv("pairs.csv", index=False)
    again = captau.bench("file", "python(letters:count)", **table).correlations
    same = again[(again["coefficient"] == "tau_b") & (again["dimension"] == "fit")].iloc[0]
    assert same["value"] == pytest.approx(row["value"])


def test_ratings_alone_have_no_accuracy(tmp_path):
    (tmp_path / "t.csv").write_text("image,caption,value,references\na,b,1,b\na,c,2,b\nd,e,3,e\n")
    frame = captau.bench("file", "rouge_l", file={"path": tmp_path / "t.csv"}).correlations
    assert set(frame["coefficient"]) == {"tau_c", "tau_b", "spearman", "pearson"}


def test_the_protocol_chooses_dimensions_of_preferences() -> None:
    """The demo rates `overall` and has preferences on four other dimensions."""
    chosen = captau.bench(
        "demo",
        "rouge_1",
        protocol={"coefficients": ["accuracy", "tau_c"], "dimension": ["colour", "overall"]},
    )
    usual = captau.bench("demo", "rouge_1", protocol={"coefficients": ["accuracy", "tau_c"]})
    rows = chosen.correlations.query("metric == 'rouge_1'")
    assert set(rows["dimension"]) == {"overall", "colour", "mean"}
    value = usual.correlations.query("metric == 'rouge_1' and dimension == 'colour'")[
        "value"
    ].item()
    assert set(rows.query("coefficient == 'accuracy'")["value"]) == {value}
    with says("unknown dimension of dataset demo 'color'", "colour", "overall"):
        captau.bench("demo", "rouge_1", protocol={"dimension": ["color"]})


def test_answers_about_pairs_stand_there_in_both_orders() -> None:
    rows = [
        ("p1", "b", "a", "fit", 2.0),
        ("p2", "a", "c", "fit", -1.0),
        ("p3", "a", "b", "style", 0.5),
    ]
    answers = PairAnswers.from_preferences(make_preferences(rows, "r"), ["a", "b", "c"])
    assert answers.ratings.index.tolist() == list(range(6))
    assert answers.ratings[["item_id", "dimension", "rater", "value"]].to_numpy().tolist() == [
        ["b|a", "fit", "r", 2.0],
        ["a|c", "fit", "r", -1.0],
        ["a|b", "style", "r", 0.5],
        ["a|b", "fit", "r", -2.0],
        ["c|a", "fit", "r", 1.0],
        ["b|a", "style", "r", -0.5],
    ]
    assert answers.item_ids == ["a|b", "a|c", "b|a", "c|a"]
    assert answers.scales == {"fit": Scale(-2.0, 2.0, 1.0), "style": Scale(-0.5, 0.5, None)}
    tied = PairAnswers.from_preferences(make_preferences([("p", "a", "b", "fit", 0.0)]), ["a", "b"])
    assert tied.scales == {"fit": Scale(0.0, 0.0, None)}


def judged(ratings: str, ties: str) -> JudgedPairs:
    """Answers about two pairs of image 2 and one of image 1, one of them in the other order."""
    image_of_item = pd.Series({"c": "2", "d": "2", "e": "2", "a": "1", "b": "1"})
    rows = [
        ("p3", "a", "b", "fit", 1.0),
        ("p1", "c", "d", "fit", 2.0),
        ("p1", "c", "d", "fit", -1.0),
        ("p2", "d", "e", "fit", 0.0),
        ("p1", "c", "d", "style", 0.0),
        ("p2", "e", "d", "fit", -3.0),
    ]
    return JudgedPairs.select(make_preferences(rows), ratings, ties, image_of_item)


@pytest.mark.parametrize(
    ("ratings", "ties", "points", "n_tied"),
    [
        (
            "per_rating",
            "half",
            [
                ("c", "d", "fit", -1.0),
                ("c", "d", "fit", 2.0),
                ("e", "d", "fit", -3.0),
                ("a", "b", "fit", 1.0),
            ],
            {"fit": 1, "style": 1},
        ),
        (
            "per_rating",
            "calibrated",
            [
                *(("c", "d", "fit", -1.0), ("c", "d", "fit", 2.0), ("c", "d", "style", 0.0)),
                *(("d", "e", "fit", 0.0), ("e", "d", "fit", -3.0), ("a", "b", "fit", 1.0)),
            ],
            {"fit": 0, "style": 0},
        ),
        (
            "mean",
            "drop",
            [("c", "d", "fit", 0.5), ("e", "d", "fit", -3.0), ("a", "b", "fit", 1.0)],
            {"fit": 1, "style": 1},
        ),
        (
            "rounded_mean",
            "drop",
            [("c", "d", "fit", 1.0), ("e", "d", "fit", -3.0), ("a", "b", "fit", 1.0)],
            {"fit": 1, "style": 1},
        ),
    ],
)
def test_points_are_in_the_order_of_captions(
    ratings: str, ties: str, points: list[Any], n_tied: dict[str, int]
) -> None:
    found = judged(ratings, ties)
    frame = found.frame[["item_a", "item_b", "dimension", "strength"]]
    assert list(frame.itertuples(index=False, name=None)) == points
    assert frame.index.tolist() == list(range(len(points)))
    assert found.n_tied == n_tied
    assert found.dimensions == ("fit", "style")
    assert found.dimension.tolist() == [("fit", "style").index(p[2]) for p in points]
    assert found.image.tolist() == [int(p[0] == "a") for p in points]
    assert found.n_images == 2
    assert found.strengths.tolist() == [p[3] for p in points]


def test_words_and_random_numbers_are_floors() -> None:
    items = pd.DataFrame({"item_id": ["x", "y"], "caption": ["a b  c", ""]})
    assert count_words(items).to_dict() == {"x": 3.0, "y": 0.0}
    floors = floor_scores(items)
    assert list(floors) == ["floor_random", "floor_length"]
    assert floors["floor_random"].to_dict() == dict(
        zip("xy", np.random.default_rng(0).random(2).tolist(), strict=True)
    )
    assert floors["floor_length"].to_dict() == {"x": 3.0, "y": 0.0}


def test_dimensions_are_graded_where_strengths_differ_in_size() -> None:
    assert judged("per_rating", "half").graded_dimensions == ["fit"]
    assert (
        judged("rounded_mean", "half").without(np.array([False, True, False])).graded_dimensions
        == []
    )
    left = judged("per_rating", "half").without(np.array([True, False, False, True]))
    assert left.frame.index.tolist() == [0, 1]
    assert left.strengths.tolist() == [2.0, -3.0]
    assert left.image.tolist() == [0, 0]


def test_pairs_of_the_same_captions_are_numbered_whatever_their_order() -> None:
    found = judged("per_rating", "calibrated")
    numbers, turns = found.captions
    assert numbers.tolist() == [0, 0, 0, 1, 1, 2]
    assert turns.tolist() == [1.0, 1.0, 1.0, 1.0, -1.0, 1.0]
    groups, turns = found.groups
    assert groups.tolist() == [0, 0, 1, 2, 2, 3]
    assert turns.tolist() == [1.0, 1.0, 1.0, 1.0, -1.0, 1.0]


def test_panels_have_outcomes_by_dimension_and_differences_in_both_orders() -> None:
    found = judged("per_rating", "half")
    differences = {"m": np.array([1.0, 1.0, 0.0, np.nan])}
    panel = found.outcome_panel(differences, {}, drop=True)
    assert panel.drops_undefined
    assert panel.outcomes["m"].tolist()[:3] == [0.0, 1.0, 0.5]
    assert panel.counted["m"].tolist() == [True, True, True, True]
    assert panel.item.tolist() == [0, 1, 2, 3]
    assert panel.captions.tolist() == [0, 0, 1, 2]
    assert (panel.image.tolist(), panel.n_images) == ([0, 0, 0, 1], 2)
    graded = found.graded_panel(differences, "fit", ["tau_b"], drop=False)
    assert not graded.drops_undefined
    assert (graded.dimension, graded.coefficients) == ("fit", ("tau_b",))
    np.testing.assert_equal(graded.scores["m"], [1.0, 1, 0, np.nan, -1, -1, 0, np.nan])
    assert graded.ratings.tolist() == [-1.0, 2, -3, 1, 1, -2, 3, -1]
    assert graded.image.tolist() == [0, 0, 0, 1] * 2
    assert graded.item.tolist() == [0, 1, 2, 3] * 2
    assert graded.n_images == 2
