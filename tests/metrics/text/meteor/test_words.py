"""METEOR's words: normalised ones worked by hand, and Java's hash."""

from __future__ import annotations

import zipfile

import pytest

from captau.metrics.text.java import pycocoevalcap_file
from captau.metrics.text.meteor.index import parse_prefixes
from captau.metrics.text.meteor.words import java_hash, split_words


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
