"""The metric `rater`: a trained rater's scores, name, signature, training images and damaged folders."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from captau.metrics.learned.common import recipe as recipes
from captau.metrics.learned.common.recipe import RaterModel, Recipe, register_recipe
from captau.metrics.learned.rater import CARD_FILE, RaterCard, find_rater_folder
from captau.metrics.registry import metric
from tests.conftest import says


@pytest.fixture(scope="module", autouse=True)
def _word_counter():
    """A recipe that counts words, `factor` times."""
    recipes.recipe_names()

    @register_recipe("words")
    @dataclass(frozen=True)
    class WordCountRecipe(Recipe):
        factor: float = 1.0

        source_options = ("texts",)
        texts: str = "words"

        def fit(self, train, validation, session):
            return WordCounter(self.factor)

        def load(self, folder: Path) -> RaterModel:
            return WordCounter(json.loads((folder / "model.json").read_text()))

    yield
    del recipes._RECIPES["words"]


class WordCounter(RaterModel):
    def __init__(self, factor):
        self.factor = factor

    def predict(self, rows):
        return np.array([self.factor * len(c.split()) for c in rows.captions])

    def save(self, folder):
        (folder / "model.json").write_text(json.dumps(self.factor))


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "run" / "seed-0"
    folder.mkdir(parents=True)
    WordCounter(2.0).save(folder)
    RaterCard("words", {"factor": 2.0}, 0, ("a.jpg", "b.jpg"), "f", {}).write(folder)
    return folder


ROWS = [{"image_id": "a.jpg", "caption": "a dog"}, {"image_id": "c.jpg", "caption": "one dog runs"}]


def test_a_rater_scores_as_its_model_does(folder):
    for path in (folder, folder.parent):  # the run's folder will do where it has one rater
        assert metric(f"rater(path='{path}')").score(ROWS).tolist() == [4.0, 6.0]


def test_a_given_name_is_the_spec_in_results(folder):
    assert metric(f"rater(path='{folder}',name=Mine)").spec == "Mine"
    spec = metric(f"rater(path='{folder}')").spec
    assert metric(spec) == metric(f"rater(path='{folder}')")


def test_the_signature_changes_with_the_weights(folder):
    rater = metric(f"rater(path='{folder}')")
    before = rater.signature
    (folder / "training.csv").write_text("stage\n")  # beside the rater, and no part of it
    assert rater.signature == before
    WordCounter(3.0).save(folder)
    assert rater.signature != before


def test_training_images_are_refused_or_marked(folder):
    rater = metric(f"rater(path='{folder}')")
    assert rater.training_overlap_note(["c.jpg", "d.jpg"]) is None
    with says(
        "was trained on, or chosen by, 1 of the 2 images", "protocol.split=test", "seen=mark"
    ):
        rater.training_overlap_note(["b.jpg", "c.jpg", "c.jpg"])
    marked = metric(f"rater(path='{folder}',seen=mark)")
    assert "1 of the 2 images" in (marked.training_overlap_note(["b.jpg", "c.jpg"]) or "")


def test_a_folder_without_one_whole_rater_is_refused(folder, tmp_path):
    with says("is not a folder", "captau train"):
        metric("rater(path=/nowhere/at/all)").score(ROWS)
    empty = tmp_path / "empty"
    empty.mkdir()
    with says(CARD_FILE, "was the training stopped?"):
        metric(f"rater(path='{empty}')").score(ROWS)
    other = folder.parent / "seed-1"
    other.mkdir()
    (other / CARD_FILE).write_bytes((folder / CARD_FILE).read_bytes())
    with says("several raters", "seed-0, seed-1"):
        find_rater_folder(folder.parent)
    for text in ("{", "[]", '{"format": 2}', '{"format": 2, "images": 3}'):
        (folder / CARD_FILE).write_text(text)
        with says(str(folder / CARD_FILE), "not the card of a rater"):
            metric(f"rater(path='{folder}')").score(ROWS)
    whole = {
        "format": 2,
        "rater": "words",
        "options": {},
        "seed": 0,
        "fingerprint": "",
        "about": {},
    }
    for images in ("a.jpg", [1]):
        (folder / CARD_FILE).write_text(json.dumps({**whole, "images": images}))
        with says("not the card of a rater"):
            metric(f"rater(path='{folder}')").score(ROWS)


@pytest.mark.parametrize(("number", "age"), [(1, "former"), (99, "later")])
def test_a_folder_of_another_version_is_refused_with_its_name_and_a_remedy(folder, number, age):
    (folder / CARD_FILE).write_text(json.dumps({"format": number}))
    with says(
        f"{folder}: a rater of a {age} version of captau", "train it again with captau train"
    ):
        metric(f"rater(path='{folder}')").score(ROWS)


def test_a_source_that_the_recipe_lacks_is_refused(folder):
    with says("images=x.npz", "its sources are: texts"):
        metric(f"rater(path='{folder}',images=x.npz)").score(ROWS)
