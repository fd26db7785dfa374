"""The shared split: fixed for good, image-disjoint, and equal in every dataset that has the image."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import captau
from captau.datasets.splits import BOUNDS, split_of

# Written down once: another digest is another split, and no result could be compared any more.
DIGESTS = {
    "demo": "3a9ab5df37634c94",
    "flickr8k_expert": "49dae8b0d0728ad8",
    "thumb": "6a54fc3728672e9b",
    "capeval1k": "60914545702b9f64",
    "pascal50s": "cdec9197c84a34a1",
}


def digest(image_ids):
    """Of "id split" lines, sorted."""
    lines = sorted(f"{i} {split_of(i)}" for i in set(image_ids))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def test_made_up_ids_have_the_split_that_was_written_down():
    ids = [str(n) for n in range(1000)] + [f"{n}.jpg" for n in range(1000)]
    assert digest(ids) == "4394fa1ae40b2847"
    assert [split_of(i) for i in ("391895", "1056338697_4f7d7ce270.jpg")] == ["train", "train"]


def test_shares_are_64_16_20():
    counts = Counter(split_of(f"image {n}") for n in range(20_000))
    assert counts["train"] / 20_000 == pytest.approx(0.64, abs=0.01)
    assert counts["validation"] / 20_000 == pytest.approx(0.16, abs=0.01)
    assert counts["test"] / 20_000 == pytest.approx(0.20, abs=0.01)


@given(st.text())
def test_every_id_has_one_split(image_id):
    assert split_of(image_id) == split_of(image_id)
    assert split_of(image_id) in dict(BOUNDS)


@pytest.mark.parametrize("name", ["demo", "flickr8k_expert", "thumb", "capeval1k", "pascal50s"])
def test_a_dataset_has_the_split_that_was_written_down(name, request):
    root = None if name == "demo" else request.getfixturevalue("data_root")
    items = captau.load(name, root).items
    assert digest(items["image_id"]) == DIGESTS[name]
    assert list(items["split"]) == [split_of(i) for i in items["image_id"]]
    assert items.groupby("image_id")["split"].nunique().max() == 1
