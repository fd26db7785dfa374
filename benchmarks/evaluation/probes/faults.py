"""The faults of `captau probe`: each makes of a caption the same one with a known fault, or says why it cannot.

A fault is a function that takes an `Original` caption and returns its text with the fault; it raises `CannotMakeError` where
the caption has nothing to change, or the change would be none for these references. `FAULTS` and `CONTROLS` hold them by
name, in the order of the tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, pairwise

import numpy as np

from ....datasets.caption_texts import comparison_form
from .words import WORD, WordLists, replace_word, words_of


class Obstacle(StrEnum):
    """Reasons why a fault cannot be made of a caption, as notes have them."""

    NO_WORD = "with no word to change"
    IN_REFERENCES = "whose references say the same as the fault"
    TOO_SHORT = "too short"
    NO_REFERENCE = "with one reference alone"
    UNCHANGED = "that the change leaves as they are"


class CannotMakeError(Exception):
    """A fault cannot be made of a caption."""

    def __init__(self, obstacle: Obstacle) -> None:
        self.obstacle = obstacle
        super().__init__(obstacle)


@dataclass(frozen=True)
class Original:
    """A caption without a fault, of which faults are made.

    Attributes:
        caption: the text.
        references: of its image, without the caption itself.
        draw_other: draws a caption of another image.
        lists: the words that faults put in.
        rng: the source of all randomness.
    """

    caption: str
    references: Sequence[str]
    draw_other: Callable[[], str]
    lists: WordLists
    rng: np.random.Generator

    def words(self) -> list[re.Match[str]]:
        """Return the caption's words that may be changed: those outside fixed phrases, such as "hot dog"."""
        phrases = "|".join(map(re.escape, self.lists["phrases"]))
        pattern = re.compile(rf"\b(?:{phrases})\b", re.IGNORECASE)
        fixed_places = set[int]()
        for match in pattern.finditer(self.caption):
            fixed_places.update(range(*match.span()))

        words: list[re.Match[str]] = []
        for word in WORD.finditer(self.caption):
            if word.start() not in fixed_places:
                words.append(word)

        return words

    def choose(self, options: Sequence[str]) -> str:
        """Draw one of several texts."""
        return options[int(self.rng.integers(len(options)))]


Fault = Callable[[Original], str]


def _swap(original: Original, candidates: Callable[[str], Sequence[str]]) -> str:
    """Put another word in the place of one, whose kind stands neither in the caption nor in a reference.

    Args:
        original: the caption.
        candidates: the words that may replace a word, none where it stays.

    Raises:
        CannotMakeError: where no word can be replaced.
    """
    lists = original.lists
    kinds = lists.kinds_of([original.caption, *original.references])

    matches = [match for match in original.words() if candidates(match[0].lower())]
    if not matches:
        raise CannotMakeError(Obstacle.NO_WORD)

    # In random order, so that not always the first noun of a caption is replaced.
    for match_index in original.rng.permutation(len(matches)).tolist():
        match = matches[match_index]
        replacements = candidates(match[0].lower())
        new_words = [word for word in replacements if kinds.isdisjoint(lists.kinds_of([word]))]
        if new_words:
            return replace_word(original.caption, match, original.choose(new_words))

    raise CannotMakeError(Obstacle.IN_REFERENCES)


def swap_object(original: Original) -> str:
    """Put another thing of its line in an object's place."""

    def other_objects(word: str) -> list[str]:
        noun = original.lists.nouns.get(word)
        # Another person is a fault of its own, see `swap_gender`.
        if noun is None or noun.line == "people":
            return []

        kinds = [kind for kind in original.lists.kinds_by_line[noun.line] if kind != noun.kind]
        return [original.lists.forms[kind][noun.is_plural] for kind in kinds]

    return _swap(original, other_objects)


def swap_attribute(original: Original) -> str:
    """Put another colour in a colour's place, or the opposite in that of another attribute."""
    return _swap(original, lambda word: original.lists.attributes.get(word, ("", []))[1])


