"""Ratings of a user's own captions: which image each is of."""

from __future__ import annotations

from pathlib import Path

from captau.datasets.reading.rating_files import match_rated_images, read_ratings
from tests.conftest import says


def test_rated_images_are_found_by_the_rules_for_captions() -> None:
    rows = [("r.csv:2", "000000000007.jpg"), ("r.csv:3", "8.0")]
    assert match_rated_images(rows[:1], ["7", "8"], "c.json") == {"000000000007.jpg": "7"}
    assert match_rated_images(rows[1:], ["7", "8"], "c.json") == {"8.0": "8"}


def test_numbers_behind_words_match_where_one_side_is_plain_numbers_alone() -> None:
    """`cat_1` and `dog_1` are two images; `image_1` is the image 1."""
    assert match_rated_images([("r.csv:2", "image_1")], ["1", "2"], "c.json") == {"image_1": "1"}
    with says("r.csv:2: image 'dog_1' is not among the captions of c.json"):
        match_rated_images([("r.csv:2", "dog_1")], ["cat_1", "cat_2"], "c.json")


def test_columns_of_ratings_are_found_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("Image,System,Rating,RATER\n1.jpg,mine,4,ann\n2.jpg,mine,2.5,bob\n")
    found = read_ratings(path)
    assert [(row.image_id, row.systems, row.value, row.rater) for row in found.rows] == [
        ("1.jpg", ("mine",), 4.0, "ann"),
        ("2.jpg", ("mine",), 2.5, "bob"),
    ]
