"""METEOR against values worked by hand (Denkowski and Lavie 2014, section 3 and Table 2)."""

from __future__ import annotations

import pytest

from captau.metrics.registry import metric

# The English parameters of METEOR 1.5.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
SYNONYM = 0.8


def meteor(caption: str, *references: str) -> float:
    return metric("meteor").score([{"caption": caption, "references": references}])[0]


def combined(precision: float, recall: float, chunks: int, matches: int) -> float:
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return (1 - GAMMA * (chunks / matches) ** BETA) * mean


@pytest.mark.parametrize(
    ("caption", "reference", "expected"),
    [
        # Worked by hand, from words that match exactly.
        # "dog": 1 of 2 and 1 of 2 words, in 1 chunk.
        ("dog sleeps", "dog runs", combined(1 / 2, 1 / 2, chunks=1, matches=1)),
        # "dog barks": 2 of 3 and 2 of 2 words, in 1 chunk.
        ("dog barks loudly", "dog barks", combined(2 / 3, 1, chunks=1, matches=2)),
        # "dog", "runs": 2 of 3 words on both sides, in 2 chunks.
        ("dog big runs", "dog small runs", combined(2 / 3, 2 / 3, chunks=2, matches=2)),
        ("cat dog", "dog cat", combined(1, 1, chunks=2, matches=2)),
        # A content word counts δ, a function word 1 - δ: "dog" matches and "the" does not.
        (
            "the dog",
            "a dog",
            combined(DELTA / (DELTA + 1 - DELTA), DELTA, chunks=1, matches=1),
        ),
        # A synonym counts 0.8. All words match in one chunk, where METEOR leaves the penalty out.
        (
            "the car is red",
            "the automobile is red",
            (DELTA * (SYNONYM + 1) + (1 - DELTA) * 2) / (DELTA * 2 + (1 - DELTA) * 2),
        ),
    ],
)
def test_worked_by_hand(caption, reference, expected):
    assert meteor(caption, reference) == pytest.approx(expected, rel=1e-12)


def test_the_best_reference_counts():
    # Worked by hand: "zebra" is 1 of 2 words of the candidate and all of the second reference.
    best = combined(1 / 2, 1, chunks=1, matches=1)
    assert best > meteor("dog zebra", "dog giraffe")
    assert meteor("dog zebra", "dog giraffe", "zebra") == pytest.approx(best, rel=1e-12)


def test_the_corpus_score_pools_statistics():
    # Worked by hand: 1 of 2 and 2 of 3 words of the candidates match, 1 of 2 and 2 of 2 of the
    # references, in one chunk each.
    items = [
        {"caption": "dog sleeps", "references": ("dog runs",)},
        {"caption": "dog barks loudly", "references": ("dog barks",)},
    ]
    pooled = combined(3 / 5, 3 / 4, chunks=2, matches=3)
    assert metric("meteor").corpus(items) == pytest.approx(pooled, rel=1e-12)
    assert metric("meteor").corpus([items[0]] * 3) == pytest.approx(
        meteor("dog sleeps", "dog runs")
    )


def test_a_candidate_among_its_references_has_the_greatest_score():
    for text in ["dog", "A man, in a hat.", "Ein Mädchen läuft über die Straße"]:
        assert meteor(text, "two cats", text) == 1.0


def test_empty_texts():
    assert meteor("", "a dog") == meteor("a dog", "") == meteor("", "") == 0.0
    assert meteor("🐕", "a dog") == 0.0


def test_the_bars_of_the_protocol_inside_a_caption():
    rows = [
        {"caption": "a dog ||| a cat", "references": ("a dog ||| a cat", "||| |||")},
        {"caption": "|||", "references": ("a dog",)},
        {"caption": "SCORE ||| EVAL ||| 1.0 2.0", "references": ("EVAL ||| a dog",)},
        {"caption": "a dog", "references": ("a dog",)},
    ]
    scores = metric("meteor").score(rows)
    assert scores[[0, 3]].tolist() == [1.0, 1.0]
    assert scores[1] == 0.0
    assert 0 < scores[2] < 1


def test_more_rows_than_a_pipe_holds():
    rows = [{"caption": f"dog {i}", "references": (f"dog {i}",)} for i in range(4000)]
    rows[1234] = {"caption": "dog sleeps", "references": ("dog runs",)}
    scores = metric("meteor").score(rows)
    assert scores[1234] == pytest.approx(0.2)
    scores[1234] = 1.0
    assert (scores == 1.0).all()
