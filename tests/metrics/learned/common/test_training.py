"""The training loop: deterministic, resumed to the same weights, and clear where it cannot go on."""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from captau.metrics.learned.common import training
from captau.metrics.learned.common.training import (
    HISTORY_COLUMNS,
    TrainingSession,
    clip_gradients,
    draw_batches,
    schedule_learning_rates,
)
from tests.conftest import says

pytestmark = pytest.mark.neural


class StopError(Exception):
    """An interruption, as a kill is for the loop."""


def fit_line(session: TrainingSession, *, epochs: int = 6, stop_at: int | None = None, **options):
    """Fit y = 2x + 1 with dropout, and stop at an epoch where that is asked for."""
    x = torch.linspace(-1, 1, 32)[:, None]
    y = 2 * x + 1
    session.reseed("weights")
    module = torch.nn.Sequential(
        torch.nn.Linear(1, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.Adam(module.parameters(), lr=options.pop("lr", 0.05))

    def steps(rng, epoch):
        if epoch == stop_at:
            raise StopError
        return torch.from_numpy(rng.permutation(len(x))).split(8)

    session.train(
        "line",
        module,
        steps=steps,
        loss=options.pop("loss", lambda b: torch.nn.functional.mse_loss(module(x[b]), y[b])),
        optimizer=optimizer,
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
        epochs=epochs,
        validate=options.pop("validate", lambda: float(torch.nn.functional.mse_loss(module(x), y))),
        higher_is_better=False,
        **options,
    )
    return module


def weights(module) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])


def test_a_seed_determines_the_weights():
    same = [weights(fit_line(TrainingSession(3))) for _ in range(2)]
    assert np.array_equal(*same)
    assert not np.array_equal(same[0], weights(fit_line(TrainingSession(4))))


@pytest.mark.parametrize("stop_at", [1, 3, 5])
def test_a_stopped_training_goes_on_to_the_same_weights(tmp_path, checkpoint_each_step, stop_at):
    whole = TrainingSession(3)
    expected = weights(fit_line(whole))
    with pytest.raises(StopError):
        fit_line(TrainingSession(3, tmp_path, "same"), stop_at=stop_at)
    torch.rand(7)  # what else the process draws does not matter
    again = TrainingSession(3, tmp_path, "same")
    assert np.array_equal(weights(fit_line(again)), expected)
    assert again.history == whole.history
    assert [row["epoch"] for row in again.history] == [1, 2, 3, 4, 5, 6]
    assert sum(row["best"] for row in again.history) == 1


def test_a_finished_stage_is_not_done_again(tmp_path):
    first = TrainingSession(3, tmp_path, "same")
    expected = weights(fit_line(first))
    again = TrainingSession(3, tmp_path, "same")
    assert np.array_equal(weights(fit_line(again, stop_at=0)), expected)
    assert again.history == first.history


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    fit_line(TrainingSession(3, tmp_path, "one"))
    with says("checkpoint-line.pt", "another training", "output_dir"):
        fit_line(TrainingSession(3, tmp_path, "two"))


@pytest.mark.parametrize("damage", ["cut", "empty", "text"])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    fit_line(TrainingSession(3, tmp_path, "same"))
    path = tmp_path / "checkpoint-line.pt"
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "text": b"hello"}[damage])
    with says(str(path), "the checkpoint is damaged", "delete it"):
        fit_line(TrainingSession(3, tmp_path, "same"))


def test_nothing_is_unpickled(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "unpickled",))

    torch.save({"fingerprint": "same", "x": Evil()}, tmp_path / "checkpoint-line.pt")
    with says("the checkpoint is damaged"):
        fit_line(TrainingSession(3, tmp_path, "same"))
    assert not (tmp_path / "unpickled").exists()


def test_the_best_epoch_is_marked():
    scores = iter([3.0, 1.0, 2.0, float("nan")])
    session = TrainingSession(3)
    fit_line(session, epochs=4, validate=lambda: next(scores))
    assert [row["best"] for row in session.history] == [False, True, False, False]


