"""Faults of captions: each text is worked by hand from the rule of its fault."""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.evaluation.probes.faults import (
    CONTROLS,
    FAULTS,
    CannotMakeError,
    Obstacle,
    Original,
    make_fault,
)
from captau.benchmarks.evaluation.probes.words import (
    WORD,
    Noun,
    english_words,
    make_plural,
    replace_word,
    words_of,
)

OTHER = "A train at a station."


def original(caption: str, *references: str) -> Original:
    rng = np.random.default_rng(0)
    return Original(
        caption, references or ("Outside.", "Some view."), lambda: OTHER, english_words(), rng
    )


def obstacle(fault: str, caption: str, *references: str) -> Obstacle:
    with pytest.raises(CannotMakeError) as caught:
        make_fault(fault, original(caption, *references))
    return caught.value.obstacle


@pytest.mark.parametrize(
    ("fault", "caption", "expected"),
    [
        ("gender", "A man waves his hat.", "A woman waves her hat."),
        ("gender", "Girls run.", "Boys run."),
        ("roles", "A man riding a horse.", "A horse riding a man."),
        ("roles", "An elephant on a beach", "A beach on an elephant"),
        ("negation", "A dog is asleep.", "A dog is not asleep."),
        ("negation", "A dog running fast.", "A dog not running fast."),
        ("negation", "A dog on grass.", "No dog on grass."),
        ("other_image", "A dog.", OTHER),
        ("half", "A dog runs on grass.", "A dog"),
        ("twice", "A dog.", "A dog. A dog."),
        ("sorted", "A dog.", "outside some view"),
        ("joined", "A dog.", "Outside. Some view."),
        ("empty", "A dog.", ""),
        ("case", "A dog.", "A DOG."),
        ("case", "A DOG.", "a dog."),
        ("synonym", "The big DOG.", "The large DOG."),
        ("synonym", "A cat on a couch", "A cat on a sofa"),
    ],
)
def test_a_fault_by_hand(fault: str, caption: str, expected: str) -> None:
    assert make_fault(fault, original(caption)) == expected


def test_faults_that_are_drawn_keep_to_their_rule() -> None:
    lists = english_words()
    text = make_fault("object", original("An elephant by a wall"))
    article, noun = text.split()[:2]
    assert lists.nouns[noun].line == "animals"
    assert noun != "elephant"
    assert article == ("An" if noun[0] in "aeiou" else "A")
    plural = make_fault("object", original("Puppies in snow", "A snowy field")).split()[0].lower()
    assert plural == "snow" or (lists.nouns[plural].is_plural and lists.nouns[plural].kind != "dog")
    colour = make_fault(
        "attribute", original("A red wall", "A blue wall", "The grey wall")
    ).split()[1]
    assert colour in {"green", "yellow", "black", "white", "brown", "pink", "purple"}
    assert make_fault("attribute", original("A tiny fly")) == "A big fly"
    number = make_fault("number", original("Two men", "Three men")).split()[0]
    assert number in {"Four", "Five", "Six", "Seven", "Eight"}
    added = make_fault("addition", original("A dog runs.", "A car"))
    assert added.startswith("A dog runs and a")
    thing = added.rstrip(".").split()[-1]
    assert lists.nouns[thing].line in ("furniture", "tableware", "things")
    shuffled = make_fault("shuffled", original("a b c d e"))
    assert sorted(shuffled.split()) == ["a", "b", "c", "d", "e"]


def test_what_the_references_say_is_no_fault() -> None:
    assert obstacle("gender", "A man waves.", "A woman waves.") is Obstacle.IN_REFERENCES
    assert obstacle("gender", "A man and a woman.") is Obstacle.IN_REFERENCES
    assert obstacle("roles", "A man on a horse.", "A horse under a man.") is Obstacle.IN_REFERENCES
    assert obstacle("attribute", "A wet dog", "A dry dog") is Obstacle.IN_REFERENCES
    assert obstacle("negation", "A dog.", "There is no cat.") is Obstacle.IN_REFERENCES
    assert obstacle("half", "A dog on grass", "a dog!") is Obstacle.IN_REFERENCES


def test_what_cannot_be_made() -> None:
    assert obstacle("object", "The view.") is Obstacle.NO_WORD
    assert obstacle("object", "A hot dog.") is Obstacle.NO_WORD  # a fixed phrase
    assert obstacle("number", "A dog.") is Obstacle.NO_WORD
    assert obstacle("roles", "A man and a horse.") is Obstacle.NO_WORD  # both ways are the same
    assert obstacle("roles", "Two men on a horse.") is Obstacle.NO_WORD  # "a men"
    assert obstacle("half", "A dog runs.") is Obstacle.TOO_SHORT
    assert obstacle("joined", "A dog.", "A cat.") is Obstacle.NO_REFERENCE
    assert obstacle("shuffled", "dog dog dog") is Obstacle.UNCHANGED


