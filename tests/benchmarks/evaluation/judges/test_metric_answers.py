"""Scores as answers on people's scale, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.evaluation.judges.calibration import draw_first_half
from captau.benchmarks.evaluation.judges.metric_answers import answer_on_scale
from captau.benchmarks.statistics.rating_table import RatingTable

LEVELS = np.array([1.0, 2.0, 3.0])


def one_rating_each(values):
    values = np.asarray(values, dtype=float)
    item = np.arange(len(values))
    return RatingTable(item, np.zeros(len(values), dtype=int), values, item)


def answers_of(scores, ratings, seed=0):
    scores = np.asarray(scores, dtype=float)
    image = np.arange(len(scores))
    return answer_on_scale(scores, one_rating_each(ratings), LEVELS, image, len(scores), seed)


def test_answers_on_the_scale_are_taken_at_their_word():
    found = answers_of([3, 1, 1, 3, 3, 1, 2, 1, 1, 3], [1] * 9 + [2])
    assert not found.is_cut
    assert found.answers.tolist() == [3, 1, 1, 3, 3, 1, 2, 1, 1, 3]


def test_scores_are_cut_where_the_other_half_says():
    # On the first half one in two is a 1 and one in four a 2, on the second nobody is a 2.
    n = 16
    is_first = draw_first_half(n, 0)
    scores = np.empty(n)
    ratings = np.empty(n)
    scores[is_first] = np.arange(8) / 10
    ratings[is_first] = [1, 1, 1, 1, 2, 2, 3, 3]
    scores[~is_first] = np.arange(8) / 10 + 0.05
    ratings[~is_first] = [1, 1, 1, 1, 1, 1, 3, 3]
    found = answers_of(scores, ratings)
    assert found.is_cut
    # The first half's cuts are 0.4 and 0.6; the second half's 0.65 twice.
    assert found.answers[~is_first].tolist() == [1, 1, 1, 1, 2, 2, 3, 3]
    assert found.answers[is_first].tolist() == [1, 1, 1, 1, 1, 1, 1, 3]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_caption_has_no_part_in_its_own_answer(seed):
    rng = np.random.default_rng(3)
    scores = rng.random(40)
    ratings = rng.integers(1, 4, 40)
    before = answers_of(scores, ratings, seed).answers
    is_first = draw_first_half(40, seed)
    # Other ratings of one half move answers of the other half alone.
    changed = np.where(is_first, 1, ratings)
    after = answers_of(scores, changed, seed).answers
    assert after[is_first].tolist() == before[is_first].tolist()
    assert after[~is_first].tolist() != before[~is_first].tolist()
