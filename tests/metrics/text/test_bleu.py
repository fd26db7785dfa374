"""BLEU and sacreBLEU against values worked by hand (Papineni et al. 2002; Chen et al. 2015, section 3.3)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.bleu import Bleu, SacreBleu
from captau.metrics.text.bleu import bleu as bleu_of_counts
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


def sacrebleu(spec: str, caption: str, *references: str) -> float:
    return metric(spec).score([{"caption": caption, "references": references}])[0]


def test_short_sentences_have_fewer_orders():
    # Worked by hand: 3 of 3, 2 of 2 and 1 of 1 n-grams match; 3 words stand against 4.
    expected = 100 * math.exp(1 - 4 / 3)
    assert sacrebleu("sacrebleu", "a dog runs", "a dog runs fast") == pytest.approx(expected)
    # With all four orders the missing 4-gram makes it 0.
    assert sacrebleu("sacrebleu(effective_order=false)", "a dog runs", "a dog runs fast") == 0.0


@pytest.mark.parametrize(
    ("smoothing", "precisions"),
    [
        # Worked by hand: 2 of 4 words match and no longer n-gram, of which there are 3, 2, 1.
        ("exp", [2 / 4, 1 / (2 * 3), 1 / (4 * 2), 1 / (8 * 1)]),
        ("floor", [2 / 4, 0.1 / 3, 0.1 / 2, 0.1 / 1]),
        ("add-k", [2 / 4, (0 + 1) / (3 + 1), (0 + 1) / (2 + 1), (0 + 1) / (1 + 1)]),
    ],
)
def test_smoothing(smoothing, precisions):
    expected = 100 * math.prod(precisions) ** (1 / 4)
    spec = f"sacrebleu(smooth_method={smoothing})"
    assert sacrebleu(spec, "one two three four", "one x three y") == pytest.approx(expected)


def test_without_smoothing_one_missing_order_makes_it_nothing():
    spec = "sacrebleu(smooth_method=none)"
    assert sacrebleu(spec, "one two three four", "one x three y") == 0.0


def test_case_counts_unless_it_is_folded():
    assert sacrebleu("sacrebleu", "a dog runs fast", "A dog runs fast") < 100
    folded = sacrebleu("sacrebleu(lowercase=true)", "a dog runs fast", "A DOG runs fast")
    assert folded == pytest.approx(100)


def test_tokenisers():
    # Worked by hand: 13a parts the full stop from its word, `none` does not: then 3 of 4 words,
    # 2 of 3, 1 of 2 and half of 1 n-grams match (the last by smoothing).
    caption, reference = "a dog runs fast.", "a dog runs fast ."
    assert sacrebleu("sacrebleu", caption, reference) == pytest.approx(100)
    expected = 100 * math.exp(1 - 5 / 4) * (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4)
    assert sacrebleu("sacrebleu(tokenize=none)", caption, reference) == pytest.approx(expected)
    assert sacrebleu("sacrebleu(tokenize=char)", "狗跑很快", "狗跑很快") == pytest.approx(100)
    assert sacrebleu("sacrebleu(tokenize=intl)", "a–b c d", "a – b c d") == pytest.approx(100)


def test_chinese_captions_without_blanks_no_longer_score_0():
    # Worked by hand: 7 of 8 characters, 6 of 7 pairs, 5 of 6 triples, 4 of 5 fours of a caption that is one longer.
    caption, reference = "一只狗在公园里跑", "一只狗在公园里"
    expected = 100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** (1 / 4)
    assert sacrebleu("sacrebleu(tokenize=zh)", caption, reference) == pytest.approx(expected)
    assert sacrebleu("sacrebleu", caption, reference) == 0


@pytest.mark.parametrize(
    ("tokenize", "text", "unknown"),
    [
        ("13a", "一只狗在公园里跑", True),
        ("zh", "一只狗在公园里跑", False),
        ("zh", "公園を犬が走っています", True),
        ("ja-mecab", "公園を犬が走っています", False),
        ("ja-mecab", "สุนัขวิ่งอยู่ในสวนสาธารณะ", True),
        ("char", "สุนัขวิ่งอยู่ในสวนสาธารณะ", False),
    ],
)
def test_texts_whose_words_a_tokeniser_cannot_find_are_known_by_their_script(
    tokenize, text, unknown
):
    assert metric(f"sacrebleu(tokenize={tokenize})").cannot_segment(text) == unknown


def test_the_closest_reference_length_counts():
    # Worked by hand: 4 words, references of 4 and 9: no penalty; all words are in the longer one.
    references = ["x y z w", "one two three four five six seven eight nine"]
    assert sacrebleu("sacrebleu", "one two three four", *references) == pytest.approx(100)


def test_empty_texts():
    assert sacrebleu("sacrebleu", "", "a dog") == 0.0
    assert sacrebleu("sacrebleu", "a dog", "") == 0.0


def test_both_bounds_are_reached():
    lowest, highest = metric("sacrebleu").bounds
    assert sacrebleu("sacrebleu", "a cat", "the dogs") == lowest
    assert sacrebleu("sacrebleu", "a dog", "a dog") == pytest.approx(highest)


def test_the_corpus_score_pools_counts_over_unequal_numbers_of_references():
    # Worked by hand: 4 of 4 and 3 of 4 words, 3 of 3 and 2 of 3 bigrams, 2 of 2 and 1 of 2
    # trigrams, 1 of 1 and 0 of 1 4-grams; the lengths are equal.
    items = [
        {"caption": "one two three four", "references": ("five six", "one two three four")},
        {"caption": "a dog runs fast", "references": ("a dog runs away",)},
    ]
    expected = 100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** (1 / 4)
    scorer = metric("sacrebleu")
    assert scorer.corpus_score(items) == pytest.approx(expected)
    summands = scorer.corpus_summands(items, scorer.score(items))
    assert summands.tolist() == [[4, 3, 2, 1, 4, 3, 2, 1, 4, 4], [3, 2, 1, 0, 4, 3, 2, 1, 4, 4]]
    assert scorer.corpus_score_from_sums(summands.sum(axis=0)) == pytest.approx(expected)
    assert scorer.corpus_resampler(items, scorer.score(items))(np.ones((2, 2))) == pytest.approx(
        [expected] * 2
    )


def test_what_bleu_and_sacrebleu_say_of_themselves():
    for n in (1, 2, 3, 4):
        scorer = metric(f"bleu_{n}")
        assert (scorer.name, scorer.bounds, scorer.n) == (f"bleu_{n}", (0.0, 1.0), n)
        assert scorer.name_fields == ("n",)
        assert scorer.later_fields == ("tokenize",)
        assert scorer.needs == {"references"}
        assert not scorer.depends_on_corpus
    assert Bleu().parameters == {"tokenize": "ptb", "n": 4, "backend": "captau"}
    scorer = metric("sacrebleu")
    assert scorer.bounds == (0.0, 100.0)
    assert scorer.needs == {"references"}
    assert scorer.distributions == ("sacrebleu",)
    assert scorer.unsegmented_remedy == (
        "set words apart by blanks first, or take tokenize=char, zh or ja-mecab"
    )
    assert scorer.parameters == {
        **{"tokenize": "13a", "lowercase": False, "smooth_method": "exp"},
        **{"effective_order": True, "backend": "sacrebleu"},
    }


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [
        ([3, 2, 1, 0, 4, 3, 2, 1, 6], [0.75, 0.5, 0.25, 2.5e-16]),
        ([4, 3, 2, 1, 4, 3, 2, 1, 4], [1, 1, 1, 1]),
        ([2, 1, 0, 0, 5, 4, 3, 2, 3], [0.4, 0.1, 0.1 * 1e-15 / 3, 0.1 * 1e-15 / 3 * 1e-15 / 2]),
    ],
)
def test_bleu_of_counts(statistics, expected):
    """The products of precisions, before their root and the penalty exp(1 - 6 / 4) of the first."""
    penalty = math.exp(1 - statistics[-1] / statistics[4]) if statistics[4] < statistics[-1] else 1
    roots = [penalty * product ** (1 / n) for n, product in enumerate(expected, 1)]
    assert bleu_of_counts(statistics) == pytest.approx(roots, rel=CLOSE)


def test_the_statistics_of_rows():
    """Matches and n-grams of 1 to 4 words, and the words of the closest reference; the order of rows stays."""
    rows = Rows.from_items(
        [
            {"caption": "a dog runs fast", "references": ["a dog runs", "fast dog a runs well so"]},
            {"caption": "", "references": ["a dog"]},
            {"caption": "a a b", "references": ["a b a", "a a"]},
            {"caption": "a dog runs fast", "references": ["a dog runs", "fast dog a runs well so"]},
        ]
    )
    expected = [
        [4, 2, 1, 0, 4, 3, 2, 1, 3],
        [0, 0, 0, 0, 0, 0, 0, 0, 2],
        [3, 2, 0, 0, 3, 2, 1, 0, 3],
    ]
    scorer = metric("bleu_3")
    summands = scorer.corpus_summands(rows, np.zeros(4))
    assert summands.tolist() == [*expected, expected[0]]
    assert scorer.compute(rows).tolist() == [bleu_of_counts(row)[2] for row in summands.tolist()]
    total = np.array(expected).sum(axis=0) + expected[0]
    assert scorer.corpus_score(rows) == bleu_of_counts(total.tolist())[2]
    assert scorer.pool(np.array(expected)).tolist() == [bleu_of_counts(row)[2] for row in expected]


@pytest.mark.java
def test_the_class_that_is_wrapped_scores_alike():
    """Words that a blank parts start no Java, though one must be there; a row of weight 2 counts twice in the corpus."""
    rows = [
        {"caption": "a dog runs fast", "references": ["a dog runs away", "the dog"], "weight": 2},
        {"caption": "two cats", "references": ["two cats sleep"], "weight": 1},
    ]
    for n in (1, 4):
        ours = Bleu(n, tokenize="intl")
        theirs = Bleu(n, "pycocoevalcap", tokenize="intl")
        np.testing.assert_allclose(theirs.score(rows), ours.score(rows), rtol=1e-12)
        assert theirs.corpus_score(rows) == pytest.approx(ours.corpus_score(rows), rel=1e-12)
        assert theirs.corpus_summands(rows, np.zeros(2)) is None


@pytest.mark.parametrize("method", ["exp", "floor", "add-k", "none"])
def test_sacrebleu_of_corpora_and_of_sums(method):
    """The same as its own corpus score, whose words and weights it gets."""
    rows = [
        {"caption": "A dog runs fast", "references": ["A dog runs", "dogs run"], "weight": 2},
        {"caption": "one two", "references": ["one three two"], "weight": 1},
    ]
    scorer = SacreBleu(smooth_method=method, lowercase=True)
    expected = BLEU(smooth_method=method, lowercase=True).corpus_score(
        ["A dog runs fast"] * 2 + ["one two"],
        [["A dog runs", "A dog runs", "one three two"], ["dogs run", "dogs run", None]],
    )
    assert scorer.corpus_score(rows) == pytest.approx(expected.score)
    summands = scorer.corpus_summands(rows, scorer.score(rows))
    assert summands.tolist() == [[3, 2, 1, 0, 4, 3, 2, 1, 4, 3], [2, 0, 0, 0, 2, 1, 0, 0, 2, 3]]
    sums = 2 * summands[0] + summands[1]
    assert scorer.corpus_score_from_sums(sums) == pytest.approx(expected.score)
    sentence = BLEU(smooth_method=method, lowercase=True, effective_order=False)
    plain = SacreBleu(smooth_method=method, lowercase=True, effective_order=False).score(rows)
    expected_scores = [sentence.sentence_score(r["caption"], r["references"]).score for r in rows]
    assert plain.tolist() == pytest.approx(expected_scores)
