"""FOIL: small files of our own making in both formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import captau
from captau.datasets.sources.coco_captions import COCO_CAPTIONS
from captau.datasets.sources.foil import JSON, ORIGINAL, load_foil
from tests.conftest import says

RIGHT, FOILED, REFERENCES = "A dog runs.", "A cat runs.", ("Dogs run.", "It runs.")
# The forms that a row may have.
ROWS = [
    {"image": "val2014/COCO_val2014_000000000042.jpg", "captions": [RIGHT, FOILED], "label": 0},
    {"image": "COCO_val2014_000000000042.jpg", "captions": [FOILED, RIGHT], "label": 1},
    {"image_id": 42, "caption": RIGHT, "foil": FOILED},
    {"image_path": "42.jpg", "orig": f" {RIGHT}", "foil_caption": "A  cat runs."},
]
ANNOTATIONS = [
    {"image_id": 42, "id": 5, "caption": RIGHT, "foil": False, "foil_id": 0},
    {"image_id": 42, "id": 5, "caption": FOILED, "foil": True, "foil_id": 9},
    {"image_id": 42, "id": 5, "caption": "A cow runs.", "foil": True, "foil_id": 10},
]
COCO = [{"image_id": 42, "caption": c} for c in ("A cow.", RIGHT, *REFERENCES)]


def write(root: Path, path: str, content: Any) -> Path:
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(json.dumps(content))
    return root / path


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("key", ["references", "refs"])
def test_every_form_of_a_row(row: dict[str, Any], key: str, tmp_path: Path) -> None:
    write(tmp_path, JSON.path, [{**row, key: REFERENCES}])
    made = load_foil(tmp_path)
    assert made.items["image_id"].tolist() == ["42", "42"]
    assert made.items["caption"].tolist() == [RIGHT, FOILED]
    assert made.items["references"].tolist() == [REFERENCES] * 2
    a, b = made.items["item_id"]
    assert made.preferences.to_numpy().tolist() == [
        ["FOIL-00000", a, b, "FOIL", "people", 1.0, "a"]
    ]


def test_the_authors_own_file(tmp_path: Path) -> None:
    write(tmp_path, ORIGINAL.path, {"annotations": ANNOTATIONS})
    with says(JSON.path, JSON.url):
        load_foil(tmp_path)
    write(tmp_path, COCO_CAPTIONS.path, {"annotations": COCO})
    made = load_foil(tmp_path)
    assert made.items["caption"].tolist() == [RIGHT, FOILED, "A cow runs."]
    assert made.items["references"].tolist() == [("A cow.", *REFERENCES)] * 3
    right, one, two = made.items["item_id"]
    assert made.preferences.to_numpy().tolist() == [
        ["FOIL-00000", right, one, "FOIL", "people", 1.0, "a"],
        ["FOIL-00001", right, two, "FOIL", "people", 1.0, "a"],
    ]
    write(tmp_path, JSON.path, [{**ROWS[0], "references": REFERENCES}])
    assert len(load_foil(tmp_path).preferences) == 1  # the release's file comes first


def test_an_object_of_lists_has_its_keys_as_categories(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "references": REFERENCES}, {**ROWS[1], "image": "7", "refs": ["A dog."]}]
    write(tmp_path, JSON.path, {"noun": rows, "verb": [rows[1]]})
    made = load_foil(tmp_path)
    a, b, c, d = made.items["item_id"]
    assert made.preferences.to_numpy().tolist() == [
        ["noun-00000", a, b, "noun", "people", 1.0, "a"],
        ["noun-00001", c, d, "noun", "people", 1.0, "a"],
        ["verb-00000", c, d, "verb", "people", 1.0, "a"],
    ]
    assert made.items["image_id"].tolist() == ["42", "42", "7", "7"]
    assert made.items["references"].tolist() == [REFERENCES] * 2 + [("A dog.",)] * 2


def test_one_reference_or_four(tmp_path: Path) -> None:
    """Against "Dogs run." alone the two captions are alike; with "A dog." the right one is nearer."""
    write(tmp_path, JSON.path, [{**ROWS[0], "references": ["Dogs run.", "A dog."]}])
    for k, accuracy in ((1, 0.5), (4, 1.0)):
        found = captau.bench("foil", ["bleu_1"], protocol={"k": k}, data_root=tmp_path).correlations
        of_metric = found[found["metric"] == "bleu_1"]
        assert of_metric["value"].tolist() == [accuracy] * 2


FAULTS = {
    "no object": (["x"], "FOIL[0]: an object is expected, not str"),
    "no image": ([{"caption": "a", "foil": "b"}], "FOIL[0]: none of image, "),
    "no foil": ([{"image": "1", "caption": "a"}], "FOIL[0]: none of foil, "),
    "three captions": (
        [{"image": "1", "captions": ["a", "b", "c"], "label": 0}],
        "FOIL[0]: two captions and a label",
    ),
    "one caption": (
        [{"image": "1", "captions": ["a"], "label": 0}],
        "FOIL[0]: two captions and a label",
    ),
    "label -1": ([{"image": "1", "captions": ["a", "b"], "label": -1}], "a label of 0 or 1"),
    "no captions": ([{"image": "1"}], "FOIL[0]: none of caption, correct, true, orig, original is"),
    "label 2": ([{"image": "1", "captions": ["a", "b"], "label": 2}], "a label of 0 or 1"),
    "caption a number": ([{"image": "1", "caption": 1, "foil": "b"}], "'caption' is 1, not str"),
    "no references": ([{"image": "1", "caption": "a", "foil": "b"}], "none of references, "),
    "empty references": (
        [{"image": "1", "caption": "a", "foil": "b", "refs": []}],
        "FOIL[0]: no references",
    ),
    "a text": ("x", "'FOIL' is 'x', not list"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_file_and_place(fault: str, tmp_path: Path) -> None:
    content, part = FAULTS[fault]
    path = write(tmp_path, JSON.path, content)
    with says(f"{path}: ", part):
        load_foil(tmp_path)


@pytest.mark.parametrize(
    ("annotation", "part"),
    [
        ({"image_id": 42, "id": 6, "caption": "a", "foil": True}, "no correct caption has"),
        ({"image_id": 42, "id": 5, "caption": "a"}, "annotation 2: 'foil' is missing"),
        ({"image_id": 42, "id": 5, "caption": "a", "foil": "no"}, "'foil' is 'no', not bool"),
    ],
)
def test_faults_in_the_authors_own_file(annotation: Any, part: str, tmp_path: Path) -> None:
    path = write(tmp_path, ORIGINAL.path, {"annotations": [*ANNOTATIONS[:2], annotation]})
    write(tmp_path, COCO_CAPTIONS.path, {"annotations": COCO})
    with says(f"{path}: annotation 2: ", part):
        load_foil(tmp_path)
    write(tmp_path, ORIGINAL.path, {"annotations": ANNOTATIONS[:2]})
    write(tmp_path, COCO_CAPTIONS.path, {"annotations": []})
    with says(f"{path}: annotation 1: image 42 has no captions in"):
        load_foil(tmp_path)
