"""QE (Levinboim et al. 2021, section 5): its formula by hand, pretraining, and the grid of its options."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import captau
from captau.benchmarks.evaluation.training.rater_training import correlate_for_training
from captau.metrics.learned import qe
from captau.metrics.learned._qe_network import Bilinear, QeNetwork
from captau.metrics.learned.common.agreement import correlate_with_ratings
from captau.metrics.learned.common.recipe import make_recipe
from captau.metrics.learned.common.training import TrainingSession
from tests.conftest import run_captau, says
from tests.metrics.learned.demo_ratings import check_learning, start_session

pytestmark = pytest.mark.neural

QE = {
    "images": "demo_context",
    "texts": "demo_context",
    "labels": "demo",
    "n_labels": [3],
    "learning_rates": [1e-2],
    "epochs": 150,
    "patience": 150,
}


@pytest.mark.training
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


@pytest.mark.training
def test_pretraining_finds_the_own_caption(sides, make_scenes):
    make_scenes(600)
    options = {"images": "demo", "texts": "demo", "pretrain": "demo", "pretrain_rate": 3e-3}
    options |= {"pretrain_epochs": 50, "epochs": 1, "learning_rates": [1e-4]}
    session = start_session(0)
    make_recipe("qe", options).fit(sides["train"], sides["validation"], session)
    rows = [r for r in session.history if r["stage"] == "pretraining-labels-0"]
    # By chance it is 1 / 60; terse captions fit many pictures.
    assert max(r["validation"] for r in rows) > 10 / 60


def test_the_best_model_of_the_grid_is_returned(sides):
    grid = {"n_labels": [0, 2], "learning_rates": [1e-3, 1e-4], "epochs": 3}
    session = start_session(0)
    model = make_recipe("qe", {**QE, **grid}).fit(sides["train"], sides["validation"], session)
    best: dict[str, float] = {}
    for row in session.history:
        best[row["stage"]] = max(best.get(row["stage"], -1), row["validation"])
    assert set(best) == {f"qe-labels-{n}-rate-{r}" for n in (0, 2) for r in ("0.001", "0.0001")}
    validation = sides["validation"]
    predictions = model.predict(validation.rows)
    assert correlate_with_ratings(
        predictions, validation, "spearman", correlate_for_training
    ) == pytest.approx(max(best.values()), abs=1e-6)


def test_stand_ins_are_the_mean_of_an_images_other_captions():
    script = Path(__file__).parents[3] / "scripts" / "stand_ins" / "make_image_stand_ins.py"
    mean_of_others = runpy.run_path(str(script))["mean_of_others"]
    embeddings = np.array([[1.0, 0], [9, 9], [0, 3], [5, 0]])
    means = mean_of_others(embeddings, np.array(["a", "b", "a", "a"]))
    assert means.tolist() == [[2.5, 1.5], [0, 0], [3, 0], [0.5, 1.5]]


@pytest.mark.training
def test_qe_by_folds_of_the_real_fold_is_a_metric_of_bench_and_thresholds(
    data_root, tmp_path, monkeypatch
):
    """From training to filtering on Caption-Quality's development fold; features are random here."""
    monkeypatch.chdir(tmp_path)
    item_ids = captau.load("caption_quality", data_root).items["item_id"].to_numpy(str)
    rng = np.random.default_rng(0)
    for name, width in (("images", 1), ("texts", 4)):
        vectors = rng.normal(1, 0.1, (len(item_ids), width))
        np.savez(f"{name}.npz", item_id=item_ids, embedding=vectors)
    data = ["dataset=caption_quality", f"data.root={data_root}", "statistics.interval=none"]
    options = ["rater.images=images.npz", "rater.texts=texts.npz", "rater.learning_rates=[1e-3]"]
    options += ["rater.epochs=2", "folds=2", "design=folds", "output_dir=trained"]
    assert run_captau("train", "rater=qe", *data, *options) == 0
    data += [
        "protocol.split=validation",
        'metrics=["file(path=trained/scores.parquet,name=QE,metric=qe)"]',
    ]
    assert run_captau("bench", *data, "output_dir=bench") == 0
    trained, measured = (
        pd.read_csv(tmp_path / folder / "correlations.csv").set_index("coefficient")["value"]
        for folder in ("trained", "bench")
    )
    assert measured["spearman"] == pytest.approx(trained["spearman"])
    del data[2]
    assert run_captau("thresholds", *data, "precision=0.8", "output_dir=thresholds") == 0
    recall = pd.read_csv(tmp_path / "thresholds" / "recall.csv").iloc[0]
    # 397 + 259 + 422 + 326 + 208 pairs have a p̂ of a half or more (data/README.md).
    assert (recall["n_items"], recall["n_good"]) == (2392, 1612)


