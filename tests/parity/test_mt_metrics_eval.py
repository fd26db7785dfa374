"""Kinds of correlation against mt-metrics-eval, google-research/mt-metrics-eval at 68a481a.

It is not on PyPI (a package there has its name and not its code) and not installed here. `PUBLIC` are
the examples of its own stats_test.py, with the value at the precision it asserts; `COMPUTED` is what
its `stats.Correlation` returned for inputs of this test, all digits of it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.statistics.coefficients.coefficient import correlate
from captau.benchmarks.statistics.coefficients.pairwise_accuracy import calibrate_ties
from captau.benchmarks.statistics.levels import correlate_at_level
from captau.benchmarks.statistics.weighted_pairs import RankedPairs

#: Its names of the levels.
LEVEL = {"none": "pooled", "item": "by_image", "sys": "by_system"}


def found(
    level: str, n_systems: int, gold: list[float], metric: list[float], coefficient: str
) -> tuple[float, str]:
    """Of scores that are grouped by system, as it packs them."""
    n_images = len(gold) // n_systems
    keys = pd.DataFrame(
        {
            "image_id": [str(i) for i in range(n_images)] * n_systems,
            "system": np.repeat([f"s{i}" for i in range(n_systems)], n_images),
        }
    )
    one = correlate_at_level(
        level, np.array(metric, float), np.array(gold, float), keys, coefficient
    )
    return one.value, one.note


SIX, ITS = [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 3, 7]
PUBLIC = [
    # testPearson, testPearsonPdp, testKendall, testKendallC
    (2, SIX, ITS, "pearson", {"none": 0.776, "sys": 0.760, "item": 1.0}),
    (2, SIX, ITS, "pairwise_difference_pearson", {"none": 0.776, "sys": 0.766, "item": 0.926}),
    (2, SIX, ITS, "tau_b", {"none": 0.552, "sys": 0.575, "item": 1.0}),
    (2, SIX, ITS, "tau_c", {"none": 0.556, "sys": 0.611, "item": 1.0}),
    # testNaNHandling: the first system's scores are constant
    (2, SIX, [2, 2, 2, 4, 5, 6], "pearson", {"sys": 1.0}),
    # testKendallVariants, testKendallWithTiesOpt
    (1, [1, 2, 2, 3, 4], [2, 1, 1.5, 5, 3], "tau_b", {"none": 0.316}),
    (1, [1, 2, 2, 3, 4], [2, 1, 1.5, 5, 3], "tau_c", {"none": 0.32}),
    (1, [1, 2, 2, 3, 4], [2, 1, 1.5, 5, 3], "pairwise_accuracy", {"none": 0.6}),
    (1, [1, 2, 2, 3, 4], [2, 1, 1.5, 5, 3], "acc_eq", {"none": 0.7}),
    # testAgreement: 5 of 10
    (1, [1, 2, 3, 3, 4], [1, 1, 2, 1, 2], "pairwise_accuracy", {"none": 0.5}),
]


@pytest.mark.parametrize("case", range(len(PUBLIC)))
def test_public_examples(case):
    n_systems, gold, metric, coefficient, wanted = PUBLIC[case]
    for by, value in wanted.items():
        got, _ = found(LEVEL[by], n_systems, gold, metric, coefficient)
        assert got == pytest.approx(value, abs=5e-4), by


def test_soft_pairwise_accuracy_of_the_public_example():
    """testPairwiseConfidenceError, 0.872 at three places."""
    got, note = found("system", 2, [1, 2, 3, 2, 3, 4], [2, 2, 4, 1, 3, 5], "soft_pairwise_accuracy")
    assert got == pytest.approx(0.872, abs=5e-4)
    assert note == "2 systems, 1,000 permutations"


@pytest.mark.parametrize(
    ("metric", "human", "accuracy", "threshold"),
    [
        ([0, 2, 6, 8], [1, 2, 3, 4], 1.0, 0),  # test_zero_threshold_is_best
        ([0, 2, 6, 8], [1, 1, 1, 4], 4 / 6, 4),  # test_nonzero_threshold_is_best
    ],
)
def test_public_thresholds(metric, human, accuracy, threshold):
    got = calibrate_ties([(np.array(metric, float), np.array(human, float))])
    assert (got.value, got.threshold) == (pytest.approx(accuracy), threshold)


def test_public_threshold_of_groups():
    """test_regression_example, with its gaps left out."""
    metric = [[0, 5, 2, 3, 2], [2, 1, 5, 3], [9, 1, 5, 3, 8], [9, 3, 4, 1], []]
    human = [[1, 5, 2, 1, 1], [2, 2, 1, 4], [5, 9, 2, 8, 7], [7, 6, 3, 2], []]
    groups = [(np.array(m, float), np.array(h, float)) for m, h in zip(metric, human, strict=True)]
    got = calibrate_ties(groups)
    assert (got.value, got.threshold) == (pytest.approx(0.4916666666666668, abs=1e-12), 1)


def test_public_counts():
    """testKendallVariants_23: 21 pairs, 4 tied in x, 3 in y, 1 in both, 2 discordant."""
    x, y = np.array([1.0, 1, 1, 2, 2, 3, 4]), np.array([1.0, 1, 2, 2, 4, 3, 3])
    got = RankedPairs(y, x).pairs()
    assert (got.total, got.discordant, got.tied_both) == (21, 2, 1)
    assert (got.tied_y, got.tied_x) == (4, 3)
    assert correlate(y, x, "pairwise_accuracy").value == (got.concordant[0] + 1) / 21


# Ties on both sides; numbers that 4 bytes hold exactly, since it sums systems' scores in them.
THREE = (3, [3, 1, 4, 2, 4, 2, 4, 3, 1, 1, 2, 2], [0.5, 0.25, 1.5, 0.5, 0.75, 0.25, 1.0, 1.25, 0.5, 0.125, 0.5, 0.75])  # fmt: skip
FOUR = (
    4,
    [2, 2, 5, 1, 3, 4, 2, 5, 3, 3, 5, 4, 5, 3, 1, 2, 1, 3, 3, 2],
    [0.31, 0.12, 0.77, 0.12, 0.4, 0.52, 0.33, 0.81, 0.12, 0.41, 0.6, 0.33, 0.94, 0.5, 0.12, 0.2, 0.12, 0.55, 0.5, 0.33],
)  # fmt: skip
COMPUTED = [
    (THREE, "pooled", {"pearson": 0.7669216146822303, "spearman": 0.7967395250646134, "tau_b": 0.6853803753726821, "tau_c": 0.7037037037037037, "pairwise_accuracy": 0.6515151515151515, "acc_eq": 0.6515151515151515}),
    (THREE, "by_image", {"pearson": 0.7667163830814903, "spearman": 0.7745190528383291, "tau_b": 0.7373724356957945, "tau_c": 0.7777777777777778, "pairwise_accuracy": 0.5833333333333333, "acc_eq": 0.5833333333333334}),
    (THREE, "by_system", {"pearson": 0.711361905734922, "spearman": 0.6573392817512999, "tau_b": 0.5887551694200898, "tau_c": 0.625, "pairwise_accuracy": 0.6111111111111112, "acc_eq": 0.6111111111111112}),
    (THREE, "system", {"pearson": 0.9972717797147971, "tau_b": 1.0, "pairwise_accuracy": 1.0, "soft_pairwise_accuracy": 0.876}),
    (FOUR, "pooled", {"pearson": 0.8659663450901505, "spearman": 0.8601713713299854, "tau_b": 0.7628661805219603, "tau_c": 0.7875, "pairwise_accuracy": 0.7421052631578947, "acc_eq": 0.7526315789473684}),
    (FOUR, "by_image", {"pearson": 0.8188688304124782, "spearman": 0.7912840631437369, "tau_b": 0.7562038603953328, "tau_c": 0.775, "pairwise_accuracy": 0.6333333333333334, "acc_eq": 0.7}),
    (FOUR, "by_system", {"pearson": 0.882798036720243, "spearman": 0.8906500526424913, "tau_b": 0.8147614136585121, "tau_c": 0.8266666666666667, "pairwise_accuracy": 0.8, "acc_eq": 0.8250000000000001}),
    (FOUR, "system", {"pearson": 0.9552972016686428, "tau_b": 1.0, "pairwise_accuracy": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(COMPUTED)))
def test_computed_with_it(case):
    inputs, level, wanted = COMPUTED[case]
    for coefficient, value in wanted.items():
        got, _ = found(level, *inputs, coefficient)
        assert got == pytest.approx(value, abs=1e-9), coefficient


#: `stats.Correlation(*inputs).Pearson(average_by=…, pdp=True)`; of systems, that of their means with average_by="none".
DIFFERENCES = [
    (THREE, {"pooled": 0.7669216146822302, "by_image": 0.6625585677134682, "by_system": 0.7525578108125124, "system": 0.9972717797147971}),
    (FOUR, {"pooled": 0.8659663450901504, "by_image": 0.7873529522519227, "by_system": 0.8673989383189921, "system": 0.955297201668643}),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "wanted"), DIFFERENCES)
def test_pairwise_differences_computed_with_it(inputs, wanted):
    for level, value in wanted.items():
        got, _ = found(level, *inputs, "pairwise_difference_pearson")
        assert got == pytest.approx(value, abs=1e-9), level


def test_pairwise_differences_with_gaps():
    """Of FOUR without people's ratings of the fourth image by s0 and of the second by s2, which it takes as None."""
    _, gold, metric = FOUR
    is_rated = np.ones(20, dtype=bool)
    is_rated[[3, 11]] = False
    keys = pd.DataFrame(
        {
            "image_id": [str(i) for i in range(5)] * 4,
            "system": np.repeat([f"s{i}" for i in range(4)], 5),
        }
    )[is_rated]
    scores = np.array(metric)[is_rated]
    ratings = np.array(gold, float)[is_rated]
    wanted = {"by_image": 0.8039914011683854, "by_system": 0.8923098404690385}
    for level, value in wanted.items():
        got = correlate_at_level(level, scores, ratings, keys, "pairwise_difference_pearson")
        assert got.value == pytest.approx(value, abs=1e-9), level


@pytest.mark.parametrize(
    ("inputs", "level", "threshold"),
    [(FOUR, "pooled", "0.05"), (FOUR, "by_image", "0.04"), (FOUR, "by_system", "0.05")],
)
def test_thresholds_computed_with_it(inputs, level, threshold):
    _, note = found(level, *inputs, "acc_eq")
    assert note.startswith(f"scores that differ by {threshold} or less are tied")
