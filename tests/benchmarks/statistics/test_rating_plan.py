"""Which images are rated, and how many: worked by hand, and sizes of samples that textbooks print."""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.statistics.rating_plan import (
    allocate,
    captions_for_difference,
    captions_for_width,
    draw,
    error_of,
    measure_errors,
    normal_scores,
    stratify,
)


def test_strata_have_as_many_images_each() -> None:
    strata = stratify(np.array([5.0, 1, 4, 2, 3, 0, 9, 8, 7, 6]), n_rated=20)
    assert strata.tolist() == [1, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert stratify(np.zeros(100), n_rated=300).tolist() == np.repeat(np.arange(5), 20).tolist()
    assert not stratify(np.arange(10.0), n_rated=8).any()


def test_a_stratum_with_twice_the_error_gets_twice_the_ratings() -> None:
    strata = np.repeat([0, 1], 100)
    none = np.zeros(2, dtype=np.int64)
    assert allocate(strata, np.array([1.0, 2.0]), 30, none).tolist() == [10, 20]
    # Half of what its size alone would give is the least: 15 / 2 of 30, and as shares 1/4 to 1 rescaled, 6 to 24.
    assert allocate(strata, np.array([0.0, 1.0]), 30, none).tolist() == [6, 24]
    assert allocate(strata, np.array([1.0, 1.0]), 30, np.array([25, 0])).sum() >= 30


def test_no_stratum_gives_more_than_it_has() -> None:
    strata = np.array([0] * 5 + [1] * 95)
    counts = allocate(strata, np.array([50.0, 1.0]), 40, np.zeros(2, dtype=np.int64))
    assert counts.tolist() == [5, 35]


def test_draws_are_new_images_of_each_stratum() -> None:
    strata = np.repeat([0, 1], 50)
    is_rated = np.zeros(100, dtype=bool)
    is_rated[[3, 4, 60]] = True
    drawn = draw(strata, np.array([10, 5]), is_rated, seed=7)
    assert not is_rated[drawn].any()
    assert len(set(drawn.tolist())) == len(drawn) == 12
    assert np.bincount(strata[drawn]).tolist() == [8, 4]
    assert drawn.tolist() == draw(strata, np.array([10, 5]), is_rated, seed=7).tolist()


def test_every_image_is_drawn_as_often_as_its_probability() -> None:
    strata = np.array([0] * 4 + [1] * 16)
    counts = np.zeros(20)
    for seed in range(2000):
        counts[draw(strata, np.array([2, 4]), np.zeros(20, dtype=bool), seed)] += 1
    np.testing.assert_allclose(counts[:4] / 2000, 0.5, atol=0.05)
    np.testing.assert_allclose(counts[4:] / 2000, 0.25, atol=0.05)


def test_a_pilots_errors_are_drawn_towards_that_of_all() -> None:
    """Residuals 2 2 and 0 0: of all the mean square is 2; (8 + 10 × 2) / 12 and (0 + 10 × 2) / 12."""
    strata = np.array([0, 0, 1, 1])
    errors = measure_errors(strata, np.arange(4), np.array([2.0, 2, 0, 0]))
    np.testing.assert_allclose(errors**2, [28 / 12, 20 / 12])


def test_normal_scores_keep_the_order_and_forget_the_scale() -> None:
    scores = np.column_stack([np.arange(5.0), np.exp(np.arange(5.0))])
    normal = normal_scores(scores)
    np.testing.assert_allclose(normal[:, 0], normal[:, 1])
    assert normal[2].tolist() == [0, 0]


def test_half_a_standard_deviation_needs_34_pairs() -> None:
    """A paired t test of dz = 0.5 at α = 0.05 two-sided and a power of 0.8 needs 34 pairs (G*Power 3.1).

    λ takes one degree of freedom more, which moves the number by none or one.
    """

    def error(n: int) -> float:
        return error_of(n, residual=1.0, ratings=0.0, n_captions=10**9)

    found = captions_for_difference(error, 0.5, power=0.8, level=0.95, n_captions=10**6)
    assert found in (34, 35)


def test_a_width_is_reached_by_the_least_number() -> None:
    """σ = 1, width 0.4: (2 × 1.96 / 0.4)² = 96.04, and by Student's t 99 to 100."""

    def error(n: int) -> float:
        return error_of(n, residual=1.0, ratings=0.0, n_captions=10**9)

    found = captions_for_width(error, 0.4, 0.95, 10**6)
    assert found is not None
    assert 97 <= found <= 100


def test_what_is_out_of_reach_has_no_number() -> None:
    """Of 50 images the mean of images like these has an error of σ / √50 even if all are rated."""

    def error(n: int) -> float:
        return error_of(n, residual=0.5, ratings=1.0, n_captions=50)

    assert captions_for_width(error, 0.2, 0.95, 50) is None
    assert error(50) == pytest.approx(1 / np.sqrt(50))
