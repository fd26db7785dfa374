"""Lower case as in Java 25 (`String.toLowerCase(Locale.ENGLISH)`).

It differs from Python's in one letter: the small form of a capital sigma that ends its word. Unicode looks for
the next letter with a case; Java looks no further than its `BreakIterator` says that the word reaches.
The letters of Unicode 16, Java 25's, are added for older versions of Python.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Characters that Java treats as cased beside upper, lower and title case letters.
_CASED = re.compile(
    "[\u02b0-\u02b8\u02c0\u02c1\u02e0-\u02e4\u0345\u037a\u1d2c-\u1d61\u2160-\u217f\u24b6-\u24e9]"
)
# Capitals of Unicode 16, and their small letters.
_NEW_CASES = {
    **{0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B},
    **{capital: capital + 0x20 for capital in range(0x10D50, 0x10D66)},
}
_NEW_LETTERS = "".join(map(chr, [*_NEW_CASES, *_NEW_CASES.values()]))
_KANA_AND_KANJI = re.compile(
    "[\u3005\u3041-\u3094\u3099-\u309e\u30a1-\u30fe\u4e00-\u9fa5\uf900-\ufa2d]"
)

# Java's words, one letter a kind of character: L letters, N numbers, E characters that enclose or stand
# above the one before, D dandas; m stands within words, c within numbers, b within both; p and the full
# stop (f) stand before numbers, o behind. Any other character is a word by itself.
_LETTERS = "(?:LE*)+(?:[mbf](?:LE*)+)*D?"
_NUMBER = "(?:NE*)+(?:[bfc](?:NE*)+)*"
_WORD = re.compile(
    f"(?:{_LETTERS}(?:{_NUMBER}{_LETTERS})*|[pf]?(?:{_NUMBER}{_LETTERS})+)(?:{_NUMBER}o?)?"
    f"|[pf]?{_NUMBER}o?|.E*"
)


def lower(text: str) -> str:
    """Return a text in lower case, as Java does."""
    return (_with_small_sigmas(text) if "Σ" in text else text).lower().translate(_NEW_CASES)


def _with_small_sigmas(text: str) -> str:
    kinds = [(i, _kind(char)) for i, char in enumerate(text) if _kind(char)]
    characters = list(text)
    for word in _WORD.finditer("".join(kind for _, kind in kinds)):
        cased: list[int] = []
        for i, _ in kinds[word.start() : word.end()]:
            if _has_case(text[i]):
                cased.append(i)
            # Java ends a word behind a character beyond the first plane, unless it begins the text.
            if i and text[i] > "\uffff":
                _replace_sigmas(characters, cased)
                cased = []
        _replace_sigmas(characters, cased)
    return "".join(characters)


def _replace_sigmas(characters: list[str], cased: list[int]) -> None:
    """Replace the capital sigmas of one word, given the places of its letters with a case."""
    for i in cased:
        if characters[i] == "Σ":
            characters[i] = "ς" if i == cased[-1] != cased[0] else "σ"


@cache
def _has_case(char: str) -> bool:
    if char in _NEW_LETTERS or _CASED.match(char):
        return True
    return unicodedata.category(char) in ("Lu", "Ll", "Lt")


def _kind(char: str) -> str:
    """Return the letter of `_WORD` for a character; "" for characters that Java overlooks."""
    if char in "\"'":
        return "b"
    if char in ".,\u066b#":
        return {".": "f", "#": "p"}.get(char, "c")
    if char in "%&\u00a2\u066a\u2030\u2031":
        return "o"
    if char in _NEW_LETTERS:
        return "L"
    if char in "\u0964\u0965":
        return "D"
    category = unicodedata.category(char)
    if char in "\u00ad\u2027" or category in ("Pd", "Pc"):
        return "m"
    if category == "Cf":
        return ""
    if category in ("Mn", "Me"):
        return "E"
    if category[0] == "N":
        return "N"
    if category == "Sc":
        return "p"
    if (category[0] == "L" or category == "Mc") and not _KANA_AND_KANJI.match(char):
        return "L"
    return "x"
