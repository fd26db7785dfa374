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
from captau.metrics.text.tokens.corpus import Corpus, sort_stably, spread

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


def test_sets_of_references_are_cut_like_rows(monkeypatch):
    """Worked by hand: sets of 2 and 1 words, and 1 more each, are within 5 words; 3 are too many beside them."""
    corpus = Corpus.tokenize([""] * 3, [("a", "dog"), ("cat",), ("a dog runs",)])
    assert [chunk.tolist() for chunk in corpus.set_chunks()] == [[0, 1, 2]]
    monkeypatch.setattr(corpus_module, "WORDS", 5)
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


def test_slices_hold_as_many_entries_as_fit(monkeypatch):
    """Worked by hand: an entry takes its cost and 1; 5 + 6 are over 10, and 6 + 2 + 2 are not."""
    monkeypatch.setattr(corpus_module, "WORDS", 10)
    slices = list(corpus_module._slices(np.array([4, 5, 1, 1, 20, 0])))
    assert slices == [slice(0, 1), slice(1, 4), slice(4, 5), slice(5, 6)]


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
