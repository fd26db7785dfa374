"""Means from few ratings and the metrics of all captions: worked by hand, laws, and a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from captau.benchmarks.statistics.prediction_powered import (
    FOLDS,
    RatedSample,
    Scores,
    estimate_mean,
)


def sample_of(
    scores: Sequence[float], rated: Sequence[int], ratings: Sequence[float], **changes: Any
) -> RatedSample:
    columns = np.array(scores, dtype=float)[:, None]
    values: dict[str, Any] = {
        "scores": Scores.of(columns),
        "images": np.arange(len(scores)),
        "strata": np.zeros(len(scores), dtype=np.int64),
        "caption": np.array(rated),
        "rater": np.zeros(len(rated), dtype=np.int64),
        "values": np.array(ratings, dtype=float),
    }
    return RatedSample(**{**values, **changes})


def test_the_mean_worked_by_hand() -> None:
    """Scores 0 to 3 have the mean 1.5 and the variance 1.25; g of captions 0 and 2 is -1.5 and 0.5 over √1.25.

    Their covariance with the ratings 1 and 2 is 1 / 2 / √1.25, the variance of g is 1 over all captions and 0.8 in the
    sample, so that λ g is 0.4 of the deviation of scores: the mean g is -0.5 / √1.25, and the estimate 1.5 + 0.4 × 0.5.
    """
    mean = estimate_mean(sample_of([0, 1, 2, 3], [0, 2], [1, 2]))
    assert mean.classical.value == 1.5
    assert mean.powered.weight == pytest.approx(0.5 / np.sqrt(1.25))
    assert mean.powered.value == pytest.approx(1.7)


def test_the_classical_interval_is_students() -> None:
    """Ratings 1, 2, 3, 6: mean 3, variance 14 / 3; of 8 captions half are not rated; t(3) is 3.182446."""
    mean = estimate_mean(sample_of([1.0] * 8, [0, 1, 2, 3], [1, 2, 3, 6]))
    assert mean.powered is mean.classical
    error = np.sqrt(14 / 3 / 4)
    low, high = mean.classical.interval(0.95, "images")
    assert (low, high) == pytest.approx((3 - 3.182446 * error, 3 + 3.182446 * error), abs=1e-5)
    low, high = mean.classical.interval(0.95, "captions")
    reach = 3.182446 * error * np.sqrt(1 / 2)
    assert (low, high) == pytest.approx((3 - reach, 3 + reach), abs=1e-5)


def test_where_all_captions_are_rated_nothing_is_left_to_estimate() -> None:
    scores = [0.0, 1.0, 4.0, 2.0, 5.0]
    mean = estimate_mean(sample_of(scores, [0, 1, 2, 3, 4], [1, 2, 5, 3, 3]))
    assert mean.powered.value == pytest.approx(2.8)
    assert mean.powered.interval(0.95, "captions") == pytest.approx((2.8, 2.8))
    # Of other images the metric says nothing that these ratings do not say.
    classical = mean.classical.interval(0.95, "images")
    error = mean.powered.standard_error("images")
    assert error == pytest.approx(mean.classical.standard_error("images"))
    assert classical[0] < 2.8 < classical[1]


def test_strata_count_by_their_size() -> None:
    """Stratum 0 has 6 captions with ratings 1 and 3, stratum 1 has 2 with the rating 5: (6 × 2 + 2 × 5) / 8."""
    strata = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    sample = sample_of([1.0] * 8, [0, 1, 6], [1, 3, 5], strata=strata)
    assert estimate_mean(sample).classical.value == pytest.approx(2.75)


def test_recorded_probabilities_weigh_ratings() -> None:
    """One caption in two was chosen, another one in four: weights 2 and 4."""
    probabilities = np.array([0.5, 0.25, 0.5, 0.25])
    sample = sample_of([1.0] * 4, [0, 1], [2, 5], probabilities=probabilities)
    assert estimate_mean(sample).classical.value == pytest.approx((2 * 2 + 4 * 5) / 6)


def test_raters_who_differ_widen_the_interval_for_other_raters() -> None:
    """Two raters rate all of four captions: 1 1 1 1 and 3 3 3 3, so that images do not differ at all.

    Each rating's influence is ∓1 / 8; by rater they sum to ∓1 / 2, by rating to ∓1 / 8: the variance is
    2 (1/4 - 4/64 × ...) = 2 × (2 × 1/4 - 8 × 1/64).
    """
    sample = RatedSample(
        scores=Scores.of(np.ones((100, 1))),
        images=np.arange(100),
        strata=np.zeros(100, dtype=np.int64),
        caption=np.array([0, 1, 2, 3, 0, 1, 2, 3]),
        rater=np.array([0, 0, 0, 0, 1, 1, 1, 1]),
        values=np.array([1.0, 1, 1, 1, 3, 3, 3, 3]),
    )
    estimate = estimate_mean(sample).classical
    assert estimate.value == 2
    assert estimate.standard_error("images") == pytest.approx(0)
    assert estimate.standard_error("raters") ** 2 == pytest.approx(2 * (2 / 4 - 8 / 64))
    # All of the error is the raters', of whom there are two.
    assert estimate.degrees_of_freedom("raters") == pytest.approx(1)


def test_captions_of_an_image_count_as_one() -> None:
    """Each image's two captions have equal ratings: the error is that of four images, and not of eight captions."""
    ratings = [1.0, 1, 2, 2, 3, 3, 6, 6]
    images = np.repeat(np.arange(50), 2)
    sample = sample_of([1.0] * 100, list(range(8)), ratings, images=images)
    by_image = estimate_mean(sample_of([1.0] * 50, [0, 1, 2, 3], [1.0, 2, 3, 6]))
    found = estimate_mean(sample).classical
    assert found.standard_error("captions") == pytest.approx(
        by_image.classical.standard_error("captions")
    )
    assert found.freedom == 3


