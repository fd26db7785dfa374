"""METEOR's own normalisation of tokenised texts, and the hash by which it compares words.

As the jar in pycocoevalcap behaves with `-l en -norm`; `alignment` calls it.
"""

from __future__ import annotations

import re

import numpy as np

# Letters as METEOR's normaliser lists them: Latin, Cyrillic, phonetic extensions.
_ALPHA = (
    "A-Za-z\u0160\u017d\u0161\u017e\u0178\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e"
    "\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
)
_ALNUM = "0-9" + _ALPHA
_PLAIN = re.compile("[a-z0-9 ]*")
# A token of Java's StringTokenizer, and the characters that Java's trim removes.
_TOKEN = re.compile("[^ \t\n\r\f]+")
_TRIMMED = "".join(map(chr, range(33)))
_DOTS = re.compile(r"\.{2,}")
_LETTER = re.compile(f"[{_ALPHA}]")
_STEPS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        # Anything but letters, digits, white space, dots, commas, dashes or single quotes stands alone.
        (f"([^{_ALNUM} \t\n\x0b\f\r.'`,\\-\u2018\u2019])", r" \1 "),
        # So do several dots in a row,
        (_DOTS.pattern, r" \g<0> "),
        # and commas that are not between two digits.
        ("([^0-9]),([^0-9])", r"\1 , \2"),
        ("([0-9]),([^0-9])", r"\1 , \2"),
        ("([^0-9]),([0-9])", r"\1 , \2"),
        ("[`\u2018\u2019]", "'"),
        ("[\u201c\u201d]|''", ' " '),
        ("\u2013|--", "-"),
        # A dash inside a word becomes a blank.
        (f"([{_ALNUM}.])-([{_ALNUM}])", r"\1 \2"),
        # An apostrophe stands alone, or begins the word that follows a letter.
        (f"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (f"([^{_ALPHA}0-9])'([{_ALPHA}])", r"\1 ' \2"),
        (f"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (f"([{_ALPHA}])'([{_ALPHA}])", r"\1 '\2"),
        ("([0-9])'(s)", r"\1 '\2"),
    ]
]
_SPACES = re.compile("[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+")


def split_words(text: str, prefixes: dict[str, bool] | None) -> list[str]:
    """Normalise a text as METEOR does, and return its words in lower case.

    Args:
        text: tokens in lower case, joined by blanks.
        prefixes: `Index.prefixes`; None to take the tokens as they are, as METEOR does without `-norm`.
    """
    if prefixes is None or _PLAIN.fullmatch(text):
        return text.split()
    # The bars separate the Java program's fields; pycocoevalcap removes them from captions.
    line = f" {text.replace('|||', '').strip(_TRIMMED)} "
    for pattern, replacement in _STEPS:
        line = pattern.sub(replacement, line)
    words = _TOKEN.findall(line)
    parts = [
        _treat_full_stop(word, following, prefixes)
        for word, following in zip(words, [*words[1:], ""], strict=False)
    ]
    line = _SPACES.sub(" ", " ".join(parts)).strip(_TRIMMED)
    return _TOKEN.findall(line.lower())


def _treat_full_stop(word: str, following: str, prefixes: dict[str, bool]) -> str:
    """Keep, drop or split off the full stop at the end of a word."""
    if not word.endswith(".") or len(word) == 1 or _DOTS.fullmatch(word):
        return word
    stem = word[:-1]
    if "." in stem and _LETTER.search(stem):
        return word.replace(".", "")
    only_before_number = prefixes.get(stem)
    first = following[:1]
    if only_before_number is False or "a" <= first <= "z":
        return word
    if only_before_number and "0" <= first <= "9":
        return word
    return f"{stem} ."


def java_hash(word: str) -> int:
    """Return Java's `String.hashCode`, by which METEOR compares words and stems; two may share one."""
    units = np.frombuffer(word.encode("utf-16-le", "surrogatepass"), np.uint16).tolist()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
