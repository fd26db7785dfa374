"""Similar images by hand: of region features, and from files of similarities or embeddings."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

from captau.metrics.learned.umic.similar_images import find_nearest_images, load_similar_images
from tests.conftest import says

CAPTIONED = {"60623": ("a dog",), "2": ("a cat",), "3": ("a kite",)}


def test_nearest_images_by_hand():
    """Cosines with the first: 0.8, 0, 1 (a longer vector), −1; itself is left out."""
    means = np.array([[1, 0], [0.8, 0.6], [0, 1], [5, 0], [-1, 0]])
    found = find_nearest_images(means, list("abcde"))
    assert found["a"] == ["d", "b", "c"]
    assert all(len(near) == 3 and image not in near for image, near in found.items())
    assert find_nearest_images(means[:2], list("ab")) == {"a": ["b"], "b": ["a"]}


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_same_similarities_from_three_kinds_of_files(tmp_path):
    """An image is not similar to itself, and the most similar comes first; COCO's file names are its ids."""
    lists = {"60623": [60623, 3, 2], "2": ["COCO_val2014_000000060623.jpg"], "3": []}
    table = "image_id,similar_image_id,similarity\n60623,60623,1\n60623,2,0.5\n60623,3,0.7\n2,60623,0.1\n"
    ordered = "image_id\tsimilar_image_id\nCOCO_val2014_000000060623\t3\n60623\t2\n2\t60623\n"
    loaded = [
        load_similar_images(write(tmp_path, name, text), CAPTIONED)
        for name, text in (("a.json", json.dumps(lists)), ("b.csv", table), ("c.tsv", ordered))
    ]
    assert loaded[0].pop("3") == []
    assert loaded == [{"60623": ["3", "2"], "2": ["60623"]}] * 3


def test_embeddings_of_the_captioned_images_are_compared_by_their_cosine(tmp_path):
    """The image that has no caption is nobody's neighbour, near as it is."""
    path = tmp_path / "clip.npz"
    vectors = np.array([[1, 0], [0, 1], [2, 1], [1, 0.1]])
    np.savez(path, image_id=np.array(["60623", "2", "3", "9"]), embedding=vectors)
    similar = load_similar_images(path, CAPTIONED)
    assert similar == {"60623": ["3", "2"], "2": ["3", "60623"], "3": ["60623", "2"]}


def test_images_that_a_file_lacks_are_counted(tmp_path, caplog):
    path = write(tmp_path, "a.json", json.dumps({"2": ["3"]}))
    with caplog.at_level(logging.WARNING):
        load_similar_images(path, CAPTIONED)
    assert "no similar images of 2 of the 3 captioned images" in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[1]", "an object is expected"),
        ("a.json", '{"2": "3"}', "image '2': '3' is not a list of image ids"),
        ("a.json", '{"other": ["3"]}', "none of the 3 captioned images is in it, such as '60623'"),
        ("a.csv", "image_id,other\n2,3\n", "no column 'similar_image_id'"),
        ("a.csv", "image_id,similar_image_id,similarity\n2,3,much\n", "a.csv:2"),
        ("a.txt", "", "end in .json, .csv"),
    ],
)
def test_faulty_files_of_similar_images_are_refused(tmp_path, name, text, message):
    path = write(tmp_path, name, text)
    with says(str(path), message):
        load_similar_images(path, CAPTIONED)
    with says("no such file of similar images"):
        load_similar_images(tmp_path / "nowhere.json", CAPTIONED)