def test_a_network_of_fewer_labels_scores_as_the_pretrained_one_that_sees_no_more():
    torch.manual_seed(0)
    network = QeNetwork((3, 4, 2, 5), 0.2).eval()
    images, texts, labels = torch.randn(6, 3), torch.randn(6, 4), torch.randn(6, 5, 2)
    for n_labels in (0, 2, 5):
        mask = (torch.arange(5) < n_labels).float().expand(6, 5)
        expected = network(images, texts, labels, mask)
        kept = network.keep_labels(n_labels).eval()
        logits = kept(images, texts, labels[:, :n_labels], mask[:, :n_labels])
        torch.testing.assert_close(logits, expected)


def test_one_pretraining_serves_all_label_counts_and_epochs_0_returns_it(sides, make_scenes):
    make_scenes(100)
    grid = {"n_labels": [0, 3], "learning_rates": [1e-3, 1e-4], "pretrain": "demo"}
    session = start_session(0)
    recipe = make_recipe("qe", {**QE, **grid, "pretrain_epochs": 2, "epochs": 0})
    model = recipe.fit(sides["train"], sides["validation"], session)
    assert [r["stage"] for r in session.history] == ["pretraining-labels-3"] * 2
    validation = sides["validation"]
    score = correlate_with_ratings(
        model.predict(validation.rows), validation, "spearman", correlate_for_training
    )
    longer = make_recipe("qe", {**QE, **grid, "pretrain_epochs": 2, "epochs": 1})
    session = start_session(0)
    tuned = longer.fit(sides["train"], validation, session)
    assert {r["stage"] for r in session.history} == {
        "pretraining-labels-3",
        *(f"qe-labels-{n}-rate-{r}" for n in (0, 3) for r in ("0.001", "0.0001")),
    }
    assert (
        correlate_with_ratings(
            tuned.predict(validation.rows), validation, "spearman", correlate_for_training
        )
        != score
    )


def test_no_epochs_without_pretraining_are_refused():
    with says("rater.epochs=0", "rater.pretrain=FILE"):
        make_recipe("qe", {**QE, "epochs": 0})


def test_the_papers_options_are_the_defaults():
    assert qe.Qe.prediction_batch == 16384  # rows in memory
    assert make_recipe("qe", {"images": "demo", "texts": "demo"}).options == {
        "images": "demo",
        "texts": "demo",
        "labels": None,
        "n_labels": (0, 5, 10, 20),
        "learning_rates": (1e-4, 1e-5, 1e-6),
        "dropout": 0.2,
        "batch_size": 256,
        "epochs": 500,
        "patience": 20,
        "pretrain": None,
        "pretrain_epochs": 100,
        "pretrain_rate": 1e-4,
        "select": "spearman",
    }


def test_the_network_s_sizes_and_where_dropout_is():
    network = make_recipe("qe", {**QE, "dropout": 0.3}).make_network((3, 4, 2, 5))
    assert {name: tuple(x.shape) for name, x in network.state_dict().items()} == {
        "image.weight": (3, 3),
        "image.bias": (3,),
        "text.weight": (4, 4),
        "text.bias": (4,),
        "image_text.b": (4, 5),
        "label.weight": (2, 2),
        "label.bias": (2,),
        "label_image.b": (3, 4),
        "label_text.b": (3, 5),
        "out.weight": (1, 11),
        "out.bias": (1,),
    }
    assert network.drop.p == network.keep_labels(2).drop.p == 0.3
    assert list(QeNetwork((3, 4, 0, 0), 0.0).state_dict()) == [
        *("image.weight", "image.bias", "text.weight", "text.bias", "image_text.b"),
        *("out.weight", "out.bias"),
    ]
    # Xavier's bound of a matrix of 11 by 21.
    b = Bilinear(10, 20).b
    assert 0.9 * math.sqrt(6 / 32) < b.abs().max().item() <= math.sqrt(6 / 32)


