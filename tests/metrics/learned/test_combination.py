"""The combination of metrics: planted weights, invariances, and data that cannot be trained on."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.training.rater_training import correlate_for_training
from captau.datasets.errors import InputError
from captau.datasets.registry import load
from captau.metrics.learned import combination
from captau.metrics.learned.combination import (
    Combination,
    CombinationModel,
    ScoredExamples,
    derive_preferences,
    fit_weights,
)
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import make_recipe
from captau.metrics.rows import Rows
from captau.metrics.text.spice import models as spice_models
from tests.conftest import AWKWARD, says
from tests.metrics.learned.demo_ratings import start_session

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
        drawn(rows), drawn(rows).take([]), start_session(0)
    )
    np.testing.assert_allclose(model.weights, PLANTED, atol=0.7)


def test_a_metric_that_people_contradict_has_no_weight(rows):
    first, _, last = Combination(METRICS).compute_scores(rows).T
    examples = rated(rows, first - 0.5 * last)
    model = Combination(METRICS, strengths=(0.0,)).fit(
        examples, examples.take([]), start_session(0)
    )
    assert model.weights[0] > 0
    assert model.weights[2] == 0


def test_equal_weights_in_the_limit(rows):
    model = Combination(METRICS, strengths=(1e6,)).fit(
        drawn(rows), drawn(rows).take([]), start_session(0)
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
    first = Combination(METRICS).fit(examples, examples.take([]), start_session(0))
    second = Combination(METRICS).fit(examples.take(order), examples.take([]), start_session(0))
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
        recipe.fit(rated(rows, v), rated(rows, v).take([]), start_session(0))
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
    model = recipe.fit(drawn(rows, 2000), drawn(rows, 2).take([]), start_session(0))
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
    model = Combination(METRICS).fit(drawn(rows, 2000), drawn(rows, 2).take([]), start_session(0))
    found = model.predict(Rows.from_items([{"caption": c, "references": AWKWARD} for c in AWKWARD]))
    assert np.isfinite(found).all()


def test_the_strength_is_chosen_by_the_dataset_left_out(rows):
    """Where two datasets reward opposite metrics, what is learnt on one misleads on the other."""
    table = Combination(METRICS).compute_scores(rows)
    sets = rows.frame["dataset"].to_numpy()
    noise = np.random.default_rng(0).normal(scale=0.05, size=len(rows))
    opposed = np.select([sets == "set0", sets == "set1"], [table[:, 0], table[:, 2]], table[:, 1])
    session = start_session(0)
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
    assert recipe.fit(examples, validation, start_session(0)).strength == chosen


def test_of_several_datasets_the_validation_rows_are_learnt_from(rows):
    examples = drawn(rows, 2000)
    first, second = np.arange(0, len(rows) // 2), np.arange(len(rows) // 2, len(rows))
    recipe = Combination(METRICS, strengths=(0.01,))
    parts = recipe.fit(examples.take(first), examples.take(second), start_session(0))
    inside = [np.isin(examples.preferences, half).all(axis=1) for half in (first, second)]
    whole = Examples(rows, examples.ratings, examples.preferences[inside[0] | inside[1]])
    together = recipe.fit(whole, examples.take([]), start_session(0))
    np.testing.assert_allclose(parts.weights, together.weights, rtol=1e-4, atol=1e-4)


def test_data_and_options_that_cannot_be_trained_on_are_refused(rows):
    flat = rated(rows, np.ones(len(rows)))
    with says("dataset set0: no caption is rated higher than another of its image"):
        Combination(METRICS).fit(flat, flat, start_session(0))
    with says("cider depends on the other rows"):
        Combination(("cider",)).fit(flat, flat, start_session(0))
    with says("bertscore", "depends on the other rows", "padding=ignore"):
        Combination(("bertscore",)).fit(flat, flat, start_session(0))
    with says("rater.metrics"):
        Combination(("bleu_1", "bleu_1")).fit(flat, flat, start_session(0))
    with says("rater.roots names rouge_l"):
        Combination(("bleu_1",), roots=("rouge_l",)).fit(flat, flat, start_session(0))
    with says("rater.strengths"):
        Combination(METRICS, strengths=()).fit(flat, flat, start_session(0))
    alike = Examples(
        Rows(rows.frame.assign(caption="a dog", references=[("a dog",)] * len(rows))),
        flat.ratings,
        within(rows),
    )
    with says("no metric differs between the preferred captions and the others"):
        Combination(METRICS).fit(alike, alike, start_session(0))


@pytest.mark.java
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
        with_scenes.fit(flat, flat, start_session(0))
    monkeypatch.setenv("CAPTAU_DOWNLOAD", "1")
    with pytest.raises(RuntimeError, match="downloads into jars"):
        with_scenes.fit(flat, flat, start_session(0))


# By hand


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        # One metric whose differences are ±2: three of four times right, so that σ(2 w) = 3/4.
        ([[2, 2, -2, 2]], math.log(3) / 2),
        # Two datasets count the same, however many pairs they have: σ(2 w) = (3/4 + 1/2) / 2.
        ([[2, 2, -2, 2], [2, -2] * 5], math.log(5 / 3) / 2),
        # More often wrong than right.
        ([[1, -1, -1]], 0.0),
    ],
)
def test_one_weight_by_hand(differences, expected):
    parts = [np.array(d, float)[:, None] for d in differences]
    for strength in (0.0, 5.0):  # a single weight has no deviation from the mean
        assert fit_weights(parts, strength) == pytest.approx([expected], abs=1e-5)


@pytest.mark.parametrize("strength", [0.0, 0.01, 0.2, 2.0])
def test_weights_are_where_the_loss_is_least(strength):
    """The gradient of the loss as the docstring has it is 0 there; a metric without differences has no weight."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(0.3, (1, 2, 0, 3), size=(n, 4)) * [1, 1, 0, 1] for n in (30, 80)]
    weights = fit_weights(parts, strength)
    scales = np.mean([np.sqrt((d**2).mean(0)) for d in parts], axis=0)
    assert weights[2] == 0
    used = [0, 1, 3]
    u = (weights * scales)[used]
    assert (u > 0).all()
    gradient = 2 * strength * (u - u.mean())
    for d in parts:
        x = d[:, used] / scales[used]
        gradient = gradient - (x / (1 + np.exp(x @ u))[:, None]).mean(0) / 2
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_preferences_that_can_all_be_met_have_a_finite_weight():
    (weight,) = fit_weights([np.array([[1.0], [2.0]])], 0.0)
    assert 5 < weight <= 1000
    with says("no metric differs between the preferred captions and the others"):
        fit_weights([np.zeros((3, 2))], 1.0)


