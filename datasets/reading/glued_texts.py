"""Captions or references that were joined into one text, and the sign that someone set between them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..caption_texts import find_script
from .caption_patterns import HTML, INDEFINITE, THOUGHTS, TOKENS, may_hold_markup
from .suspected_faults import PlacedText, SuspectedFault, make_finding


@dataclass(frozen=True)
class Separator:
    """A sign between captions that were joined into one text.

    Attributes:
        sign: the sign, or words for it.
        pattern: finds it.
        is_in_words: whether `sign` is words for it, which messages do not quote.
        is_plural: whether these words are plural.
        is_common: whether it stands in whole captions too; it then counts where half of all references hold it and no
            image has several.
    """

    sign: str
    pattern: re.Pattern[str]
    is_in_words: bool = False
    is_plural: bool = False
    is_common: bool = False

    @property
    def fault(self) -> str:
        """The words about texts that hold it, from the verb on."""
        name = self.sign if self.is_in_words else f"'{self.sign}'"
        pronoun = "them" if self.is_plural else "it"
        return f"hold {name}, as if several captions were joined by {pronoun}"


#: What people set between the references of one cell, the surest first; ` ||| ` is captau's own in tables, not in JSON.
SEPARATORS = (
    Separator("|||", re.compile(r"\|\|\|")),
    Separator("||", re.compile(r"\|\|")),
    Separator("|", re.compile(r"(?<!<)\|(?!>)")),
    Separator("<sep>", re.compile(r"<\|?sep\|?>", re.IGNORECASE)),
    Separator("[SEP]", re.compile(r"\[sep\]", re.IGNORECASE)),
    Separator("\\n", re.compile(r"\S\s*\\[nrt]\s*\S")),
    Separator("###", re.compile(r"\w\W*(?<!#)###(?!#)\s*[^\W\d_]")),
    Separator("a tab", re.compile(r"\S\t\s*\S"), is_in_words=True),
    Separator("@@", re.compile(r"(?:^|\s)@@|@@(?=\S)")),
    Separator("&&", re.compile(r"&&")),
    Separator("1. … 2. …", re.compile(r"^\s*\(?1[.):]\s.*\b2[.):]\s", re.DOTALL)),
    Separator(
        "a line end", re.compile(r"\S[ \t]*[\r\n\u2028]+\s*\S"), is_in_words=True, is_common=True
    ),
    Separator(";", re.compile(r"[;；]\s*\S"), is_common=True),
    Separator("/", re.compile(r"\w\s*/\s*\w"), is_common=True),
    Separator(
        "quotes",
        re.compile(r"[\"”]\s*,?\s*[\"“]\S|['’]\s*[,;]\s*['‘]\S"),
        is_in_words=True,
        is_plural=True,
        is_common=True,
    ),
)
#: The characters of these signs; a text without any of them holds none.
_SEPARATOR_CHARACTERS = re.compile(r"[|<\[\\#\t@&1\r\n\u2028;；/\"”'’]")
#: Where sentences, or parts of one, may be captions of their own.
SENTENCE_SEPARATORS = (
    Separator("a full stop", re.compile(r"\.\s+"), is_in_words=True),
    Separator("a comma", re.compile(r",\s+"), is_in_words=True),
)
_SENTENCE_END = re.compile(r"[.!?]\s+[A-Z]")
#: The most words of five captions that are joined; a text of more is one long description.
_LONGEST_JOINED = 80
#: The fewest words of a part between commas that may be a caption.
_SHORTEST_PART = 6
#: The patterns of markup that may be a separator as well.
_MARKUP = (TOKENS, HTML, THOUGHTS, re.compile(r"^[*_]+$"))
#: A sign or a tag within a text that whole captions have now and then, and nearly no set of captions in each.
_RARE_SIGN = re.compile(r"\S\s*(</?\w+\s*/?>|--+|::+|\.\.\.+|[^\w\s.,:'\"’“”!?()%-]+)\s*(?=\S)")
#: The characters of rare signs that stand alone, and the others' beginnings.
_RARE_CHARACTER = re.compile(r"[^\w\s.,:'\"’“”!?()%-]")
_RARE_BEGINNINGS = ("--", "::", "...")


def find_glued(
    texts: Sequence[PlacedText], unusual: Sequence[PlacedText], noun: str
) -> list[SuspectedFault]:
    """Return the finding of the separator that most captions or references hold; nothing where none looks glued.

    Args:
        texts: of one file.
        unusual: those of them that are not `is_plain`; plain texts hold none of `SEPARATORS` and no rare sign.
        noun: `captions` or `references`.
    """
    is_of_captions = noun == "captions"
    has_one_each = len({text.image_id for text in texts}) == len(texts)
    with_character = [text for text in unusual if _SEPARATOR_CHARACTERS.search(text.text)]
    # Each separator, and the texts that may hold it.
    candidates_by_separator = dict.fromkeys(SEPARATORS, with_character)
    if has_one_each:
        for separator in _find_rare_signs(unusual, without_markup=is_of_captions):
            candidates_by_separator[separator] = list(unusual)

    found: list[tuple[Separator, list[PlacedText]]] = []
    # A long description has many signs.
    is_long = _are_long(texts)
    for separator, candidates in candidates_by_separator.items():
        if separator.is_common and not has_one_each:
            continue
        is_character = len(separator.sign) == 1
        if is_long and (separator.is_common or is_character):
            continue
        # What is markup in captions has a check of its own.
        if is_of_captions and any(pattern.search(separator.sign) for pattern in _MARKUP):
            continue

        holding = [text for text in candidates if separator.pattern.search(text.text)]
        if separator.is_common:
            holding = [text for text in holding if not _is_prose(text.text, separator.pattern)]
        # One caption may hold a bar that joins nothing.
        is_common = separator.is_common or (is_of_captions and is_character)
        is_rare = 2 * len(holding) < len(texts)
        if holding and not (is_common and is_rare):
            found.append((separator, holding))

    if has_one_each and not found:
        found = _find_glued_sentences(texts)
    if not found:
        return []

    # The first of two signs that equally many texts hold, as it is the surer one.
    separator, glued = max(found, key=lambda pair: len(pair[1]))
    remedy = "write a JSON list, or ' ||| ' between them in a table"
    if is_of_captions:
        remedy = "keep one caption of each image"
    return [make_finding("glued", separator.fault, glued, len(texts), noun, remedy=remedy)]


def _are_long(texts: Sequence[PlacedText]) -> bool:
    """Tell whether texts have more than `_LONGEST_JOINED` words on average."""
    # A text has no more words than characters, which are counted sooner.
    n_characters = sum(len(text.text) for text in texts)
    if n_characters <= _LONGEST_JOINED * len(texts):
        return False

    n_words = sum(len(text.text.split()) for text in texts)
    return n_words > _LONGEST_JOINED * len(texts)


def _is_prose(text: str, pattern: re.Pattern[str]) -> bool:
    """Tell whether a text has more sentences than parts between a sign, as a long description has."""
    n_parts = 1 + sum(1 for _ in pattern.finditer(text))
    n_sentences = 1 + sum(1 for _ in _SENTENCE_END.finditer(text))
    return n_sentences > n_parts


def _find_glued_sentences(
    texts: Sequence[PlacedText],
) -> list[tuple[Separator, list[PlacedText]]]:
    """Return what stands between sentences, or parts of them, that each begin as a caption does, and the texts that hold it.

    It counts where it is at least three, and half of all: within a description, later sentences mostly begin with what
    was named before.
    """
    found: list[tuple[Separator, list[PlacedText]]] = []
    for separator in SENTENCE_SEPARATORS:
        glued = [text for text in texts if _has_captions_between(text.text, separator.pattern)]
        if len(glued) > 2 and 2 * len(glued) >= len(texts):
            holding = [text for text in texts if separator.pattern.search(text.text)]
            found.append((separator, holding))

    return found


def _has_captions_between(text: str, pattern: re.Pattern[str]) -> bool:
    parts = pattern.split(text.strip())
    if len(parts) < 2:
        return False

    for part in parts:
        is_short = len(part.split()) < _SHORTEST_PART
        if is_short or not INDEFINITE.match(part):
            return False
    return True


def _find_rare_signs(texts: Sequence[PlacedText], *, without_markup: bool) -> list[Separator]:
    """Return the rare sign that most of at least three texts hold, as a separator of common signs.

    Args:
        texts: of one file.
        without_markup: whether what is markup is no sign, as it has a check of its own.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        words = text.text
        # Nearly all captions are told at once to hold none.
        if _RARE_CHARACTER.search(words) is None and not any(
            beginning in words for beginning in _RARE_BEGINNINGS
        ):
            continue
        if without_markup and may_hold_markup(words):
            words = HTML.sub(" ", TOKENS.sub(" ", words))
        # In the order of the text, so that the first of two equally frequent signs is named.
        for sign in dict.fromkeys(_RARE_SIGN.findall(words)):
            if not _is_of_script(sign, text.text):
                counts[sign] += 1

    separators: list[Separator] = []
    for sign, count in counts.most_common(1):
        if count > 2:
            pattern = re.compile(rf"\S\s*{re.escape(sign)}\s*\S")
            separators.append(Separator(sign, pattern, is_common=True))
    return separators


def _is_of_script(sign: str, text: str) -> bool:
    """Tell whether a sign is a vowel sign, or of the punctuation of a script that is not Latin."""
    # Unicode's categories: M are marks such as vowel signs, C formats, S symbols, Pi and Pf quotes.
    categories = {unicodedata.category(character) for character in sign}
    kinds = {category[0] for category in categories}
    if sign.isascii() or kinds <= {"S"}:
        return False

    # Quotes are of every script.
    if not kinds.isdisjoint("MC") or not categories.isdisjoint(("Pi", "Pf")):
        return True
    return find_script([text]) != "latin"