def test_the_difference_of_two_means_on_other_images_adds_their_variances() -> None:
    scores = list(np.arange(40.0) % 7)
    a = estimate_mean(sample_of(scores, list(range(20)), list(np.arange(20.0) % 3)))
    b = estimate_mean(sample_of(scores, list(range(20, 40)), list(np.arange(20.0) % 5)))
    difference = a.subtract(b)
    assert difference.powered.value == pytest.approx(a.powered.value - b.powered.value)
    variances = [m.classical.standard_error("captions") ** 2 for m in (a, b)]
    assert difference.classical.standard_error("captions") ** 2 == pytest.approx(sum(variances))


def test_a_system_does_not_differ_from_itself() -> None:
    mean = estimate_mean(sample_of(list(np.arange(40.0)), list(range(20)), list(np.arange(20.0))))
    same = mean.subtract(mean)
    assert same.powered.value == 0
    assert same.powered.standard_error("images") == 0
    assert same.powered.p_value("images") == 1


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
def test_ratings_are_worth_what_the_correlation_says(correlation: float) -> None:
    """n / (1 - ρ²) of ratings of a tenth of the captions at most: the variance is (1 - ρ²) σ² (1/n - 1/N) + σ² / N."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000)
    ratings = correlation * scores + np.sqrt(1 - correlation**2) * rng.normal(size=20_000)
    images = np.arange(20_000)
    rated = rng.choice(20_000, 2_000, replace=False)
    noise = rng.normal(size=20_000)
    one = RatedSample.draw(Scores.of(scores[:, None]), images, rated, ratings[rated])
    joint = RatedSample.draw(
        Scores.of(np.column_stack([scores, noise])), images, rated, ratings[rated]
    )
    worth = 2_000 / ((1 - correlation**2) * 0.9 + 0.1)
    assert estimate_mean(one).effective_n == pytest.approx(worth, rel=0.05)
    assert estimate_mean(joint).effective_n == pytest.approx(worth, rel=0.05)


def test_intervals_cover_the_mean() -> None:
    """200 draws of 30 ratings from 1 to 5: by the binomial distribution 182 to 198 of the 95 % intervals hold the mean."""
    rng = np.random.default_rng(1)
    quality = rng.normal(size=1_500)
    ratings = np.clip(np.round(3.5 + quality), 1, 5)
    scores = np.column_stack([np.exp(0.4 * quality + rng.normal(size=1_500)), quality])
    images = np.arange(1_500)
    prepared = {"one": Scores.of(scores[:, :1]), "joint": Scores.of(scores)}
    covered = dict.fromkeys(prepared, 0)
    for number in range(200):
        rated = rng.choice(1_500, 30, replace=False)
        for name, chosen in prepared.items():
            sample = RatedSample.draw(chosen, images, rated, ratings[rated])
            low, high = estimate_mean(sample, number).powered.interval(0.95, "captions")
            covered[name] += low <= ratings.mean() <= high
    assert all(182 <= count <= 198 for count in covered.values()), covered


def test_a_metric_with_the_same_score_for_all_rated_captions_is_of_no_use() -> None:
    """BLEU-4 is 0 of most captions; where it is of all that are rated, the mean is the classical one."""
    scores = [0.0] * 99 + [1.0]
    mean = estimate_mean(sample_of(scores, list(range(30)), list(np.arange(30.0) % 4)))
    assert mean.powered.value == pytest.approx(mean.classical.value)
    assert mean.powered.weight == pytest.approx(0, abs=1e-12)


def test_folds_hold_whole_images() -> None:
    """What one image's captions teach is not used for themselves: ratings that only name the image cannot be predicted."""
    rng = np.random.default_rng(2)
    images = np.repeat(np.arange(FOLDS * 4), 5)
    of_image = rng.normal(size=(FOLDS * 4, 12))
    ratings = rng.normal(size=FOLDS * 4)[images]
    sample = RatedSample.draw(Scores.of(of_image[images]), images, np.arange(len(images)), ratings)
    mean = estimate_mean(sample)
    assert mean.powered.weight < 1.5