def test_every_layer_s_input_is_dropped_by_hand():
    """Dropout that doubles: before and after both dense layers and before the last; [4;1]ᵀ B [-0.8·2;1]."""
    network = QeNetwork((1, 1, 0, 0), 0.2)
    network.drop = torch.nn.Module()
    network.drop.forward = lambda x: 2 * x
    with torch.no_grad():
        for layer, weight in ((network.image, 1.0), (network.text, -1.0)):
            layer.weight.fill_(weight)
            layer.bias.zero_()
        network.image_text.b.copy_(torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
        network.out.weight.fill_(1.0)
        network.out.bias.fill_(0.5)
    none = torch.zeros(1, 0, 0), torch.zeros(1, 0)
    # i: 1 → 2 → 2 → 4; s: 2 → 4 → -4 → -0.8 → -1.6; 4 · -1.6 + 3 = -3.4; twice that and a half.
    logit = network(torch.tensor([[1.0]]), torch.tensor([[2.0]]), *none)
    assert logit.tolist() == pytest.approx([-6.3])
    recipe = make_recipe("qe", QE)
    batch = (torch.tensor([[1.0]]), torch.tensor([[2.0]]), *none)
    estimate = recipe.run_network(network, batch)
    assert estimate.tolist() == pytest.approx([1 / (1 + math.exp(6.3))])


class Steps(TrainingSession):
    """A session that notes what it should train, and trains nothing."""

    def train(self, stage, module, **options):
        self.history.append((stage, module, options))


def test_rows_to_choose_by_need_not_vary_and_those_to_train_on_must(sides):
    recipe = make_recipe("qe", {**QE, "epochs": 1})
    same = sides["train"].take(np.zeros(2, dtype=np.intp))
    with says("all 2 captions to train on have the same rating"):
        recipe.fit(same, sides["validation"], start_session(0))
    session = start_session(0)
    recipe.fit(sides["train"].take(np.arange(4)), same, session)
    assert math.isnan(session.history[0]["validation"])


@pytest.mark.parametrize("is_control", [False, True])
def test_pretraining_tells_each_image_s_caption_from_those_of_its_batch(sides, is_control):
    recipe = make_recipe(
        "qe",
        {**QE, "batch_size": 3, "pretrain_rate": 0.3, "pretrain_epochs": 6, "patience": 4},
    )
    names = sorted(set(sides["train"].image_ids.tolist()))[:9]
    captioned = {i: ("a red circle", f"a blue {'big ' * k}square") for k, i in enumerate(names)}
    parts = [dict(list(captioned.items())[:5]), dict(list(captioned.items())[5:])]
    session = Steps(3, is_control=is_control)
    network = recipe._pretrain(2, parts, sides["train"].take(np.arange(3)), session)
    ((stage, module, options),) = session.history
    assert (stage, options["epochs"], options["patience"]) == ("pretraining-labels-2", 6, 4)
    assert "higher_is_better" not in options
    assert module is network
    (group,) = options["optimizer"].param_groups
    assert group["lr"] == 0.3
    session.reseed("weights", 2)
    expected = QeNetwork((16, 16, 16, 2), 0.2)
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(network.state_dict()[name], tensor, rtol=0, atol=0)

    pairs = [qe._Pairs(recipe, part, (16, 16, 16, 2), "cpu") for part in parts]
    rng = np.random.default_rng(1)
    batches = list(options["steps"](np.random.default_rng(1), 0))
    plain = pairs[0].draw_batches(rng, 3)
    assert [len(batch[0]) for batch in batches] == [3, 2]
    for batch, (images, texts, labels, mask) in zip(batches, plain, strict=True):
        order = rng.permutation(len(texts)) if is_control else np.arange(len(texts))
        for found, right in zip(batch, (images, texts[order], labels, mask), strict=True):
            torch.testing.assert_close(found, right, rtol=0, atol=0)
        network.eval()
        logits = network.all_pairs(*batch).detach().double().numpy()
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        loss = options["loss"](batch).item()
        assert loss == pytest.approx(-np.log(np.diag(shares)).mean(), rel=1e-5)
    hits = []
    for batch in pairs[1].draw_batches(np.random.default_rng(0), 3):
        best = network.all_pairs(*batch).argmax(1).tolist()
        hits += [row == column for row, column in enumerate(best)]
    # Of four images the last is alone in its batch, and does not count.
    assert options["validate"]() == pytest.approx(sum(hits) / 3)
    assert len(hits) == 3
