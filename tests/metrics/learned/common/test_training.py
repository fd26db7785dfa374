"""The training loop: deterministic, resumed to the same weights, and clear where it cannot go on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from captau.metrics.learned.common import training
from captau.metrics.learned.common.training import TrainingSession
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
def test_a_stopped_training_goes_on_to_the_same_weights(tmp_path, monkeypatch, stop_at):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
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
            return (print, ("unpickled",))

    torch.save({"fingerprint": "same", "x": Evil()}, tmp_path / "checkpoint-line.pt")
    with says("the checkpoint is damaged"):
        fit_line(TrainingSession(3, tmp_path, "same"))


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


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(training, "replacing", full)
    with says("cannot be written", "No space left", "make room"):
        fit_line(TrainingSession(3, tmp_path, "same"))
