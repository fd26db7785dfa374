"""ViLBERTScore against values worked by hand, its laws, and captions without embeddings."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from captau.metrics.neural.vilbertscore import ViLBERTScore, greedy_match
from captau.metrics.registry import metric
from tests.conftest import says

from .test_embeddings import write


def test_a_pair_worked_by_hand():
    # Cosines: a·r1 = 1, a·r2 = 0, b·r1 = 0.6, b·r2 = 0.8, c·r1 = −1 → 0, c·r2 = 0.
    # P = (1 + 0.8 + 0) / 3 = 0.6, R = (1 + 0.8) / 2 = 0.9, F = 2 · 0.54 / 1.5 = 0.72.
    candidate = np.array([[2.0, 0], [3, 4], [-1, 0]])
    reference = np.array([[5.0, 0], [0, 0.5]])
    assert greedy_match(candidate, reference) == pytest.approx((0.6, 0.9, 0.72), abs=1e-12)


#: The pair above as a candidate and its first reference, beside image 1; the second reference is the
#: candidate's second token alone: P = (0.6 + 1 + 0) / 3, R = 1, F = 2P / (P + 1) = 16/23.
ITEMS = pd.DataFrame(
    {
        "image_id": ["1", "2"],
        "caption": ["x y z", "x y z"],
        "references": [("p q", "y"), ("p q",)],
    }
)
ENTRIES = {
    "image_id": ["1", "1", "1", "2", "2"],
    "caption": ["x y z", "p q", "y", "x y z", "p q"],
}
VECTORS = [[2, 0], [3, 4], [-1, 0], [5, 0], [0, 0.5], [3, 4], [1, 0], [1, 0], [0, 1]]
LENGTHS = [3, 2, 1, 1, 2]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("p", [(0.6 + 1.6 / 3) / 2, 1.0]),
        ("r", [(0.9 + 1) / 2, 0.5]),
        ("f", [(0.72 + 16 / 23) / 2, 2 / 3]),
    ],
)
@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_scores_average_over_references_and_know_the_image(ending, measure, expected, tmp_path):
    path = write(tmp_path / f"v{ending}", VECTORS, LENGTHS, **ENTRIES)
    one = metric(f"vilbertscore(embeddings='{path}',measure={measure})")
    np.testing.assert_allclose(one.score(ITEMS), expected, rtol=1e-7)
    turned = ITEMS.assign(references=[refs[::-1] for refs in ITEMS["references"]])
    np.testing.assert_allclose(one.score(turned[::-1]), expected[::-1], rtol=1e-7)


def test_one_reference_at_a_time(tmp_path):
    path = write(tmp_path / "v.npz", VECTORS, LENGTHS, **ENTRIES)
    first = ITEMS.assign(references=[refs[:1] for refs in ITEMS["references"]])
    assert ViLBERTScore(str(path)).score(first) == pytest.approx([0.72, 2 / 3], abs=1e-7)


tokens = st.integers(1, 4).flatmap(
    lambda n: arrays(
        np.float64, (n, 3), elements=st.floats(-10, 10).filter(lambda x: abs(x) > 1e-3)
    )
)


@settings(max_examples=100)
@given(candidate=tokens, reference=tokens, order=st.randoms())
def test_laws(candidate, reference, order):
    """Within 0 and 1; 1 for a caption against itself; swapping sides swaps P and R; order is idle."""
    p, r, f = greedy_match(candidate, reference)
    assert 0 <= min(p, r) <= f + 1e-12 <= max(p, r) + 2e-12 <= 1 + 1e-9
    assert greedy_match(candidate, candidate) == pytest.approx((1, 1, 1), abs=1e-9)
    assert greedy_match(reference, candidate) == pytest.approx((r, p, f), abs=1e-12)
    shuffled = list(range(len(candidate)))
    order.shuffle(shuffled)
    assert greedy_match(candidate[shuffled], reference) == pytest.approx((p, r, f), abs=1e-12)


def test_nothing_alike_is_0_and_no_tokens_are_undefined():
    one, other = np.array([[1.0, 0]]), np.array([[0.0, 1]])
    assert greedy_match(one, other) == (0, 0, 0)
    assert greedy_match(one, -one) == (0, 0, 0)
    assert all(map(math.isnan, greedy_match(one, np.empty((0, 2)))))


def test_a_reference_without_embeddings(tmp_path):
    path = write(
        tmp_path / "v.npz",
        VECTORS[:8],
        [*LENGTHS[:4], 1],
        **{**ENTRIES, "caption": ["x y z", "p q", "y", "x y z", "other"]},
    )
    with says("v.npz", "no embedding for 2 p q (1 of 5 items lack one)"):
        ViLBERTScore(str(path)).score(ITEMS)


@pytest.mark.parametrize("column", ["image_id", "caption"])
def test_a_file_that_lacks_a_key(column, tmp_path):
    path = write(tmp_path / "v.npz", VECTORS, LENGTHS, **{column: ENTRIES[column]})
    with says("v.npz", "token embeddings are named by both"):
        ViLBERTScore(str(path)).score(ITEMS)


def test_a_file_of_whole_captions_is_no_file_of_tokens(tmp_path):
    path = write(tmp_path / "v.parquet", [[1, 2]], image_id=["1"], caption=["a"])
    with says("v.parquet", "a list of numbers is expected"):
        ViLBERTScore(str(path)).score(ITEMS)