def test_every_fault_of_the_contract_is_there() -> None:
    """The names of DESIGN's `probes.csv`."""
    assert " ".join(FAULTS) == (
        "object attribute number gender roles negation addition other_image half twice eight_times "
        "shuffled sorted joined generic empty"
    )
    assert " ".join(CONTROLS) == "copy other_reference case synonym"


def test_the_lists_of_the_file_become_nouns_attributes_and_numbers() -> None:
    """A few words of each list of `conf/probe/english.yaml`, read by eye."""
    english_words.cache_clear()
    lists = english_words()
    assert lists.nouns["puppies"] == Noun("dog", "animals", is_plural=True)
    assert lists.nouns["taxi"] == Noun("car", "vehicles", is_plural=False)
    assert lists.nouns["men"] == Noun("man", "people", is_plural=True)
    kind, others = lists.attributes["navy"]
    assert kind == "blue"
    assert others == ["red", "green", "yellow", "black", "white", "brown", "pink", "purple", "gray"]
    assert lists.attributes["huge"] == ("big", ["small"])
    assert lists.attributes["little"] == ("small", ["big"])
    assert (lists.numbers["two"], lists.numbers["2"]) == ("two", "two")
    assert lists.kinds_of(["Two navy taxis"]) == {"two", "blue", "car"}


def test_plurals_and_languages() -> None:
    nouns = ("dog", "bus", "cherry", "monkey", "couch", "knife")
    plurals = ["dogs", "buses", "cherries", "monkeys", "couches", "knives"]
    assert [make_plural(noun, {"knife": "knives"}) for noun in nouns] == plurals
    lists = english_words()
    assert lists.is_english(["A dog with a ball", "Two cats"])
    assert not lists.is_english(["Ein Hund mit einem Ball", "Un chien dans la rue", "犬がいる"])


@pytest.mark.parametrize(
    ("text", "place", "new", "expected"),
    [
        ("a dog runs", 1, "apple", "an apple runs"),
        ("An owl.", 1, "bat", "A bat."),
        ("AN  Owl", 1, "bat", "A  Bat"),
        ("a Dog", 1, "apple", "an Apple"),
        ("the DOG", 1, "cat", "the CAT"),
        ("I run", 0, "we", "We run"),
        ("data dog", 1, "apple", "data apple"),
        ("a big dog", 2, "apple", "a big apple"),
        ("dog", 0, "hot dog", "hot dog"),
    ],
)
def test_a_word_is_replaced_alike_behind_its_article(
    text: str, place: int, new: str, expected: str
) -> None:
    match = list(WORD.finditer(text))[place]
    assert replace_word(text, match, new) == expected


def test_words_have_apostrophes_and_hyphens_inside() -> None:
    text = "Don't it's e-mail, 2 _x_ hünd’s -a-"
    assert words_of(text) == ["don't", "it's", "e-mail", "2", "x", "hünd’s", "a"]


def test_endings_of_plurals() -> None:
    nouns = ["box", "dish", "glass", "tomato", "boy", "key", "guy", "baby", "cow"]
    plurals = [
        "boxes",
        "dishes",
        "glasses",
        "tomatoes",
        "boys",
        "keys",
        "guys",
        "babies",
        "cows",
    ]
    assert [make_plural(noun, {}) for noun in nouns] == plurals


@pytest.mark.parametrize(
    ("fault", "caption", "references", "expected"),
    [
        ("eight_times", " a ", (), "a a a a a a a a"),
        ("half", "a b c d", (), "a b"),
        ("half", "a b c d e", (), "a b"),
        ("sorted", "x", ("b A, c", "a"), "a a b c"),
        ("joined", "x", (" b ", "a"), "b a"),
        ("negation", "the dog is here", ("x",), "the dog is not here"),
        ("negation", "Dogs are here and it is late", ("x",), "Dogs are not here and it is late"),
        ("negation", "A building", ("x",), "No building"),
        ("negation", "a dog", ("x",), "no dog"),
        ("gender", "A boy and his father", ("x",), "A girl and her mother"),
        ("roles", "Two dogs chasing two cats", ("x",), "Two cats chasing two dogs"),
    ],
)
def test_further_faults_by_hand(
    fault: str, caption: str, references: tuple[str, ...], expected: str
) -> None:
    assert make_fault(fault, original(caption, *references)) == expected


def test_a_fault_needs_enough_of_a_caption() -> None:
    assert obstacle("half", "a b c") is Obstacle.TOO_SHORT
    assert obstacle("joined", "a", "b") is Obstacle.NO_REFERENCE
    assert obstacle("negation", "dog", "x") is Obstacle.NO_WORD
    assert obstacle(
        "roles", "A man on a horse by a car, a cat", "a car and then a horse on a man"
    ) in (Obstacle.IN_REFERENCES,)
    assert obstacle("roles", "A man, on a horse", "x") is Obstacle.NO_WORD
    assert obstacle("case", "123") is Obstacle.UNCHANGED
    assert make_fault("case", original("a dog", "A DOG")) == "A DOG"
    assert make_fault("copy", original("a dog", "a cat")) == "a cat"
