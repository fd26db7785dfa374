"""Captioned images from a file: long image names, images that are tested on, and faulty files."""

from __future__ import annotations

import pandas as pd

from captau.metrics.learned.common.captioned_images import load_captioned_images
from captau.metrics.learned.common.training import TrainingSession
from tests.conftest import says


def test_a_file_is_split_without_tested_and_validation_images(sides, tmp_path):
    path = tmp_path / "captions.csv"
    train, validation = sides["train"], sides["validation"]
    ids = ["a", "a", "b", "c", validation.image_ids[0], "COCO_val2014_000000391895.jpg"]
    table = pd.DataFrame({"image_id": ids, "caption": list("uvwxyz")})
    table.to_csv(path, index=False)
    session = TrainingSession(0, test_image_ids=["391895"])  # as datasets call it
    loaded = load_captioned_images(str(path), train, validation, session)
    assert sorted([*loaded[0], *loaded[1]]) == ["a", "b", "c"]
    assert session.extra_image_ids == {"a", "b", "c"}
    assert (loaded[0] | loaded[1])["a"] == ("u", "v")
    with says("no column caption"):
        table[["image_id"]].to_csv(path, index=False)
        load_captioned_images(str(path), train, validation, session)
    with says("no such file of captions"):
        load_captioned_images("x.csv", train, validation, session)
