"""Tier 2: BLEU, ROUGE-L and CIDEr on made-up tokens are pycocoevalcap's own, to the last bit.

The tokeniser is left out: tokens of any kind, in any number, and any white space inside them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.tokens import corpus

# Few words, so that n-grams repeat; no-break and other spaces, at which some scorers cut and some not.
WORDS = st.sampled_from(["a", "b", "c", "the", "é", "🐕", "1\u00a01/2", "x\u2003y", "\u00a0"])
LINES = st.lists(WORDS, max_size=12).map(" ".join)
ROWS = st.lists(
    st.tuples(LINES, st.lists(LINES, min_size=1, max_size=4).map(tuple)), min_size=1, max_size=6
)


def reference(rows):
    """By metric the reference's corpus score and its score of each row."""
    gts = {i: list(references) for i, (_, references) in enumerate(rows)}
    res = {i: [candidate] for i, (candidate, _) in enumerate(rows)}
    bleu, each = Bleu(4).compute_score(gts, res, verbose=0)
    scores = {f"bleu_{n + 1}": (bleu[n], each[n]) for n in range(4)}
    scores["rouge_l"] = Rouge().compute_score(gts, res)
    if any(r.split() for references in gts.values() for r in references):
        scores["cider"] = Cider().compute_score(
            gts, res
        )  # it crashes where no reference has a word
    return scores


@given(rows=ROWS)
@example(rows=[("", ("",))])
@example(rows=[("a " * 299 + "b", ("b " * 300, "a b")), ("a", ("a", "a", "a"))])
@example(rows=[("a", ("a",))] * 5)
@settings(max_examples=150)
def test_scores_are_pycocoevalcaps(rows):
    rows = [(c.strip(" "), tuple(r.strip(" ") for r in refs)) for c, refs in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "tokenize", lambda texts, _: list(texts))
        shared = Rows.from_items([{"caption": c, "references": r} for c, r in rows])
        for name, (whole, each) in reference(rows).items():
            np.testing.assert_array_equal(metric(name).score(shared), each, name)
            assert metric(name).corpus_score(shared) == pytest.approx(whole, rel=1e-12), name


@pytest.mark.java
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("bleu_1", "bleu.bleu_scorer.BleuScorer.compute_score"),
        ("bleu_2", "bleu.bleu_scorer.BleuScorer.compute_score"),
        ("rouge_l", "rouge.rouge.Rouge.calc_score"),
        ("cider", "cider.cider_scorer.CiderScorer.compute_score"),
    ],
)
def test_only_the_backend_of_the_reference_runs_it(name, method, monkeypatch):
    def refuse(*_args: object, **_options: object) -> None:
        raise InterruptedError

    rows = [{"caption": "a dog runs", "references": ["a dog sits", "a cat runs"]}]
    own = metric(f"{name}(tokenize=intl)")
    scorer = metric(f"{name}(tokenize=intl,backend=pycocoevalcap)")
    assert own.score(rows).tolist() == scorer.score(rows).tolist()
    assert own.corpus_score(rows) == pytest.approx(scorer.corpus_score(rows), rel=1e-12)
    monkeypatch.setattr(f"pycocoevalcap.{method}", refuse)
    own.score(rows)
    own.corpus_score(rows)
    for score in (scorer.score, scorer.corpus_score):
        with pytest.raises(InterruptedError):
            score(rows)
    if name.startswith("bleu"):
        assert own.corpus_resampler(rows, np.zeros(1))
        assert own.corpus_summands(rows, np.zeros(1)) is not None
        assert scorer.corpus_resampler(rows, np.zeros(1)) is None
        assert scorer.corpus_summands(rows, np.zeros(1)) is None


@pytest.mark.parametrize("name", ["bleu_4", "rouge_l", "cider"])
def test_ten_thousand_words(name):
    random = np.random.default_rng(0)
    line = " ".join(random.choice(["a", "b", "c", "dog"], 10_000))
    other = " ".join(random.choice(["a", "b", "c", "dog"], 1_000))
    rows = [(line, (other, "a dog")), ("a dog", (line, other))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "tokenize", lambda texts, _: list(texts))
        found = metric(name).score([{"caption": c, "references": r} for c, r in rows])
    if (
        name == "rouge_l"
    ):  # the reference would take minutes; its longest subsequence is at most so long
        assert 0 < found[0] <= 1
        return
    np.testing.assert_array_equal(found, reference_of(name, rows))


def reference_of(name, rows):
    gts = {i: list(references) for i, (_, references) in enumerate(rows)}
    res = {i: [candidate] for i, (candidate, _) in enumerate(rows)}
    if name == "cider":
        return Cider().compute_score(gts, res)[1]
    return Bleu(4).compute_score(gts, res, verbose=0)[1][3]
