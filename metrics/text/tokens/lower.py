"""Lower case as Java 25 gives it (`String.toLowerCase(Locale.ENGLISH)`).

It differs from Python's in one letter: whether a capital sigma ends its word. Unicode looks for the
next letter with a case; Java looks no further than its `BreakIterator` says that the word reaches.
The letters of Unicode 16, Java 25's, are added for a Python that is older.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Letters that Java takes for having a case beside those that are upper, lower or title case.
_CASED = re.compile(
    "[\u02b0-\u02b8\u02c0\u02c1\u02e0-\u02e4\u0345\u037a\u1d2c-\u1d61\u2160-\u217f\u24b6-\u24e9]"
)
# Capitals of Unicode 16, and their small letters.
_YOUNG = {
    **{0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B},
    **{capital: capital + 0x20 for capital in range(0x10D50, 0x10D66)},
}
_YOUNG_LETTERS = "".join(map(chr, [*_YOUNG, *_YOUNG.values()]))
_KANA_AND_KANJI = re.compile(
    "[\u3005\u3041-\u3094\u3099-\u309e\u30a1-\u30fe\u4e00-\u9fa5\uf900-\ufa2d]"
)

# Java's words, one letter a kind of character: L letters, N numbers, E what encloses or stands above
# the character before, D dandas; m, b and c stand within words, both, and numbers alone; p and b's
# full stop (f) before numbers, o behind. All else is a word by itself.
_LETTERS = "(?:LE*)+(?:[mbf](?:LE*)+)*D?"
_NUMBER = "(?:NE*)+(?:[bfc](?:NE*)+)*"
_WORD = re.compile(
    f"(?:{_LETTERS}(?:{_NUMBER}{_LETTERS})*|[pf]?(?:{_NUMBER}{_LETTERS})+)(?:{_NUMBER}o?)?"
    f"|[pf]?{_NUMBER}o?|.E*"
)


def lower(text: str) -> str:
    """`text` in lower case, as Java gives it."""
    return (_with_small_sigmas(text) if "Σ" in text else text).lower().translate(_YOUNG)


def _with_small_sigmas(text: str) -> str:
    shown = [(place, _kind(char)) for place, char in enumerate(text) if _kind(char)]
    made = list(text)
    for word in _WORD.finditer("".join(kind for _, kind in shown)):
        cased: list[int] = []
        for place, _ in shown[word.start() : word.end()]:
            if _has_case(text[place]):
                cased.append(place)
            # Java sees the end of a word behind a character beyond the first plane, but the text's first.
            if place and text[place] > "\uffff":
                _mark(made, cased)
                cased = []
        _mark(made, cased)
    return "".join(made)


def _mark(made: list[str], cased: list[int]) -> None:
    """Put the small sigmas of one word, whose letters with a case stand at `cased`."""
    for place in cased:
        if made[place] == "Σ":
            made[place] = "ς" if place == cased[-1] != cased[0] else "σ"


@cache
def _has_case(char: str) -> bool:
    if char in _YOUNG_LETTERS or _CASED.match(char):
        return True
    return unicodedata.category(char) in ("Lu", "Ll", "Lt")


def _kind(char: str) -> str:
    """The letter of `_WORD` that a character counts as; none where Java overlooks it."""
    if char in "\"'":
        return "b"
    if char in ".,\u066b#":
        return {".": "f", "#": "p"}.get(char, "c")
    if char in "%&\u00a2\u066a\u2030\u2031":
        return "o"
    if char in _YOUNG_LETTERS:
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
