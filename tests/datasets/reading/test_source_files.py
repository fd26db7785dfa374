"""Image files under the names and in the folders that their archives give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from captau.datasets.reading.source_files import find_image


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


def test_an_image_id_does_not_climb(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").touch()
    assert find_image("../secret.jpg", "mine", tmp_path / "images") is None
