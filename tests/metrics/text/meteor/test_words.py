"""METEOR's words: normalised ones worked by hand, and Java's hash."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from captau.metrics.text.java import pycocoevalcap_file
from captau.metrics.text.meteor.tables import parse_prefixes
from captau.metrics.text.meteor.words import (
    Lexicon,
    WordProperties,
    find_words,
    java_hash,
    make_stemmer,
    split_words,
)


@pytest.fixture(scope="module")
def prefixes():
    """Return METEOR's own list of words that keep their full stop."""
    with zipfile.ZipFile(pycocoevalcap_file("meteor", "meteor-1.5.jar")) as jar:
        return parse_prefixes(jar.read("nonbreaking/english.prefixes").decode().splitlines())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a dog", "a dog"),
        ("  a   dog\t", "a dog"),
        ("it 's the dog's", "it ' s the dog 's"),
        ("t-shirt, x-ray", "t shirt , x ray"),
        ("a-b-c", "a b-c"),  # the second dash has lost its left neighbour to the first
        ("1,000 dogs,cats", "1,000 dogs , cats"),
        ("the u.s. flag", "the us flag"),
        ("e.g. a dog", "eg a dog"),
        ("mr. smith", "mr. smith"),  # before a small letter a full stop stays
        ("cats vs. 5 dogs", "cats vs. 5 dogs"),  # and before anything after other words
        ("no. 5", "no . 5"),
        ("he is 5.", "he is 5 ."),
        ("pp. 5", "pp. 5"),  # before a number after some words
        ("the end.", "the end ."),
        ("wait... what", "wait ... what"),
        ("the end ...", "the end ..."),
        ("wait....what.", "wait .... what ."),
        ("1990's", "1990 's"),
        ("“quoted” ‘words’", "\" quoted \" ' words '"),
        ("a – b -- c", "a - b - c"),
        ("50%", "50 %"),
        ("a_b/c", "a _ b / c"),
        ("straße 🐕中", "straße 🐕 中"),
        ("a\u2003dog\xa0runs", "a dog runs"),
        ("a|||b", "ab"),
        ("A Dog", "a dog"),
        ("", ""),
        ("\x01", ""),
    ],
)
def test_words_are_normalised_as_in_meteor(text, words, prefixes):
    assert split_words(text, prefixes) == words.split()


def test_without_prefixes_tokens_are_taken_as_they_are():
    text = "the dog's u.s. A-B"
    assert split_words(text, None) == text.split()


def test_hashes_equal_javas():
    # Worked by hand: h = 31 h + c over UTF-16 units, in 32 bits with a sign.
    assert java_hash("") == 0
    assert java_hash("ab") == 97 * 31 + 98
    assert java_hash("netatasata") == java_hash("bamimigene") == 1599209612
    assert java_hash("🐕") == 0xD83D * 31 + 0xDC15
    unbounded = sum(ord(letter) * 31**k for k, letter in enumerate(reversed("umbrella")))
    assert java_hash("umbrella") == (unbounded + 2**31) % 2**32 - 2**31 < 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("!dog!", "! dog !"),
        ("\x01 \x01a?", "a ?"),
        ("a\x1f \x20", "a"),
        ("10,000, 5,a b,5 c,d", "10,000 , 5 , a b , 5 c , d"),
        ("a-b 1-2 c.-d -e f-", "a b 1 2 c. d -e f-"),
        ("'a 5's dogs' o'clock x'5", "' a 5 's dogs ' o 'clock x ' 5"),
        ("a''b \u201cc\u201d `d", 'a " b " c " \' d'),
        ("a\u2013b--c", "a - b c"),
        ("a\u3000b\u205fc\u202fd", "a b c d"),
    ],
)
def test_each_step_of_the_normaliser(text, words):
    """Worked by hand, step by step; there are no words that keep their full stop."""
    assert split_words(text, {}) == words.split()


def test_words_are_found_in_a_sorted_table():
    table = np.array([b"a", b"bb", b"dog"])
    words = [b"dog", b"a", b"", b"bb", b"b", b"zebra", b"dogs", b"c"]
    assert find_words(table, words) == [2, 0, -1, 1, -1, -1, -1, -1]
    assert find_words(table, []) == []
    assert find_words(np.array([b"", b"a"]), [b"", b"a"]) == [-1, 1]


def lexicon() -> Lexicon:
    """Return a lexicon of four words, of which "go" has an irregular form."""
    return Lexicon(
        *(np.array([b"box", b"dog", b"go", b"run"]), np.array([0, 1, 3, 4, 6], np.int32)),
        np.array([7, 3, 9, 4, 1, 8], np.int32),
        *(np.array([b"went"]), np.array([0, 1], np.int32), np.array([4], np.int32)),
        frozenset({"the"}),
    )


def test_properties_of_words_worked_by_hand():
    words = ["dogs", "the", "went", "boxes", "runs", "é"]
    properties = WordProperties.describe(words, lexicon(), lambda word: word[:2])
    assert properties.set_first.tolist() == [0, 2, 2, 3, 4, 6, 6]
    assert properties.sets.tolist() == [3, 9, 4, 7, 1, 8]
    assert properties.is_function.tolist() == [0, 1, 0, 0, 0, 0]
    assert properties.key.tolist() == [java_hash(word) for word in words]
    assert properties.stem.tolist() == [java_hash(word[:2]) for word in words]
    taken = properties.take(np.array([4, 0, 1]))
    assert (taken.set_first.tolist(), taken.sets.tolist()) == ([0, 2, 4, 4], [1, 8, 3, 9])
    assert taken.key.tolist() == [java_hash(word) for word in ("runs", "dogs", "the")]
    joined = taken.append(properties.take(np.array([2, 3])))
    assert joined.set_first.tolist() == [0, 2, 4, 4, 5, 6]
    assert joined.sets.tolist() == [1, 8, 3, 9, 4, 7]
    assert joined.set_first.dtype == np.int32
    assert joined.is_function.tolist() == [0, 0, 1, 0, 0]
    empty = properties.take(np.array([], np.int64))
    assert (empty.set_first.tolist(), empty.sets.tolist(), len(empty.key)) == ([0], [], 0)


def test_languages_and_their_stemmers():
    stems = {"english": "run", "french": "running", "czech": "running", "other": "running"}
    assert {name: make_stemmer(name)("running") for name in stems} == stems
