"""Document frequencies counted in parts, on disk."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.text.cider import ORDERS, document_counts, document_frequencies
from captau.metrics.text.frequency_table import (
    Counts,
    Table,
    counted,
    join,
    keys,
    merged,
    of_file,
    read,
    write,
)
from captau.metrics.text.tokens.corpus import Corpus
from tests.conftest import AWKWARD, says

WORDS = ["a", "dog", "runs", "ball", "the"]
SETS = st.lists(
    st.lists(
        st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=3
    ).map(tuple),
    min_size=1,
    max_size=12,
)


def counts_of(sets):
    corpus = Corpus([""] * len(sets), sets)
    held = document_counts(corpus, np.ones(len(sets)))
    return corpus, counted(keys(corpus, ORDERS), held, len(sets))


@settings(deadline=None, max_examples=40)
@given(SETS, st.integers(1, 5), st.sampled_from([1, 4, 64]))
def test_merged_parts_are_the_whole(tmp_path_factory, sets, size, partitions):
    folder = tmp_path_factory.mktemp("df")
    for i in range(0, len(sets), size):
        write(folder / f"{i}.bin", counts_of(sets[i : i + size])[1], partitions)
    paths = sorted(folder.glob("*.bin"))
    made = []
    for p in range(partitions):
        total = merged([read(path, p) for path in paths], least=2)
        assert total.documents == len(sets)
        made.append(folder / f"merged-{p}")
        write(made[-1], total, 1)
    join(folder / "table", made, len(sets))
    table = Table(folder / "table")
    expected = document_frequencies(sets)
    assert table.documents == expected.documents
    corpus = Corpus([*AWKWARD, *(" ".join(WORDS) for _ in AWKWARD)], [sets[0]] * 2 * len(AWKWARD))
    for n, key in enumerate(keys(corpus, ORDERS), start=1):
        found = dict(zip(corpus.ngrams(n), table.held(key).tolist(), strict=True))
        for ngram, count in found.items():
            true = expected.counts.get(ngram, 0)
            assert count == (true if true > 1 else 0)  # one document weighs as much as none


def test_a_saved_file_gives_the_same_keys():
    sets = [tuple(AWKWARD), ("a dog runs", "the dog runs"), ("a dog",)]
    _, direct = counts_of(sets)
    saved = document_frequencies(sets)
    again = of_file(saved.counts, saved.documents)
    for name in ("high", "low", "counts"):
        assert (getattr(direct, name) == getattr(again, name)).all()
    assert len(direct.high) == len(saved.counts)


def test_keys_with_one_half_in_common(tmp_path):
    """What does not happen by chance: the second half decides."""
    high = np.array([5, 5, 5, 7], dtype=np.uint64)
    low = np.array([9, 1, 9, 1], dtype=np.uint64)
    part = Counts(high, low, np.array([1, 2, 4, 8], dtype=np.uint32), 3)
    total = merged([part, part])
    assert total.high.tolist() == [5, 5, 7]
    assert total.low.tolist() == [1, 9, 1]
    assert total.counts.tolist() == [4, 10, 16]
    write(tmp_path / "t", total, 1)
    asked = np.array([[7, 5, 5, 5, 9], [1, 9, 1, 2, 1]], dtype=np.uint64)
    assert Table(tmp_path / "t").held(asked).tolist() == [16, 10, 4, 0, 0]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7), max_size=5))
def test_a_corpus_is_read_back(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("corpus") / "c.npz"
    lines = [*AWKWARD, "1 1/2 cups", *(" ".join(words) for words in texts)]
    corpus = Corpus(lines, [tuple(lines[:3])] * len(lines))
    with path.open("wb") as stream:
        corpus.write(stream)
    again = Corpus.read(path)
    assert again.vocabulary == corpus.vocabulary
    assert again.odd == corpus.odd
    for n in range(1, ORDERS + 1):
        assert Counter(again.ngrams(n)) == Counter(corpus.ngrams(n))
        assert (again.grams(n).at == corpus.grams(n).at).all()


def test_what_is_no_table(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing")
    with says("no table of document frequencies"):
        Table(tmp_path / "x")


@pytest.mark.parametrize("sets", [[("",)], [("", "")] * 3])
def test_no_words_at_all(sets, tmp_path):
    _, found = counts_of(sets)
    assert len(found.high) == 0
    write(tmp_path / "t", found, 4)
    assert Table(tmp_path / "t").held(np.zeros((2, 3), np.uint64)).tolist() == [0, 0, 0]
