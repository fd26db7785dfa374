"""SPIDEr is the mean of SPICE and CIDEr-D, worked by hand with a SPICE of our own."""

from __future__ import annotations

import numpy as np
import pytest

from captau.metrics.registry import metric
from captau.metrics.text import spider
from captau.metrics.text.cider import document_frequencies


@pytest.mark.parametrize("with_file", [False, True])
def test_the_mean_of_both(with_file, tmp_path, monkeypatch):
    """CIDEr-D is 7.5 for a caption of three words that is its reference, and 0 without a common word."""

    class Spice:
        def compute(self, rows):
            return np.array([0.25, 1.0])

    monkeypatch.setattr(spider, "Spice", Spice)
    spec = "spider"
    if with_file:
        document_frequencies([("a dog runs",), ("cats sleep",)]).write(tmp_path / "df.json")
        spec = f"spider(df={tmp_path / 'df.json'})"
    rows = [
        {"caption": "a dog runs", "references": ["a dog runs"]},
        {"caption": "zebras", "references": ["cats sleep"]},
    ]
    scorer = metric(spec)
    from captau.metrics.rows import Rows

    scores = scorer.compute(Rows.from_items(rows))
    np.testing.assert_allclose(scores, [(0.25 + 7.5) / 2, 0.5], rtol=1e-12)


def test_what_spider_says_of_itself():
    scorer = metric("spider")
    assert scorer.bounds == (0.0, 5.5)
    assert scorer.depends_on_corpus
    assert scorer.file_fields == ("df",)
    assert scorer.distributions == metric("cider").distributions == ("captau",)
    assert scorer.parameters == {"df": None, "backend": "pycocoevalcap"}
