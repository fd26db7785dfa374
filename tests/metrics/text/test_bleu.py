"""BLEU against values worked by hand (Papineni et al. 2002; Chen et al. 2015, section 3.3)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.metrics.registry import metric
from captau.metrics.text.bleu import Bleu
from captau.metrics.text.tokens import ptb

LONG = [
    "a dog runs fast",
    "a a a a a a",
    "the cat sleeps on a red sofa",
    "two dogs and two cats and two dogs",
    "a man , in a hat , rides a horse .",
]
#: pycocoevalcap adds 1e-9 to what it divides by.
CLOSE = 1e-8


def bleu(n: int, caption: str, *references: str) -> float:
    return metric(f"bleu_{n}").score([{"caption": caption, "references": references}])[0]


@pytest.fixture(scope="module", autouse=True)
def _tokenised_once():
    ptb.tokenize(LONG)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_precision_times_brevity_penalty(n):
    # Worked by hand: of the candidate's 4, 3, 2, 1 n-grams 3, 2, 1, 0 are in the reference, which
    # has 6 words to the candidate's 4. Where none matches, 1e-15 stands for 0.
    precisions = [3 / 4, 2 / 3, 1 / 2, 1e-15]
    penalty = math.exp(1 - 6 / 4)
    expected = penalty * math.prod(precisions[:n]) ** (1 / n)
    assert bleu(n, "a dog runs fast", "a dog runs across the grass") == pytest.approx(
        expected, rel=CLOSE
    )


def test_counts_are_clipped_at_the_greatest_of_any_reference():
    # Published: Papineni et al. 2002, section 2.1, example 2: modified unigram precision 2/7.
    references = ["The cat is on the mat.", "There is a cat on the mat."]
    candidate = "the the the the the the the"
    assert bleu(1, candidate, *references) == pytest.approx(2 / 7, rel=CLOSE)


@pytest.mark.parametrize(
    ("lengths", "closest"),
    # Worked by hand: 4 words; of two references equally close the shorter counts.
    [([3, 6], 3), ([2, 5], 5), ([5, 7], 5), ([2, 6], 2), ([6, 2], 2), ([5, 3], 3), ([9], 9)],
)
def test_the_reference_closest_in_length_counts(lengths, closest):
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    references = [" ".join(words[:k]) for k in lengths]
    precision = min(4, max(lengths)) / 4
    penalty = min(1.0, math.exp(1 - closest / 4))
    assert bleu(1, "one two three four", *references) == pytest.approx(
        precision * penalty, rel=CLOSE
    )


def test_case_and_punctuation_do_not_count():
    assert bleu(4, "A Dog, runs FAST!", "a dog runs - fast.") == pytest.approx(1, rel=CLOSE)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_an_empty_candidate_has_no_score(n):
    # exp(1 - 2 / 1e-15) is 0.
    assert bleu(n, "", "a dog") == 0.0


def test_the_corpus_score_pools_counts():
    # Worked by hand: 3 of 4 and 1 of 2 words match; 6 words stand against references of 4 + 4.
    items = [
        {"caption": "a dog runs fast", "references": ("a dog runs away",)},
        {"caption": "a horse", "references": ("a cat sleeps here",)},
    ]
    pooled = (3 + 1) / (4 + 2) * math.exp(1 - 8 / 6)
    assert metric("bleu_1").corpus_score(items) == pytest.approx(pooled, rel=CLOSE)
    for scorer in (metric("bleu_1"), metric("bleu_2")):
        summands = scorer.corpus_summands(items, scorer.score(items))
        assert scorer.corpus_score_from_sums(summands.sum(axis=0)) == scorer.corpus_score(items)
    mean = (3 / 4 + 1 / 2 * math.exp(1 - 4 / 2)) / 2
    assert metric("bleu_1").score(items).mean() == pytest.approx(mean, rel=CLOSE)


def test_bleu_is_of_four_words_unless_it_says_otherwise():
    assert Bleu() == metric("bleu_4")


@pytest.mark.java
def test_the_official_code_prints_nothing(capsys):
    assert metric("bleu_4(backend=pycocoevalcap)").score([{"caption": "a", "references": ("b",)}])
    assert capsys.readouterr().out == ""


@given(
    n=st.integers(1, 4),
    text=st.sampled_from(LONG),
    others=st.lists(st.sampled_from(LONG), max_size=3),
)
def test_a_candidate_among_its_references_has_the_greatest_score(n, text, others):
    assert bleu(n, text, *others, text) == pytest.approx(1, rel=CLOSE)
