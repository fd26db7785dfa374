"""The combination of metrics: planted weights, invariances, and data that cannot be trained on."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from captau.datasets.registry import load
from captau.metrics.learned.combination import Combination, derive_preferences
from captau.metrics.learned.common.recipe import Examples, make_recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.rows import Rows
from captau.metrics.text.spice import models as spice_models
from tests.conftest import AWKWARD, says

METRICS = ("bleu_1", "rouge_1", "rouge_l")
#: Of the metrics, the last of which is worth nothing.
PLANTED = np.array([9.0, 3.0, 0.0])
NO_PAIRS = np.empty((0, 2), dtype=np.intp)


@pytest.fixture(scope="module")
def rows():
    """The demo's captions, as three datasets that share no image."""
    items = load("demo").items
    number = items.groupby("image_id", sort=False).ngroup()
    return Rows(items.assign(dataset=[f"set{n % 3}" for n in number]))


def within(rows):
    """All pairs of captions of an image, each once."""
    groups = rows.frame.reset_index(drop=True).groupby("image_id").indices.values()
    return np.array([(a, b) for g in groups for a in g for b in g if a < b])


def drawn(rows, n=30_000, seed=0):
    """Preferences drawn from the model with the planted weights."""
    rng = np.random.default_rng(seed)
    value = Combination(METRICS).compute_scores(rows) @ PLANTED
    pairs = within(rows)
    pairs = pairs[rng.integers(len(pairs), size=n)]
    first = rng.random(n) < 1 / (1 + np.exp(value[pairs[:, 1]] - value[pairs[:, 0]]))
    pairs = np.where(first[:, None], pairs, pairs[:, ::-1])
    return Examples(rows, tuple(np.empty(0) for _ in range(len(rows))), pairs)


def rated(rows, values):
    return Examples(rows, tuple(np.array([v]) for v in values), NO_PAIRS)


def test_planted_weights_are_found(rows):
    """Each dataset counts the same, and the drawn preferences are many: two standard errors are 0.5."""
    model = Combination(METRICS, strengths=(0.0,)).fit(
        drawn(rows), drawn(rows).take([]), TrainingSession(0)
    )
    np.testing.assert_allclose(model.weights, PLANTED, atol=0.7)


def test_a_metric_that_people_contradict_has_no_weight(rows):
    first, _, last = Combination(METRICS).compute_scores(rows).T
    examples = rated(rows, first - 0.5 * last)
    model = Combination(METRICS, strengths=(0.0,)).fit(
        examples, examples.take([]), TrainingSession(0)
    )
    assert model.weights[0] > 0
    assert model.weights[2] == 0


def test_equal_weights_in_the_limit(rows):
    model = Combination(METRICS, strengths=(1e6,)).fit(
        drawn(rows), drawn(rows).take([]), TrainingSession(0)
    )
    table = Combination(METRICS).compute_scores(rows)
    sets = rows.frame["dataset"].to_numpy()
    scales = np.zeros(len(METRICS))
    for name in set(sets):
        pairs = drawn(rows).take(np.flatnonzero(sets == name)).preferences
        inside = table[sets == name]
        differences = inside[pairs[:, 0]] - inside[pairs[:, 1]]
        scales += np.sqrt((differences**2).mean(axis=0)) / 3
    scaled = model.weights * scales
    np.testing.assert_allclose(scaled, scaled.mean(), rtol=1e-4)


def test_the_order_of_rows_does_not_matter(rows):
    examples = drawn(rows, 2000)
    order = np.random.default_rng(1).permutation(len(rows))
    first = Combination(METRICS).fit(examples, examples.take([]), TrainingSession(0))
    second = Combination(METRICS).fit(examples.take(order), examples.take([]), TrainingSession(0))
    np.testing.assert_allclose(first.weights, second.weights, rtol=1e-4, atol=1e-4)
    shuffled = Rows(rows.frame.iloc[order])
    np.testing.assert_allclose(first.predict(shuffled), first.predict(rows)[order], rtol=1e-12)
    one_by_one = [first.predict(Rows(rows.frame.iloc[[i]]))[0] for i in range(5)]
    np.testing.assert_allclose(one_by_one, first.predict(rows)[:5], rtol=1e-12)


def test_ratings_count_by_their_order_within_an_image(rows):
    """Neither an image's level nor a dataset's scale moves the weights."""
    rng = np.random.default_rng(0)
    values = Combination(METRICS).compute_scores(rows) @ PLANTED + rng.normal(size=len(rows))
    image = rows.frame.groupby("image_id", sort=False).ngroup().to_numpy()
    moved = 2 * values + 10 * rng.normal(size=image.max() + 1)[image]
    # The strength is chosen by pooled coefficients, which the levels do move.
    recipe = Combination(METRICS, strengths=(0.01,))
    first, second = (
        recipe.fit(rated(rows, v), rated(rows, v).take([]), TrainingSession(0))
        for v in (values, moved)
    )
    np.testing.assert_array_equal(first.weights, second.weights)


def test_ratings_imply_preferences_within_an_image():
    frame = {"image_id": list("aabbb"), "caption": list("12345"), "dataset": ["d"] * 5}
    ratings = tuple(np.array(r, dtype=float) for r in ([1], [0], [1, 0], [0.5], []))
    found = derive_preferences(Examples(Rows(pd.DataFrame(frame)), ratings, np.array([[4, 2]])))
    assert found.tolist() == [[4, 2], [0, 1]]


