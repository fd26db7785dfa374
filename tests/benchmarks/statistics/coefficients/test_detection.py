"""Average precision and AUROC: worked by hand, against scikit-learn, and on samples of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from captau.benchmarks.statistics.coefficients import detection
from captau.benchmarks.statistics.coefficients.coefficient import correlate
from captau.benchmarks.statistics.levels import LEVELS, correlate_at_level, prepare_at_level

BOTH = ["average_precision", "auroc"]
points = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(0, 1), st.sampled_from("abc")),
    min_size=2,
    max_size=16,
)


def drawn_numbers(drawn: list[tuple[int, int, str]]) -> list[tuple[float, float]]:
    return [(float(score), float(rating)) for score, rating, _ in drawn]


def detect(scores: Sequence[float], ratings: Sequence[float]) -> list[float]:
    x, y = np.array(scores, dtype=float), np.array(ratings, dtype=float)
    return [correlate(x, y, coefficient).value for coefficient in BOTH]


def test_detection_worked_by_hand() -> None:
    """Scores 4, 3, 2, 1 of a 1, a 0, a 1 and a 0.

    Precision at the 1s is 1 and 2/3; of 4 pairs of a 1 and a 0 the scores order 3 rightly.
    """
    assert detect([4, 3, 2, 1], [1, 0, 1, 0]) == pytest.approx([(1 + 2 / 3) / 2, 3 / 4])


def test_points_of_equal_score_are_found_together() -> None:
    """Scores 2, 2, 1 of a 1, a 0 and a 1: precision 1/2 at score 2 and 2/3 at 1; a tie and a wrong pair of two."""
    assert detect([2, 2, 1], [1, 0, 1]) == pytest.approx([(1 / 2 + 2 / 3) / 2, 1 / 4])


def test_faults_are_found_by_low_scores() -> None:
    """As penalties, faults are -1: the same as finding 1s by the scores turned round."""
    scores, faults = [0.3, 0.1, 0.2, 0.2, 0.9], [0, 1, 1, 0, 0]
    turned = detect([-s for s in scores], faults)
    assert detect(scores, [-f for f in faults]) == turned
    assert turned == pytest.approx([(1 + 2 / 3) / 2, (3 + 2.5) / 6])


def test_the_chance_level_is_told() -> None:
    scores, ratings = np.arange(4.0), np.array([1.0, 0, 0, 0])
    notes = [correlate(scores, ratings, coefficient).note for coefficient in BOTH]
    assert notes == ["0.250 by chance", "0.500 by chance"]


@pytest.mark.parametrize("ratings", [[0, 1, 2], [0, 0.5, 1], [-1, 0, 1]])
@pytest.mark.parametrize("coefficient", BOTH)
def test_ratings_other_than_0_and_1_are_no_detection(
    coefficient: str, ratings: list[float]
) -> None:
    result = correlate(np.arange(3.0), np.array(ratings, dtype=float), coefficient)
    assert np.isnan(result.value)
    assert result.note == "undefined: ratings other than 0 and 1, or of one kind alone"


def test_systems_have_no_detection() -> None:
    keys = pd.DataFrame({"image_id": list("aabb"), "system": list("xyxy")})
    result = correlate_at_level("system", np.arange(4.0), np.array([0.0, 1, 0, 1]), keys, "auroc")
    assert result.note.startswith("undefined: ratings other than 0 and 1")


@pytest.mark.dev
@given(drawn=points)
def test_detection_is_that_of_scikit_learn(drawn: list[tuple[int, int, str]]) -> None:
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores, ratings = np.array(drawn_numbers(drawn)).T
    assume(np.ptp(scores) > 0 and np.ptp(ratings) > 0)
    reference = [average_precision_score(ratings, scores), roc_auc_score(ratings, scores)]
    assert [correlate(scores, ratings, c).value for c in BOTH] == pytest.approx(reference)


@given(drawn=points, level=st.sampled_from([level for level in LEVELS if level != "system"]))
def test_the_statistic_of_a_sample_is_its_detection(
    drawn: list[tuple[int, int, str]], level: str
) -> None:
    scores, ratings = np.array(drawn_numbers(drawn)).T
    images = [image for _, _, image in drawn]
    keys = pd.DataFrame({"image_id": images, "system": "s"})
    unit = np.array(["abc".index(image) for image in images])
    values = prepare_at_level(level, scores, ratings, keys, BOTH, unit)(np.ones((3, 1)))[:, 0]
    for coefficient, value in zip(BOTH, values, strict=True):
        result = correlate_at_level(level, scores, ratings, keys, coefficient)
        assert value == pytest.approx(result.value, nan_ok=True), coefficient


@given(drawn=points, copies=st.tuples(*[st.integers(0, 3)] * 3))
def test_a_weighted_sample_is_one_whose_images_stand_more_often(
    drawn: list[tuple[int, int, str]], copies: tuple[int, int, int]
) -> None:
    scores, ratings = np.array(drawn_numbers(drawn)).T
    unit = np.array(["abc".index(image) for _, _, image in drawn])
    times = np.array(copies)[unit]
    weights = np.array(copies, dtype=float)[:, None]
    values = prepare_at_level("pooled", scores, ratings, pd.DataFrame(), BOTH, unit)(weights)[:, 0]
    for coefficient, value in zip(BOTH, values, strict=True):
        result = correlate(np.repeat(scores, times), np.repeat(ratings, times), coefficient)
        assert value == pytest.approx(result.value, nan_ok=True), coefficient


@pytest.mark.parametrize("max_cells", [1, 8, 10**6])
def test_detection_in_parts_is_that_of_each_replicate(
    max_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection, "MAX_CELLS", max_cells)
    scores, ratings = np.array([4.0, 3, 2, 1]), np.array([1.0, 0, 1, 0])
    statistic = prepare_at_level("pooled", scores, ratings, pd.DataFrame(), BOTH, np.arange(4))
    weights = np.array([[1.0, 2, 0, 1, 3], [1, 1, 2, 0, 1], [1, 0, 1, 1, 1], [1, 1, 1, 1, 2]])
    expected = [
        detect(*(np.repeat(v, w) for v in (scores, ratings))) for w in weights.T.astype(int)
    ]
    np.testing.assert_allclose(statistic(weights).T, expected)
