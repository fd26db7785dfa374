"""The alternative-annotator test against the authors' code, nitaytech/AltTest at 18428b1.

It is a notebook and on no registry. `COMPUTED` is what its `alt_test(…, scoring_function="neg_rmse")` returned for the
inputs of this test, with the p-values that it computed on the way. Of its own data, which has no licence and is not here,
captau returns all 22 values that the notebook prints for SummEval, 10K Prompts, CEBaB-S and Lesion.
"""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.statistics.alternative_annotator import RaterDuels
from tests.benchmarks.statistics.rating_matrices import table_of_matrix

#: By answers and ε: the winning rate, the advantage probability, and the p-values of the raters but for the fifth.
COMPUTED = {
    ("near", 0.1): (
        0.5,
        0.7946288375115057,
        [0.0026127497176819635, 0.001484842474357277, 0.0838647286562346, 0.0838647286562346],
    ),
    ("near", 0.2): (
        1.0,
        0.7946288375115057,
        [
            7.199665814940172e-05,
            3.1077989500905056e-05,
            0.0053692025364380615,
            0.0053692025364380615,
        ],
    ),
    ("far", 0.1): (
        0.0,
        0.5703814499972928,
        [0.8130666353579069, 0.9726269679788483, 0.9268201192824971, 0.9944614257201512],
    ),
    ("far", 0.2): (
        0.0,
        0.5703814499972928,
        [0.4214488983847598, 0.7980692490852618, 0.6412801566208322, 0.916372430006294],
    ),
}


@pytest.fixture(scope="module")
def drawn():
    """Ratings of 80 items by five raters, the fifth of whom rated 25, and two metrics' answers by name."""
    rng = np.random.default_rng(0)
    quality = rng.integers(1, 6, 80)
    ratings = np.full((80, 5), np.nan)
    for rater in range(5):
        is_rated = rng.random(80) < (0.9 if rater < 4 else 0.3)
        noise = rng.integers(-1, 2, 80)
        ratings[is_rated, rater] = np.clip(quality + noise, 1, 5)[is_rated]

    answers: dict[str, list[int]] = {}
    for name, spread in (("near", 1), ("far", 3)):
        answers[name] = [
            int(np.clip(quality[i] + rng.integers(-spread, spread + 1), 1, 5)) for i in range(80)
        ]
    return ratings, answers


@pytest.mark.parametrize("case", COMPUTED)
def test_values_are_those_of_the_authors_code(drawn, case):
    ratings, answers = drawn
    name, epsilon = case
    table = table_of_matrix(ratings)
    own = np.array(answers[name], dtype=float)[table.source_index]
    duels = RaterDuels.compare(table, own, pools_raters=False)
    rate, advantage, p_values = COMPUTED[case]
    assert duels.p_values(epsilon) == pytest.approx(p_values, abs=1e-12)
    assert duels.advantage == pytest.approx(advantage, abs=1e-12)
    assert duels.winning_rate(epsilon) == rate
    assert duels.n_skipped == 1
