"""Image files under the names and in the folders that their archives give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from captau.datasets.reading import source_files
from captau.datasets.reading.source_files import find_image, identify_image, partly
from captau.datasets.schema import Card


@pytest.mark.parametrize(
    ("dataset", "image_id", "place"),
    [
        ("thumb", "391895", "val2014/COCO_val2014_000000391895.jpg"),
        ("thumb", "391895", "train2014/COCO_train2014_000000391895.jpg"),
        ("capeval1k", "391895", "COCO_val2014_000000391895.jpg"),
        ("capeval1k", "391895", "val2017/000000391895.jpg"),
        ("composite_coco", "391895", "coco/val2014/COCO_val2014_000000391895.jpg"),
        ("flickr8k_expert", "1_a.jpg", "Flickr8k_Dataset/1_a.jpg"),
        ("flickr8k_expert", "1_a.jpg", "Flicker8k_Dataset/1_a.jpg"),
        ("flickr8k_expert", "1_a.jpg", "Images/1_a.jpg"),
        ("flickr8k_expert", "1_a.jpg", "flickr8k/Flickr8k_Dataset/1_a.jpg"),
        ("composite_30k", "12.jpg", "flickr30k-images/12.jpg"),
        ("pascal50s", "2008_005747.jpg", "VOC2012/JPEGImages/2008_005747.jpg"),
        ("pascal50s", "2008_005747.jpg", "2008_005747.jpg"),
        ("pascal50s", "2008_005747", "VOC2012/JPEGImages/2008_005747.jpg"),
        ("mine", "a.png", "mine/a.png"),
        ("mine", "a", "mine/a.png"),
    ],
)
def test_usual_places(tmp_path: Path, dataset: str, image_id: str, place: str) -> None:
    path = tmp_path / place
    assert find_image(image_id, dataset, tmp_path) is None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert find_image(image_id, dataset, tmp_path) == path
    assert find_image(f"{image_id}0", dataset, tmp_path) is None


def test_an_image_has_one_name_in_all_datasets() -> None:
    """COCO's number, Flickr's number, or the name without its ending."""
    names = {
        "COCO_val2014_000000391895.jpg": "391895",
        "val2017/000000391895.jpg": "391895",
        "391895": "391895",
        "1000268201_693b08cb0e.jpg": "1000268201",
        "2008_005747.jpg": "2008_005747",
        "a.b": "a.b",
    }
    assert {name: identify_image(name) for name in names} == names


def test_a_dataset_is_partly_there_where_some_but_not_all_files_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card("made", "Made", "1", "", "", "", partial=True)
    monkeypatch.setattr(source_files, "used", lambda root, card: ["a", "b"])
    found = {}
    for lacking in ([], ["a"], ["a", "b"]):
        monkeypatch.setattr(source_files, "missing", lambda root, card, lacking=lacking: lacking)
        found[len(lacking)] = partly(tmp_path, card)
    assert found == {0: False, 1: True, 2: False}


def test_an_image_id_does_not_climb(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").touch()
    assert find_image("../secret.jpg", "mine", tmp_path / "images") is None
