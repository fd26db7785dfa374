"""FLEUR's own score files: the reader on small files of our own making, and on the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from captau.datasets.registry import card, load
from captau.datasets.sources.fleur import FILES, read_scores
from tests.conftest import says

ALONE = """image file : Flickr8k_Dataset/1.jpg
caption : A dog : running .
model score : 0.5
our score : 0.44

image file : Flickr8k_Dataset/2.jpg
caption : A cat .
model score : 1.0
our score : 0.9
"""
PAIR = """image file : VOC2012/JPEGImages/1.jpg
label : 1

caption : A dog.
model score : 0.9
our score : 0.79

caption : A cat.
model score : 0.9
our score : 0.80

true count : 1
tie count : 0
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for part, source in FILES.items():
        path = tmp_path / source.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(PAIR if part.startswith("pascal") else ALONE, encoding="utf-8")
    return tmp_path


def test_every_caption_has_the_number_that_was_said_and_the_smoothed_one(root: Path) -> None:
    fleur = load("fleur", root)
    items = fleur.items.merge(fleur.ratings, on="item_id")
    first = items[items["system"] == "flickr8k_expert"]
    assert list(zip(first["caption"], first["dimension"], first["value"], strict=True)) == [
        ("A dog : running .", "raw", 0.5),
        ("A dog : running .", "smoothed", 0.44),
        ("A cat .", "raw", 1.0),
        ("A cat .", "smoothed", 0.9),
    ]
    assert list(fleur.preferences["dimension"]) == ["HC", "HI", "HM", "MM"]
    assert set(fleur.preferences["winner"]) == {"b"}
    assert "not people" in card("fleur").title


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("no scores",)),
        ("our score : 1\n", (":1:", "'our score' before any 'image file'")),
        ("image file : 1.jpg\nour score : 1\n", (":2:", "a score without a caption")),
        ("image file : 1.jpg\ncaption : a\nour score : high\n", (":3:", "'high', not a number")),
        ("image file : 1.jpg\ncaption : a\nour score : nan\n", (":3:", "'nan', not a number")),
        ("image file : 1.jpg\nlabel : 7\n", (":2:", "'label' is '7', not 0 or 1")),
        ("image file : 1.jpg\ncaption : a\nour score : 1\n", ("'1.jpg'", "get a new copy")),
        (PAIR[: PAIR.index("caption : A cat")], ("'1.jpg'", "has not 2 captions")),
    ],
)
def test_a_damaged_file_is_told_with_its_line(
    text: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "fleur.txt"
    path.write_text(text, encoding="utf-8")
    with says(str(path), *parts):
        read_scores(path)


def test_the_real_files_hold_what_the_card_says(data_root: Path) -> None:
    fleur = load("fleur", data_root)
    assert {
        "images": fleur.items["image_id"].nunique(),
        "items": len(fleur.items),
        "ratings": len(fleur.ratings),
        "preferences": len(fleur.preferences),
    } == dict(card("fleur").expected)
