"""Flickr8k-CF: both readers on small files in the authors' formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captau.datasets.schema import CaptionSet
from captau.datasets.sources.flickr8k_cf import CROWD, JSON, TOKENS, load_flickr8k_cf
from tests.conftest import says

TOKENS_TEXT = """\
a.jpg#0\tA dog  runs .
a.jpg#1\tThe dog is brown .
a.jpg#2\tA dog .
b.jpg#0\tTwo cats sit .
b.jpg#1\tCats .
"""
# a.jpg's second caption is a candidate of its own image.
CROWD_TEXT = """\
a.jpg\tb.jpg#0\t0\t0\t3
a.jpg\ta.jpg#1\t1\t4\t0
b.jpg\ta.jpg#1\t0.333333333333333\t1\t2
"""
WANTED = [
    ("a.jpg", "Two cats sit .", ("A dog runs .", "A dog ."), 0.0),
    ("a.jpg", "The dog is brown .", ("A dog runs .", "A dog ."), 1.0),
    ("b.jpg", "The dog is brown .", ("Two cats sit .", "Cats ."), 0.333333333333333),
]


def table() -> dict[str, Any]:
    """As the CLIPScore authors' script writes it: a candidate is taken out of its own references."""
    return {
        image: {
            "image_path": f"Flicker8k_Dataset/{image}",
            "ground_truth": next(list(w[2]) for w in WANTED if w[0] == image),
            "human_judgement": [
                {"image_id": image, "caption": w[1], "rating": w[3]}
                for w in WANTED
                if w[0] == image
            ],
        }
        for image in ("a.jpg", "b.jpg")
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flickr8k").mkdir()
    for source, text in ((TOKENS, TOKENS_TEXT), (CROWD, CROWD_TEXT)):
        (tmp_path / source.path).write_text(text)
    return tmp_path


def from_json(folder: Path, content: Any) -> CaptionSet:
    (folder / JSON.path).write_text(json.dumps(content))
    return load_flickr8k_cf(folder)


def test_every_field_from_both(folder: Path) -> None:
    text = load_flickr8k_cf(folder)
    for made in (text, from_json(folder, table())):
        items = made.items
        found = zip(items["image_id"], items["caption"], items["references"], strict=True)
        assert list(found) == [w[:3] for w in WANTED]
        assert made.ratings["value"].tolist() == [w[3] for w in WANTED]
        assert made.ratings["rater"].tolist() == ["crowd_1"] * 3
        assert made.digest == text.digest


def test_a_byte_order_mark_and_line_ends_change_nothing(folder: Path) -> None:
    before = load_flickr8k_cf(folder).digest
    for source, text in ((TOKENS, TOKENS_TEXT), (CROWD, CROWD_TEXT)):
        (folder / source.path).write_bytes(("\ufeff" + text.replace("\n", "\r\n")).encode())
    assert load_flickr8k_cf(folder).digest == before


TEXT_FAULTS = {
    "another share": ("a.jpg\tb.jpg#0\t0.5\t1\t2", ":1: the share of yes 0.5 is not that of 1 yes"),
    "two people": ("a.jpg\tb.jpg#0\t0.5\t1\t1", "fewer than three"),
    "off scale": ("a.jpg\tb.jpg#0\t2\t2\t-1", ":1: the share of yes 2"),
    "no number": ("a.jpg\tb.jpg#0\tx\t1\t2", ":1: a rating is not a number"),
    "not a number": ("a.jpg\tb.jpg#0\tnan\t1\t2", ":1: the share of yes nan"),
    "four columns": ("a.jpg\tb.jpg#0\t1\t3", ":1: image, caption id and the share of yes"),
    "caption": ("a.jpg\tc.jpg#0\t1\t3\t0", ":1: caption 'c.jpg#0' is not in"),
    "image": ("c.jpg\ta.jpg#0\t1\t3\t0", ":1: image 'c.jpg' is not in"),
}


@pytest.mark.parametrize("fault", TEXT_FAULTS)
def test_faults_in_the_text(fault: str, folder: Path) -> None:
    line, part = TEXT_FAULTS[fault]
    (folder / CROWD.path).write_text(f"{line}\n")
    with says(str(folder / CROWD.path), part):
        load_flickr8k_cf(folder)


def test_faults_in_the_json(folder: Path) -> None:
    content = table()
    content["b.jpg"]["human_judgement"][0]["rating"] = 1.25
    with says(f"{folder / JSON.path}: image 'b.jpg': 'rating' is 1.25, not on the scale 0 to 1"):
        from_json(folder, content)
    content = table()
    content["a.jpg"]["ground_truth"] = []
    with says("dataset flickr8k_cf: item 'a.jpg:", "has no references"):
        from_json(folder, content)
    (folder / JSON.path).write_text(json.dumps(table())[:-9])
    with says(f"{folder / JSON.path}:1: not valid JSON"):
        load_flickr8k_cf(folder)
