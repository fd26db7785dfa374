"""Ratings of a user's own captions: which image each is of."""

from __future__ import annotations

from captau.datasets.reading.rating_files import match_rated_images
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
