"""ICR (Scott et al. 2023, section 3.4): its formula by hand, what it learns, and files that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.network_rater import NetworkModel
from captau.metrics.learned.common.recipe import make_recipe
from captau.metrics.learned.common.weight_files import load_tensors
from captau.metrics.learned.icr import Icr
from tests.conftest import says
from tests.metrics.learned.demo_ratings import check_learning, demo_examples, start_session

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
        recipe.fit(equal, validation, start_session(0))
    unrated = Examples(train.rows, tuple(np.empty(0) for _ in train.ratings), train.preferences)
    with says("no row with a rating is left"):
        recipe.fit(unrated, validation, start_session(0))


def test_a_card_without_widths_is_damaged(sides, tmp_path):
    from safetensors.torch import save_file

    options = {"images": "demo", "texts": "demo", "hidden": [4], "epochs": 1}
    recipe = make_recipe("icr", options)
    recipe.fit(sides["train"], sides["validation"], start_session(0)).save(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(load_tensors(path)[0], path)
    with says(str(path), "metadata lack images"):
        recipe.load(tmp_path)


def test_the_last_epoch_is_taken_where_nothing_selects(sides):
    """Of a fixed number of epochs, as the paper names one; then no validation rows are needed."""
    recipe = make_recipe("icr", {**ICR, "epochs": 3, "hidden": [4], "select": "last"})
    session = start_session(0)
    nothing = sides["validation"].take(np.empty(0, dtype=np.intp))
    model = recipe.fit(sides["train"], nothing, session)
    assert [row["best"] for row in session.history] == [False, False, True]
    again = recipe.fit(sides["train"], sides["validation"], start_session(0))
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


def test_the_papers_options_are_the_defaults():
    """All but the epoch and the scale, which conf/rater/icr.yaml sets as the paper does."""
    assert Icr.prediction_batch == 65536  # rows in memory
    assert make_recipe("icr", {"images": "demo", "texts": "demo"}).options == {
        "images": "demo",
        "texts": "demo",
        "hidden": (1024, 64),
        "dropout": 0.8,
        "batch_size": 256,
        "epochs": 4000,
        "learning_rate": 1e-5,
        "decay": 0.99,
        "decay_every": 15,
        "select": "tau_c",
        "scale": (0.0, 1.0),
    }


def test_the_network_s_layers():
    network = make_recipe("icr", {**ICR, "hidden": [5, 3], "dropout": 0.25}).make_network((4, 2))
    layers = [
        (type(m).__name__, getattr(m, "in_features", None), getattr(m, "out_features", None))
        for m in network
    ]
    block = [("ReLU", None, None), ("Dropout", None, None)]
    assert layers == [("Linear", 6, 5), *block, ("Linear", 5, 3), *block, ("Linear", 3, 1)]
    assert [m.p for m in network if isinstance(m, nn.Dropout)] == [0.25, 0.25]


@pytest.mark.parametrize("select", ["last", "spearman"])
def test_training_is_the_plain_loop(sides, select):
    """Adam, its rate halved after two epochs, dropout and batches of 4 of 10 rows, by a loop of its own."""
    options = {"hidden": [3, 2], "dropout": 0.5, "batch_size": 4, "epochs": 4}
    options |= {"learning_rate": 0.1, "decay": 0.5, "decay_every": 2, "select": select}
    recipe = make_recipe("icr", {**ICR, **options})
    train = sides["train"].take(np.arange(10))
    validation = sides["validation"].take(np.arange(8))
    session = start_session(5)
    model = recipe.fit(train, validation, session)
    assert (model.recipe, model.widths) == (recipe, (16, 16))

    x, z = (
        torch.tensor(np.hstack(recipe.load_inputs(side.rows, (None, None))), dtype=torch.float32)
        for side in (train, validation)
    )
    y = torch.tensor([r.mean() for r in train.ratings], dtype=torch.float32)
    session.reseed("weights")
    network = nn.Sequential(
        *(nn.Linear(32, 3), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(3, 2), nn.ReLU(), nn.Dropout(0.5)),
        nn.Linear(2, 1),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    states, losses, scores = [], [], []
    for epoch in range(4):
        session.reseed("icr", epoch)
        network.train()
        losses.append([])
        for rows in torch.from_numpy(session.rng("icr", epoch).permutation(10)).split(4):
            optimizer.zero_grad()
            loss = ((network(x[rows])[:, 0] - y[rows]) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
        scheduler.step()
        states.append({k: v.clone() for k, v in network.state_dict().items()})
        predictions = network.eval()(z)[:, 0].detach().numpy()
        scores.append(stats.spearmanr(predictions, validation.mean_ratings).statistic)
    best = 3 if select == "last" else int(np.nanargmax(scores))
    history = session.history
    assert [row["loss"] for row in history] == pytest.approx([np.mean(x) for x in losses])
    assert [row["learning_rate"] for row in history] == [0.1, 0.1, 0.05, 0.05]
    assert [row["best"] for row in history] == [i == best for i in range(4)]
    if select == "spearman":
        assert [row["validation"] for row in history] == pytest.approx(scores, nan_ok=True)
    for name, tensor in model.network.state_dict().items():
        torch.testing.assert_close(tensor, states[best][name])
