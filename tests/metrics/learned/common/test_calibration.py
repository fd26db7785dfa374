"""Calibrations of raters: isotonic, by dataset and over all, written and read back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from captau.metrics.learned.common.calibration import ALL, CALIBRATION_FILE, Calibration, Curve
from captau.metrics.learned.common.recipe import Examples
from captau.metrics.rows import Rows
from tests.conftest import says

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
