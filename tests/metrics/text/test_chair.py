"""CHAIR, worked by hand with a list of synonyms of our own: who is counted, who is blamed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.chair import COCO_OBJECTS, find_mentions, plural, read_vocabulary
from tests.conftest import says

SYNONYMS = """person, man, woman, baby, passenger, child
bird, goose
airplane, plane, jet
train
toilet
chair, seat
tie, bow tie, bow
dining table, table
oven, stove top oven
couch, sofa
"""
Row = dict[str, object]


@pytest.fixture
def synonyms(tmp_path: Path) -> Path:
    path = tmp_path / "synonyms.txt"
    path.write_text(SYNONYMS)
    return path


def row(caption: str, *references: str) -> Row:
    return {"caption": caption, "references": list(references), "image_id": "1"}


def test_there_are_80_objects() -> None:
    assert len(set(COCO_OBJECTS)) == len(COCO_OBJECTS) == 80


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ("Two men, a woman's dog and geese.", ["person", "dog", "bird"]),
        ("a hot dog on a dining table", ["hot dog", "dining table"]),
        ("a baby bird near a passenger train", ["bird", "train"]),
        ("a baby at home plate by the train tracks", ["person"]),
        ("a man in a bow tie", ["person", "tie"]),
        ("a stove top oven", ["oven"]),
        ("the seat of the toilet", ["toilet"]),
        ("a toilet seat", ["toilet"]),
        ("a seat by the door", ["chair"]),
        ("buses and benches, knives and people", ["bus", "bench", "knife", "person"]),
        ("a dog, a dog", ["dog", "dog"]),
        ("", []),
    ],
)
def test_objects_that_a_caption_mentions(text: str, objects: list[str], synonyms: Path) -> None:
    mentions = find_mentions(text, read_vocabulary(str(synonyms)))
    assert [mention.object_name for mention in mentions] == objects


def test_plurals() -> None:
    singular = ["bus", "couch", "puppy", "toy", "knife", "calf", "giraffe", "policeman", "person"]
    plurals = ["buses", "couches", "puppies", "toys", "knives", "calves", "giraffes"]
    assert [plural(word) for word in singular] == [*plurals, "policemen", "people"]


def test_chair_worked_by_hand(synonyms: Path) -> None:
    """Of a man, a sofa and two dogs the references have the man: 3 of 4 mentions are wrong, and of all rows 4 of 7."""
    rows = [
        row("A man on a sofa, a dog and dogs.", "a person sits"),
        row("a jet and a plane", "an airplane"),
        row("nothing at all", "a cat"),
        row("a cup", "a cat"),
    ]
    instance, sentence = (metric(f"{name}(synonyms={synonyms})") for name in ("chair_i", "chair_s"))
    assert instance.score(rows).tolist() == [3 / 4, 0, 0, 1]
    assert sentence.score(rows).tolist() == [1, 0, 0, 1]
    assert instance.corpus_score(rows) == 4 / 7
    assert sentence.corpus_score(rows) == 2 / 4
    assert not instance.higher_is_better


def test_objects_without_synonyms_are_remarked(synonyms: Path) -> None:
    rows = Rows.from_items([row("a man", "a person")])
    metric(f"chair_i(synonyms={synonyms})").score(rows)
    assert rows.remarks == {}
    metric("chair_i").score(rows)
    (remark,) = rows.remarks["chair_i"]
    assert "without synonyms" in remark


def test_the_corpus_score_of_a_sample_is_that_of_its_captions(synonyms: Path) -> None:
    rows = [row("a dog", "a cat"), row("a cat and a dog", "a cat"), row("a cup", "a cup")]
    instance = metric(f"chair_i(synonyms={synonyms})")
    resampler = instance.corpus_resampler(rows, instance.score(rows))
    assert resampler is not None
    sample = [rows[0], rows[0], rows[2]]
    weights = np.array([[2.0, 1], [0.0, 0], [1.0, 0]])
    expected = [instance.corpus_score(sample), instance.corpus_score(rows[:1])]
    assert resampler(weights).tolist() == pytest.approx(expected)
    summands = instance.corpus_summands(rows, instance.score(rows))
    assert summands is not None
    assert instance.corpus_score_from_sums(summands.sum(axis=0)) == instance.corpus_score(rows)


def test_the_words_of_a_mention_are_blamed(synonyms: Path) -> None:
    rows = [row("A man eats hot dogs, again.", "a man")]
    blame = metric(f"chair_i(synonyms={synonyms})").blame(rows)  # pyright: ignore[reportAttributeAccessIssue]
    assert blame[0].tolist() == [0, 0, 0, 1, 1, 0]


def test_labels_of_an_image_are_in_it(synonyms: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({"1": ["couch", "dog"]}))
    spec = f"chair_i(synonyms={synonyms},labels={path})"
    assert metric(spec).score([row("a sofa, a dog and a cat", "a room")]).tolist() == [1 / 3]
    with says(str(path), "no labels of image '2'"):
        metric(spec).score([row("a cat", "a room") | {"image_id": "2"}])
    path.write_text(json.dumps({"1": ["sofas of gold"]}))
    with says(str(path), "image '1': 'sofas of gold' is not one of COCO's objects"):
        metric(spec).score([row("a cat", "a room")])


def test_a_list_of_synonyms_names_its_faulty_line(tmp_path: Path) -> None:
    path = tmp_path / "synonyms.txt"
    path.write_text("person, man\n\nunicorn, horned horse\n")
    with says(f"{path}:3: 'unicorn' is not one of COCO's 80 objects"):
        metric(f"chair_s(synonyms={path})").score([row("a man", "a man")])


def test_captions_without_mentions_have_a_corpus_score_of_0() -> None:
    """Worked by hand: nothing is mentioned, so nothing is wrong."""
    assert metric("chair_i").corpus_score_from_sums([0, 0]) == 0


def test_what_chair_says_of_itself(synonyms: Path) -> None:
    for name in ("chair_i", "chair_s"):
        scorer = metric(f"{name}(synonyms={synonyms})")
        assert scorer.name == name
        assert scorer.bounds == (0.0, 1.0)
        assert scorer.needs == {"references"}
        assert scorer.file_fields == ("synonyms", "labels")
        assert not scorer.higher_is_better
        assert not scorer.depends_only_on_content
        expected = {"synonyms": str(synonyms), "labels": None, "backend": "captau"}
        assert scorer.parameters == expected


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("red bow tie", [("tie", (1, 2))]),
        ("hot dog", [("hot dog", (0, 1))]),
        ("a hot", []),
        ("dog hot dog", [("dog", (0,)), ("hot dog", (1, 2))]),
        ("cat/dog cat", [("cat", (0,)), ("dog", (0,)), ("cat", (1,))]),
        ("a teddy bear, bear", [("teddy bear", (1, 2)), ("bear", (3,))]),
        ("hot-dog hot/dog", [("hot dog", (1,))]),
        ("a seat", [("chair", (1,))]),
        ("toilet, a seat and a chair", [("toilet", (0,)), ("chair", (5,))]),
        ("adult elephants and a baby cub", [("elephant", (0, 1))]),
    ],
)
def test_the_places_of_mentions(text: str, mentions: list[object], synonyms: Path) -> None:
    found = find_mentions(text, read_vocabulary(str(synonyms)))
    assert [(mention.object_name, mention.positions) for mention in found] == mentions


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], "an object image id → list of labels is expected"),
        ({"7": "dog"}, "image '7': 'dog' is not a list of labels"),
        ({"7": ["dog", 1]}, "image '7': ['dog', 1] is not a list of labels"),
        ({"7": ["dog", "gold"]}, "image '7': 'gold' is not one of COCO's objects"),
    ],
)
def test_labels_that_are_none(content: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(content))
    with says(f"{path}: {message}"):
        metric(f"chair_i(labels={path})").score([row("a cat", "a room")])


def test_labels_need_the_captions_images(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({"1": ["Dogs", "home plate"]}))
    spec = f"chair_i(labels={path})"
    assert metric(spec).score([row("a dog", "a room"), row("a cat", "")]).tolist() == [0, 1]
    with says(f"metric {spec}: the captions have no image_id to find labels by"):
        metric(spec).score([{"caption": "a dog", "references": ["a dog"]}])


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("box", "boxes"),
        ("waltz", "waltzes"),
        ("brush", "brushes"),
        ("bench", "benches"),
        ("day", "days"),
        ("baby", "babies"),
        ("wife", "wives"),
        ("wolf", "wolves"),
        ("scarf", "scarves"),
        ("loaf", "loaves"),
        ("roof", "roofs"),
        ("woman", "women"),
        ("snowman", "snowmen"),
        ("mouse", "mice"),
        ("dog", "dogs"),
    ],
)
def test_plurals_by_rule(word: str, expected: str) -> None:
    assert plural(word) == expected
