"""Writing systems of texts: which script a letter belongs to, and whether words are set apart by blanks."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

#: How long words are, in letters, in scripts that set no blanks between them: at most, on average over a text. Chinese
#: and Japanese words have one to three letters, those of the other scripts three to seven.
_WORD_LENGTHS = {"han": 3, "kana": 4, "thai": 8, "lao": 8, "khmer": 8, "myanmar": 8}
#: Scripts by the first words of Unicode's names of letters, where these differ.
_SCRIPTS = {
    "cjk": "han",
    "ideographic": "han",
    "hiragana": "kana",
    "katakana": "kana",
    "halfwidth": "kana",
    "fullwidth": "latin",
}
#: Signs that stand with letters of any script.
_SIGNS = ("combining", "variation")


@lru_cache(maxsize=65536)
def letter_script(character: str) -> str:
    """Return the script of a letter or vowel sign, such as `latin`, by Unicode's name of it; else empty."""
    if character.isascii():
        return "latin" if character.isalpha() else ""
    if unicodedata.category(character)[0] not in "LM":
        return ""
    script = re.split(r"[ -]", unicodedata.name(character, "").lower())[0]
    return "" if script in _SIGNS else _SCRIPTS.get(script, script)


def find_script(texts: Iterable[str]) -> str:
    """Return the script of most letters, such as `latin`; empty where there are no letters.

    Where a tenth of the Chinese characters and kana are kana, the script is `kana`: Japanese is written in both.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        if text.isascii():
            counts["latin"] += sum(map(str.isalpha, text))
        else:
            counts.update(map(letter_script, text))
    del counts[""]
    if 10 * counts["kana"] >= counts["han"] + counts["kana"]:
        counts["kana"] += counts.pop("han", 0)
    return max(counts, key=counts.__getitem__) if counts.total() else ""


def is_unsegmented(text: str) -> bool:
    """Return whether a text has no blanks between its words (Chinese, Japanese, Thai, Lao, Khmer, Burmese).

    A text that was cut into words beforehand, or is one short word, counts as segmented.
    """
    if text.isascii():
        return False
    # Vowel signs are no word characters to `re`, and would end a run of letters.
    letters = "".join(c for c in text if unicodedata.category(c)[0] != "M")
    runs = [(len(run), find_script([run])) for run in re.findall(r"[^\W\d_]+", letters)]
    lengths = [(length, _WORD_LENGTHS[s]) for length, s in runs if s in _WORD_LENGTHS]
    return sum(length for length, _ in lengths) > sum(longest for _, longest in lengths)