def test_training_stops_after_its_patience():
    scores = iter([3.0, 1.0, 2.0, 2.0, 2.0, 0.0])
    session = TrainingSession(3)
    fit_line(session, validate=lambda: next(scores), patience=2)
    assert len(session.history) == 4


def test_a_loss_that_is_not_finite_is_refused():
    with says("epoch 1", "the loss is nan", "learning rate"):
        fit_line(TrainingSession(3), loss=lambda b: torch.tensor(float("nan"), requires_grad=True))


def test_no_batch_is_an_error():
    module = torch.nn.Linear(1, 1)
    with says("no batch"):
        TrainingSession(0).train(
            "none",
            module,
            steps=lambda rng, epoch: [],
            loss=lambda b: b,
            optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
            epochs=1,
            validate=lambda: 0.0,
        )


def test_no_epochs_leave_the_module_as_it_is():
    session = TrainingSession(3)
    module = fit_line(session, epochs=0)
    session.reseed("weights")
    again = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
    assert np.array_equal(weights(module), weights(again))
    assert session.history == []


# By hand


@pytest.fixture
def progress(monkeypatch):
    """What the loop says of its progress: label and total, then steps and details."""
    told = []

    @contextmanager
    def count(label, total):
        def advance(steps):
            told.append(steps)

        advance.add_detail = told.append
        told.append((label, total))
        yield advance

    monkeypatch.setattr(training, "progress_counter", count)
    return told


def walk(session, scores=(0.1, 0.3, 0.2), *, batches=(1.0, 2.0), epochs=3, **options):
    """Train one weight from 1 on, whose loss is itself times the batch, at a rate that halves from 0.5 on."""
    module = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(module.weight)
    groups = [{"params": [module.weight], "lr": 0.5}]
    groups += [{"params": [torch.nn.Parameter(torch.ones(1))], "lr": 0.7}]
    optimizer = torch.optim.SGD(groups, momentum=options.pop("momentum", 0.0))
    values = iter(scores)
    seen = []

    def loss(batch):
        seen.append((module.training, torch.is_grad_enabled()))
        return module.weight.sum() * batch

    def validate():
        seen.append((module.training, torch.is_grad_enabled()))
        return next(values)

    session.train(
        "walk",
        module,
        steps=options.pop("steps", lambda rng, epoch: batches),
        loss=loss,
        optimizer=optimizer,
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
        epochs=epochs,
        validate=options.pop("validate", validate),
        **options,
    )
    assert not module.training
    return module.weight.item(), seen


#: Epoch 1: 1·1, then (1 - ½)·2; the weight is ½ - ½·2 = -½. Epoch 2: -½, (-½ - ¼)·2; -¾ - ¼·2 = -1¼. Epoch 3 alike.
WALK = [
    {"stage": "walk", "epoch": 1, "steps": 2, "learning_rate": 0.5, "loss": 1.0},
    {"stage": "walk", "epoch": 2, "steps": 2, "learning_rate": 0.25, "loss": -1.0},
    {"stage": "walk", "epoch": 3, "steps": 2, "learning_rate": 0.125, "loss": -2.0},
]
WALKED = [-0.5, -1.25, -1.625]


