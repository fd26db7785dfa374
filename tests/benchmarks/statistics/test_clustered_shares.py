"""Shares by images and corrected shares: worked by hand, and simulated judges of known errors are recovered."""

from __future__ import annotations

import math

import numpy as np
import pytest

from captau.benchmarks.statistics.clustered_shares import ClusteredShare, correct_share
from captau.benchmarks.statistics.preferences import wilson_interval


def test_a_share_whose_images_are_of_one_mind() -> None:
    """Four images of two captions, which are all right or all wrong: 4 of 8, worth the 3 of Σ r² · 4/3 = 4 · (2·½/8)² · 4/3."""
    hits = np.array([1, 1, 1, 1, 0, 0, 0, 0], dtype=float)
    share = ClusteredShare.measure(hits, np.array([0, 0, 1, 1, 2, 2, 3, 3]))
    assert (share.value, share.n_items, share.n_images) == (0.5, 8, 4)
    assert share.residuals.tolist() == [0.125, 0.125, -0.125, -0.125]
    assert share.effective_n == pytest.approx(0.25 / (4 * 0.125**2 * 4 / 3))
    assert share.effective_n == pytest.approx(3)

    # The design effect is 8 / 3, and that of images of one mind, of two captions, is no greater: nothing is drawn.
    assert share.cautious_n == pytest.approx(3)
    # Student's t of 3 degrees of freedom, 3.182446, in place of 1.959964.
    expected = wilson_interval(0.5, 3 * (1.959964 / 3.182446) ** 2)
    assert share.interval(0.95) == pytest.approx(expected, abs=1e-6)


def test_few_errors_draw_the_design_effect_towards_images_of_one_mind() -> None:
    """Of 10 images of two captions two have one error each: 18 of 20, whose residuals are ±.04 twice and .01 eight times.

    r is (2·1 - 1.8 - 1) / 20 = -.04 for an image with an error, and .01 for one without: Σ r² = .004, Σ r⁴ = 5.2e-6.
    The variance is .004 · 10/9, and the effective number .09 / .00444 = 20.25, at most 20: a design effect of 1. As many images
    tell it as .004² / 5.2e-6 = 3.08; with two of one mind, of a design effect of 2, it is (3.08 + 4) / 5.08.
    """
    hits = np.ones(20)
    hits[[0, 2]] = 0
    share = ClusteredShare.measure(hits, np.repeat(np.arange(10), 2))
    assert share.effective_n == 20
    n_telling = 0.004**2 / (2 * 0.04**4 + 8 * 0.01**4)
    assert n_telling == pytest.approx(3.08, abs=0.005)
    assert share.cautious_n == pytest.approx(20 * (n_telling + 2) / (n_telling + 4))
    # Captions of their own images have nothing that could be alike.
    assert made_share(18, 20).cautious_n == pytest.approx(made_share(18, 20).effective_n)


def test_many_images_decide_for_themselves() -> None:
    """Of 2,000 images of three captions whose errors are independent, the number of captions hardly shrinks."""
    rng = np.random.default_rng(3)
    share = ClusteredShare.measure(rng.random(6000) < 0.8, np.repeat(np.arange(2000), 3))
    assert 0.97 < share.cautious_n / share.effective_n < 1


@pytest.mark.parametrize("n_captions", [1, 3, 8])
def test_intervals_of_few_errors_hold_the_truth(n_captions: int) -> None:
    """Of 100 images half of which lend their captions one draw, with 3 % errors; 80 to 94 % did before."""
    rng = np.random.default_rng(7)
    image = np.repeat(np.arange(100), n_captions)
    n_held = 0
    for _ in range(500):
        luck = rng.random((100, n_captions))
        luck = np.where(rng.random((100, 1)) < 0.5, luck[:, :1], luck)
        low, high = ClusteredShare.measure(luck.ravel() >= 0.03, image).interval(0.95)
        n_held += low <= 0.97 <= high
    assert 0.945 <= n_held / 500 <= 1


def test_images_that_hold_both_are_worth_no_more_than_their_captions() -> None:
    share = ClusteredShare.measure(np.array([1.0, 0, 1, 0, 1, 0]), np.array([0, 0, 1, 1, 2, 2]))
    # The sums of all images are equal: nothing varies between them.
    assert share.effective_n == 3
    mixed = ClusteredShare.measure(np.array([1.0, 0, 1, 0, 1, 1]), np.array([0, 0, 1, 1, 2, 2]))
    assert mixed.effective_n == 6


def test_a_share_that_never_fails_has_an_interval() -> None:
    """Wilson's low end of n of n is n / (n + z²); here n is the 3 images, less by Student's t of 2 degrees, 4.302653."""
    share = ClusteredShare.measure(np.ones(6), np.array([0, 0, 1, 1, 2, 2]))
    low, high = share.interval(0.95)
    assert share.effective_n == 3
    assert high == 1.0
    n = 3 * (1.959964 / 4.302653) ** 2
    assert low == pytest.approx(n / (n + 1.959964**2), abs=1e-6)


