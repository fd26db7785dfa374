"""The alternative-annotator test, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from captau.benchmarks.statistics.alternative_annotator import RaterDuels
from tests.benchmarks.statistics.rating_matrices import table_of_matrix


def worked_example():
    """30 items that all three raters and the metric call 1, but for six that A calls 3 and three that the metric does."""
    ratings = np.ones((30, 3))
    ratings[:6, 0] = 3
    answers = np.ones(30)
    answers[6:9] = 3
    return table_of_matrix(ratings), answers


def test_advantages_by_hand():
    table, answers = worked_example()
    duels = RaterDuels.compare(table, answers, pools_raters=False)
    # The metric is behind on three items alone, and level or ahead on 27, whoever is left out.
    assert duels.advantages == pytest.approx([0.9, 0.9, 0.9])
    assert duels.advantage == pytest.approx(0.9)
    assert duels.n_items == 30


def test_p_values_and_winning_rate_by_hand():
    table, answers = worked_example()
    duels = RaterDuels.compare(table, answers, pools_raters=False)
    # A: six differences of -1, three of 1 and 21 of 0: mean -0.1, variance 8.7/29, t = (-0.1 - 0.2) / 0.1 = -3.
    # B and C: three of 1: mean 0.1, variance 2.7/29, t = -0.1 / √(2.7/29/30) = -1.795. Student's t of 29 degrees.
    assert duels.p_values(0.2) == pytest.approx([0.002754, 0.041541, 0.041541], abs=5e-6)
    # Benjamini and Yekutieli: .05/3 / (1 + 1/2 + 1/3) = .0091 for the first, .0273 for the last.
    assert duels.winning_rate(0.2) == pytest.approx(1 / 3)
    assert duels.winning_rate(0.9) == 1
    assert duels.winning_rate(0.0) == 0


def test_a_difference_that_never_varies_is_decided_by_epsilon():
    duels = RaterDuels.compare(table_of_matrix(np.ones((30, 2))), np.ones(30), pools_raters=False)
    assert duels.p_values(0.1).tolist() == [0, 0]
    assert duels.p_values(0.0).tolist() == [1, 1]


def test_raters_with_few_items_are_left_out():
    table, answers = worked_example()
    ratings = np.ones((30, 3))
    ratings[5:, 2] = np.nan
    duels = RaterDuels.compare(table_of_matrix(ratings), np.ones(30), pools_raters=False)
    assert (duels.n_raters, duels.n_skipped) == (2, 1)

    pooled = RaterDuels.compare(table, answers, pools_raters=True)
    assert (pooled.n_raters, pooled.n_skipped) == (1, 0)
    assert pooled.advantage == pytest.approx(81 / 90)


def test_without_raters_nothing_is_defined():
    duels = RaterDuels.compare(table_of_matrix(np.ones((29, 2))), np.ones(29), pools_raters=False)
    assert math.isnan(duels.advantage)
    assert math.isnan(duels.winning_rate(0.1))


def test_the_statistic_of_equal_weights_is_the_value_and_weights_count_images():
    table, answers = worked_example()
    duels = RaterDuels.compare(table, answers, pools_raters=False)
    image = np.arange(30) // 3
    statistic = duels.statistic(image, 10)
    weights = np.ones((10, 2))
    # The metric's three wrong items are those of the third image.
    weights[2, 1] = 0
    assert statistic(weights)[0] == pytest.approx([0.9, 1.0])


def test_order_and_names_of_raters_move_nothing():
    rng = np.random.default_rng(0)
    ratings = rng.integers(1, 6, (60, 4)).astype(float)
    answers = rng.integers(1, 6, 60).astype(float)
    one = RaterDuels.compare(table_of_matrix(ratings), answers, pools_raters=False)
    other = RaterDuels.compare(table_of_matrix(ratings[:, ::-1]), answers, pools_raters=False)
    assert sorted(one.p_values(0.1)) == pytest.approx(sorted(other.p_values(0.1)))
    assert one.advantage == pytest.approx(other.advantage)
