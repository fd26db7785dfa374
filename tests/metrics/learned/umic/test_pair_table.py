"""Vocabularies, cut texts, and batches of UMIC's pairs, by hand and without PyTorch or tokenisers."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.umic import negatives as module
from captau.metrics.learned.umic.metric import read_vocabulary, truncate
from captau.metrics.learned.umic.negatives import PairTable
from tests.conftest import says

CAPTIONS = {"1": ("a dog", "one dog"), "2": ("two cats",), "3": ("x y z",)}
PIECES = ["[PAD]", "[MASK]", "[CLS]", "[SEP]"]


@pytest.mark.parametrize(
    ("lengths", "positions", "expected", "n_cut"),
    [
        ((3, 4, 5), 4, [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 4]], 1),
        ((3, 4, 5), 5, [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]], 0),
        ((3, 4), 2, [[0, 2], [0, 3]], 2),
    ],
)
def test_long_texts_keep_their_last_piece(lengths, positions, expected, n_cut):
    assert truncate([list(range(n)) for n in lengths], positions) == (expected, n_cut)


def test_a_vocabulary_has_the_pieces_that_every_text_needs(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n\n")
    assert read_vocabulary(path) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", ""]
    path.write_text("[UNK]\n[SEP]\na")
    with says(f"{path}: no [CLS]; a BERT vocabulary (vocab.txt) is expected"):
        read_vocabulary(path)


class Negatives:
    """Words are tagged by nothing, and a negative says its kind and its image."""

    def tagged_words(self, caption):
        return [(word, "X") for word in caption.split()]

    def draw(self, rng, image, words, kind):
        return f"{kind} {image} {len(words)}"


def table(monkeypatch, *, is_control=False, kinds=("random", "repetition"), pieces=PIECES):
    monkeypatch.setattr(
        module, "WordPieces", lambda pieces: lambda texts: [t.split() for t in texts]
    )
    monkeypatch.setattr(module, "collate", lambda ids, regions, device: (ids, regions, device))
    session = TrainingSession(0, is_control=is_control)
    regions = {image: f"regions of {image}" for image in CAPTIONS}
    return PairTable(CAPTIONS, Negatives(), regions, pieces, 3, kinds, session)


def test_rows_are_split_in_order(monkeypatch):
    pairs = table(monkeypatch)
    assert pairs.split_rows(3) == [[0, 1, 2], [3]]
    assert pairs.split_rows(4) == [[0, 1, 2, 3]]
    assert pairs.split_rows(1) == [[0], [1], [2], [3]]


def test_every_pair_comes_once_before_any_comes_again(monkeypatch):
    pairs = table(monkeypatch)
    batches = list(pairs.draw_rows("s", 0, 8, 3))
    rows = list(chain(*batches))
    assert [len(batch) for batch in batches] == [3] * 8
    assert [sorted(rows[i : i + 4]) for i in range(0, 24, 4)] == [[0, 1, 2, 3]] * 6
    # Later steps are the same, wherever the drawing begins; another stage has another order.
    assert list(pairs.draw_rows("s", 3, 2, 3)) == batches[3:5]
    order = TrainingSession(0).rng("s", "order", 0).permutation(4).tolist()
    assert rows[:4] == order
    assert list(chain(*pairs.draw_rows("t", 0, 8, 3))) != rows


def test_a_group_is_a_caption_and_its_negatives(monkeypatch):
    ids, regions, device = table(monkeypatch).make_groups(np.random.default_rng(0), [2, 0])
    assert ids == [
        ["two", "cats"],
        ["random", "2", "2"],
        ["repetition", "2", "2"],
        ["a", "dog"],
        ["random", "1", "2"],
        ["repetition", "1", "2"],
    ]
    assert regions == ["regions of 2"] * 3 + ["regions of 1"] * 3
    assert device == "cpu"
    (longest, *_), _, _ = table(monkeypatch, kinds=()).make_groups(np.random.default_rng(0), [3])
    assert longest == ["x", "y", "z"]
    control = table(monkeypatch, is_control=True)
    order = np.random.default_rng(5).permutation(3).tolist()
    found = control.make_groups(np.random.default_rng(5), [2])[0]
    assert found == [ids[i] for i in order]


def test_words_of_every_other_text_are_masked(monkeypatch):
    """Of the words between the ends, those whose number is below 0.15."""

    class Numbers:
        def __init__(self):
            self.rows = iter([[0.1, 0.15, 0.149], [0.2]])

        def random(self, size):
            row = next(self.rows)
            assert len(row) == size
            return np.array(row)

    ids = [[2, 11, 12, 13, 3], [2, 21, 3], [2, 31, 3], [2, 41, 3]]
    found = table(monkeypatch)._mask_words(Numbers(), ids)
    assert ids == [[2, 1, 12, 1, 3], [2, 21, 3], [2, 31, 3], [2, 41, 3]]
    assert found.tolist() == [[-1, 11, -1, 13, -1], *[[-1] * 5] * 3]
    ids = [[2, 11, 12, 13, 3]]
    table(monkeypatch, pieces=["[PAD]"])._mask_words(Numbers(), ids)
    assert ids == [[2, -1, 12, -1, 3]]
