"""Lower case as in Java; `tests/parity/test_penn.py` compares it with Java."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.metrics.text.tokens.lower import lower

#: Worked by hand from the rules of Java's BreakIterator: a small sigma is final if a letter with a
#: case is before it in its word and none behind.
SIGMAS = [
    ("ΟΔΟΣ", "οδος"),
    ("ΣΑΣ", "σας"),
    ("Σ", "σ"),
    ("ΑΣ-Α", "ασ-α"),  # a hyphen stands within the word
    ("ΑΣ,Α", "ας,α"),
    ("ΑΣ/ΣΑΣ", "ας/σας"),
    ("ΑΣ--Α", "ας--α"),  # two marks in a row end it
    ("ΑΣ5Α", "ασ5α"),
    ("5Σ", "5σ"),
    ("Α5Σ", "α5ς"),
    ("ΑΣ\u0345", "ασ\u0345"),  # an iota below has a case
    ("ΑΣ\u0301", "ας\u0301"),
    ("ΑΣ漢Α", "ας漢α"),
    ("ΑΣ\x01Α", "ας\x01α"),  # a control character ends it, a soft hyphen is overlooked
    ("ΑΣ\xadΑ", "ασ\xadα"),
    ("Α𝒜Σ", "α𝒜σ"),  # behind the second plane Java sees the word end
    ("𝒜Σ", "𝒜ς"),
]


@pytest.mark.parametrize(("text", "expected"), SIGMAS)
def test_sigmas_worked_by_hand(text, expected):
    assert lower(text) == expected


def test_letters_of_unicode_16_are_known():
    # Unicode 16's own table: UnicodeData.txt, simple lower case mapping.
    assert lower("\u1c89\ua7cb\ua7da\U00010d50") == "\u1c8a\u0264\ua7db\U00010d70"
    assert lower("\ua7cc\ua7dc\U00010d65") == "\ua7cd\u019b\U00010d85"


@given(st.text(st.characters(max_codepoint=0x1C00)).filter(lambda text: "Σ" not in text))
def test_text_without_sigmas_is_lowered_as_in_python(text):
    assert lower(text) == text.lower()


@given(st.lists(st.text("ΑΒΣαβς", min_size=1)).map(" ".join))
def test_greek_words_are_lowered_as_in_python(text):
    assert lower(text) == text.lower()