def compared(ratings, pairs=(), *, images="aaaa", dataset="d"):
    frame = pd.DataFrame(
        {"image_id": list(images), "caption": list("wxyz"), "dataset": dataset}, index=[5, 6, 7, 8]
    )
    pairs = np.array(list(pairs), dtype=np.intp).reshape(-1, 2)
    return Examples(Rows(frame), tuple(np.array(r, float) for r in ratings), pairs)


def test_preferences_of_ratings_by_hand():
    examples = compared([[0.5], [0.2, 0.4], [0.5], []], [(3, 0)], images="abab")
    assert derive_preferences(examples).tolist() == [[3, 0]]
    examples = compared([[0.5], [0.2, 0.4], [0.5], [0.6]], images="aaab")
    assert derive_preferences(examples).tolist() == [[0, 1], [2, 1]]
    scored = ScoredExamples(examples, np.array([[1.0, 5], [2, 3], [4, 9], [0, 0]]))
    assert scored.differences.tolist() == [[-1, 2], [2, 6]]
    assert derive_preferences(examples).dtype == np.intp


@pytest.mark.parametrize(
    ("predictions", "pairs", "expected"),
    [
        ([3, 2, 2, 1], [(0, 1), (1, 2), (3, 0), (3, 1)], 0.375),
        ([3, 2, 2, 1], [(0, 1), (0, 3)], 1.0),
        ([3, 2, 2, 1], [(1, 2)], 0.5),
        ([3, 2, 2, 1], [(3, 2)], 0.0),
        ([3, 2, 2, 1], [], math.nan),
    ],
)
def test_agreement_without_ratings_is_the_share_of_preferences_met(predictions, pairs, expected):
    examples = compared([[]] * 4, pairs)
    found = combination._agreement(np.array(predictions, float), examples, None)
    assert found == pytest.approx(expected, nan_ok=True)


def test_agreement_with_ratings_is_tau_c():
    """Of three rated captions, 1, 2 and 2 against 0.1, 0.2 and 0.3: two pairs agree; (2 · 2) / (9 · 1/2)."""
    examples = compared([[0.1], [], [0.2], [0.3]], [(1, 0)])
    found = combination._agreement(np.array([1.0, 9, 2, 2]), examples, correlate_for_training)
    assert found == pytest.approx(2 * 2 / (9 * 1 / 2))


def test_datasets_are_split_by_name():
    examples = compared([[0.1], [0.2], [0.5], [0.4]], images="aabb", dataset=[2, 10, 2, 10])
    with says(
        "dataset 10: no caption is rated higher than another of its image; there is nothing to learn"
    ):
        ScoredExamples(examples, np.zeros((4, 1))).split_by_dataset()
    examples = compared([[0.1], [0.2], [0.5], [0.4]], images="abab", dataset=[2, 10, 2, 10])
    scored = ScoredExamples(examples, np.arange(4.0)[:, None])
    first, second = scored.split_by_dataset()
    assert (first.scores.ravel().tolist(), second.scores.ravel().tolist()) == ([1, 3], [0, 2])
    assert first.examples.rows.frame["caption"].tolist() == ["x", "z"]
    assert second.differences.tolist() == [[2]]