@pytest.mark.parametrize(
    ("scores", "options", "best", "n_epochs"),
    [
        ((0.1, 0.3, 0.2), {}, 2, 3),
        ((0.1, 0.3, 0.2), {"higher_is_better": False}, 1, 3),
        ((0.3, 0.3, 0.3), {}, 1, 3),
        ((math.nan, -9.0, -9.5), {}, 2, 3),
        ((math.nan,) * 3, {}, 1, 3),
        ((0.1, 0.2, 0.3), {"epochs": 2}, 2, 2),
        ((0.3, 0.2, 0.4), {"patience": 1}, 1, 2),
        ((0.3, 0.2, 0.4), {"patience": 2}, 3, 3),
    ],
)
def test_the_history_and_the_weight_by_hand(scores, options, best, n_epochs, progress):
    session = TrainingSession(0)
    session.history.append("before")
    weight, seen = walk(session, scores, **options)
    expected = [
        {**row, "validation": score, "best": row["epoch"] == best}
        for row, score in zip(WALK[:n_epochs], scores, strict=False)
    ]
    np.testing.assert_equal(session.history, ["before", *expected])
    assert tuple(session.history[1]) == HISTORY_COLUMNS
    assert weight == WALKED[best - 1]
    # In training with gradients for two steps, then neither.
    assert seen == [(True, True), (True, True), (False, False)] * n_epochs
    epochs = options.get("epochs", 3)
    assert progress[:2] == [("walk: epochs", epochs), 0]
    assert progress[2::2] == [1] * n_epochs
    bests = [max(range(n + 1), key=lambda i: (scores[i], -i)) for n in range(n_epochs)]
    if scores == (0.1, 0.3, 0.2) and not options:
        assert progress[3::2] == [
            f"validation {score:.3f} (best {scores[i]:.3f})"
            for score, i in zip(scores, bests, strict=True)
        ]


def test_without_validation_the_last_epoch_is_taken(progress):
    session = TrainingSession(0)
    weight, seen = walk(session, validate=None)
    assert weight == WALKED[2]
    assert [row["best"] for row in session.history] == [False, False, True]
    assert all(math.isnan(row["validation"]) for row in session.history)
    assert seen == [(True, True)] * 6
    assert progress == [("walk: epochs", 3), 0, 1, 1, 1]


def test_each_epoch_has_randomness_of_its_own():
    drawn = []

    def steps(rng, epoch):
        drawn.append((epoch, rng.random(), torch.initial_seed()))
        return [1.0]

    session = TrainingSession(7)
    walk(session, steps=steps)
    seeds = [
        int.from_bytes(hashlib.sha256(f"7\0walk\0{epoch}".encode()).digest()[:7], "big")
        for epoch in range(3)
    ]
    assert drawn == [(i, np.random.default_rng(s).random(), s) for i, s in enumerate(seeds)]
    assert session.rng("walk", 1).random() == drawn[1][1]


def test_a_session_begins_with_nothing():
    assert "torch" not in vars(training)  # importing it imports no PyTorch
    session = TrainingSession(3)
    assert vars(session) == {
        "captions": {},
        "seed": 3,
        "folder": None,
        "device": "cpu",
        "is_control": False,
        "test_image_ids": frozenset(),
        "correlate": None,
        "extra_image_ids": set(),
        "reads_examples": True,
        "history": [],
        "_fingerprint": "",
    }
    session = TrainingSession(3, is_control=True, test_image_ids=["a", "a"])
    assert session.is_control
    assert session.test_image_ids == {"a"}


def test_gradients_are_scaled_down_to_a_norm():
    """Of [3, 4], of length 5: to 2.5 that is [1.5, 2]; 5 and more leaves it."""
    for norm, expected in ((2.5, [-1.5, -2.0]), (5.5, [-3.0, -4.0])):
        module = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(module.weight)
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        clip_gradients(optimizer, module, norm)
        (module.weight @ torch.tensor([3.0, 4.0])).sum().backward()
        optimizer.step()
        assert module.weight.tolist()[0] == pytest.approx(expected, rel=1e-6)


def test_learning_rates_are_shares_of_the_first_ones():
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [{"params": [weights[0]], "lr": 8.0}, {"params": [weights[1]], "lr": 2.0}]
    optimizer = torch.optim.SGD(groups)
    found = [
        (batch, [group["lr"] for group in optimizer.param_groups])
        for first_step, batches in ((3, "ab"), (5, "c"))
        for batch in schedule_learning_rates(optimizer, batches, first_step, lambda step: step / 4)
    ]
    assert found == [("a", [6.0, 1.5]), ("b", [8.0, 2.0]), ("c", [10.0, 2.5])]


