"""A trained rater as a metric, and the examples that raters learn from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from captau.datasets.errors import InputError
from captau.metrics.learned.common import recipe as recipes
from captau.metrics.learned.common.recipe import (
    Examples,
    Model,
    Recipe,
    correlate_with_ratings,
    make_recipe,
    register_recipe,
)
from captau.metrics.learned.rater import CARD_FILE, RaterCard, find_rater_folder
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import says


@pytest.fixture(scope="module", autouse=True)
def _words():
    """A recipe that counts words, `factor` times."""
    recipes.recipe_names()

    @register_recipe("words")
    @dataclass(frozen=True)
    class Words(Recipe):
        factor: float = 1.0

        source_options = ("texts",)
        texts: str = "words"

        def fit(self, train, validation, session):
            return Counting(self.factor)

        def load(self, folder: Path) -> Model:
            return Counting(json.loads((folder / "model.json").read_text()))

    yield
    del recipes._RECIPES["words"]


class Counting(Model):
    def __init__(self, factor):
        self.factor = factor

    def predict(self, rows):
        return np.array([self.factor * len(c.split()) for c in rows.captions])

    def save(self, folder):
        (folder / "model.json").write_text(json.dumps(self.factor))


@pytest.fixture
def folder(tmp_path) -> Path:
    there = tmp_path / "run" / "seed-0"
    there.mkdir(parents=True)
    Counting(2.0).save(there)
    RaterCard("words", {"factor": 2.0}, 0, ("a.jpg", "b.jpg"), "f", {}).write(there)
    return there


ROWS = [{"image_id": "a.jpg", "caption": "a dog"}, {"image_id": "c.jpg", "caption": "one dog runs"}]


def test_it_scores_as_the_model_does(folder):
    for path in (folder, folder.parent):  # the run's folder will do where it has one rater
        assert metric(f"rater(path='{path}')").score(ROWS).tolist() == [4.0, 6.0]


def test_its_name_is_what_results_call_it(folder):
    assert metric(f"rater(path='{folder}',name=Mine)").spec == "Mine"
    spec = metric(f"rater(path='{folder}')").spec
    assert metric(spec) == metric(f"rater(path='{folder}')")


def test_the_signature_follows_the_weights(folder):
    one = metric(f"rater(path='{folder}')")
    before = one.signature
    (folder / "training.csv").write_text("stage\n")  # beside the rater, and no part of it
    assert one.signature == before
    Counting(3.0).save(folder)
    assert one.signature != before


def test_images_of_its_training_are_refused_or_marked(folder):
    one = metric(f"rater(path='{folder}')")
    assert one.training_overlap_note(["c.jpg", "d.jpg"]) is None
    with says(
        "was trained on, or chosen by, 1 of the 2 images", "protocol.split=test", "seen=mark"
    ):
        one.training_overlap_note(["b.jpg", "c.jpg", "c.jpg"])
    marked = metric(f"rater(path='{folder}',seen=mark)")
    assert "1 of the 2 images" in (marked.training_overlap_note(["b.jpg", "c.jpg"]) or "")


def test_faults_of_the_folder(folder, tmp_path):
    with says("no such folder", "captau train"):
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
    for text in ("{", "[]", '{"format": 1}', '{"format": 1, "images": 3}'):
        (folder / CARD_FILE).write_text(text)
        with says(str(folder / CARD_FILE), "not the card of a rater"):
            metric(f"rater(path='{folder}')").score(ROWS)
    whole = {
        "format": 1,
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
    (folder / CARD_FILE).write_text('{"format": 99}')
    with says("another version of captau"):
        metric(f"rater(path='{folder}')").score(ROWS)


def test_features_from_elsewhere_are_named_by_source(folder):
    with says("images=x.npz", "its sources are: texts"):
        metric(f"rater(path='{folder}',images=x.npz)").score(ROWS)


def examples(ratings, preferences=()) -> Examples:
    frame = pd.DataFrame(
        {
            "image_id": [f"{i // 2}.jpg" for i in range(len(ratings))],
            "item_id": [f"i{i}" for i in range(len(ratings))],
            "caption": ["a dog"] * len(ratings),
        }
    )
    pairs = np.array(list(preferences), dtype=np.intp).reshape(-1, 2)
    return Examples(Rows(frame), tuple(np.array(r, dtype=float) for r in ratings), pairs)


def test_taking_and_joining_examples():
    whole = examples([[0.1], [0.2, 0.4], [], [1.0]], [(0, 1), (3, 2)])
    part = whole.take(np.array([3, 2]))
    assert part.rows.frame["item_id"].tolist() == ["i3", "i2"]
    assert part.preferences.tolist() == [[0, 1]]
    both = Examples.join([whole, part])
    assert len(both) == 6
    assert both.preferences.tolist() == [[0, 1], [3, 2], [4, 5]]
    np.testing.assert_allclose(both.mean_ratings, [0.1, 0.3, np.nan, 1.0, 1.0, np.nan])
    assert len(whole.select_rated()) == 3


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=3), min_size=3))
def test_agreement_is_scipys_on_repeated_rows(ratings):
    rated = examples(ratings)
    predicted = np.arange(len(ratings), dtype=float) % 4
    repeated = [(p, r) for p, row in zip(predicted, ratings, strict=True) for r in row]
    expected = stats.kendalltau(*zip(*repeated, strict=True), variant="c").statistic
    found = correlate_with_ratings(predicted, rated, "tau_c")
    assert found == pytest.approx(expected, nan_ok=True)
    assert np.isnan(correlate_with_ratings(np.zeros(len(ratings)), rated, "spearman"))


def test_recipes_say_what_is_wrong():
    with says("factor", "unknown option of rater words"):
        make_recipe("words", {"factr": 1})
    with pytest.raises(ValueError, match="registered twice"):
        register_recipe("words")(type("Again", (Recipe,), {}))
    with pytest.raises(InputError):
        make_recipe("words", {"factor": None})