def swap_number(original: Original) -> str:
    """Put another number in the place of one from two to eight."""
    numbers = original.lists.numbers
    kinds = sorted(set(numbers.values()))

    def other_numbers(word: str) -> list[str]:
        if word not in numbers:
            return []
        return [kind for kind in kinds if kind != numbers[word]]

    return _swap(original, other_numbers)


def swap_gender(original: Original) -> str:
    """Make men of all women in a caption, or women of all men; captions and references of both are left out."""
    caption_words = set(words_of(original.caption))
    men, women = original.lists.genders
    reference_words = set(chain.from_iterable(map(words_of, original.references)))

    for counterparts, other_gender in ((men, women), (women, men)):
        if not caption_words & counterparts.keys():
            continue
        if (caption_words | reference_words) & other_gender.keys():
            raise CannotMakeError(Obstacle.IN_REFERENCES)

        text = original.caption
        # From the end, so that the places of the words before stay.
        for match in reversed(list(WORD.finditer(text))):
            if match[0].lower() in counterparts:
                text = replace_word(text, match, counterparts[match[0].lower()])
        return text

    raise CannotMakeError(Obstacle.NO_WORD)


def swap_roles(original: Original) -> str:
    """Let two things change places, as in "a horse rides a man"; what stands between them has a direction."""
    lists = original.lists
    nouns = [match for match in original.words() if match[0].lower() in lists.nouns]
    for first, second in pairwise(nouns):
        a = lists.nouns[first[0].lower()]
        b = lists.nouns[second[0].lower()]

        text_between = original.caption[first.end() : second.start()]
        between = words_of(text_between)
        # "A dog and a man" may change places without a change of meaning; "a dog bites a man" may not.
        is_one_way = any(word in lists["one_way"] or word.endswith("ing") for word in between)
        is_both_ways = any(word in lists["both_ways"] for word in between)
        is_apart = not is_one_way or is_both_ways or bool(set(text_between) & set(",.;"))
        if a.kind == b.kind or a.is_plural != b.is_plural or is_apart:
            continue

        if any(_names_in_order(text, b.kind, a.kind, lists) for text in original.references):
            raise CannotMakeError(Obstacle.IN_REFERENCES)

        # The second first, so that the place of the first stays.
        text = replace_word(original.caption, second, first[0].lower())
        return replace_word(text, first, second[0].lower())

    raise CannotMakeError(Obstacle.NO_WORD)


def _names_in_order(text: str, first_kind: str, second_kind: str, lists: WordLists) -> bool:
    """Return whether a text names a thing of one kind before one of another."""
    has_first = False
    for word in words_of(text):
        noun = lists.nouns.get(word)
        if noun is None:
            continue
        has_first = has_first or noun.kind == first_kind
        if has_first and noun.kind == second_kind:
            return True
    return False


def negate(original: Original) -> str:
    """Put "not" behind the first "is" or "are", else before the first word in "-ing", else "no" for an article."""
    negations = original.lists["negations"]
    for text in (original.caption, *original.references):
        if not set(words_of(text)).isdisjoint(negations):
            raise CannotMakeError(Obstacle.IN_REFERENCES)

    rules = (
        (r"\b(is|are)\b", r"\1 not"),
        # A word in "-ing" behind an article is a thing, such as "the building".
        (r"(?<!\ba )(?<!\ban )(?<!\bthe )(?<=\w )(\w{2,}ing)\b", r"not \1"),
        (r"\b(?:an?|the|two|three|some)\b(?= \w)", "no"),
    )
    for pattern, new in rules:
        text = re.sub(pattern, new, original.caption, count=1, flags=re.IGNORECASE)
        if text != original.caption:
            return text[0].upper() + text[1:] if original.caption[0].isupper() else text

    raise CannotMakeError(Obstacle.NO_WORD)


def add_object(original: Original) -> str:
    """Add an object that nobody names, and none of its line."""
    lists = original.lists
    named_lines: set[str] = set()
    for text in (original.caption, *original.references):
        for word in words_of(text):
            if word in lists.nouns:
                named_lines.add(lists.nouns[word].line)

    lines = [line for line in lists["added"] if line not in named_lines]
    if not lines:
        raise CannotMakeError(Obstacle.IN_REFERENCES)

    kinds = chain.from_iterable(lists.kinds_by_line[line] for line in lines)
    thing = original.choose(list(kinds))
    article = "an" if thing[0] in "aeiou" else "a"
    # The full stop stays at the end.
    body = original.caption.rstrip(" .!")
    return f"{body} and {article} {thing}{original.caption[len(body) :]}"


