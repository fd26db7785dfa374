"""The metric in the manner of ALOHa: nouns, their assignment worked by hand, and what is blamed."""

from __future__ import annotations

import numpy as np
import pytest

from captau.metrics.neural.aloha import assign, find_nouns
from captau.metrics.registry import metric

pytestmark = pytest.mark.neural


def test_nouns_have_their_places_among_the_words() -> None:
    nouns = find_nouns("Two dogs, a man and dogs\ton the grass.")
    assert nouns == {"dogs": [1, 5], "man": [3], "grass": [8]}


def test_assignment_worked_by_hand() -> None:
    """dog–cat 0.6 and cat–dog 0.5 are greedy; dog–puppy 0.9 and cat–cat 1 are greatest together; car is left over."""
    cosines = np.array([[0.9, 0.6], [0.5, 1.0], [0.3, 0.2]])
    assert assign(["dog", "cat", "car"], cosines) == {"dog": 0.9, "cat": 1.0, "car": 0.0}
    assert assign(["dog"], np.zeros((1, 0))) == {"dog": 0.0}


def test_scores_and_blame(weights: object) -> None:
    """Nouns of the references have 1; a third noun beside two has 0; without a noun nothing is made up."""
    rows = [
        {"caption": "a dog on grass", "references": ["grass and a dog", "a dog"]},
        {"caption": "a dog, a car and grass", "references": ["grass and a dog"]},
        {"caption": "running fast", "references": ["a dog"]},
        {"caption": "a dog", "references": ["running"]},
    ]
    aloha = metric("aloha")
    assert aloha.score(rows).tolist() == [1, 0, 1, 0]
    assert metric("aloha(aggregate=mean)").score(rows)[1] == pytest.approx(2 / 3)
    blame = aloha.blame(rows)  # pyright: ignore[reportAttributeAccessIssue]
    assert [b.tolist() for b in blame] == [[0] * 4, [0, 0, 0, 1, 0, 0], [0, 0], [0, 1]]
