"""Tokenised rows as integers: worked by hand, and the same whatever the chunks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.cider import ReferenceCorpus
from captau.metrics.text.tokens import corpus as corpus_module
from captau.metrics.text.tokens import ptb
from captau.metrics.text.tokens.corpus import Corpus, TokenTable, sort_stably, spread

POOL = ["", "a dog", "a dog runs a dog", "runs a", "the cat", "it weighs 1 1/2 pounds", "dog " * 9]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(POOL), st.lists(st.sampled_from(POOL), min_size=1, max_size=3).map(tuple)
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module", autouse=True)
def _tokens_of_pool():
    ptb.tokenize(POOL)


def test_sets_of_references_are_cut_like_rows(cut_into_chunks):
    """Worked by hand: sets of 2 and 1 words, and 1 more each, are within 5 words; 3 are too many beside them."""
    corpus = Corpus.tokenize([""] * 3, [("a", "dog"), ("cat",), ("a dog runs",)])
    assert [chunk.tolist() for chunk in corpus.set_chunks()] == [[0, 1, 2]]
    cut_into_chunks(5)
    assert [chunk.tolist() for chunk in corpus.set_chunks()] == [[0, 1], [2]]


def test_words_and_sets_are_stored_once():
    corpus = Corpus.tokenize(
        ["A dog.", "a cat", "A dog."], [("a dog", "a cat"), ("a cat",), ("a dog", "a cat")]
    )
    assert list(corpus.vocabulary) == ["a", "dog", "cat"]
    # "A dog.", "a cat" and "a dog" are three texts: what a reader typed is the key.
    assert corpus.words.tolist() == [0, 1, 0, 2, 0, 1]
    assert corpus.starts.tolist() == [0, 2, 4, 6]
    assert corpus.candidates.tolist() == [0, 1, 0]
    assert corpus.sets.tolist() == [0, 1, 0]
    assert corpus.members.tolist() == [2, 1, 1]
    assert corpus.set_starts.tolist() == [0, 2, 3]


def test_n_grams_worked_by_hand():
    corpus = Corpus.tokenize(["a dog runs a dog"], [("a dog",)])
    assert corpus.ngrams(1) == [("a",), ("dog",), ("runs",)]
    assert corpus.grams(2).ngram_at.tolist() == [0, 1, 2, 0, -1, 0, -1]
    assert corpus.ngrams(2) == [("a", "dog"), ("dog", "runs"), ("runs", "a")]
    assert corpus.ngrams(3) == [("a", "dog", "runs"), ("dog", "runs", "a"), ("runs", "a", "dog")]
    assert corpus.ngrams(5) == [("a", "dog", "runs", "a", "dog")]
    assert corpus.ngrams(6) == []
    assert corpus.look_up({("a", "dog"): 3, ("a", "cat"): 4}, 2).tolist() == [3, 0, 0]
    counts = corpus.count(np.array([0]), 2)
    assert counts.gram.tolist() == [0, 1, 2]
    assert counts.count.tolist() == [2, 1, 1]


def test_matches_worked_by_hand():
    corpus = Corpus.tokenize(["dog a dog a dog"], [("a dog", "cats", "a dog and a dog")])
    matches = corpus.matches(slice(0, 1), 2)
    # "dog a" is in no reference; "a dog" twice in the candidate, once and twice in references.
    assert [corpus.ngrams(2)[g] for g in matches.gram] == [("a", "dog")]
    assert matches.count.tolist() == [2]
    assert matches.max_count.tolist() == [2]
    references = slice(matches.begin[0], matches.end[0])
    assert matches.member[references].tolist() == [0, 2]
    assert matches.member_count[references].tolist() == [1, 2]


def test_words_have_white_space_only_if_split_at_blanks():
    corpus = Corpus.tokenize(["1 1/2 dogs", ""], [("a",), ("a",)])
    # Stanford's tokeniser makes corpus token of a mixed fraction, with a no-break space inside.
    assert corpus.blank_split == {0: ["1\u00a01/2", "dogs"], 1: [""]}
    assert list(corpus.vocabulary) == ["1", "1/2", "dogs", "a"]


def test_captions_are_numbered_behind_the_references_by_hand():
    """Texts "a dog runs", "the dog", "a cat", then the captions; "barks" and "dog barks" are new."""
    references = ReferenceCorpus([("a dog runs", "the dog"), ("a cat",)], orders=2)
    batch = references.set_captions(["a dog barks", "a cat", "a dog barks"], np.array([0, 1, 1]))
    corpus = batch.corpus
    assert corpus.words.tolist() == [0, 1, 2, 3, 1, 0, 4, 0, 1, 5, 0, 4]
    assert corpus.starts.tolist() == [0, 3, 5, 7, 10, 12]
    names = [*map(" ".join, [*references.corpus.ngrams(2), *batch.new_ngrams[1]]), None]
    assert [names[number] for number in corpus.grams(2).ngram_at] == [
        *("a dog", "dog runs", None, "the dog", None, "a cat", None),
        *("a dog", "dog barks", None, "a cat", None),
    ]
    assert corpus.candidates.tolist() == [3, 4, 3]
    assert (corpus.sets.tolist(), corpus.members.tolist()) == ([0, 1, 1], [0, 1, 2])
    assert corpus.set_starts.tolist() == [0, 2, 3]
    assert batch.new_ngrams == [[("barks",)], [("dog", "barks")]]


@pytest.mark.parametrize("captions", [[], [""]])
def test_a_corpus_without_words_is_read_as_it_was_written(captions, tmp_path):
    written = Corpus.tokenize(captions, [("", c) for c in captions])
    with (tmp_path / "corpus.npz").open("wb") as stream:
        written.write(stream)
    read = Corpus.read(tmp_path / "corpus.npz")
    assert (read.vocabulary, read.blank_split) == (written.vocabulary, written.blank_split)
    for name in ("words", "starts", "candidates", "sets", "members", "set_starts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name))


def test_spread_joins_stretches():
    assert spread(np.array([2, 9, 7]), np.array([3, 0, 2])).tolist() == [2, 3, 4, 7, 8]
    assert spread(np.array([], dtype=int), np.array([], dtype=int)).tolist() == []


@pytest.mark.parametrize("largest", [5, 2**60 - 1, 2**60, 2**62, 2**63 - 1])
def test_equal_keys_stay_in_their_order_also_where_key_and_place_fill_64_bits(largest):
    keys, places = sort_stably(np.array([largest, 3, largest, 0, 3]))
    assert keys.tolist() == [0, 3, 3, largest, largest]
    assert places.tolist() == [3, 1, 4, 0, 2]


@given(ROWS, st.integers(1, 4))
@settings(max_examples=60)
def test_n_gram_counts_are_those_of_a_counter(rows, n):
    corpus = Corpus.tokenize([c for c, _ in rows], [r for _, r in rows])
    texts = np.unique(corpus.members)
    counts = corpus.count(texts, n)
    names = corpus.ngrams(n)
    words = list(corpus.vocabulary)
    for place, text in enumerate(texts):
        line = [words[w] for w in corpus.words[corpus.starts[text] : corpus.starts[text + 1]]]
        expected = Counter(tuple(line[i : i + n]) for i in range(len(line) - n + 1))
        entries = slice(counts.starts[place], counts.starts[place + 1])
        counts_by_ngram = {
            names[g]: c for g, c in zip(counts.gram[entries], counts.count[entries], strict=True)
        }
        assert counts_by_ngram == expected
        # In the order of their first appearance.
        assert [names[g] for g in counts.gram[entries]] == list(expected)


@pytest.mark.parametrize("spec", ["bleu_1", "bleu_4", "rouge_l", "cider", "cider(variant=plain)"])
@given(rows=ROWS)
@settings(max_examples=30)
def test_chunks_change_nothing(spec, rows):
    """To the last bit: however the rows are cut, a sum has the same terms in the same order."""
    frame = [{"caption": c, "references": r} for c, r in rows]
    expected = metric(spec).score(Rows.from_items(frame))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_module, "WORDS", 7)
        patch.setattr(corpus_module, "TEXTS", 2)
        parts = metric(spec).score(Rows.from_items(frame))
    np.testing.assert_array_equal(parts, expected)


def test_the_matches_of_all_rows_alone_are_kept():
    corpus = Corpus.tokenize(["a b", "a c", "a d"], [("a",), ("a", "c"), ("e",)])
    first, two = corpus.matches(slice(0, 1), 1), corpus.matches(slice(0, 2), 1)
    everything = corpus.matches(slice(0, 3), 1)
    assert [m.row.tolist() for m in (first, two, everything)] == [
        [0],
        [0, 1, 1],
        [0, 1, 1],
    ]
    assert corpus.matches(slice(0, 3), 1) is everything
    assert corpus.matches(slice(0, 2), 1) is not two


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_texts_are_tokenised_in_batches_worked_by_hand(size, monkeypatch):
    """An empty text has one empty word if it is split at blanks; it is numbered within all texts."""
    monkeypatch.setattr(corpus_module, "TEXTS", size)
    texts = ["a dog", "", "dog 1 1/2 a", "cat", " "]
    table = TokenTable.tokenize(iter(texts))
    assert list(table.vocabulary.items()) == [
        ("a", 0),
        ("dog", 1),
        ("1", 2),
        ("1/2", 3),
        ("cat", 4),
    ]
    assert table.words.tolist() == [0, 1, 1, 2, 3, 0, 4]
    assert table.words.dtype == np.int32
    assert table.starts.tolist() == [0, 2, 2, 6, 7, 7]
    assert table.blank_split == {1: [""], 2: ["dog", "1\u00a01/2", "a"], 4: [""]}
    nothing = TokenTable.tokenize(iter([]))
    assert (nothing.words.tolist(), nothing.starts.tolist()) == ([], [0])


@pytest.mark.parametrize("words", [1, 4, 7, 100])
def test_n_grams_are_numbered_alike_in_any_stretches(words, cut_into_chunks):
    cut_into_chunks(words)
    corpus = Corpus.tokenize(["b a b", "c a b a"], [("a b",), ("", "a b c")])
    assert corpus.grams(1).ngram_at.tolist() == [0, 1, 0, 2, 1, 0, 1, 1, 0, 1, 0, 2]
    assert corpus.grams(1).distinct.tolist() == [0, 1, 2]
    names = [" ".join(ngram) for ngram in corpus.ngrams(2)]
    assert sorted(names) == ["a b", "b a", "b c", "c a"]
    found = [names[i] if i >= 0 else None for i in corpus.grams(2).ngram_at]
    assert found == [
        *("b a", "a b", None, "c a", "a b", "b a", None, "a b", None),
        *("a b", "b c", None),
    ]
    triples = corpus.grams(3)
    names = [" ".join(ngram) for ngram in corpus.ngrams(3)]
    found = [names[i] if i >= 0 else None for i in triples.ngram_at]
    assert found == [*("b a b", None, None, "c a b", "a b a"), *[None] * 4, "a b c", None, None]
    assert len(triples.distinct) == 4
    assert triples.ngram_at.dtype == np.int32
    assert corpus.grams(3) is triples
    # Stretch by stretch, and within one by the numbers of the words.
    order = {1: "b a|a b|c a|b c", 100: "b a|b c|a b|c a"}
    assert "|".join(map(" ".join, corpus.ngrams(2))) == order.get(words, order[1])


def test_counts_worked_by_hand():
    corpus = Corpus.tokenize(["b a b a b", "a"], [("",), ("c a c",)])
    counts = corpus.count(np.array([3, 0, 2, 1]), 1)
    spelling = list(corpus.vocabulary)
    assert counts.text.tolist() == [0, 0, 1, 1, 3]
    assert [spelling[word] for word in counts.gram] == ["c", "a", "b", "a", "a"]
    assert counts.count.tolist() == [2, 1, 3, 2, 1]
    assert counts.starts.tolist() == [0, 2, 4, 4, 5]
    pairs = corpus.count(np.array([0, 1]), 2)
    assert [corpus.ngrams(2)[gram] for gram in pairs.gram] == [("b", "a"), ("a", "b")]
    assert (pairs.count.tolist(), pairs.starts.tolist()) == ([2, 2], [0, 2, 2])


def test_matches_of_several_rows_worked_by_hand():
    corpus = Corpus.tokenize(
        ["a a b", "c", "b d a", "a"], [("a b", "a a a"), ("d",), ("a b", "a a a"), ("", "b a")]
    )
    matches = corpus.matches(slice(0, 4), 1)
    spelling = list(corpus.vocabulary)
    assert matches.row.tolist() == [0, 0, 2, 2, 3]
    assert [spelling[word] for word in matches.gram] == ["a", "b", "b", "a", "a"]
    assert matches.count.tolist() == [2, 1, 1, 1, 1]
    assert matches.max_count.tolist() == [3, 1, 1, 3, 1]
    entries = [slice(a, b) for a, b in zip(matches.begin, matches.end, strict=True)]
    # Places among the members: 0 "a b", 1 "a a a", 2 "d", 3 "", 4 "b a".
    assert [matches.member[entry].tolist() for entry in entries] == [[0, 1], [0], [0], [0, 1], [4]]
    assert [matches.member_count[entry].tolist() for entry in entries] == [
        [1, 3],
        [1],
        [1],
        [1, 3],
        [1],
    ]
    later = corpus.matches(slice(2, 4), 1)
    assert later.row.tolist() == [0, 0, 1]
    assert later.count.tolist() == [1, 1, 1]
    assert later.texts.tolist() == [2, 3, 4, 5, 7, 8]
    none = corpus.matches(slice(1, 2), 1)
    assert (none.row.tolist(), none.max_count.tolist()) == ([], [])
    assert corpus.matches(slice(0, 4), 4).row.tolist() == []


def test_small_helpers_worked_by_hand():
    assert corpus_module.sorted_unique(np.array([3, 0, 3, 2, 0])).tolist() == [0, 2, 3]
    assert corpus_module.sorted_unique(np.array([], int)).tolist() == []
    sums = corpus_module.sum_by_place(np.array([2, 0, 2]), np.array([1, 5, 2]), 4)
    assert (sums.tolist(), sums.dtype) == ([5, 0, 3, 0], np.float64)
    empty = corpus_module.sum_by_place(np.array([], int), np.array([]), 2)
    assert (empty.tolist(), empty.dtype) == ([0, 0], np.float64)
    numbers = {"b": 0}
    assert corpus_module.number_values(["a", "b", "a", "c"], numbers).tolist() == [1, 0, 1, 2]
    assert numbers == {"b": 0, "a": 1, "c": 2}
    assert corpus_module.find_starts([3, 0, 2]).tolist() == [0, 3, 3, 5]
    assert corpus_module.find_starts([]).tolist() == [0]
    assert corpus_module.corpus_key("zh") == "corpus zh"
    keys, places = sort_stably(np.array([], int))
    assert (keys.tolist(), places.tolist()) == ([], [])


def test_rows_share_a_corpus_by_tokeniser():
    rows = Rows.from_items([{"caption": "a dog", "references": ["a cat"]}])
    corpus = Corpus.of_rows(rows)
    assert Corpus.of_rows(rows, "captau") is corpus
    assert Corpus.of_rows(rows, "char") is not corpus
    assert list(Corpus.of_rows(rows, "char").vocabulary) == ["a", "d", "o", "g", "c", "t"]


def test_chunks_hold_the_words_of_candidates_and_references(cut_into_chunks):
    """Worked by hand: rows have 2 + 3, 1 + 1 and 0 + 3 words, and 1 more each."""
    corpus = Corpus.tokenize(["a b", "a", ""], [("a b", "c"), ("a",), ("a b", "c")])
    for words, ends in ((5, [1, 2, 3]), (8, [1, 3]), (9, [2, 3]), (12, [2, 3]), (13, [3])):
        cut_into_chunks(words)
        assert [chunk.stop for chunk in corpus.chunks()] == ends
    members, sizes = corpus.members_of(np.array([1, 0]))
    assert (members.tolist(), sizes.tolist()) == ([2, 0, 1], [1, 2])
    assert corpus.lengths.tolist() == [2, 1, 0, 1]
