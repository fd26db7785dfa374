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
    key_texts,
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


def table_of(*entries: tuple[int, int, int], documents: int = 9) -> DocumentCounts:
    """Make counts of triples: both halves of a key, and its count."""
    high, low, counts = zip(*entries, strict=True) if entries else ((), (), ())
    halves = np.array(high, np.uint64), np.array(low, np.uint64)
    return DocumentCounts(*halves, np.array(counts, np.uint32), documents)


def entries_of(counts: DocumentCounts) -> list[tuple[int, int, int]]:
    columns = (counts.high, counts.low, counts.counts)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("stretch", [1, 2, 3, 5, 1 << 17])
@pytest.mark.parametrize("least", [1, 2, 6])
def test_parts_are_merged_in_stretches_worked_by_hand(stretch, least, monkeypatch):
    monkeypatch.setattr(frequency_table, "_MERGE_STRETCH", stretch)
    parts = [
        table_of((1, 5, 1), (2, 5, 1), (2, 6, 1), (4, 1, 2), (9, 9, 1), documents=3),
        table_of((2, 5, 1), (3, 1, 1), (4, 1, 3), (4, 2, 1), documents=4),
        table_of((0, 7, 1), (4, 1, 1), (9, 9, 4), documents=2),
        table_of(documents=5),
    ]
    total = merge(parts, least)
    summed = [
        (0, 7, 1),
        (1, 5, 1),
        (2, 5, 2),
        (2, 6, 1),
        (3, 1, 1),
        (4, 1, 6),
        (4, 2, 1),
        (9, 9, 5),
    ]
    assert entries_of(total) == [entry for entry in summed if entry[2] >= least]
    assert total.documents == 14
    assert total.counts.dtype == np.uint32
    assert entries_of(merge([])) == []


def test_counts_that_four_bytes_do_not_hold_are_an_error():
    largest = table_of((1, 2, 2**32 - 1), (3, 4, 1))
    assert entries_of(merge([largest])) == [(1, 2, 2**32 - 1), (3, 4, 1)]
    with says("an n-gram is in more than 4,294,967,295 documents; cut the set"):
        merge([largest, table_of((1, 2, 1))])
    with says("an n-gram is in more than 4,294,967,295 documents; cut the set"):
        merge([largest, table_of((1, 2, 7))])


@pytest.mark.parametrize("size", [1, 2, 3, 4096])
def test_keys_are_looked_up_in_runs_worked_by_hand(size, tmp_path, monkeypatch):
    monkeypatch.setattr(frequency_table, "_SEARCH_RUN", size)
    entries = [(2, 1, 3), (2, 4, 5), (2, 9, 7), (5, 0, 11), (8, 8, 13), (8, 9, 17)]
    write_counts(tmp_path / "t", table_of(*entries, documents=20))
    table = FrequencyTable(tmp_path / "t")
    keys = [(8, 9), (2, 4), (1, 1), (5, 1), (2, 9), (9, 9), (5, 0), (2, 1), (2, 2), (8, 8), (2, 10)]
    looked_up = table.look_up(np.array(keys, np.uint64).T)
    assert looked_up.tolist() == [17, 5, 0, 0, 7, 0, 11, 3, 0, 13, 0]
    assert table.look_up(np.zeros((2, 0), np.uint64)).tolist() == []
    assert table.documents == 20


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_tables_are_joined_column_by_column(size, tmp_path, monkeypatch):
    monkeypatch.setattr(frequency_table, "_COPY_SIZE", size)
    low, high = table_of((1, 5, 1), (2, 6, 2)), table_of((2**63, 7, 3))
    paths = [tmp_path / name for name in ("low", "none", "high")]
    sizes = [
        write_counts(path, part) for path, part in zip(paths, (low, table_of(), high), strict=True)
    ]
    assert sizes == [path.stat().st_size for path in paths] == [64, 24, 44]
    join_ranges(tmp_path / "joined", paths, 33)
    expected = table_of((1, 5, 1), (2, 6, 2), (2**63, 7, 3), documents=33)
    write_counts(tmp_path / "expected", expected)
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "expected").read_bytes()
    assert (tmp_path / "joined").read_bytes()[:24] == b"captaudf" + bytes(
        [33, *[0] * 7, 3, *[0] * 7]
    )


@pytest.mark.parametrize(
    "content", [b"", b"captaudf", b"captaudf" + bytes(15), b"x" * 24, bytes(44)]
)
def test_a_header_that_is_another_or_too_short_is_no_table(content, tmp_path):
    (tmp_path / "t").write_bytes(content)
    with says(f"{tmp_path / 't'}: not a table of document frequencies; remove it"):
        FrequencyTable(tmp_path / "t")


def test_a_table_with_more_bytes_than_entries_is_an_error(tmp_path):
    write_counts(tmp_path / "t", table_of((1, 2, 3)))
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes() + b"x")
    with says("a table of document frequencies that is cut off; remove it"):
        read_range(tmp_path / "t", 0, 1)


def test_the_size_of_counts_is_20_bytes_an_entry():
    counts = table_of((1, 2, 3), (4, 5, 6), (7, 8, 9))
    assert counts.nbytes == 60
    assert entries_of(counts.select(np.array([True, False, True]))) == [(1, 2, 3), (7, 8, 9)]


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


def test_what_is_counted_is_summed_by_key():
    keys = [np.array([[3, 1, 2], [0, 0, 0]], np.uint64), np.array([[1, 7], [0, 5]], np.uint64)]
    counts = key_counts(keys, [np.array([2.0, 1.0, 0.0]), np.array([4.0, 3.0])], 6)
    assert entries_of(counts) == [(1, 0, 5), (3, 0, 2), (7, 5, 3)]
    assert counts.documents == 6
    texts = key_texts(["dog", "a", "dog", ""])
    assert sorted(texts.counts.tolist()) == [1, 1, 2]
    assert texts.documents == 4
    assert entries_of(texts) == sorted(entries_of(texts))
    saved = key_saved_counts({("a",): 3, ("dog",): 1, ("a", "dog"): 2}, 5)
    assert sorted(saved.counts.tolist()) == [1, 2, 3]
    words, pairs = ngram_keys(Corpus.tokenize(["a dog"], [("a dog",)]), 2)
    of_key = {entry[:2]: entry[2] for entry in entries_of(saved)}
    assert [of_key[tuple(key)] for key in [*words.T.tolist(), *pairs.T.tolist()]] == [3, 1, 2]
    assert saved.documents == 5
