"""Cosines in a joint space, worked by hand, and rows that find no embedding."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from captau.metrics.base import Unavailability, UnavailableError
from captau.metrics.neural.vse_cosine import VseCosine
from captau.metrics.registry import metric
from tests.conftest import says

from .test_embeddings import write

ITEMS = pd.DataFrame(
    {
        "item_id": ["x1", "x2", "x3"],
        "image_id": ["1.jpg", "2.jpg", "1.jpg"],
        "caption": ["a dog", "a cat", "a cat"],
    }
)


def made(folder, images, texts, image_ids=("1.jpg", "2.jpg"), **keys):
    keys = keys or {"caption": ["a dog", "a cat"]}
    return VseCosine(
        images=str(write(folder / "images.npz", images, image_id=list(image_ids))),
        texts=str(write(folder / "texts.parquet", texts, **keys)),
    )


def test_cosines_worked_by_hand(tmp_path):
    # (3, 4)·(4, 3) / 25 = 0.96; (2, 0)·(1, 1) / (2 √2) = √½; (3, 4)·(1, 1) / (5 √2) = 7 / (5 √2).
    one = made(tmp_path, [[3, 4], [2, 0]], [[4, 3], [1, 1]])
    expected = [0.96, math.sqrt(0.5), 7 / (5 * math.sqrt(2))]
    np.testing.assert_allclose(one.score(ITEMS), expected, rtol=1e-7)


@pytest.mark.parametrize(
    "keys",
    [
        {"item_id": ["x3", "x2", "x1"]},
        {"image_id": ["1.jpg", "2.jpg", "1.jpg"], "caption": ["a cat", "a cat", "a dog"]},
    ],
    ids=["item", "pair"],
)
def test_texts_may_be_named_by_item_or_beside_their_image(keys, tmp_path):
    # One caption, a cat, with another embedding beside each image.
    one = made(tmp_path, [[1, 0], [0, 1]], [[-1, 0], [1, 1], [0, 1]], **keys)
    np.testing.assert_allclose(one.score(ITEMS), [0, math.sqrt(0.5), -1], atol=1e-7)


def test_images_may_be_named_by_item(tmp_path):
    images = write(tmp_path / "i.npz", [[1, 0], [0, 1], [0, -1]], item_id=["x1", "x2", "x3"])
    texts = write(tmp_path / "t.npz", [[1, 0], [0, 1]], caption=["a dog", "a cat"])
    one = metric(f"vse_cosine(images='{images}',texts='{texts}')")
    assert one.score(ITEMS).tolist() == [1, 1, -1]


finite = st.floats(-1e3, 1e3, width=32).filter(lambda x: abs(x) > 1e-3)
pairs = arrays(np.float32, (2, 3), elements=finite)


@settings(max_examples=30)
@given(images=pairs, texts=pairs, factor=st.floats(0.01, 100))
def test_laws(images, texts, factor, tmp_path_factory):
    """Within −1 and 1, the same in any order and at any length, and 1 for equal vectors."""
    folder = tmp_path_factory.mktemp("vse")
    one = made(folder, images, texts)
    scores = one.score(ITEMS)
    assert np.all(np.abs(scores) <= 1)
    np.testing.assert_array_equal(one.score(ITEMS[::-1]), scores[::-1])
    np.testing.assert_allclose(made(folder, images, texts * factor).score(ITEMS), scores, atol=1e-6)
    np.testing.assert_allclose(made(folder, images, images).score(ITEMS)[:2], 1, atol=1e-6)


def test_two_spaces(tmp_path):
    with says("texts.parquet", "texts have 3 dimensions, but images 2", "two spaces"):
        made(tmp_path, [[3, 4], [2, 0]], [[4, 3, 1], [1, 1, 1]]).score(ITEMS)


def test_an_item_without_an_embedding(tmp_path):
    with says("images.npz", "no embedding for 2.jpg (1 of 3 items lack one)"):
        made(tmp_path, [[3, 4]], [[4, 3], [1, 1]], image_ids=["1.jpg"]).score(ITEMS)
    with says("texts.parquet", "no embedding for a cat (2 of 3 items lack one)"):
        made(tmp_path, [[3, 4], [2, 0]], [[4, 3]], caption=["a dog"]).score(ITEMS)


def test_embeddings_without_the_keys_they_need(tmp_path):
    images = write(tmp_path / "i.npz", [[1, 0]], caption=["a dog"])
    with says("i.npz", "are named by caption; item_id, or image_id is needed"):
        VseCosine(str(images), str(images)).score(ITEMS)
    one = made(tmp_path, [[3, 4], [2, 0]], [[4, 3], [1, 1]])
    with says("images.npz", "the items to score have no image_id"):
        one.score(ITEMS[["item_id", "caption"]])


def test_files_that_are_not_given_are_looked_for_in_the_weights_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    one = metric("vse_cosine")
    assert one.find_unavailability(ITEMS) == Unavailability(
        "needs a file",
        f"give images=FILE, or put it at {tmp_path / 'vse_cosine_images.npz'} (its layout: "
        f"docs/metrics_from_files.md)",
    )
    with pytest.raises(UnavailableError, match=r"give images=FILE"):
        one.score(ITEMS)
    before = one.signature
    write(tmp_path / "vse_cosine_images.npz", [[3, 4], [2, 0]], image_id=["1.jpg", "2.jpg"])
    write(tmp_path / "vse_cosine_texts.parquet", [[4, 3], [1, 1]], caption=["a dog", "a cat"])
    assert one.find_unavailability(ITEMS) is None
    assert one.score(ITEMS)[0] == pytest.approx(0.96, abs=1e-7)
    assert one.signature != before
