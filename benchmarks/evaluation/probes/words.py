"""The English words of `conf/probe/english.yaml`, which the faults of `captau probe` put in and look for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
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
        words = {word for text in texts for word in words_of(text)}
        kinds = {self.nouns[word].kind for word in words if word in self.nouns}
        kinds |= {self.attributes[word][0] for word in words if word in self.attributes}
        return kinds | {self.numbers[word] for word in words if word in self.numbers}


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [word.lower() for word in WORD.findall(text)]


@cache
def english_words() -> WordLists:
    """Read the file's words."""
    lists = read_config("probe", "english")
    irregular: Mapping[str, str] = lists["irregular_plurals"]
    lines = {**lists["objects"], "people": lists["people"]}
    nouns: dict[str, Noun] = {}
    forms: dict[str, tuple[str, str]] = {}
    for line, kinds in lines.items():
        for names in _split(kinds):
            forms[names[0]] = names[0], make_plural(names[0], irregular)
            for name in names:
                nouns[make_plural(name, irregular)] = Noun(names[0], line, is_plural=True)
                nouns[name] = Noun(names[0], line, is_plural=False)
    colours = _split(lists["colours"])
    attributes = {
        name: (names[0], [colour[0] for colour in colours if colour is not names])
        for names in colours
        for name in names
    }
    for pair in lists["opposites"]:
        sides = [side.split("|") for side in pair]
        for side, opposite in (sides, sides[::-1]):
            attributes |= {name: (side[0], [opposite[0]]) for name in side}
    men: dict[str, str] = {}
    women: dict[str, str] = {}
    for pair in lists["genders"]:
        his, hers = (side.split("|") for side in pair)
        men |= dict.fromkeys(his, hers[0])
        women |= {word: his[0] for word in hers if word not in women}
    synonyms: dict[str, str] = {}
    for first, second in lists["synonyms"]:
        synonyms.setdefault(first, second)
        synonyms.setdefault(second, first)
    numbers = {name: names[0] for names in _split(lists["numbers"]) for name in names}
    kinds_by_line = {line: [names[0] for names in _split(kinds)] for line, kinds in lines.items()}
    genders = men, women
    return WordLists(nouns, forms, kinds_by_line, attributes, numbers, genders, synonyms, lists)


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
    before, after = text[: match.start()], text[match.end() :]
    if article := re.search(r"\b(a)n?(\s+)$", before, flags=re.IGNORECASE):
        ending = "n" if new[0].lower() in _VOWELS else ""
        before = before[: article.start()] + article[1] + ending + article[2]
    if match[0][0].isupper():
        new = new.upper() if match[0].isupper() and len(match[0]) > 1 else new[0].upper() + new[1:]
    return before + new + after
