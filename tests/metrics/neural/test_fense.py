"""FENSE's form: the mean cosine of `sentence_cosine`, lowered by a file of probabilities of errors."""

from __future__ import annotations

import numpy as np
import pytest

from captau.metrics.registry import metric
from tests.conftest import says

pytestmark = pytest.mark.neural
ROWS = [
    {"caption": "a dog runs", "references": ["a dog runs fast", "a cat"]},
    {"caption": "a dog is a", "references": ["a dog runs", "a dog"]},
    {"caption": "a cat", "references": ["a cat sleeps"]},
]


@pytest.mark.parametrize(
    ("options", "factors"),
    [("", [1, 0.1, 1]), (",threshold=0.3,penalty=0.5", [1, 0.5, 0.5]), (",penalty=0", [1, 1, 1])],
)
def test_an_error_costs_its_share(options: str, factors: list[float], tmp_path) -> None:
    """Worked: probabilities above the threshold, 0.9 by default, cost nine tenths of the mean cosine."""
    path = tmp_path / "errors.csv"
    path.write_text("caption,error\na dog runs,0.1\na dog is a,0.95\na cat,0.4\nanother,1\n")
    similarity = metric("sentence_cosine(references=mean)").score(ROWS)
    found = metric(f"fense(errors={path}{options})").score(ROWS)
    np.testing.assert_allclose(found, similarity * factors, rtol=1e-12)


def test_what_is_missing_or_wrong_is_named(tmp_path) -> None:
    with says("metric fense needs the probabilities of errors in captions", "errors=FILE"):
        metric("fense").score(ROWS)
    path = tmp_path / "errors.csv"
    path.write_text("caption,error\na dog runs,0.1\na dog is a,1.5\n")
    with says(f"{path}:3: error is '1.5', not on the scale 0 to 1"):
        metric(f"fense(errors={path})").score(ROWS)
    path.write_text("caption,error\na dog runs,0.1\n")
    with says(f"{path}: no probability of an error for a dog is a, a cat (2 of 3 items lack one)"):
        metric(f"fense(errors={path})").score(ROWS)
