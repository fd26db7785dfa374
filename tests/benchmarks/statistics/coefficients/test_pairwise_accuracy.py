"""Coefficients that count pairs, and the threshold of ties, against every pair looked at in turn."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from captau.benchmarks.statistics.coefficients import pairwise_accuracy as pairs
from captau.benchmarks.statistics.coefficients.coefficient import correlate
from captau.benchmarks.statistics.coefficients.pairwise_accuracy import (
    TieCalibration,
    calibrate_ties,
)
from captau.benchmarks.statistics.weighted_pairs import RankedPairs

laws = settings(max_examples=40)
points = st.lists(st.tuples(st.integers(-6, 6), st.integers(1, 4)), min_size=2, max_size=20)


def of(drawn: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.array(drawn, dtype=float).T
    return x, y


def count_pairs(x: np.ndarray, y: np.ndarray) -> tuple[int, ...]:
    """Concordant, discordant, tied in x alone, in y alone, and in both."""
    counts = RankedPairs(x, y).pairs()
    both = counts.tied_both
    alone = (counts.tied_x - both, counts.tied_y - both)
    return tuple(int(n[0]) for n in (counts.concordant, counts.discordant, *alone, both))


def test_worked_by_hand() -> None:
    """Scores 1 2 2 3 4, ratings 1 3 2 2 2: (1,·) concordant, (2,4) (2,5) discordant, (2,3) tied in x.

    (3,4) (3,5) (4,5) are tied in y: C = 4, D = 2, of ten pairs.
    """
    x, y = np.array([1.0, 2, 2, 3, 4]), np.array([1.0, 3, 2, 2, 2])
    assert count_pairs(x, y) == (4, 2, 1, 3, 0)
    assert correlate(x, y, "tau_a").value == pytest.approx(0.2)
    assert correlate(x, y, "gamma").value == pytest.approx(2 / 6)
    assert correlate(x, y, "pairwise_accuracy").value == pytest.approx(0.4)
    # A threshold of 1 ties (1,2) (1,3) (2,4) (3,4) (4,5): C = 2, tied in both (3,4) (4,5);
    # 2 ties (1,4) (2,5) (3,5) too: C = 1 and 3; 3 all: 3. The best is 4 of 10, first with none.
    assert calibrate_ties([(x, y)]) == TieCalibration(0.4, 0.0)
    # With ratings 1 1 2 2 3 and scores 1 2 5 6 9 a threshold of 1 ties what people tie: all right.
    found = calibrate_ties([(np.array([1.0, 2, 5, 6, 9]), np.array([1.0, 1, 2, 2, 3]))])
    assert found == TieCalibration(1.0, 1.0)


@laws
@given(drawn=points)
def test_counts_are_those_of_every_pair(drawn: list[tuple[int, int]]) -> None:
    x, y = of(drawn)
    i, j = np.triu_indices(len(x), 1)
    dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
    assert count_pairs(x, y) == (
        int((dx * dy > 0).sum()),
        int((dx * dy < 0).sum()),
        int(((dx == 0) & (dy != 0)).sum()),
        int(((dx != 0) & (dy == 0)).sum()),
        int(((dx == 0) & (dy == 0)).sum()),
    )


@laws
@given(drawn=points)
def test_gamma_is_somers_d_without_ties_in_the_scores(drawn: list[tuple[int, int]]) -> None:
    """SciPy's Somers' D of ratings given scores is (C - D) / pairs untied in the scores."""
    x, y = of(drawn)
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    concordant, discordant, tied_scores, tied_ratings, tied_both = count_pairs(x, y)
    total = concordant + discordant + tied_scores + tied_ratings + tied_both
    untied = total - tied_scores - tied_both
    surplus = concordant - discordant
    assert surplus / untied == pytest.approx(stats.somersd(x, y).statistic, abs=1e-12)
    tau_a = correlate(x, y, "tau_a")
    assert tau_a.value * total == pytest.approx(surplus, abs=1e-9)
    assert tau_a.p_value == pytest.approx(stats.kendalltau(x, y).pvalue, nan_ok=True)


def test_without_ties_all_taus_are_one() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 500))
    wanted = stats.kendalltau(x, y).statistic
    for coefficient in ("tau_a", "gamma", "tau_b", "tau_c"):
        assert correlate(x, y, coefficient).value == pytest.approx(wanted, abs=1e-12)
    assert correlate(x, y, "pairwise_accuracy").value == pytest.approx((1 + wanted) / 2)


def naive(groups: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """Every threshold there is, every pair in turn."""
    told = [
        [(abs(a[0] - b[0]), a, b) for a, b in combinations(list(zip(x, y, strict=True)), 2)]
        for x, y in groups
        if len(x) > 1
    ]
    best = (-1.0, 0.0)
    for threshold in sorted({0.0, *(d for group in told for d, _, _ in group)}):
        value = np.mean(
            [
                np.mean(
                    [
                        a[1] == b[1] if d <= threshold else (a[0] - b[0]) * (a[1] - b[1]) > 0
                        for d, a, b in group
                    ]
                )
                for group in told
            ]
        )
        if value > best[0] + 1e-12:
            best = (float(value), threshold)
    return best


def test_spans_that_get_no_narrower_are_laid_out_as_they_are(monkeypatch) -> None:
    """Worked by hand: a threshold of 1 ties what people tie."""
    monkeypatch.setattr(pairs, "MAX_PAIR_CELLS", 0)
    found = calibrate_ties([(np.array([1.0, 2, 5, 6, 9]), np.array([1.0, 1, 2, 2, 3]))])
    assert found == TieCalibration(1.0, 1.0)


@laws
@given(drawn=st.lists(points, min_size=1, max_size=4), at_once=st.sampled_from([1, 40, 10**7]))
def test_the_best_threshold_is_that_of_all_tried(
    drawn: list[list[tuple[int, int]]], at_once: int
) -> None:
    """Also where spans have to be narrowed down before any pair is laid out."""
    groups = [of(group) for group in drawn]
    before, pairs.MAX_PAIR_CELLS = pairs.MAX_PAIR_CELLS, at_once
    try:
        found = calibrate_ties(groups)
    finally:
        pairs.MAX_PAIR_CELLS = before
    value, threshold = naive(groups)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.threshold == threshold


def test_many_points_are_not_all_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 distinct scores make 200 million pairs; what is found holds against thresholds around."""
    rng = np.random.default_rng(1)
    ratings = rng.integers(1, 5, 20_000).astype(float)
    scores = 0.1 * ratings + rng.normal(0, 0.01, ratings.size)
    laid: list[int] = []
    original = pairs.PointCounts.pairs

    def counted(self, low, high):
        found = original(self, low, high)
        laid.append(len(found[0]))
        return found

    monkeypatch.setattr(pairs.PointCounts, "pairs", counted)
    found = calibrate_ties([(scores, ratings)])
    assert sum(laid) < 10_000_000
    cells = pairs.PointCounts(scores, ratings)
    assert found.value == pytest.approx(cells.counts(found.threshold).sum() / cells.n_pairs)
    for other in np.linspace(0, 0.2, 101):
        assert cells.counts(other).sum() / cells.n_pairs <= found.value


def test_an_infinite_score_has_a_rank_and_no_threshold() -> None:
    x, y = np.array([1.0, math.inf, 2]), np.array([1.0, 3, 2])
    for coefficient in ("tau_a", "gamma", "pairwise_accuracy"):
        assert correlate(x, y, coefficient).value == 1.0
    found = correlate(x, y, "acc_eq")
    assert math.isnan(found.value)
    assert found.note.startswith("undefined: an infinite score")


def test_too_many_distinct_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MAX_CELLS", 8)
    found = correlate(np.array([1.0, 2, 3]), np.array([1.0, 2, 3]), "acc_eq")
    assert math.isnan(found.value)
    assert found.note == "undefined: too many distinct scores and ratings to find a threshold"
    with pytest.raises(ValueError, match="two points"):
        calibrate_ties([(np.array([1.0]), np.array([1.0]))])