def test_batches_are_a_permutation_in_parts():
    batches = draw_batches(7, 3, np.random.default_rng(5), "cpu")
    order = np.random.default_rng(5).permutation(7).tolist()
    assert [batch.tolist() for batch in batches] == [order[:3], order[3:6], order[6:]]


def test_a_checkpoint_holds_all_that_an_epoch_passes_on(tmp_path):
    folder = tmp_path / "new" / "folder"
    session = TrainingSession(0, folder, "mine")
    walk(session, (0.1, 0.3, 0.2), momentum=0.5)
    path = folder / "checkpoint-walk.pt"
    table = torch.load(path, weights_only=True)
    assert list(table) == [
        *("fingerprint", "module", "optimizer", "scheduler", "weights", "numbers", "history")
    ]
    assert (table["fingerprint"], table["numbers"]) == ("mine", [3, 2, 0.3])
    rows = [{k: v for k, v in row.items() if k != "best"} for row in session.history]
    assert json.loads(table["history"]) == rows
    assert table["scheduler"]["last_epoch"] == 3
    buffer = table["optimizer"]["state"][0]["momentum_buffer"].item()
    # 1, 2½, 2¼, 3⅛, 2 9/16, 3 9/32: each half of the last and the batch.
    assert buffer == 3.28125
    last, best = table["module"]["weight"].item(), table["weights"]["weight"].item()
    assert best == 1 - 0.5 * (1 + 2.5) - 0.25 * (2.25 + 3.125)
    assert last == best - 0.125 * (2.5625 + 3.28125)
    # An epoch more goes on from the last weight, the momentum and the rate, and knows the best.
    again = TrainingSession(0, folder, "mine")
    weight, _ = walk(again, [0.25], epochs=4, momentum=0.5)
    assert weight == best
    row = {"stage": "walk", "epoch": 4, "steps": 2, "learning_rate": 0.0625}
    first = last - 0.0625 * (buffer / 2 + 1)
    loss = (last + 2 * first) / 2
    assert again.history == [
        *session.history,
        {**row, "loss": loss, "validation": 0.25, "best": False},
    ]
    again = TrainingSession(0, folder, "mine")
    walk(again, [0.4], epochs=5, momentum=0.5)
    assert [row["best"] for row in again.history] == [False] * 4 + [True]


def test_checkpoints_are_removed_and_nothing_else(tmp_path):
    for name in ("checkpoint-a.pt", "checkpoint-b.pt", "model.pt", "checkpoint-a.txt"):
        (tmp_path / name).touch()
    TrainingSession(0, tmp_path).remove_checkpoints()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint-a.txt", "model.pt"]
    TrainingSession(0).remove_checkpoints()


def test_errors_of_training_in_full(tmp_path, monkeypatch):
    for value in (math.inf, math.nan):
        with says(
            f"walk, epoch 1: the loss is {value}; lower the learning rate, or look for features that are "
            f"not finite"
        ):
            walk(TrainingSession(0), batches=[1.0, value])
    with says("walk, epoch 2: the loss is -inf; lower"):
        walk(TrainingSession(0), steps=lambda rng, epoch: [1.0, math.inf if epoch else 2.0])
    with says("walk: there is no batch to train on"):
        walk(TrainingSession(0), batches=[])
    path = tmp_path / "checkpoint-walk.pt"
    walk(TrainingSession(0, tmp_path, "one"))
    with says(
        f"{path}: this is the checkpoint of another training (other options, data or versions); delete it, "
        f"or set another output_dir"
    ):
        walk(TrainingSession(0, tmp_path, "two"))
    path.write_bytes(b"")
    with says(f"{path}: the checkpoint is damaged; delete it, and the training starts again"):
        walk(TrainingSession(0, tmp_path, "one"))
    path.unlink()

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(training, "replacing", full)
    with says(
        f"{path}: the checkpoint cannot be written (No space left on device); make room or set "
        f"output_dir=DIR"
    ):
        walk(TrainingSession(0, tmp_path, "one"))
