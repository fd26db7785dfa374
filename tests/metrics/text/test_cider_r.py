"""CIDEr-R and SPIDEr, against values worked by hand and the metrics that they are made of."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from captau.metrics.registry import metric
from captau.metrics.text import spider
from captau.metrics.text.cider import document_frequencies
from captau.metrics.text.cider_r import penalise_length, penalise_repetition
from captau.metrics.text.spice import metric as spice_metric
from captau.metrics.text.tokens.corpus import Corpus
from tests.conftest import says


def count(text: str) -> Counter[str]:
    return Counter(text.split())


@pytest.mark.parametrize(
    ("candidate", "reference", "expected"),
    [
        ("a dog runs", "a dog sits", 1),  # each word once, whether the reference has it or not
        ("a dog dog", "a dog", math.sqrt(1 / 2)),  # 1, and 1 / (1 + |2 - 1|)
        ("a dog", "a dog dog dog", math.sqrt(1 / 3)),  # 1, and 1 / (1 + |1 - 3|)
        ("cat cat cat", "a dog", 1 / 3),  # not there: 1 / (1 + 3 - 1)
        ("", "a dog", 1),
    ],
)
def test_repetition_by_hand(candidate: str, reference: str, expected: float) -> None:
    assert penalise_repetition(count(candidate), count(reference)) == pytest.approx(expected)


def test_length_by_hand() -> None:
    assert penalise_length(2, 3) == pytest.approx(math.exp(-1 / 9))
    assert penalise_length(6, 3) == pytest.approx(math.exp(-1))
    assert [penalise_length(0, 0), penalise_length(1, 0), penalise_length(4, 4)] == [1, 0, 1]


ROWS = [
    {"caption": "a dog runs", "references": ["a dog runs fast", "a dog sits here"]},
    {"caption": "a cat", "references": ["a dog"]},
]


CATS = {"caption": "a cat", "references": ["two cats"]}


def test_cider_r_is_cider_d_with_other_factors() -> None:
    """Worked: no word of "a dog runs" stands twice; lengths are 2 and 3 bigrams, in CIDEr-D with σ = 6."""
    rows = [{"caption": "a dog runs", "references": ["a dog runs fast"]}, ROWS[1]]
    d, r = metric("cider").score(rows), metric("cider_r").score(rows)
    assert r[0] / d[0] == pytest.approx(math.exp(-0.2 / 9) / math.exp(-1 / 72))
    repeated = [{"caption": "a dog dog dog", "references": ["a dog runs fast"]}, CATS]
    # Worked: "a" 1, "dog" 1 / (1 + |3 - 1|), of two words; the lengths are equal.
    ratio = metric("cider_r").score(repeated)[0] / metric("cider").score(repeated)[0]
    assert ratio == pytest.approx((1 / 3) ** (0.8 / 2))


def test_signs_part_words_of_the_penalty() -> None:
    """PTB leaves t-shirt one token, the authors' expression of words makes two of it: both once, so nothing is repeated."""
    rows = [{"caption": "a t-shirt", "references": ["a t-shirt"]}, ROWS[1]]
    assert metric("cider_r").score(rows)[0] == pytest.approx(metric("cider").score(rows)[0])


def test_a_reward_of_cider_r_needs_a_file_of_frequencies(tmp_path) -> None:
    with says("metric cider_r: scores would depend on the batch; name the document frequencies"):
        metric("cider_r").prepare_references([("a dog",)])
    document_frequencies([("a dog runs",), ("a cat",)]).write(tmp_path / "df.json")
    assert metric(f"cider_r(df={tmp_path}/df.json)").prepare_references([("a dog",)]) is None


def test_spider_is_the_mean_of_spice_and_cider(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPICE is a stand-in here, so that its parser need not be there; one of its scores is undefined."""
    monkeypatch.setattr(spider.Spice, "compute", lambda self, rows: np.array([0.5, np.nan]))
    monkeypatch.setattr(spice_metric, "check_permission", lambda spec: None)
    monkeypatch.setattr(spice_metric.TokenMetric, "check_rows", lambda self, rows: None)
    cider = metric("cider").score(ROWS)
    found = metric("spider").score(ROWS)
    assert found[0] == (0.5 + cider[0]) / 2
    assert np.isnan(found[1])


def test_penalties_of_pairs_by_hand() -> None:
    corpus = Corpus.tokenize(["a dog dog", "x", ""], [("a dog",), ("a b c d",), ("",)])
    pairs = [(0, 3), (1, 4), (0, 3), (2, 2), (1, 2), (2, 4), (0, 2)]
    candidates, references = np.array(pairs).T
    short = math.exp(-1) ** 0.2
    expected = [
        math.sqrt(1 / 2) ** 0.8 * short,
        short,
        math.sqrt(1 / 2) ** 0.8 * short,
        1,
        1,
        short,
        0,
    ]
    penalties = metric("cider_r").compute_penalties(corpus, candidates, references)
    assert penalties.tolist() == pytest.approx(expected, rel=1e-12)


def test_what_cider_r_says_of_itself() -> None:
    scorer = metric("cider_r")
    assert scorer.parameters == {
        **{"tokenize": "ptb", "variant": "r", "sigma": 6.0, "df": None, "backend": "captau"},
    }
    assert scorer.bounds == (0.0, 10.0)
    assert scorer.depends_on_corpus
    assert scorer.frequencies_key == "df"
