"""The ROUGE family and rouge-score against values worked by hand (Lin 2004; Chen et al. 2015, section 3.4)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.metrics.registry import metric
from captau.metrics.text.rouge import (
    RougeL,
    RougeN,
    RougeScore,
    encode_numbers,
    encode_words,
    rouge_n,
    rouge_s,
)
from captau.metrics.text.tokens import ptb
from captau.metrics.text.tokens.corpus import Corpus
from tests.conftest import says

LONG = ["a dog runs fast", "a a a a a a", "the cat sleeps on a red sofa", "one two three"]

words = st.lists(st.sampled_from(["a", "dog", "cat", "runs", "the"]), max_size=8)
references = st.lists(words, min_size=1, max_size=4)


def rouge(name: str, caption: str, *references: str) -> float:
    return metric(name).score([{"caption": caption, "references": references}])[0]


def f(recall: float, precision: float) -> float:
    """Equation 7 with β = 1.2."""
    return (1 + 1.44) * recall * precision / (recall + 1.44 * precision)


@pytest.fixture(scope="module", autouse=True)
def _tokenised_once():
    ptb.tokenize(LONG)


# ROUGE-L


@pytest.mark.parametrize(("n", "recall"), [(1, 3 / 4), (2, 1 / 3), (3, 0), (4, 0), (5, 0)])
def test_n_grams_worked_by_hand(n, recall):
    """Against "a dog runs fast": 3 of 4 words, "a dog" of three pairs, no three words."""
    assert rouge_n(["a", "dog", "sat", "fast"], [["a", "dog", "runs", "fast"]], n) == recall


def test_words_take_no_character_that_utf_16_reserves():
    """U+D800 to U+DFFF are no characters, and a chunk may have more words than there are before them."""
    assert [ord(c) for c in encode_numbers(np.arange(0xD7FE, 0xD802))] == [
        0xD7FE,
        0xD7FF,
        0xE000,
        0xE001,
    ]


def test_rouge_l_of_one_reference():
    # Worked by hand: "a dog runs", 3 of the candidate's 4 words and of the reference's 6.
    assert rouge("rouge_l", "a dog runs fast", "a dog runs across the grass") == pytest.approx(
        f(recall=3 / 6, precision=3 / 4), rel=1e-12
    )


def test_rouge_l_skips_words():
    # Worked by hand: "the dog barks" is in both, in that order; "old" and "loudly" come apart.
    assert rouge("rouge_l", "the old dog barks", "the dog loudly barks old") == pytest.approx(
        f(recall=3 / 5, precision=3 / 4), rel=1e-12
    )


def test_rouge_l_takes_recall_and_precision_from_different_references():
    # Worked by hand, equations 5 and 6: recall 2/2 of the second, precision 3/4 of the first.
    assert rouge(
        "rouge_l", "a dog runs fast", "a dog runs across the grass", "a dog"
    ) == pytest.approx(f(recall=2 / 2, precision=3 / 4), rel=1e-12)


def test_rouge_l_without_words():
    assert rouge("rouge_l", "", "a dog") == 0.0
    assert rouge("rouge_l", "a dog", "") == 0.0
    assert rouge("rouge_l", "a dog", "cats sleep") == 0.0
    # pycocoevalcap splits nothing into one empty word, which is found in the other.
    assert rouge("rouge_l", "", "") == 1.0


@given(text=st.sampled_from(LONG), others=st.lists(st.sampled_from(LONG), max_size=3))
def test_rouge_l_of_a_candidate_among_its_references(text, others):
    assert rouge("rouge_l", text, *others, text) == pytest.approx(1, rel=1e-12)


# ROUGE-N


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Worked by hand, equation 4. Candidate: a×3, dog; a-a×2, a-dog. First reference: a, dog of
        # its 3 words, a-dog of its 2 pairs; second: a×2 of its 3 words (clipped), a-a of its 2.
        ("rouge_1", (2 + 2) / (3 + 3)),
        ("rouge_2", (1 + 1) / (2 + 2)),
    ],
)
def test_rouge_n_is_recall_over_all_references(name, expected):
    assert rouge(name, "A a a dog!", "a dog runs", "a a cat") == pytest.approx(expected, rel=1e-12)


def test_rouge_n_counts_a_reference_as_often_as_it_has_the_n_gram():
    # Worked by hand: the one "a" of the candidate matches once in each reference, not thrice.
    assert rouge_n(["a"], [["a", "a", "a"], ["a", "b"]], 1) == 2 / 5


def test_rouge_n_without_n_grams():
    assert rouge("rouge_2", "a dog", "dog") == 0.0
    assert rouge("rouge_2", "a dog", "dog", "a dog") == 1.0
    assert rouge("rouge_1", "", "a dog") == rouge("rouge_1", "a dog", "") == 0.0
    assert rouge("rouge_1", "", "") == 0.0


@given(candidate=words, references=references, n=st.integers(1, 3))
def test_rouge_n_laws(candidate, references, n):
    score = rouge_n(candidate, references, n)
    assert 0 <= score <= 1
    assert rouge_n(candidate, references[::-1], n) == score
    assert rouge_n(candidate, references * 2, n) == pytest.approx(score, rel=1e-12)
    assert rouge_n([*candidate, "a"], references, n) >= score  # more words recall no less
    if len(candidate) >= n:
        assert rouge_n(candidate, [candidate], n) == 1.0


# ROUGE-S


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        # Published: Lin 2004, section 5, with the reference "police killed the gunman". All
        # sentences have 6 skip bigrams, so recall is precision, and β does not matter.
        ("police kill the gunman", 3 / 6),
        ("the gunman kill police", 1 / 6),
        ("the gunman police killed", 2 / 6),
    ],
)
def test_rouge_s_of_lins_sentences(candidate, expected):
    score = rouge("rouge_s", candidate, "police killed the gunman")
    assert score == pytest.approx(expected, rel=1e-12)


def test_rouge_s_pairs_words_at_most_four_apart():
    # Worked by hand: of 7 words the first three reach 4 others each, then 3, 2, 1: 18 pairs.
    reference = "one two three four five six seven"
    pairs = 4 + 4 + 4 + 3 + 2 + 1
    assert rouge("rouge_s", "one five", reference) == pytest.approx(f(1 / pairs, 1), rel=1e-12)
    assert rouge("rouge_s", "one six", reference) == 0.0
    # All 21 pairs where the distance does not bind.
    assert rouge("rouge_s(distance=6)", "one seven", reference) == pytest.approx(
        f(1 / 21, 1), rel=1e-12
    )
    # Adjacent words alone: plain bigrams, 1 of the reference's 6 and of the candidate's 2.
    assert rouge("rouge_s(distance=1)", "one two four", reference) == pytest.approx(
        f(1 / 6, 1 / 2), rel=1e-12
    )


def test_rouge_s_takes_the_best_recall_and_precision():
    # Worked by hand: the candidate's pairs are a-dog, a-runs, dog-runs. The first reference has
    # a-dog alone (recall 1/1, precision 1/3); the second a-dog and dog-runs, a-runs and 3 more
    # (recall 3/6, precision 3/3).
    assert rouge("rouge_s", "a dog runs", "a dog", "a dog runs fast") == pytest.approx(
        f(recall=1, precision=1), rel=1e-12
    )
    assert rouge("rouge_s", "a dog runs", "a dog sleeps", "cat dog runs fast") == pytest.approx(
        f(recall=1 / 3, precision=1 / 3), rel=1e-12
    )


def test_rouge_s_counts_are_clipped():
    # Worked by hand: a-a thrice and a-dog thrice in the candidate, once and twice in the reference
    # (with a-dog from either a): 3 of its 3 pairs, 3 of the candidate's 6.
    assert rouge_s(["a", "a", "a", "dog"], [["a", "a", "dog"]], 4) == pytest.approx(
        f(recall=3 / 3, precision=3 / 6), rel=1e-12
    )


def test_rouge_s_without_pairs():
    assert rouge("rouge_s", "dog", "a dog") == rouge("rouge_s", "a dog", "dog") == 0.0
    assert rouge("rouge_s", "", "") == 0.0


@given(candidate=words, references=references, distance=st.integers(1, 9))
def test_rouge_s_laws(candidate, references, distance):
    score = rouge_s(candidate, references, distance)
    assert 0 <= score <= 1
    assert rouge_s(candidate, references[::-1], distance) == score
    assert rouge_s(candidate, references * 2, distance) == score
    assert rouge_s(candidate, [*references, ["cat", "cat"]], distance) >= score
    if len(candidate) > 1:
        assert rouge_s(candidate, [candidate], distance) == pytest.approx(1, rel=1e-12)
    if distance == 1:
        bigrams = set(pairwise(candidate)) & {p for r in references for p in pairwise(r)}
        assert (score > 0) == bool(bigrams)


def f1(recall: float, precision: float) -> float:
    return 2 * recall * precision / (recall + precision)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Worked by hand: "a dog runs" is 3 of 4 and 3 of 6 words, 2 of 3 and 2 of 5 bigrams.
        ("rouge_score_1", f1(3 / 6, 3 / 4)),
        ("rouge_score_2", f1(2 / 5, 2 / 3)),
        ("rouge_score_l", f1(3 / 6, 3 / 4)),
    ],
)
def test_f_measures(name, expected):
    assert rouge(name, "A dog runs fast!", "a dog runs across the grass") == pytest.approx(expected)


def test_order_counts_for_the_longest_subsequence_alone():
    # Worked by hand: all three words are there; only two of them in one order.
    assert rouge("rouge_score_1", "dog the runs", "the dog runs") == pytest.approx(1)
    assert rouge("rouge_score_l", "dog the runs", "the dog runs") == pytest.approx(2 / 3)
    assert rouge("rouge_score_2", "dog the runs", "the dog runs") == 0.0


def test_counts_are_clipped():
    # Worked by hand: "a" once in the reference of 2, thrice in the candidate.
    assert rouge("rouge_score_1", "a a a", "a dog") == pytest.approx(f1(1 / 2, 1 / 3))


def test_the_reference_with_the_greatest_f_counts():
    # Worked by hand: F is 0, 1/2 and 6/7. Recall and precision are of the same reference, unlike the
    # COCO server's: below, recall is not the 1/1 of "a".
    score = rouge("rouge_score_l", "a dog runs", "cats", "a", "a dog runs away")
    assert score == pytest.approx(f1(3 / 4, 3 / 3))
    assert rouge("rouge_score_l", "a dog runs fast", "a dog runs on and on", "a") == pytest.approx(
        f1(3 / 6, 3 / 4)
    )


def test_the_stemmer_folds_words_of_more_than_three_letters():
    caption, reference = "dogs running", "dog runs"
    assert rouge("rouge_score_1", caption, reference) == 0.0
    # Worked by hand: run and run; "dogs" becomes "dog", which is too short to be stemmed itself.
    assert rouge("rouge_score_1(stemmer=true)", caption, reference) == pytest.approx(1)


def test_only_letters_a_to_z_and_digits_are_words():
    assert rouge("rouge_score_1", "Mädchen 2", "m dchen 2") == pytest.approx(1)
    assert rouge("rouge_score_1", "狗", "狗") == 0.0
    assert rouge("rouge_score_l", "", "a dog") == rouge("rouge_score_l", "a dog", "") == 0.0


def test_what_the_family_says_of_itself():
    names = {"rouge_l": (), "rouge_1": ("n",), "rouge_2": ("n",), "rouge_s": ()}
    for name, name_fields in names.items():
        scorer = metric(name)
        assert (scorer.name, scorer.bounds, scorer.name_fields) == (name, (0.0, 1.0), name_fields)
        assert scorer.needs == {"references"}
        assert scorer.later_fields == ("tokenize",)
    assert metric("rouge_l").distributions == ("captau", "rapidfuzz")
    assert metric("rouge_l").parameters == {"tokenize": "ptb", "backend": "captau"}
    assert metric("rouge_s").parameters == {"tokenize": "ptb", "distance": 4, "backend": "captau"}
    assert RougeN().parameters == {"tokenize": "ptb", "n": 1, "backend": "captau"}
    assert [metric(f"rouge_{n}").n for n in (1, 2)] == [1, 2]
    for name, kind in (("1", "rouge1"), ("2", "rouge2"), ("l", "rougeL")):
        scorer = metric(f"rouge_score_{name}")
        assert scorer.parameters == {"kind": kind, "stemmer": False, "backend": "rouge_score"}
        assert (scorer.bounds, scorer.name_fields) == ((0.0, 1.0), ("kind",))
        assert scorer.needs == {"references"}
        assert scorer.distributions == ("captau", "rouge_score", "nltk")
        assert scorer.unsegmented_remedy == "rouge-score reads the letters a–z alone; take rouge_l"
        texts = ["a dog", "", "狗在公园里跑步", "собака бежит по траве"]
        assert list(map(scorer.cannot_segment, texts)) == [False, False, True, True]
    assert RougeScore().kind == "rougeL"


@pytest.mark.parametrize("distance", [-1, 0])
def test_a_distance_below_1_is_an_error(distance):
    with says(f"metric rouge_s: distance is {distance}; at least 1 is expected"):
        metric(f"rouge_s(distance={distance})")


@pytest.mark.java
def test_the_class_that_is_wrapped_scores_alike():
    """Words that a blank parts start no Java, though one must be there."""
    rows = [
        {"caption": "a dog runs fast", "references": ["a dog runs away", "the dog"]},
        {"caption": "two cats", "references": ["cats two sleep"]},
        {"caption": "zebra", "references": ["two cats"]},
    ]
    theirs = RougeL("pycocoevalcap", tokenize="intl").score(rows)
    np.testing.assert_allclose(theirs, RougeL(tokenize="intl").score(rows), rtol=1e-12)
    assert theirs.tolist()[2] == 0


def test_words_become_characters_chunk_by_chunk():
    """Words are numbered within the chunk in their order; an empty text has one empty word, also beside others."""
    corpus = Corpus.tokenize(["b a", "", "1 1/2 b"], [("c b",), ("a",), ("",)])
    strings = encode_words(corpus, np.array([0, 1, 2, 3]))
    assert [len(text) for text in strings] == [2, 1, 2, 2]
    assert strings[0][0] == strings[2][1] == strings[3][1]
    letters = {strings[0][0], strings[0][1], strings[1], strings[2][0], strings[3][0]}
    assert len(letters) == 5
    alone = encode_words(corpus, np.array([0, 3]))
    assert alone == ["\x00\x01", "\x02\x00"]
    rows = [
        {"caption": c, "references": [r]}
        for c, r in (("1 1/2 b", "1/2 b"), ("", "a"), ("a b", "b a"))
    ]
    scores = metric("rouge_l").score(rows)
    assert scores.tolist() == pytest.approx([f(1 / 2, 1 / 2), 0, f(1 / 2, 1 / 2)])
