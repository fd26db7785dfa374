"""Document frequencies counted in parts, on disk."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.text import frequency_table
from captau.metrics.text.cider import ORDERS, count_documents, document_frequencies
from captau.metrics.text.frequency_table import (
    DocumentCounts,
    FrequencyTable,
    join_ranges,
    key_counts,
    key_saved_counts,
    merge,
    ngram_keys,
    read_range,
    write_counts,
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
PAIRS = st.tuples(*[st.integers(0, 3)] * 2)


def counts_of(sets):
    """Return the corpus of some sets of references, and its counts."""
    corpus = Corpus.tokenize([""] * len(sets), sets)
    counts = count_documents(corpus, np.ones(len(sets)))
    return corpus, key_counts(ngram_keys(corpus, ORDERS), counts, len(sets))


@settings(deadline=None, max_examples=40)
@given(SETS, st.integers(1, 5), st.sampled_from([1, 4, 64]))
def test_merged_parts_equal_a_count_in_one_go(tmp_path_factory, sets, size, n_ranges):
    folder = tmp_path_factory.mktemp("df")
    for i in range(0, len(sets), size):
        write_counts(folder / f"{i}.bin", counts_of(sets[i : i + size])[1])
    paths = sorted(folder.glob("*.bin"))
    merged_paths = []
    for p in range(n_ranges):
        total = merge([read_range(path, p, n_ranges) for path in paths], min_documents=2)
        assert total.documents == len(sets)
        merged_paths.append(folder / f"merged-{p}")
        write_counts(merged_paths[-1], total)
    join_ranges(folder / "table", merged_paths, len(sets))
    table = FrequencyTable(folder / "table")
    expected = document_frequencies(sets)
    assert table.documents == expected.documents
    corpus = Corpus.tokenize(
        [*AWKWARD, *(" ".join(WORDS) for _ in AWKWARD)], [sets[0]] * 2 * len(AWKWARD)
    )
    for n, key in enumerate(ngram_keys(corpus, ORDERS), start=1):
        counts = dict(zip(corpus.ngrams(n), table.look_up(key).tolist(), strict=True))
        for ngram, count in counts.items():
            frequency = expected.counts.get(ngram, 0)
            assert count == (
                frequency if frequency > 1 else 0
            )  # one document weighs as much as none


def test_a_saved_file_gives_the_same_keys():
    sets = [tuple(AWKWARD), ("a dog runs", "the dog runs"), ("a dog",)]
    _, direct = counts_of(sets)
    saved = document_frequencies(sets)
    reread = key_saved_counts(saved.counts, saved.documents)
    for name in ("high", "low", "counts"):
        assert (getattr(direct, name) == getattr(reread, name)).all()
    assert len(direct.high) == len(saved.counts)


def test_keys_stay_those_of_the_tables_that_are_on_disk():
    """From version 0.2.0: tables that were written then are still read."""
    words, pairs = ngram_keys(Corpus.tokenize(["a dog"], [("a dog",)]), 2)
    assert words.tolist() == [
        [900172324821946141, 16836508785555864054],
        [10554880902245807583, 610992282306427141],
    ]
    assert pairs.tolist() == [[6608401303974033279], [17183069429325714716]]


def test_keys_with_equal_first_halves_are_told_apart(tmp_path):
    """The second half decides; no such keys occur by chance."""
    high = np.array([5, 5, 5, 7], dtype=np.uint64)
    low = np.array([9, 1, 9, 1], dtype=np.uint64)
    part = DocumentCounts(high, low, np.array([1, 2, 4, 8], dtype=np.uint32), 3)
    total = merge([part, part])
    assert total.high.tolist() == [5, 5, 7]
    assert total.low.tolist() == [1, 9, 1]
    assert total.counts.tolist() == [4, 10, 16]
    assert merge([part]).counts.tolist() == [2, 5, 8]
    write_counts(tmp_path / "t", total)
    keys = np.array([[7, 5, 5, 5, 9], [1, 9, 1, 2, 1]], dtype=np.uint64)
    assert FrequencyTable(tmp_path / "t").look_up(keys).tolist() == [16, 10, 4, 0, 0]


def test_a_second_half_that_the_first_key_has_too_is_put_in_order():
    high, low = np.array([3, 5, 5], np.uint64), np.array([7, 9, 7], np.uint64)
    total = merge([DocumentCounts(high, low, np.array([1, 2, 3], np.uint32), 3)])
    assert (total.low.tolist(), total.counts.tolist()) == ([7, 7, 9], [1, 3, 2])


def test_ranges_are_equally_wide_and_have_each_key_once(tmp_path):
    bounds = [0, 1 << 62, 1 << 63, 3 << 62]  # of four ranges
    high = np.array([key for bound in bounds for key in (bound, bound + (1 << 62) - 1)], np.uint64)
    low, counts = np.arange(8, dtype=np.uint64), np.arange(8, dtype=np.uint32)
    write_counts(tmp_path / "t", DocumentCounts(high, low, counts, 9))
    paths = [tmp_path / f"{number}" for number in range(4)]
    for number, path in enumerate(paths):
        part = read_range(tmp_path / "t", number, 4)
        write_counts(path, part)
        assert part.counts.tolist() == part.low.tolist() == [2 * number, 2 * number + 1]
        assert part.high.tolist() == high[2 * number : 2 * number + 2].tolist()
        assert part.documents == 9
    join_ranges(tmp_path / "joined", paths, 9)
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "t").read_bytes()


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
@given(st.lists(st.lists(PAIRS)), st.lists(PAIRS), st.sampled_from([1, 3, 4096]))
def test_stretches_and_runs_change_no_count(tmp_path_factory, parts, keys, size):
    """Half keys of few values, of which many are equal, are counted as pairs by a `Counter`."""

    def halves(pairs):
        return np.array(pairs, np.uint64).reshape(-1, 2).T

    path = tmp_path_factory.mktemp("table") / "t"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(frequency_table, "_MERGE_STRETCH", size)
        patched.setattr(frequency_table, "_SEARCH_RUN", size)
        counts = [key_counts([halves(part)], [np.ones(len(part))], 1) for part in parts]
        write_counts(path, merge(counts, min_documents=2))
        looked_up = FrequencyTable(path).look_up(halves(keys))
    counter = Counter(pair for part in parts for pair in part)
    assert looked_up.tolist() == [counter[key] if counter[key] > 1 else 0 for key in keys]


def test_a_file_that_is_no_table_is_an_error(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing")
    with says("not a table of document frequencies"):
        FrequencyTable(tmp_path / "x")


def test_a_table_that_is_cut_off_is_an_error(tmp_path):
    """Joining it would wait for its end for ever."""
    one = np.ones(1, np.uint64)
    write_counts(tmp_path / "t", DocumentCounts(one, one, np.ones(1, np.uint32), 1))
    (tmp_path / "cut").write_bytes((tmp_path / "t").read_bytes()[:-1])
    with says(f"{tmp_path / 'cut'}: a table of document frequencies that is cut off"):
        join_ranges(tmp_path / "joined", [tmp_path / "cut"], 1)


@pytest.mark.parametrize("sets", [[("",)], [("", "")] * 3])
def test_texts_without_words_give_an_empty_table(sets, tmp_path):
    _, counts = counts_of(sets)
    assert len(counts.high) == 0
    write_counts(tmp_path / "t", counts)
    assert FrequencyTable(tmp_path / "t").look_up(np.zeros((2, 3), np.uint64)).tolist() == [0, 0, 0]
