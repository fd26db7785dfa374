"""Networks over embeddings: their loss, the epoch that is chosen, batches of predictions and files, of one weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open

from captau.metrics.learned.common import network_rater
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.features import FeatureSource, make_source
from captau.metrics.learned.common.network_rater import NetworkModel, NetworkRecipe, to_tensors
from captau.metrics.learned.common.recipe import RaterModel, Recipe
from captau.metrics.rows import Rows
from tests.conftest import says
from tests.metrics.learned.demo_ratings import start_session

pytestmark = pytest.mark.neural


@dataclass(frozen=True)
class Line(NetworkRecipe):
    """y = w x; the inputs are the rows' numbers."""

    batch_size: int = 3
    epochs: int = 2
    images: str = "demo"
    texts: str | None = None

    name = "line"
    source_options = ("images", "texts")
    width_keys = ("width",)
    prediction_batch = 2

    def load_inputs(self, rows, widths):
        return (rows.frame["x"].to_numpy(float)[:, None],)

    def compute_widths(self, inputs):
        return (inputs[0].shape[1],)

    def make_network(self, widths):
        return torch.nn.Linear(*widths, 1, bias=False)

    def run_network(self, network, batch):
        sizes.append((len(batch[0]), torch.is_grad_enabled()))
        return network(batch[0])[:, 0]

    def fit(self, train, validation, session):
        raise NotImplementedError


sizes: list[tuple[int, bool]] = []


def rated(ratings):
    frame = pd.DataFrame({"x": np.arange(1, len(ratings) + 1), "image_id": "1", "caption": "a"})
    return Examples(Rows(frame), tuple(map(np.array, ratings)), np.empty((0, 2), dtype=np.intp))


def inputs(n):
    return (np.arange(1.0, n + 1)[:, None],)


def train(recipe, validation, **options):
    model = NetworkModel(recipe, recipe.make_network((1,)), (1,))
    torch.nn.init.zeros_(model.network.weight)
    optimizer = torch.optim.SGD(model.network.parameters(), lr=0.1)
    session = start_session()
    examples = rated([[0.0, 0.2], [0.4], [0.6]])
    score = recipe.train_network(
        "line", model, (inputs(3), examples), validation, session, optimizer, **options
    )
    return model.network.weight.item(), score, session.history


def test_the_loss_is_the_squared_error_against_mean_ratings():
    """Of 0.1, 0.4 and 0.6 at 1, 2 and 3: the gradient at 0 is -2/3 · 2.7, at 0.18 then -2/3 · 0.18."""
    weight, score, history = train(Line(), None)
    assert weight == pytest.approx(0.192, rel=1e-5)
    assert math.isnan(score)
    assert [row["loss"] for row in history] == pytest.approx([0.53 / 3, 0.0116 / 3], rel=1e-4)
    assert [(row["stage"], row["steps"], row["best"]) for row in history] == [
        ("line", 1, False),
        ("line", 1, True),
    ]
    _, _, history = train(Line(batch_size=2, epochs=3), None)
    assert [row["steps"] for row in history] == [2, 2, 2]


@pytest.mark.parametrize(
    ("ratings", "coefficient", "score"),
    [
        ([[0.2], [0.1]], "spearman", -1.0),
        ([[0.1], [0.2]], "spearman", 1.0),
        # 1, 1, 2 against 0.1, 0.3, 0.2: one pair agrees and one does not.
        ([[0.1, 0.3], [0.2]], "tau_c", 0.0),
    ],
)
def test_validation_rows_choose_the_first_of_equal_epochs(ratings, coefficient, score):
    weight, found, history = train(Line(), (inputs(2), rated(ratings), coefficient))
    assert found == pytest.approx(score, abs=1e-9)
    assert [row["validation"] for row in history] == pytest.approx([score] * 2, abs=1e-9)
    assert weight == pytest.approx(0.18, rel=1e-5)
    _, _, history = train(Line(epochs=9), (inputs(2), rated(ratings), coefficient), patience=1)
    assert len(history) == 2


def test_predictions_are_made_in_batches_without_gradients():
    model = NetworkModel(Line(), Line().make_network((1,)), (1,))
    torch.nn.init.constant_(model.network.weight, 0.5)
    del sizes[:]
    found = model.estimate(inputs(5))
    assert found.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert found.dtype == np.float64
    assert sizes == [(2, False), (2, False), (1, False)]
    rows = rated([[0.0]] * 2).rows
    assert model.predict(rows).tolist() == [0.5, 1.0]
    assert Line().rating_scale == (0.0, 1.0)


def test_sources_are_those_that_the_options_name():
    assert [s.label for s in Line().sources()] == ["rater line: images=demo"]
    both = Line(texts="demo_context")
    assert [(s.kind, s.signature) for s in both.sources()] == [
        ("images", "demo"),
        ("texts", "demo_context"),
    ]
    assert both.signature == "demo|demo_context"


def test_arrays_become_tensors_of_single_precision():
    first, second = to_tensors([np.array([1, 2]), np.array([[0.5]])], "cpu")
    assert (first.dtype, first.tolist(), second.tolist()) == (torch.float32, [1, 2], [[0.5]])


def test_files_of_a_network(tmp_path, monkeypatch):
    model = NetworkModel(Line(), Line().make_network((3,)), (3,))
    model.save(tmp_path / "new")
    path = tmp_path / "new" / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"card": '{"width": "3"}'}
        assert list(file.keys()) == ["weight"]
    devices = []
    monkeypatch.setattr(network_rater, "resolve", lambda name: devices.append(name) or "cpu")
    again = Line().load(tmp_path / "new")
    assert devices == ["auto"]
    assert (again.recipe, again.widths, again.network.training) == (Line(), (3,), False)
    torch.testing.assert_close(again.network.weight, model.network.weight, rtol=0, atol=0)
    monkeypatch.setattr(
        Line, "make_network", lambda self, widths: torch.nn.Linear(widths[0], 2, bias=False)
    )
    with says(
        f"{path}: the weights of another architecture; 1 of 1 tensors differ: weight: (1, 3) where (2, 3) is "
        f"expected"
    ):
        Line().load(tmp_path / "new")


@pytest.mark.parametrize(
    ("cls", "methods"),
    [
        (FeatureSource, {"vectors": 1, "signature": None}),
        (Recipe, {"fit": 3, "load": 1}),
        (RaterModel, {"predict": 1, "save": 1}),
        (
            NetworkRecipe,
            {"fit": 3, "load_inputs": 2, "compute_widths": 1, "make_network": 1, "run_network": 2},
        ),
    ],
)
def test_what_a_class_must_define(cls, methods):
    """Nothing is there to be inherited: each is abstract, and what it documents does nothing."""
    assert cls.__abstractmethods__ == set(methods)
    for name, n_arguments in methods.items():
        method = getattr(cls, name)
        if n_arguments is None:
            assert method.fget(None) is None
        else:
            assert method(None, *[None] * n_arguments) is None


def test_a_source_without_entries_of_certain_rows_finds_none():
    source = make_source("images", "demo_context", "icr")
    assert FeatureSource.find_entries(source, None) is None
    assert Recipe.check_features(SimpleNamespace(), None) is None
    assert Recipe.rating_scale.fget(None) is None
    assert Recipe.signature.fget(None) == ""