class Scored:
    """A metric that gives a column of numbers."""

    depends_on_corpus = False
    depends_only_on_content = True

    def __init__(self, spec, values):
        self.name = self.spec = spec
        self.signature = f"signature of {spec}"
        self.values = np.array(values, float)

    def score(self, rows):
        return self.values

    def check_rows(self, rows):
        pass


def test_scores_roots_and_files_by_hand(monkeypatch, tmp_path):
    columns = {"a": [4, 9], "b": [1, 2], "c": [-1, 4], "d": [math.nan, 1], "e": [0, 0]}
    monkeypatch.setattr(combination, "make_metric", lambda spec: Scored(spec, columns[spec]))
    recipe = Combination(("a", "b", "e"), roots=("a", "e"))
    rows = Rows.from_items([{"caption": "x", "item_id": "i"}, {"caption": "y", "item_id": "j"}])
    assert recipe.compute_scores(rows).tolist() == [[2, 1, 0], [3, 2, 0]]
    assert recipe.signature == "signature of a|signature of b|signature of e"
    assert recipe.needs == {"references"}
    assert Combination(("a",)).options == {
        "metrics": ("a",),
        "roots": (),
        "strengths": (0.003, 0.01, 0.03, 0.1, 1.0),
    }
    with says("rater.roots: c has negative scores, which have no root"):
        Combination(("a", "c"), roots=("c",)).compute_scores(rows)
    with says("i: d is undefined; leave the metric out"):
        Combination(("a", "d"))._compute_defined_scores(rows)
    model = CombinationModel(recipe, np.array([0.5, 2.0, 7.0]), 0.1)
    assert model.predict(rows).tolist() == [3, 5.5]
    model.save(tmp_path / "new" / "folder")
    path = tmp_path / "new" / "folder" / "combination.json"
    text = '{\n "strength": 0.1,\n "weights": {\n  "a": 0.5,\n  "b": 2.0,\n  "e": 7.0\n }\n}'
    assert path.read_text() == text
    again = recipe.load(path.parent)
    assert (again.weights.tolist(), again.strength, again.recipe) == ([0.5, 2, 7], 0.1, recipe)
    for weights, reason in (
        ({"a": 1, "b": 1}, "'e'"),
        ({"a": 1, "b": 1, "e": -0.1}, "not the weights of these metrics"),
        ({"a": 1, "b": 1, "e": 0, "x": 1}, "not the weights of these metrics"),
    ):
        path.write_text(json.dumps({"strength": 0.1, "weights": weights}))
        with says(f"{path}: damaged, or of other metrics ({reason}); train the rater again"):
            recipe.load(path.parent)
    path.write_text(json.dumps({"strength": 0, "weights": {"a": 0, "b": 0, "e": 0}}))
    assert recipe.load(path.parent).weights.tolist() == [0, 0, 0]
    with says(f"{tmp_path}/combination.json: cannot be read (No such file or directory)"):
        recipe.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ()}, "rater.metrics: one or more metrics are expected, each once"),
        (
            {"metrics": ("a", "b", "a")},
            "rater.metrics: one or more metrics are expected, each once",
        ),
        ({"roots": ("b", "c", "d")}, "rater.roots names c, which is not among rater.metrics"),
        ({"strengths": ()}, "rater.strengths: numbers from 0 on are expected"),
        ({"strengths": (0.1, -0.1)}, "rater.strengths: numbers from 0 on are expected"),
        ({"strengths": (math.inf,)}, "rater.strengths: numbers from 0 on are expected"),
        ({"strengths": (math.nan,)}, "rater.strengths: numbers from 0 on are expected"),
        (
            {"metrics": ("a", "corpus")},
            "rater.metrics: the score of corpus depends on the other rows",
        ),
        ({"metrics": ("rows",)}, "rater.metrics: the score of rows depends on the other rows"),
        (
            {"metrics": ("bertscore",)},
            "rater.metrics: the score of bertscore depends on the other rows; padding=ignore helps",
        ),
    ],
)
def test_what_cannot_be_combined_is_refused(options, message, monkeypatch):
    def make(spec):
        made = Scored(spec, [])
        made.depends_on_corpus = spec == "corpus"
        made.depends_only_on_content = spec not in ("rows", "bertscore")
        return made

    monkeypatch.setattr(combination, "make_metric", make)
    recipe = Combination(**{"metrics": ("a", "b"), **options})
    with pytest.raises(InputError) as error:
        recipe.make_metrics()
    assert str(error.value) == message
    assert len(Combination(("a", "b"), ("b",), (0.0,)).make_metrics()) == 2
