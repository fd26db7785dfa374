"""The English words of `conf/probe/english.yaml`, which the faults of `captau probe` put in and look for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from ...scoring.catalog import read_config

#: A word, also with an apostrophe or hyphens inside, in any script.
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_VOWELS = "aeiou"
#: The share of captions with an English function word from which on captions are taken for English.
_ENGLISH_SHARE = 0.2


@dataclass(frozen=True)
class Noun:
    """A form of a noun.

    Attributes:
        kind: the first of the words that name the same thing, such as `dog` of `puppies`.
        line: the line of like things, such as `animals`.
        is_plural: whether it is the plural.
    """

    kind: str
    line: str
    is_plural: bool


@dataclass(frozen=True)
class WordLists:
    """The words of the file.

    Attributes:
        nouns: what each form of a noun is; `people` are a line of their own.
        forms: the singular and the plural by kind.
        kinds_by_line: the kinds of each line.
        attributes: each attribute's kind and the kinds that a caption may have in its place.
        numbers: the kind of each number, in words.
        genders: the counterpart of each word of a gender, of men's words and of women's.
        synonyms: what can stand for each word or phrase.
        rest: the lists that are taken as they stand.
    """

    nouns: Mapping[str, Noun]
    forms: Mapping[str, tuple[str, str]]
    kinds_by_line: Mapping[str, list[str]]
    attributes: Mapping[str, tuple[str, list[str]]]
    numbers: Mapping[str, str]
    genders: tuple[Mapping[str, str], Mapping[str, str]]
    synonyms: Mapping[str, str]
    rest: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """Return one of the lists that are taken as they stand."""
        return self.rest[name]

    def is_english(self, captions: Collection[str]) -> bool:
        """Return whether captions seem to be English: enough of them have an English function word."""
        words = set(self["function_words"])
        n_english = sum(not words.isdisjoint(words_of(caption)) for caption in captions)
        return n_english >= _ENGLISH_SHARE * len(captions)

    def kinds_of(self, texts: Iterable[str]) -> set[str]:
        """Return the kinds of all nouns, attributes and numbers of texts."""
        kinds: set[str] = set()
        for word in set(chain.from_iterable(map(words_of, texts))):
            if word in self.nouns:
                kinds.add(self.nouns[word].kind)
            if word in self.attributes:
                kinds.add(self.attributes[word][0])
            if word in self.numbers:
                kinds.add(self.numbers[word])

        return kinds


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [word.lower() for word in WORD.findall(text)]


@cache
def english_words() -> WordLists:
    """Read the file's words."""
    lists = read_config("probe", "english")
    lines = {**lists["objects"], "people": lists["people"]}
    nouns, forms = _read_nouns(lines, lists["irregular_plurals"])

    numbers: dict[str, str] = {}
    for names in _split(lists["numbers"]):
        numbers |= dict.fromkeys(names, names[0])

    synonyms: dict[str, str] = {}
    for first, second in lists["synonyms"]:
        synonyms.setdefault(first, second)
        synonyms.setdefault(second, first)

    kinds_by_line: dict[str, list[str]] = {}
    for line, kinds in lines.items():
        kinds_by_line[line] = [names[0] for names in _split(kinds)]

    return WordLists(
        nouns=nouns,
        forms=forms,
        kinds_by_line=kinds_by_line,
        attributes=_read_attributes(lists["colours"], lists["opposites"]),
        numbers=numbers,
        genders=_read_genders(lists["genders"]),
        synonyms=synonyms,
        rest=lists,
    )


def _read_nouns(
    lines: Mapping[str, str], irregular: Mapping[str, str]
) -> tuple[dict[str, Noun], dict[str, tuple[str, str]]]:
    """Return what each form of a noun is, and the singular and the plural of each kind."""
    nouns: dict[str, Noun] = {}
    forms: dict[str, tuple[str, str]] = {}
    for line, kinds in lines.items():
        for names in _split(kinds):
            kind = names[0]
            forms[kind] = (kind, make_plural(kind, irregular))
            for name in names:
                nouns[make_plural(name, irregular)] = Noun(kind, line, is_plural=True)
                # A noun whose plural is the same counts as the singular.
                nouns[name] = Noun(kind, line, is_plural=False)

    return nouns, forms


def _read_attributes(
    colours: str, opposites: Iterable[Sequence[str]]
) -> dict[str, tuple[str, list[str]]]:
    """Return the kind of each attribute, and the kinds that a caption may have in its place."""
    attributes: dict[str, tuple[str, list[str]]] = {}
    split_colours = _split(colours)
    for names in split_colours:
        other_colours = [colour[0] for colour in split_colours if colour is not names]
        attributes |= dict.fromkeys(names, (names[0], other_colours))

    for pair in opposites:
        first, second = (side.split("|") for side in pair)
        attributes |= dict.fromkeys(first, (first[0], [second[0]]))
        attributes |= dict.fromkeys(second, (second[0], [first[0]]))

    return attributes


def _read_genders(pairs: Iterable[Sequence[str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the counterparts of men's words, and those of women's."""
    men: dict[str, str] = {}
    women: dict[str, str] = {}
    for pair in pairs:
        his, hers = (side.split("|") for side in pair)
        men |= dict.fromkeys(his, hers[0])
        # Of two men's words with one counterpart, the first is that counterpart's.
        for word in hers:
            women.setdefault(word, his[0])

    return men, women


def _split(line: str) -> list[list[str]]:
    return [names.split("|") for names in line.split()]


def make_plural(noun: str, irregular: Mapping[str, str]) -> str:
    """Return the plural of a noun."""
    if noun in irregular:
        return irregular[noun]
    if noun.endswith(("s", "x", "ch", "sh", "tomato")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def replace_word(text: str, match: re.Match[str], new: str) -> str:
    """Return a text with another word in the place of one, capitalised alike, behind the "a" or "an" that suits it."""
    before = text[: match.start()]
    after = text[match.end() :]
    if article := re.search(r"\b(a)n?(\s+)$", before, flags=re.IGNORECASE):
        ending = "n" if new[0].lower() in _VOWELS else ""
        before = before[: article.start()] + article[1] + ending + article[2]

    old = match[0]
    if old[0].isupper():
        is_shouted = old.isupper() and len(old) > 1
        new = new.upper() if is_shouted else new[0].upper() + new[1:]

    return before + new + after
