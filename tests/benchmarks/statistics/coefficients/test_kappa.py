"""Cohen's κ of a metric and people: worked by hand, against scikit-learn, on samples of images, and where it is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import captau
from captau.benchmarks.statistics.coefficients.coefficient import CoefficientValue, correlate
from captau.benchmarks.statistics.levels import correlate_at_level, prepare_at_level
from captau.benchmarks.statistics.remarks import Undefined

answers = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2)), min_size=2, max_size=16
)


def kappa(scores: Sequence[float], ratings: Sequence[float]) -> CoefficientValue:
    return correlate(np.array(scores, dtype=float), np.array(ratings, dtype=float), "kappa")


def test_yes_and_no_worked_by_hand() -> None:
    """Four of six answers are equal, and half of them by chance: (4/6 - 1/2) / (1 - 1/2)."""
    result = kappa([1, 1, 0, 0, 0, 1], [1, 1, 1, 0, 0, 0])
    assert result.value == pytest.approx(1 / 3)
    assert result.note == "66.7 % of the answers are equal to people's"


def test_graded_answers_worked_by_hand() -> None:
    """One of four answers is one level off: 1/4, where the 16 pairs of an answer and a rating have 32 in all."""
    assert kappa([2, 2, 3, 4], [1, 2, 3, 4]).value == pytest.approx(1 - (1 / 4) / (32 / 16))


def test_opposite_answers() -> None:
    """All answers differ where half would by chance."""
    assert kappa([0, 1, 0, 1], [1, 0, 1, 0]).value == pytest.approx(-1)


def test_answers_that_are_one_level_too_high_cost() -> None:
    """Pearson's r is 1. Squares are 1 in the mean; expected: twice the variance 2/3, and the squared shift 1."""
    scores = [2, 3, 4, 2, 3, 4]
    ratings = [1, 2, 3, 1, 2, 3]
    assert correlate(np.array(scores, float), np.array(ratings, float), "pearson").value == 1
    # Nobody gave 4 here: with a data point on which people and the judge do, it is on the scale.
    assert kappa(scores, ratings).reason == Undefined.OFF_SCALE
    # Means 22/7 and 16/7, mean squares 74/7 and 44/7: variances 34/49 and 52/49, and the squared shift 36/49.
    found = kappa([*scores, 4], [*ratings, 4]).value
    assert found == pytest.approx(1 - (6 / 7) / ((34 + 52 + 36) / 49))


#: sklearn.metrics.cohen_kappa_score(ratings, scores, weights="quadratic", labels=[1, 2, 3, 4, 5]), scikit-learn 1.9.1;
#: of yes and no without weights.
RECORDED = [
    ([1, 2, 3, 4, 5, 3, 2, 4, 1, 5], [2, 2, 3, 5, 4, 3, 1, 4, 1, 3], 0.7777777777777778),
    ([1, 1, 2, 5, 5, 4, 4, 1, 2, 3], [5, 4, 2, 3, 1, 2, 3, 3, 4, 1], -0.5816326530612246),
    ([0, 1, 1, 0, 1, 1, 0, 1], [0, 1, 0, 0, 1, 1, 1, 1], 0.4666666666666667),
]


@pytest.mark.parametrize(("scores", "ratings", "value"), RECORDED)
def test_values_recorded_of_scikit_learn(
    scores: list[float], ratings: list[float], value: float
) -> None:
    assert kappa(scores, ratings).value == pytest.approx(value, abs=1e-12)


@pytest.mark.dev
@settings(max_examples=60)
@given(drawn=answers)
def test_it_is_that_of_scikit_learn(drawn: list[tuple[int, int, int]]) -> None:
    from sklearn.metrics import cohen_kappa_score

    scores = [score for score, _, _ in drawn]
    ratings = [rating for _, rating, _ in drawn]
    result = kappa(scores, ratings)
    assume(result.is_defined)
    reference = cohen_kappa_score(ratings, scores, weights="quadratic", labels=[1, 2, 3, 4, 5])
    assert result.value == pytest.approx(reference, abs=1e-9)