@pytest.mark.parametrize("n", range(2, 60))
def test_a_share_of_all_ends_at_one_and_of_none_at_nought(n: int) -> None:
    assert made_share(n, n).interval(0.95)[1] == 1.0
    assert made_share(0, n).interval(0.95)[0] == 0.0


def test_no_captions_and_one_image_have_none() -> None:
    empty = ClusteredShare.measure(np.zeros(0), np.zeros(0, dtype=np.int64))
    assert math.isnan(empty.value)
    alone = ClusteredShare.measure(np.array([1.0, 0.0]), np.array([7, 7]))
    assert alone.value == 0.5
    assert all(map(math.isnan, (*empty.interval(0.95), *alone.interval(0.95))))


def made_share(n_hits: int, n: int) -> ClusteredShare:
    """Independent captions."""
    return ClusteredShare.measure((np.arange(n) < n_hits).astype(float), np.arange(n))


def test_the_corrected_share_by_hand() -> None:
    """Of 1,000 captions 380 get a no, of bad ones 80 %, of good ones 10 %: (0.38 - 0.1) / 0.7 = 0.4."""
    corrected = correct_share(made_share(380, 1000), made_share(80, 100), made_share(20, 200), 0.95)
    assert corrected.value == pytest.approx(0.4)
    assert corrected.unclipped == pytest.approx(0.4)
    assert not corrected.is_clipped
    assert not corrected.is_open
    # The delta method: √(q(1-q)/N + θ² t(1-t)/n + (1-θ)² f(1-f)/m) / (t - f), two of which reach about as far.
    error = math.sqrt(0.38 * 0.62 / 1000 + 0.16 * 0.16 / 100 + 0.36 * 0.09 / 200) / 0.7
    assert corrected.low == pytest.approx(0.4 - 1.96 * error, abs=0.015)
    assert corrected.high == pytest.approx(0.4 + 1.96 * error, abs=0.015)


@pytest.mark.parametrize(
    ("n_no", "unclipped", "value"), [(50, -0.05 / 0.7, 0.0), (850, 0.75 / 0.7, 1.0)]
)
def test_a_corrected_share_beyond_its_ends_is_clipped(
    n_no: int, unclipped: float, value: float
) -> None:
    corrected = correct_share(
        made_share(n_no, 1000), made_share(80, 100), made_share(20, 200), 0.95
    )
    assert corrected.unclipped == pytest.approx(unclipped)
    assert corrected.value == value
    assert corrected.is_clipped
    assert corrected.low <= value <= corrected.high


def test_a_judge_who_does_not_tell_good_from_bad_says_nothing() -> None:
    nearly = correct_share(made_share(400, 1000), made_share(22, 40), made_share(20, 40), 0.95)
    assert (nearly.low, nearly.high, nearly.is_open) == (0.0, 1.0, True)
    assert not math.isnan(nearly.value)
    worse = correct_share(made_share(400, 1000), made_share(10, 40), made_share(20, 40), 0.95)
    assert math.isnan(worse.value)
    assert not worse.is_clipped
    assert (worse.low, worse.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("tpr", "tnr", "judged", "unlabelled"),
    [(0.9, 0.8, 0.4, 0.4), (0.7, 0.7, 0.3, 0.05), (0.97, 0.95, 0.15, 0.6)],
)
def test_judges_of_known_errors_are_recovered(
    tpr: float, tnr: float, judged: float, unlabelled: float
) -> None:
    """Of 95 % intervals 93 to 99 % hold the truth; scripts/checks/simulate_judges.py has the whole table."""
    rng = np.random.default_rng(5)
    image = np.repeat(np.arange(150), 3)
    holds: list[list[bool]] = []
    for _ in range(600):
        bad = rng.random(450) < judged
        says_no = np.where(bad, rng.random(450) < tnr, rng.random(450) >= tpr)
        bad_said_bad = ClusteredShare.measure(says_no[bad], image[bad])
        good_said_bad = ClusteredShare.measure(says_no[~bad], image[~bad])

        new_bad = rng.random(450) < unlabelled
        new_no = np.where(new_bad, rng.random(450) < tnr, rng.random(450) >= tpr)
        corrected = correct_share(
            ClusteredShare.measure(new_no, image), bad_said_bad, good_said_bad, 0.95
        )
        t_low, t_high = bad_said_bad.interval(0.95)
        f_low, f_high = good_said_bad.interval(0.95)
        holds.append(
            [
                t_low <= tnr <= t_high,
                f_low <= 1 - tpr <= f_high,
                corrected.low <= unlabelled <= corrected.high,
            ]
        )
    coverage = np.mean(holds, axis=0)
    assert (coverage >= 0.93).all()
    assert (coverage <= 0.99).all()
