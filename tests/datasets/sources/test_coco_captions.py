"""COCO's image ids and captions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captau.datasets.errors import InputError
from captau.datasets.sources.coco_captions import coco_id, read_captions


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("60623", "60623"),
        ("000000060623.jpg", "60623"),
        ("COCO_val2014_000000060623.jpg", "60623"),
        ("val2014/COCO_val2014_000000060623.jpg", "60623"),
        ("coco_train2014_000000000042", "42"),
        ("1056338697_4f7d7ce270.jpg", "1056338697_4f7d7ce270.jpg"),
        ("2008_005747.jpg", "2008_005747.jpg"),
        ("a dog.png", "a dog.png"),
        ("", ""),
    ],
)
def test_an_image_has_one_id(name: str, wanted: str) -> None:
    assert coco_id(name) == wanted


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ([], "an object is expected, not list"),
        ({}, "'annotations' is missing"),
        ({"annotations": [{"caption": "a"}]}, "annotation 0: 'image_id' is missing"),
        ({"annotations": [{"image_id": 1, "caption": 2}]}, "annotation 0: 'caption' is 2, not str"),
    ],
)
def test_faults_in_the_captions(content: object, part: str, tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=part):
        read_captions(path)
