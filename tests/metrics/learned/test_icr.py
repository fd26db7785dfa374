"""ICR (Scott et al. 2023, section 3.4): its formula by hand, what it learns, and files that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from captau.metrics.learned.common.network_rater import NetworkModel
from captau.metrics.learned.common.recipe import Examples, load_tensors, make_recipe
from captau.metrics.learned.common.training import TrainingSession
from tests.conftest import says
from tests.metrics.learned.demo_ratings import check_learning, demo_examples

pytestmark = pytest.mark.neural

ICR = {"images": "demo_context", "texts": "demo_context", "epochs": 150, "learning_rate": 1e-3}


@pytest.mark.training
def test_icr_learns_the_demo_and_its_control_does_not(tmp_path):
    """Spearman of 0.8 with the noise-free rule, on images that it has not seen."""
    check_learning(make_recipe("icr", ICR), tmp_path)


def test_icr_computes_its_formula():
    """W₃ relu(W₂ relu(W₁ [image; text])) of small whole numbers."""
    recipe = make_recipe("icr", {"images": "demo", "texts": "demo", "hidden": [2, 2]})
    network = recipe.make_network((1, 1)).eval()
    tables = ([[1, 2], [0, -1]], [0, 1]), ([[1, 1], [-1, 0]], [0, 0]), ([[3, 5]], [1])
    with torch.no_grad():
        for layer, (weight, bias) in zip((network[0], network[3], network[6]), tables, strict=True):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.copy_(torch.tensor(bias))
    # [1, 2] → [5, -1] → [5, 0] → [5, -5] → [5, 0] → 16
    inputs = np.array([[1.0]]), np.array([[2.0]])
    assert NetworkModel(recipe, network, (1, 1)).estimate(inputs).tolist() == [16.0]


def test_ratings_that_teach_nothing_are_refused(sides):
    train, validation = sides["train"], sides["validation"]
    recipe = make_recipe("icr", {**ICR, "epochs": 1})
    equal = Examples(train.rows, tuple(np.array([0.5]) for _ in train.ratings), train.preferences)
    with says("same rating", "nothing to learn"):
        recipe.fit(equal, validation, TrainingSession(0))
    unrated = Examples(train.rows, tuple(np.empty(0) for _ in train.ratings), train.preferences)
    with says("no row with a rating is left"):
        recipe.fit(unrated, validation, TrainingSession(0))


def test_a_card_without_widths_is_damaged(sides, tmp_path):
    from safetensors.torch import save_file

    options = {"images": "demo", "texts": "demo", "hidden": [4], "epochs": 1}
    recipe = make_recipe("icr", options)
    recipe.fit(sides["train"], sides["validation"], TrainingSession(0)).save(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(load_tensors(path)[0], path)
    with says(str(path), "metadata lack images"):
        recipe.load(tmp_path)


def test_the_last_epoch_is_taken_where_nothing_selects(sides):
    """Of a fixed number of epochs, as the paper names one; then no validation rows are needed."""
    recipe = make_recipe("icr", {**ICR, "epochs": 3, "hidden": [4], "select": "last"})
    session = TrainingSession(0)
    nothing = sides["validation"].take(np.empty(0, dtype=np.intp))
    model = recipe.fit(sides["train"], nothing, session)
    assert [row["best"] for row in session.history] == [False, False, True]
    again = recipe.fit(sides["train"], sides["validation"], TrainingSession(0))
    rows = sides["test"].rows
    np.testing.assert_array_equal(model.predict(rows), again.predict(rows))


def test_predictions_are_on_the_scale_of_the_option():
    """16 of 0 to 1 is 1 + 4 · 16 of 1 to 5."""
    recipe = make_recipe("icr", {**ICR, "scale": [1, 5]})
    assert recipe.rating_scale == (1.0, 5.0)
    shares = np.array([0.0, 0.25, 1.0, 1.5])

    class Network(NetworkModel):
        def estimate(self, inputs):
            return shares

    rows = demo_examples("test").take(np.arange(4)).rows
    assert Network(recipe, None, (None, None)).predict(rows).tolist() == [1.0, 2.0, 5.0, 7.0]


@pytest.mark.parametrize("scale", [[5, 1], [1], [1, 2, 3], [1, float("inf")], [float("nan"), 1]])
def test_a_scale_that_has_no_two_ends_is_refused(scale):
    with says("rater.scale", "as [1,5]"):
        make_recipe("icr", {**ICR, "scale": scale})