def take_other_image(original: Original) -> str:
    """Take a caption of another image."""
    return original.draw_other()


def cut_half(original: Original) -> str:
    """Keep the first half of the words."""
    words = original.caption.split()
    # A half of fewer is a word.
    if len(words) < 4:
        raise CannotMakeError(Obstacle.TOO_SHORT)

    return " ".join(words[: len(words) // 2])


def _repeat(times: int) -> Fault:
    return lambda original: " ".join([original.caption.strip()] * times)


def shuffle_words(original: Original) -> str:
    """Put the words in a random order."""
    words = original.caption.split()
    return " ".join(words[index] for index in original.rng.permutation(len(words)))


def sort_reference_words(original: Original) -> str:
    """List all words of the references in alphabetical order."""
    words = chain.from_iterable(words_of(text) for text in original.references)
    return " ".join(sorted(words))


def join_references(original: Original) -> str:
    """Write all references in a row."""
    if len(original.references) < 2:
        raise CannotMakeError(Obstacle.NO_REFERENCE)

    return " ".join(text.strip() for text in original.references)


def say_nothing(original: Original) -> str:
    """Take a caption that is true of almost every image."""
    return original.choose(original.lists["generic"])


def copy_reference(original: Original) -> str:
    """Take one of the references, which stays among them."""
    return original.choose(original.references)


def change_case(original: Original) -> str:
    """Write all letters as capitals; where they are, write small ones."""
    upper = original.caption.upper()
    return original.caption.lower() if upper == original.caption else upper


def swap_synonym(original: Original) -> str:
    """Put a word or phrase of the same meaning in the place of one."""
    synonyms = original.lists.synonyms
    # The longest first, as a phrase may begin with a word of the list.
    pattern = "|".join(sorted(map(re.escape, synonyms), key=len, reverse=True))
    matches = list(re.finditer(rf"\b(?:{pattern})\b", original.caption, re.IGNORECASE))
    if not matches:
        raise CannotMakeError(Obstacle.NO_WORD)

    match = matches[int(original.rng.integers(len(matches)))]
    return replace_word(original.caption, match, synonyms[match[0].lower()])


#: Those that need English words.
ENGLISH_FAULTS: dict[str, Fault] = {
    "object": swap_object,
    "attribute": swap_attribute,
    "number": swap_number,
    "gender": swap_gender,
    "roles": swap_roles,
    "negation": negate,
    "addition": add_object,
    "generic": say_nothing,
    "synonym": swap_synonym,
}
FAULTS: dict[str, Fault] = {
    **{name: fault for name, fault in ENGLISH_FAULTS.items() if name not in ("generic", "synonym")},
    "other_image": take_other_image,
    "half": cut_half,
    "twice": _repeat(2),
    "eight_times": _repeat(8),
    "shuffled": shuffle_words,
    "sorted": sort_reference_words,
    "joined": join_references,
    "generic": say_nothing,
    "empty": lambda _: "",
}
#: Changes after which a caption should not lose; `other_reference` takes the reference that its pair leaves out.
CONTROLS: dict[str, Fault] = {
    "copy": copy_reference,
    "other_reference": copy_reference,
    "case": change_case,
    "synonym": swap_synonym,
}
#: Those whose text may be one of the references.
_MAY_BE_REFERENCE = ("copy", "other_reference", "case")


def make_fault(name: str, original: Original) -> str:
    """Make a fault, and check that it changes the caption.

    Raises:
        CannotMakeError: where it cannot be made, changes nothing, or gives one of the references.
    """
    text = {**FAULTS, **CONTROLS}[name](original)
    if text == original.caption:
        raise CannotMakeError(Obstacle.UNCHANGED)

    forms = {comparison_form(reference) for reference in original.references}
    if name not in _MAY_BE_REFERENCE and comparison_form(text) in forms:
        raise CannotMakeError(Obstacle.IN_REFERENCES)

    return text