def test_a_saved_rater_is_the_same(rows, tmp_path):
    recipe = make_recipe("combination", {"metrics": list(METRICS), "roots": ["rouge_1"]})
    model = recipe.fit(drawn(rows, 2000), drawn(rows, 2).take([]), TrainingSession(0))
    model.save(tmp_path)
    np.testing.assert_array_equal(recipe.load(tmp_path).predict(rows), model.predict(rows))
    path = tmp_path / "combination.json"
    assert set(json.loads(path.read_text())["weights"]) == set(METRICS)
    with says(str(path), "of other metrics", "train the rater again"):
        Combination(("bleu_1", "bleu_2", "rouge_l")).load(tmp_path)
    path.write_text("{")
    with says(str(path), "damaged"):
        recipe.load(tmp_path)
    path.unlink()
    with says(str(path), "cannot be read"):
        recipe.load(tmp_path)


def test_any_caption_has_a_score(rows, tmp_path):
    model = Combination(METRICS).fit(drawn(rows, 2000), drawn(rows, 2).take([]), TrainingSession(0))
    found = model.predict(Rows.from_items([{"caption": c, "references": AWKWARD} for c in AWKWARD]))
    assert np.isfinite(found).all()


def test_the_strength_is_chosen_by_the_dataset_left_out(rows):
    """Where two datasets reward opposite metrics, what is learnt on one misleads on the other."""
    table = Combination(METRICS).compute_scores(rows)
    sets = rows.frame["dataset"].to_numpy()
    noise = np.random.default_rng(0).normal(scale=0.05, size=len(rows))
    opposed = np.select([sets == "set0", sets == "set1"], [table[:, 0], table[:, 2]], table[:, 1])
    session = TrainingSession(0)
    examples = rated(rows, opposed + noise)
    model = Combination(METRICS, strengths=(0.0, 10.0)).fit(examples, examples.take([]), session)
    assert model.strength == 10.0
    assert [row["best"] for row in session.history] == [False, True]
    assert session.history[0]["validation"] < session.history[1]["validation"]


@pytest.mark.parametrize(("weights", "chosen"), [((1, 0, 0), 0.0), ((1, 1, 1), 1e6)])
def test_of_one_dataset_the_validation_rows_choose(rows, weights, chosen):
    """Trained on what rewards the first metric alone, and chosen by what rewards it alone or all."""
    alone = Rows(rows.frame.assign(dataset="d"))
    table = Combination(METRICS).compute_scores(alone)
    noise = np.random.default_rng(0).normal(scale=0.02, size=len(rows))
    examples = rated(alone, table[:, 0] + noise)
    validation = rated(alone, table / table.std(axis=0) @ np.array(weights, dtype=float))
    recipe = Combination(METRICS, strengths=(0.0, 1e6))
    assert recipe.fit(examples, validation, TrainingSession(0)).strength == chosen


def test_of_several_datasets_the_validation_rows_are_learnt_from(rows):
    examples = drawn(rows, 2000)
    first, second = np.arange(0, len(rows) // 2), np.arange(len(rows) // 2, len(rows))
    recipe = Combination(METRICS, strengths=(0.01,))
    parts = recipe.fit(examples.take(first), examples.take(second), TrainingSession(0))
    inside = [np.isin(examples.preferences, half).all(axis=1) for half in (first, second)]
    whole = Examples(rows, examples.ratings, examples.preferences[inside[0] | inside[1]])
    together = recipe.fit(whole, examples.take([]), TrainingSession(0))
    np.testing.assert_allclose(parts.weights, together.weights, rtol=1e-4, atol=1e-4)


def test_data_and_options_that_cannot_be_trained_on_are_refused(rows):
    flat = rated(rows, np.ones(len(rows)))
    with says("dataset set0: no caption is rated higher than another of its image"):
        Combination(METRICS).fit(flat, flat, TrainingSession(0))
    with says("cider depends on the other rows"):
        Combination(("cider",)).fit(flat, flat, TrainingSession(0))
    with says("bertscore", "depends on the other rows", "padding=ignore"):
        Combination(("bertscore",)).fit(flat, flat, TrainingSession(0))
    with says("rater.metrics"):
        Combination(("bleu_1", "bleu_1")).fit(flat, flat, TrainingSession(0))
    with says("rater.roots names rouge_l"):
        Combination(("bleu_1",), roots=("rouge_l",)).fit(flat, flat, TrainingSession(0))
    with says("rater.strengths"):
        Combination(METRICS, strengths=()).fit(flat, flat, TrainingSession(0))
    alike = Examples(
        Rows(rows.frame.assign(caption="a dog", references=[("a dog",)] * len(rows))),
        flat.ratings,
        within(rows),
    )
    with says("no metric differs between the preferred captions and the others"):
        Combination(METRICS).fit(alike, alike, TrainingSession(0))


def test_spices_parser_is_downloaded_only_where_that_was_asked_for(rows, monkeypatch, tmp_path):
    flat = rated(rows, np.ones(len(rows)))
    with_scenes = Combination(("bleu_1", "spice_object"))

    def fetch(root):
        raise RuntimeError(f"downloads into {root.name}")

    monkeypatch.setattr(spice_models, "fetch_jars", fetch)
    monkeypatch.setenv("CAPTAU_SPICE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))  # where no caption is parsed yet
    monkeypatch.delenv("CAPTAU_DOWNLOAD", raising=False)
    with says(
        *("spice_object needs SPICE's parser, 387 MB", "weights.download=true"),
        "captau data fetch dataset=spice_models",
    ):
        with_scenes.fit(flat, flat, TrainingSession(0))
    monkeypatch.setenv("CAPTAU_DOWNLOAD", "1")
    with pytest.raises(RuntimeError, match="downloads into jars"):
        with_scenes.fit(flat, flat, TrainingSession(0))
