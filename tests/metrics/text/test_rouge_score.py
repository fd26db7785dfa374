"""Google's ROUGE against values worked by hand (Lin 2004)."""

from __future__ import annotations

import pytest

from captau.metrics.registry import metric


def rouge(spec: str, caption: str, *references: str) -> float:
    return metric(spec).score([{"caption": caption, "references": references}])[0]


def f(recall: float, precision: float) -> float:
    return 2 * recall * precision / (recall + precision)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Worked by hand: "a dog runs" is 3 of 4 and 3 of 6 words, 2 of 3 and 2 of 5 bigrams.
        ("rouge_score_1", f(3 / 6, 3 / 4)),
        ("rouge_score_2", f(2 / 5, 2 / 3)),
        ("rouge_score_l", f(3 / 6, 3 / 4)),
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
    assert rouge("rouge_score_1", "a a a", "a dog") == pytest.approx(f(1 / 2, 1 / 3))


def test_the_reference_with_the_greatest_f_counts():
    # Worked by hand: F is 0, 1/2 and 6/7. Recall and precision are of the same reference, unlike the
    # COCO server's: below, recall is not the 1/1 of "a".
    score = rouge("rouge_score_l", "a dog runs", "cats", "a", "a dog runs away")
    assert score == pytest.approx(f(3 / 4, 3 / 3))
    assert rouge("rouge_score_l", "a dog runs fast", "a dog runs on and on", "a") == pytest.approx(
        f(3 / 6, 3 / 4)
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
