"""Document frequencies in a table on disk, by the keys of n-grams."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.text import frequency_table
from captau.metrics.text.cider import ORDERS, count_documents, document_frequencies
from captau.metrics.text.frequency_table import (
    FrequencyTable,
    key_saved_counts,
    ngram_keys,
    word_keys,
    write_table,
)
from captau.metrics.text.tokens.corpus import Corpus
from tests.conftest import AWKWARD

WORDS = ["a", "dog", "runs", "ball", "the"]
PAIRS = st.tuples(*[st.integers(0, 3)] * 2)


def table_of(folder, entries, documents=9, stretch=2):
    """Write the table of triples, both halves of a key and its count, some at a time, and open it."""
    entries = sorted(entries)
    stretches = []
    for first in range(0, len(entries), stretch):
        high, low, counts = zip(*entries[first : first + stretch], strict=True)
        stretches.append(
            (np.array(high, np.uint64), np.array(low, np.uint64), np.array(counts, np.uint32))
        )
    write_table(folder, documents, len(entries), stretches)
    return FrequencyTable(folder)


def test_a_saved_file_has_the_keys_of_a_corpus(tmp_path):
    sets = [tuple(AWKWARD), ("a dog runs", "the dog runs"), ("a dog",)]
    saved = document_frequencies(sets)
    counts = key_saved_counts(saved.counts)
    assert len(counts[0]) == len(saved.counts)
    write_table(tmp_path / "t", saved.documents, len(saved.counts), [counts])
    table = FrequencyTable(tmp_path / "t")
    assert table.documents == 3
    corpus = Corpus.tokenize([""] * len(sets), sets)
    expected = count_documents(corpus, np.ones(len(sets)))
    for keys, documents in zip(ngram_keys(corpus, ORDERS), expected, strict=True):
        assert table.look_up(keys).tolist() == documents.tolist()


def test_a_table_takes_the_place_of_an_earlier_one(tmp_path):
    """A run that is killed after it wrote a table, and before it stored that, writes it again."""
    table_of(tmp_path / "t", [(1, 2, 3), (4, 5, 6)])
    table = table_of(tmp_path / "t", [(1, 2, 7)], documents=8)
    assert table.documents == 8
    assert table.look_up(np.array([[1, 4], [2, 5]], np.uint64)).tolist() == [7, 0]


def test_keys_stay_those_of_the_tables_that_are_on_disk():
    """A run that goes on reads the tables that it began with."""
    words, pairs = ngram_keys(Corpus.tokenize(["a dog"], [("a dog",)]), 2)
    assert words.tolist() == [
        [900172324821946141, 16836508785555864054],
        [10554880902245807583, 610992282306427141],
    ]
    assert pairs.tolist() == [[6608401303974033279], [17183069429325714716]]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7), max_size=5))
def test_a_written_corpus_is_read_back_equal(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("corpus") / "c.npz"
    lines = [*AWKWARD, "1 1/2 cups", *(" ".join(words) for words in texts)]
    corpus = Corpus.tokenize(lines, [tuple(lines[:3])] * len(lines))
    with path.open("wb") as stream:
        corpus.write(stream)
    reread = Corpus.read(path)
    assert reread.vocabulary == corpus.vocabulary
    assert reread.blank_split == corpus.blank_split
    for n in range(1, ORDERS + 1):
        assert Counter(reread.ngrams(n)) == Counter(corpus.ngrams(n))
        assert (reread.grams(n).ngram_at == corpus.grams(n).ngram_at).all()


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(PAIRS, st.integers(1, 9)), st.lists(PAIRS), st.sampled_from([1, 3, 4096]))
def test_runs_of_keys_change_no_count(tmp_path_factory, count_by_key, keys, size):
    """Half keys of few values, of which many are equal."""
    entries = [(*key, count) for key, count in count_by_key.items()]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(frequency_table, "_SEARCH_RUN", size)
        table = table_of(tmp_path_factory.mktemp("table") / "t", entries, stretch=size)
        looked_up = table.look_up(np.array(keys, np.uint64).reshape(-1, 2).T)
    assert looked_up.tolist() == [count_by_key.get(key, 0) for key in keys]


def test_a_table_of_no_n_grams_counts_none(tmp_path):
    """As of texts without words."""
    table = table_of(tmp_path / "t", [], documents=3)
    assert table.look_up(np.zeros((2, 3), np.uint64)).tolist() == [0, 0, 0]
    assert table.documents == 3
    assert [len(column) for column in key_saved_counts({})] == [0, 0, 0]


def test_a_table_is_written_whole_or_not_at_all(tmp_path):
    def stop():
        yield from [(np.ones(1, np.uint64), np.ones(1, np.uint64), np.ones(1, np.uint32))]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(tmp_path / "t", 9, 2, stop())
    assert not (tmp_path / "t").exists()
    assert table_of(tmp_path / "t", [(1, 2, 3)]).documents == 9
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("size", [1, 2, 3, 4096])
def test_keys_are_looked_up_in_runs_worked_by_hand(size, tmp_path, monkeypatch):
    monkeypatch.setattr(frequency_table, "_SEARCH_RUN", size)
    entries = [(2, 1, 3), (2, 4, 5), (2, 9, 7), (5, 0, 11), (8, 8, 13), (8, 9, 17)]
    table = table_of(tmp_path / "t", entries, documents=20)
    keys = [(8, 9), (2, 4), (1, 1), (5, 1), (2, 9), (9, 9), (5, 0), (2, 1), (2, 2), (8, 8), (2, 10)]
    looked_up = table.look_up(np.array(keys, np.uint64).T)
    assert looked_up.tolist() == [17, 5, 0, 0, 7, 0, 11, 3, 0, 13, 0]
    assert table.look_up(np.zeros((2, 0), np.uint64)).tolist() == []
    assert table.documents == 20


def test_n_grams_have_keys_up_to_the_length_that_is_asked_for():
    """An n-gram's key depends on its words and their order alone, and on nothing beside it."""
    corpus = Corpus.tokenize(["a dog runs"], [("a dog runs a dog",)])
    for orders in (1, 2, 3, 4):
        assert [key.shape for key in ngram_keys(corpus, orders)] == [
            (2, 3),
            (2, 3),
            (2, 3),
            (2, 2),
        ][:orders]
    alone = Corpus.tokenize(["dog runs a"], [("dog",)])
    keys = dict(zip(corpus.ngrams(3), ngram_keys(corpus, 3)[2].T.tolist(), strict=True))
    assert keys["dog", "runs", "a"] == ngram_keys(alone, 3)[2].T.tolist()[0]
    assert len({tuple(key) for order in ngram_keys(corpus, 4) for key in order.T.tolist()}) == 11


def test_equal_texts_alone_have_equal_keys():
    keys = [tuple(key) for key in word_keys(["dog", "a", "dog", ""]).T.tolist()]
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3
