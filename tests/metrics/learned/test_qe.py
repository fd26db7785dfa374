"""QE (Levinboim et al. 2021, section 5): its formula by hand, pretraining, and the grid of its options."""

from __future__ import annotations

import pytest
import torch

from captau.metrics.learned._qe_network import QeNetwork
from captau.metrics.learned.common import captioned_images
from captau.metrics.learned.common.recipe import correlate_with_ratings, make_recipe
from captau.metrics.learned.common.training import TrainingSession
from tests.metrics.learned.demo_ratings import check_learning

pytestmark = [pytest.mark.neural, pytest.mark.training]

QE = {
    "images": "demo_context",
    "texts": "demo_context",
    "labels": "demo",
    "n_labels": [3],
    "learning_rates": [1e-2],
    "epochs": 150,
    "patience": 150,
}


def test_qe_learns_the_demo_and_its_control_does_not(tmp_path):
    """Spearman of 0.8 with the noise-free rule, on images that it has not seen."""
    check_learning(make_recipe("qe", QE), tmp_path)


def test_qe_computes_its_formula():
    """σ's argument, for one image, caption and label of one dimension each."""
    network = QeNetwork((1, 1, 1, 2), 0.2).eval()
    with torch.no_grad():
        for layer, weight in ((network.image, 2.0), (network.text, -1.0), (network.label, 1.0)):
            layer.weight.fill_(weight)
            layer.bias.fill_(0.0)
        for bilinear, b in (
            (network.image_text, [[1, 2], [3, 4]]),
            (network.label_image, [[1, 0], [0, 1]]),
            (network.label_text, [[0, 1], [1, 0]]),
        ):
            bilinear.b.copy_(torch.tensor(b))
        network.out.weight.copy_(torch.tensor([[1.0, 10.0, 100.0, 1000.0, 10000.0]]))
        network.out.bias.fill_(7.0)
    images, texts = torch.tensor([[1.0]]), torch.tensor([[5.0]])
    labels, mask = torch.tensor([[[3.0], [9.0]]]), torch.tensor([[1.0, 0.0]])
    # i → 2, s → leaky(-5) = -1, o → 3. [2;1]ᵀB[-1;1] = -2 + 4 - 3 + 4 = 3; [3;1]·[2;1] = 7; the second
    # label is masked; [3;1]ᵀ[[0,1],[1,0]][-1;1] = 3 - 1 = 2.
    expected = 3 * 1 + 7 * 10 + 0 * 100 + 2 * 1000 + 0 * 10000 + 7
    assert network(images, texts, labels, mask).item() == pytest.approx(expected)
    assert network.all_pairs(images, texts, labels, mask).item() == pytest.approx(expected)


def test_all_pairs_are_what_single_pairs_give():
    torch.manual_seed(0)
    network = QeNetwork((3, 4, 2, 2), 0.2).eval()
    images, texts, labels = torch.randn(5, 3), torch.randn(5, 4), torch.randn(5, 2, 2)
    mask = torch.tensor([[1.0, 1.0]] * 3 + [[1.0, 0.0]] * 2)
    logits = network.all_pairs(images, texts, labels, mask)
    for a in range(5):
        for b in range(5):
            pair = images[a : a + 1], texts[b : b + 1], labels[a : a + 1], mask[a : a + 1]
            assert logits[a, b].item() == pytest.approx(network(*pair).item(), abs=1e-5)


def test_pretraining_finds_the_own_caption(sides, monkeypatch):
    monkeypatch.setattr(captioned_images, "DEMO_SCENES", 600)
    options = {"images": "demo", "texts": "demo", "pretrain": "demo", "pretrain_rate": 3e-3}
    options |= {"pretrain_epochs": 50, "epochs": 1, "learning_rates": [1e-4]}
    session = TrainingSession(0)
    make_recipe("qe", options).fit(sides["train"], sides["validation"], session)
    rows = [r for r in session.history if r["stage"] == "pretraining-labels-0"]
    # By chance it is 1 / 60; terse captions fit many pictures.
    assert max(r["validation"] for r in rows) > 10 / 60


def test_the_best_model_of_the_grid_is_returned(sides):
    grid = {"n_labels": [0, 2], "learning_rates": [1e-3, 1e-4], "epochs": 3}
    session = TrainingSession(0)
    model = make_recipe("qe", {**QE, **grid}).fit(sides["train"], sides["validation"], session)
    best: dict[str, float] = {}
    for row in session.history:
        best[row["stage"]] = max(best.get(row["stage"], -1), row["validation"])
    assert set(best) == {f"qe-labels-{n}-rate-{r}" for n in (0, 2) for r in ("0.001", "0.0001")}
    validation = sides["validation"]
    predictions = model.predict(validation.rows)
    assert correlate_with_ratings(predictions, validation, "spearman") == pytest.approx(
        max(best.values()), abs=1e-6
    )
