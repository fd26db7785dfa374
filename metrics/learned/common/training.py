"""The training loop: deterministic given its seed, and a killed run goes on to the very same weights.

All chance in an epoch (order, dropout, negatives) is drawn anew from (seed, stage, epoch), so a
checkpoint needs no states of generators, and an epoch does not depend on how the one before was
reached.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ...progress import counted

if TYPE_CHECKING:
    import torch

Batch = TypeVar("Batch")

#: Columns of `training.csv`, whatever the rater. `loss` is the mean over an epoch's steps.
HISTORY_COLUMNS = ("stage", "epoch", "steps", "learning_rate", "loss", "validation", "best")
#: Epochs shorter than this share a checkpoint: writing one must not take longer than the training.
CHECKPOINT_SECONDS = 2.0


def clip_gradients(optimizer: torch.optim.Optimizer, module: torch.nn.Module, norm: float) -> None:
    """No step has a gradient longer than `norm`."""
    import torch

    def clip(*_: Any) -> None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), norm)

    optimizer.register_step_pre_hook(clip)


def paced(
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    first: int,
    share: Callable[[int], float],
) -> Iterator[Batch]:
    """Batches, the learning rates set before each.

    Args:
        optimizer: whose rates, as they are at first, are the greatest.
        batches: of an epoch.
        first: the number of its first step among all.
        share: of the greatest rates, by the number of a step.
    """
    for step, batch in enumerate(batches, first):
        for group in optimizer.param_groups:
            group.setdefault("greatest", group["lr"])
            group["lr"] = share(step) * group["greatest"]
        yield batch


def shuffled_rows(n: int, size: int, rng: np.random.Generator, device: str) -> Iterable[Any]:
    """Tensors of row numbers, `size` at a time: all n rows once, in an order that is drawn."""
    import torch

    return torch.from_numpy(rng.permutation(n)).to(device).split(size)


class Session:
    """One training of one rater.

    Args:
        seed: of all that is drawn.
        folder: where checkpoints lie; None keeps none.
        fingerprint: of all that the weights depend on; a checkpoint of another is not gone on with.
        device: of torch.
        shuffled: whether this is a control, whose labels are drawn by lot; what labels a recipe makes
            itself, it has to shuffle itself.
        tested: images that must not be learnt from, wherever they come from.

    Attributes:
        saw: images beside the examples' that a recipe learnt from; it adds them.
        history: a row of `HISTORY_COLUMNS` for each epoch of each stage.
    """

    def __init__(
        self,
        seed: int,
        folder: Path | None = None,
        fingerprint: str = "",
        device: str = "cpu",
        *,
        shuffled: bool = False,
        tested: Iterable[str] = (),
    ) -> None:
        self.seed = seed
        self.shuffled = shuffled
        self.tested = frozenset(tested)
        self.saw: set[str] = set()
        self.folder = folder
        self.device = device
        self.history: list[dict[str, Any]] = []
        self._fingerprint = fingerprint

    def rng(self, *names: str | int) -> np.random.Generator:
        """A generator that depends on the seed and these names alone."""
        return np.random.default_rng(self._number(*names))

    def reseed(self, *names: str | int) -> None:
        """Seed torch likewise: before weights are drawn."""
        import torch

        torch.manual_seed(self._number(*names))

    def _number(self, *names: str | int) -> int:
        text = "\0".join(map(str, (self.seed, *names)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def loop(
        self,
        stage: str,
        module: torch.nn.Module,
        *,
        steps: Callable[[np.random.Generator, int], Iterable[Batch]],
        loss: Callable[[Batch], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        epochs: int,
        validate: Callable[[], float] | None,
        higher_is_better: bool = True,
        scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
        patience: int | None = None,
    ) -> None:
        """Train a module, which has the weights of its best epoch afterwards.

        Args:
            stage: a name of its own among the stages of a training.
            module: in training mode during steps, in evaluation mode and without gradients during
                validation.
            steps: the batches of an epoch, by a generator of its own and its number from 0.
            loss: of a batch, a scalar.
            optimizer: of the module's parameters.
            epochs: at most; 0 leaves the module as it is.
            validate: what epochs are compared by; NaN is worse than any number. None takes the last.
            higher_is_better: of what `validate` gives.
            scheduler: stepped after each epoch.
            patience: stop when so many epochs brought nothing better; None never does.

        Raises:
            InputError: where a loss is not finite, there is no batch, or a checkpoint is damaged or of
                another training.
        """
        import torch

        state = _State(module, optimizer, scheduler)
        state.read(self._path(stage), self._fingerprint, self.device)
        saved = time.monotonic()
        with counted(f"{stage}: epochs", epochs) as advance:
            advance(state.epoch)
            while state.epoch < epochs and not state.stale(patience):
                number = state.epoch
                self.reseed(stage, number)
                module.train()
                total, count = 0.0, 0
                for batch in steps(self.rng(stage, number), number):
                    optimizer.zero_grad(set_to_none=True)
                    value = loss(batch)
                    if not math.isfinite(found := float(value.detach())):
                        raise InputError(
                            f"{stage}, epoch {number + 1}: the loss is {found}; lower the learning rate, "
                            f"or look for features that are not finite"
                        )
                    value.backward()
                    optimizer.step()
                    total, count = total + found, count + 1
                if not count:
                    raise InputError(f"{stage}: there is no batch to train on")
                rate = float(optimizer.param_groups[0]["lr"])
                if scheduler is not None:
                    scheduler.step()
                module.eval()
                with torch.no_grad():
                    score = math.nan if validate is None else float(validate())
                state.end_of_epoch(
                    {
                        "stage": stage,
                        "epoch": number + 1,
                        "steps": count,
                        "learning_rate": rate,
                        "loss": total / count,
                        "validation": score,
                    },
                    number if validate is None else score if higher_is_better else -score,
                )
                last = state.epoch >= epochs or state.stale(patience)
                if last or time.monotonic() - saved >= CHECKPOINT_SECONDS:
                    state.write(self._path(stage), self._fingerprint)
                    saved = time.monotonic()
                advance(1)
                if validate is not None:
                    advance.tell(
                        f"validation {score:.3f} (best {state.history[state.best_epoch - 1]['validation']:.3f})"
                    )
        state.restore_best()
        module.eval()
        best = state.best_epoch
        self.history += [{**row, "best": row["epoch"] == best} for row in state.history]

    def _path(self, stage: str) -> Path | None:
        return None if self.folder is None else self.folder / f"checkpoint-{stage}.pt"

    def finish(self) -> None:
        """Remove the checkpoints: the rater is saved."""
        if self.folder is not None:
            for path in self.folder.glob("checkpoint-*.pt"):
                path.unlink(missing_ok=True)


class _State:
    """All that an epoch leaves to the next."""

    def __init__(self, module: Any, optimizer: Any, scheduler: Any) -> None:
        self.module, self.optimizer, self.scheduler = module, optimizer, scheduler
        self.epoch = 0
        self.best_epoch = 0
        self.best = -math.inf
        self.weights: dict[str, Any] | None = None
        self.history: list[dict[str, Any]] = []

    def stale(self, patience: int | None) -> bool:
        return patience is not None and self.epoch - self.best_epoch >= patience

    def end_of_epoch(self, row: dict[str, Any], score: float) -> None:
        self.epoch += 1
        self.history.append(row)
        if score > self.best or self.weights is None:
            self.best = -math.inf if math.isnan(score) else score
            self.best_epoch = self.epoch
            self.weights = copy.deepcopy(self.module.state_dict())

    def restore_best(self) -> None:
        if self.weights is not None:
            self.module.load_state_dict(self.weights)

    def write(self, path: Path | None, fingerprint: str) -> None:
        if path is None:
            return
        import torch

        table = {
            "fingerprint": fingerprint,
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict() if self.scheduler is not None else {},
            "weights": self.weights,
            "numbers": [self.epoch, self.best_epoch, self.best],
            "history": json.dumps(self.history),
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as stream:
                torch.save(table, stream)
        except OSError as error:
            raise InputError(
                f"{path}: the checkpoint cannot be written ({error.strerror}); make room or set "
                f"output_dir=DIR"
            ) from error

    def read(self, path: Path | None, fingerprint: str, device: str) -> None:
        if path is None or not path.is_file():
            return
        import torch

        try:
            table = torch.load(path, map_location=device, weights_only=True)
            if table["fingerprint"] != fingerprint:
                raise InputError(
                    f"{path}: the checkpoint of another training (other options, data or versions); "
                    f"delete it, or set another output_dir"
                )
            self.module.load_state_dict(table["module"])
            self.optimizer.load_state_dict(table["optimizer"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(table["scheduler"])
            self.weights = table["weights"]
            self.epoch, self.best_epoch = map(int, table["numbers"][:2])
            self.best = float(table["numbers"][2])
            self.history = json.loads(table["history"])
        except InputError:
            raise
        except Exception as error:  # of zipfile, pickle and torch alike
            raise InputError(
                f"{path}: no whole checkpoint; delete it, and the training begins anew"
            ) from error
