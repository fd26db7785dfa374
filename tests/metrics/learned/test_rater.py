"""The metric `rater`: a trained rater's scores, name, signature, training images and damaged folders; and calibrations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from captau.metrics.learned.common.recipe import Examples
from captau.metrics.learned.rater import (
    ALL,
    CALIBRATION_FILE,
    CARD_FILE,
    Calibration,
    Curve,
    RaterCard,
    find_rater_folder,
)
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import says
from tests.metrics.learned.word_counter import WordCounter, word_counter

__all__ = ["word_counter"]  # the fixture
pytestmark = pytest.mark.usefixtures("word_counter")


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "run" / "seed-0"
    folder.mkdir(parents=True)
    WordCounter(2.0).save(folder)
    RaterCard("words", {"factor": 2.0}, 0, ("a.jpg", "b.jpg"), "f", {}).write(folder)
    return folder


ROWS = [{"image_id": "a.jpg", "caption": "a dog"}, {"image_id": "c.jpg", "caption": "one dog runs"}]


def test_a_rater_scores_as_its_model_does(folder):
    for path in (folder, folder.parent):  # the run's folder will do where it has one rater
        assert metric(f"rater(path='{path}')").score(ROWS).tolist() == [4.0, 6.0]


def test_a_given_name_is_the_spec_in_results(folder):
    assert metric(f"rater(path='{folder}',name=Mine)").spec == "Mine"
    spec = metric(f"rater(path='{folder}')").spec
    assert metric(spec) == metric(f"rater(path='{folder}')")


def test_the_signature_changes_with_the_weights(folder):
    rater = metric(f"rater(path='{folder}')")
    before = rater.signature
    (folder / "training.csv").write_text("stage\n")  # beside the rater, and no part of it
    assert rater.signature == before
    WordCounter(3.0).save(folder)
    assert rater.signature != before


def test_training_images_are_refused_or_marked(folder):
    rater = metric(f"rater(path='{folder}')")
    assert rater.training_overlap_note(["c.jpg", "d.jpg"]) is None
    with says(
        "was trained on, or chosen by, 1 of the 2 images", "protocol.split=test", "seen=mark"
    ):
        rater.training_overlap_note(["b.jpg", "c.jpg", "c.jpg"])
    marked = metric(f"rater(path='{folder}',seen=mark)")
    assert "1 of the 2 images" in (marked.training_overlap_note(["b.jpg", "c.jpg"]) or "")


def test_a_folder_without_one_whole_rater_is_refused(folder, tmp_path):
    with says("is not a folder", "captau train"):
        metric("rater(path=/nowhere/at/all)").score(ROWS)
    empty = tmp_path / "empty"
    empty.mkdir()
    with says(CARD_FILE, "if the training was stopped"):
        metric(f"rater(path='{empty}')").score(ROWS)
    other = folder.parent / "seed-1"
    other.mkdir()
    (other / CARD_FILE).write_bytes((folder / CARD_FILE).read_bytes())
    with says("several raters", "seed-0, seed-1"):
        find_rater_folder(folder.parent)
    for text in ("{", "[]", '{"format": 2}', '{"format": 2, "images": 3}'):
        (folder / CARD_FILE).write_text(text)
        with says(str(folder / CARD_FILE), "not the card of a rater"):
            metric(f"rater(path='{folder}')").score(ROWS)
    whole = {
        "format": 2,
        "rater": "words",
        "options": {},
        "seed": 0,
        "fingerprint": "",
        "about": {},
    }
    for images in ("a.jpg", [1]):
        (folder / CARD_FILE).write_text(json.dumps({**whole, "images": images}))
        with says("not the card of a rater"):
            metric(f"rater(path='{folder}')").score(ROWS)


@pytest.mark.parametrize(("number", "age"), [(1, "former"), (99, "later")])
def test_a_folder_of_another_version_is_refused_with_its_name_and_a_remedy(folder, number, age):
    (folder / CARD_FILE).write_text(json.dumps({"format": number}))
    with says(
        f"{folder}: a rater of a {age} version of captau", "train it again with captau train"
    ):
        metric(f"rater(path='{folder}')").score(ROWS)


def test_a_source_that_the_recipe_lacks_is_refused(folder):
    with says("images=x.npz", "its sources are: texts"):
        metric(f"rater(path='{folder}',images=x.npz)").score(ROWS)


NO_PAIRS = np.empty((0, 2), dtype=np.intp)


def examples_of(datasets: list[str], ratings: list[list[float]]) -> Examples:
    frame = pd.DataFrame({"caption": ["a"] * len(datasets), "dataset": datasets})
    return Examples(Rows(frame), tuple(np.array(r, dtype=float) for r in ratings), NO_PAIRS)


def test_a_curve_by_hand():
    """Ratings that fall are pooled: 0.2 | 0.6, 0.4 | 0.9 becomes 0.2, 0.5, 0.5, 0.9."""
    ratings = np.array([0.2, 0.6, 0.4, 0.9])
    curve = Curve.fit(
        np.array([0.1, 0.2, 0.3, 0.4]), ratings, np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4)
    )
    assert curve.ratings == pytest.approx((0.2, 0.5, 0.5, 0.9))
    assert curve.good == pytest.approx((0.0, 0.5, 0.5, 1.0))
    assert curve.threshold(0.5) == pytest.approx(0.2)
    assert curve.threshold(0.9) == pytest.approx(0.4)
    assert np.isnan(Curve((0.1,), (0.5,), (0.4,)).threshold(0.9))


def test_each_dataset_has_a_curve_and_counts_the_same_in_that_of_all():
    """A caption is good where most of its ratings are half of the scale or more."""
    examples = examples_of(
        ["one", "two", "two", "three"], [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0], []]
    )
    calibration = Calibration.fit(examples, np.array([0.5, 0.5, 0.5, 0.5]))
    assert set(calibration.curves) == {"one", "two", ALL}
    assert set(calibration.curves["one"].good) == {0.0}
    assert set(calibration.curves["two"].good) == {1.0}
    # The mean over equal scores, the one caption of the first counting as much as the two of the second.
    assert all(0 <= probability <= 1 for probability in calibration.curves[ALL].good)
    assert calibration.curve_of("two") == calibration.curves["two"]
    assert calibration.curve_of("three") == calibration.curves[ALL]
    assert Calibration.fit(examples.take(np.array([3])), np.zeros(1)).curve_of("three") is None


def test_curves_rise_and_are_read_back(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    examples = examples_of(
        ["d"] * 500, [[float(np.clip(s + rng.normal() / 4, 0, 1))] for s in scores]
    )
    calibration = Calibration.fit(examples, scores)
    curve = calibration.curves["d"]
    for values in (curve.scores, curve.ratings, curve.good):
        assert (np.diff(values) >= 0).all()
    assert np.interp(0.5, curve.scores, curve.ratings) == pytest.approx(0.5, abs=0.1)
    calibration.write(tmp_path)
    assert Calibration.read(tmp_path) == calibration
    (tmp_path / CALIBRATION_FILE).write_text('{"curves": {"d": 3}}')
    with says(CALIBRATION_FILE, "damaged", "train the rater again"):
        Calibration.read(tmp_path)
    (tmp_path / CALIBRATION_FILE).unlink()
    assert Calibration.read(tmp_path) is None


def test_reliability_by_hand():
    """Five captions, one a fifth; the curve of all expects half of the score as a rating, and the score as the chance to be good."""
    examples = examples_of(["d"] * 6, [[0.3], [0.1], [0.9], [0.5], [1.0], []])
    curve = Curve((0.0, 1.0), (0.0, 0.5), (0.0, 1.0))
    rows = Calibration({ALL: curve}).measure_reliability(
        examples, np.array([0.4, 0.2, 1.0, 0.6, 0.8, 0.5])
    )
    assert [row["score"] for row in rows] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert [row["expected_rating"] for row in rows] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert [row["rating"] for row in rows] == [0.1, 0.3, 0.5, 1.0, 0.9]
    assert [row["expected_good"] for row in rows] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert [row["good"] for row in rows] == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert [row["n_items"] for row in rows] == [1] * 5
    assert Calibration({}).measure_reliability(examples, np.zeros(6)) == []