@pytest.mark.parametrize(
    ("scores", "ratings", "reason"),
    [
        ([0.4, 1, 0], [0, 1, 1], Undefined.OFF_SCALE),
        ([0, 1, 2], [0, 1, 1], Undefined.OFF_SCALE),
        ([np.inf, 1, 0], [0, 1, 1], Undefined.OFF_SCALE),
        ([1, 1, 1], [0, 1, 1], Undefined.CONSTANT_SCORES),
        ([0, 1, 1], [1, 1, 1], Undefined.CONSTANT_RATINGS),
        ([0, 1, np.nan], [0, 1, 1], Undefined.UNDEFINED_SCORES),
    ],
)
def test_reasons(scores: list[float], ratings: list[float], reason: Undefined) -> None:
    result = kappa(scores, ratings)
    assert np.isnan(result.value)
    assert result.reason == reason


@pytest.mark.parametrize(
    ("level", "reason"),
    [
        ("by_image", Undefined.ANSWERS_OF_GROUPS),
        ("by_system", Undefined.ANSWERS_OF_GROUPS),
        ("system", Undefined.MEANS_ARE_NO_ANSWERS),
    ],
)
def test_other_levels_have_none(level: str, reason: Undefined) -> None:
    scores = np.array([1.0, 2, 1, 2])
    ratings = np.array([1.0, 2, 2, 1])
    keys = pd.DataFrame({"image_id": list("aabb"), "system": list("xyxy")})
    assert correlate_at_level(level, scores, ratings, keys, "kappa").reason == reason

    statistic = prepare_at_level(level, scores, ratings, keys, ["tau_b", "kappa"], np.arange(4))
    assert np.isnan(statistic(np.ones((4, 1)))[1]).all()


@settings(max_examples=60)
@given(drawn=answers, copies=st.tuples(*[st.integers(0, 3)] * 3))
def test_a_weighted_sample_is_one_whose_images_stand_more_often(
    drawn: list[tuple[int, int, int]], copies: tuple[int, int, int]
) -> None:
    scores = np.array([score for score, _, _ in drawn], dtype=float)
    ratings = np.array([rating for _, rating, _ in drawn], dtype=float)
    unit = np.array([image for _, _, image in drawn])
    statistic = prepare_at_level("pooled", scores, ratings, pd.DataFrame(), ["kappa"], unit)
    value = statistic(np.array(copies, dtype=float)[:, None])[0, 0]

    times = np.array(copies)[unit]
    repeated = correlate(np.repeat(scores, times), np.repeat(ratings, times), "kappa")
    # A sample keeps the scale of the whole: an answer may be one that its own ratings lack.
    assume(repeated.reason != Undefined.OFF_SCALE)
    if not np.isin(scores, ratings).all():
        assert np.isnan(value)
        return
    assert value == pytest.approx(repeated.value, abs=1e-9, nan_ok=True)


def test_a_table_has_the_judge_s_kappa_and_the_reason_why_others_have_none(tmp_path: Path) -> None:
    """A judge that answers 1 to 5 by a caption's length, beside BLEU-1, which is between 0 and 1."""
    judge = tmp_path / "judge.py"
    judge.write_text(
        "def answer(caption, references):\n    return float(min(5, 1 + len(caption.split()) // 3))\n",
        encoding="utf-8",
    )
    results = captau.bench(
        dataset="demo",
        metrics=[f"{judge}:answer", "bleu_1"],
        protocol={"coefficients": ["kappa", "tau_c"]},
        statistics={"replicates": 50},
        output_dir=tmp_path / "run",
    )
    rows = results.frames["correlations.csv"]
    rows = rows[rows["coefficient"] == "kappa"].set_index("metric")
    of_bleu = rows.loc["bleu_1"]
    assert np.isnan(of_bleu["value"])
    assert "are no answer on people's scale" in of_bleu["note"]

    of_judge = rows.drop(index="bleu_1").iloc[0]
    assert of_judge["ci_low"] < of_judge["value"] < of_judge["ci_high"]
    assert "of the answers are equal to people's" in of_judge["note"]
