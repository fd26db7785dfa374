"""COCO's image ids and captions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captau.datasets.errors import InputError
from captau.datasets.registry import card
from captau.datasets.sources.coco_captions import (
    COCO_CAPTIONS,
    COCO_REFERENCES,
    all_coco_references,
    coco_id,
    coco_references,
    read_captions,
)
from tests.conftest import raises_exactly, says


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
        (" 7 ", "7"),
        ("0", "0"),
        ("images/7", "7"),
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


CAPTIONS = [(7, " A  cat."), (42, "A dog."), (7, "Cats.")]
REFERENCES = {"42": ["A  dog.", "Dogs."], "7": ["A cat."]}


def write(root: Path, path: str, content: object) -> Path:
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(json.dumps(content))
    return root / path


def test_all_captions_come_before_those_of_the_test_split(tmp_path: Path) -> None:
    assert all_coco_references(tmp_path, card("cocog")) == {}
    with says("dataset cocog: the file", COCO_REFERENCES.path):
        coco_references(tmp_path, card("cocog"))
    write(tmp_path, COCO_REFERENCES.path, REFERENCES)
    wanted = {"42": ("A  dog.", "Dogs."), "7": ("A cat.",)}
    assert coco_references(tmp_path, card("cocog")) == wanted
    assert all_coco_references(tmp_path, card("cocog")) == wanted
    rows = [{"image_id": image, "caption": caption} for image, caption in CAPTIONS]
    path = write(tmp_path, COCO_CAPTIONS.path, {"annotations": rows})
    assert read_captions(path) == {"7": ("A cat.", "Cats."), "42": ("A dog.",)}
    assert all_coco_references(tmp_path, card("cocog")) == read_captions(path)
    assert coco_references(tmp_path, card("cocog")) == wanted


def test_references_that_are_a_list(tmp_path: Path) -> None:
    path = write(tmp_path, COCO_REFERENCES.path, [])
    with raises_exactly(f"{path}: an object image id → references is expected"):
        coco_references(tmp_path, card("cocog"))
