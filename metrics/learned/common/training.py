"""The training loop of all learned raters: deterministic, and resumed to the very same weights.

Recipes call `TrainingSession.train`. All random numbers of an epoch (order, dropout, negatives) are drawn anew
from (seed, stage, epoch), so a checkpoint needs no states of generators, and an epoch does not depend
on how the one before was reached.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ...progress import progress_counter
from .agreement import Correlate

if TYPE_CHECKING:
    import torch

Batch = TypeVar("Batch")

#: Columns of `training.csv`, for every rater. `loss` is the mean over an epoch's steps.
HISTORY_COLUMNS = ("stage", "epoch", "steps", "learning_rate", "loss", "validation", "best")
#: Epochs shorter than this share a checkpoint: writing one must not take longer than the training.
CHECKPOINT_SECONDS = 2.0


def clip_gradients(optimizer: torch.optim.Optimizer, module: torch.nn.Module, norm: float) -> None:
    """Scale the gradient of every step down to `norm` where it is longer."""
    import torch

    def clip(*_: Any) -> None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), norm)

    optimizer.register_step_pre_hook(clip)


def schedule_learning_rates(
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    first_step: int,
    share: Callable[[int], float],
) -> Iterator[Batch]:
    """Yield batches, setting the learning rates before each.

    Args:
        optimizer: its initial rates are the greatest.
        batches: of an epoch.
        first_step: the number of the epoch's first step in the whole stage.
        share: maps the number of a step to a share of the greatest rates.
    """
    for step, batch in enumerate(batches, first_step):
        for group in optimizer.param_groups:
            group.setdefault("greatest", group["lr"])
            group["lr"] = share(step) * group["greatest"]
        yield batch


def draw_batches(n: int, size: int, rng: np.random.Generator, device: str) -> Iterable[Any]:
    """Return all n row numbers once, in random order, as tensors of `size` each."""
    import torch

    return torch.from_numpy(rng.permutation(n)).to(device).split(size)


class TrainingSession:
    """One training of one rater.

    Args:
        seed: of all random numbers.
        folder: for checkpoints; None writes none.
        fingerprint: of everything that the weights depend on; a checkpoint with another is refused.
        device: of torch.
        is_control: whether labels are shuffled. A recipe has to shuffle labels that it makes itself.
        test_image_ids: images that no recipe may learn from, wherever they come from.
        correlate: a coefficient of scores and ratings, for recipes that choose among epochs or weights by one.

    Attributes:
        extra_image_ids: images besides the examples' that the recipe learned from; the recipe adds them.
        reads_examples: whether it learns from the examples at all; a recipe that does not says so.
        captions: what it learned from instead, in the words and numbers of a card; see `note_captions`.
        history: a row of `HISTORY_COLUMNS` for each epoch of each stage.
    """

    def __init__(
        self,
        seed: int,
        folder: Path | None = None,
        fingerprint: str = "",
        device: str = "cpu",
        *,
        is_control: bool = False,
        test_image_ids: Iterable[str] = (),
        correlate: Correlate | None = None,
    ) -> None:
        self.seed = seed
        self.folder = folder
        self.device = device
        self.is_control = is_control
        self.test_image_ids = frozenset(test_image_ids)
        self.correlate = correlate
        self.extra_image_ids: set[str] = set()
        self.reads_examples = True
        self.captions: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []
        self._fingerprint = fingerprint

    def note_captions(
        self,
        origin: str,
        train: Mapping[str, Sequence[str]],
        validation: Mapping[str, Sequence[str]],
    ) -> None:
        """Note the captions that a recipe learns from in place of the examples, for the card.

        Args:
            origin: the file, or the word for other captions.
            train, validation: the captions by image id.
        """
        n_images = 0
        word_counts: list[int] = []
        for side in (train, validation):
            n_images += len(side)
            for captions in side.values():
                word_counts += [len(text.split()) for text in captions]
        self.captions = {
            "origin": origin,
            "images": n_images,
            "captions": len(word_counts),
            "words": sorted(word_counts),
        }

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return a generator that depends on the seed and these names only."""
        return np.random.default_rng(self._derive_seed(*names))

    def reseed(self, *names: str | int) -> None:
        """Seed torch from the session's seed and these names, before weights are drawn."""
        import torch

        torch.manual_seed(self._derive_seed(*names))

    def _derive_seed(self, *names: str | int) -> int:
        text = "\0".join(map(str, (self.seed, *names)))
        digest = hashlib.sha256(text.encode()).digest()
        # Seven bytes, so that the number is one of torch's, which have 64 bits and a sign.
        return int.from_bytes(digest[:7], "big")

    def train(
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
        """Train a module; it ends with the weights of its best epoch.

        Args:
            stage: a name that no other stage of this training has.
            module: in training mode during steps, in evaluation mode and without gradients during validation.
            steps: yields the batches of an epoch, from its own generator and its number, from 0.
            loss: a scalar, from a batch.
            optimizer: of the module's parameters.
            epochs: at most; 0 leaves the module unchanged.
            validate: scores an epoch; NaN is worse than any number. None selects the last epoch.
            higher_is_better: whether a higher validation score is better.
            scheduler: stepped after each epoch.
            patience: epochs without improvement after which training stops; None never stops.

        Raises:
            InputError: if a loss is not finite, there is no batch, or a checkpoint is damaged or belongs
                to another training.
        """
        checkpoint = self._find_checkpoint(stage)
        state = _TrainingState(module, optimizer, scheduler)
        state.load(checkpoint, self._fingerprint, self.device)
        saved_at = time.monotonic()

        with progress_counter(f"{stage}: epochs", epochs) as advance:
            advance(state.epoch)
            while state.epoch < epochs and not state.is_stale(patience):
                number = state.epoch
                self.reseed(stage, number)
                row = state.train_epoch(stage, steps(self.rng(stage, number), number), loss)
                validation = _validate(module, validate)
                score = validation if higher_is_better else -validation
                row["validation"] = validation
                # Where nothing is validated, every epoch is better than the one before.
                state.end_epoch(row, number if validate is None else score)

                is_last = state.epoch >= epochs or state.is_stale(patience)
                if is_last or time.monotonic() - saved_at >= CHECKPOINT_SECONDS:
                    state.save(checkpoint, self._fingerprint)
                    saved_at = time.monotonic()

                advance(1)
                if validate is not None:
                    advance.add_detail(state.describe(validation))

        self._take_best_epoch(module, state)

    def _find_checkpoint(self, stage: str) -> Path | None:
        """Return the file that keeps a stage's state; None where none is kept."""
        return None if self.folder is None else self.folder / f"checkpoint-{stage}.pt"

    def _take_best_epoch(self, module: torch.nn.Module, state: _TrainingState) -> None:
        """Give a module the weights of its best epoch, and keep the rows of all epochs."""
        if state.best_weights is not None:
            module.load_state_dict(state.best_weights)
        module.eval()

        for row in state.history:
            self.history.append({**row, "best": row["epoch"] == state.best_epoch})

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints, once the rater is saved."""
        if self.folder is not None:
            for path in self.folder.glob("checkpoint-*.pt"):
                path.unlink(missing_ok=True)


def _validate(module: torch.nn.Module, score: Callable[[], float] | None) -> float:
    """Score a module in evaluation mode and without gradients; NaN where nothing scores it."""
    import torch

    module.eval()
    with torch.no_grad():
        return math.nan if score is None else float(score())


class _TrainingState:
    """Everything that an epoch passes on to the next; checkpoints hold it."""

    def __init__(self, module: Any, optimizer: Any, scheduler: Any) -> None:
        self.module = module
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.epoch = 0
        self.best_epoch = 0
        self.best_score = -math.inf
        self.best_weights: dict[str, Any] | None = None
        self.history: list[dict[str, Any]] = []

    def is_stale(self, patience: int | None) -> bool:
        return patience is not None and self.epoch - self.best_epoch >= patience

    def describe(self, validation: float) -> str:
        """Say how the last epoch scores on the validation rows, and how the best one does."""
        best = self.history[self.best_epoch - 1]["validation"]
        return f"validation {validation:.3f} (best {best:.3f})"

    def train_epoch(
        self, stage: str, batches: Iterable[Any], loss: Callable[[Any], torch.Tensor]
    ) -> dict[str, Any]:
        """Run the steps of an epoch; return its row of the history."""
        self.module.train()
        total = 0.0
        count = 0
        for batch in batches:
            self.optimizer.zero_grad()
            batch_loss = loss(batch)
            value = float(batch_loss.detach())
            if not math.isfinite(value):
                raise InputError(
                    f"{stage}, epoch {self.epoch + 1}: the loss is {value}; lower the learning rate, or "
                    f"look for features that are not finite"
                )
            batch_loss.backward()
            self.optimizer.step()
            total += value
            count += 1

        if not count:
            raise InputError(f"{stage}: there is no batch to train on")

        row = {
            "stage": stage,
            "epoch": self.epoch + 1,
            "steps": count,
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]),
            "loss": total / count,
        }
        if self.scheduler is not None:
            self.scheduler.step()
        return row

    def end_epoch(self, row: dict[str, Any], score: float) -> None:
        """Append an epoch's row, and copy the weights if its score is the best."""
        self.epoch += 1
        self.history.append(row)
        if self.best_weights is None or score > self.best_score:
            # Any number is greater than what stands for NaN; after NaN, the first number is the best.
            self.best_score = -math.inf if math.isnan(score) else score
            self.best_epoch = self.epoch
            self.best_weights = copy.deepcopy(self.module.state_dict())

    def save(self, path: Path | None, fingerprint: str) -> None:
        """Write a checkpoint if there is a path; raise `InputError` if it cannot be written."""
        if path is None:
            return
        import torch

        table = {
            "fingerprint": fingerprint,
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict() if self.scheduler is not None else {},
            "weights": self.best_weights,
            "numbers": [self.epoch, self.best_epoch, self.best_score],
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

    def load(self, path: Path | None, fingerprint: str, device: str) -> None:
        """Read a checkpoint if it exists; raise `InputError` if it is damaged or of another training."""
        if path is None or not path.is_file():
            return
        import torch

        try:
            table = torch.load(path, map_location=device, weights_only=True)
            if table["fingerprint"] != fingerprint:
                raise InputError(
                    f"{path}: this is the checkpoint of another training (other options, data or versions); "
                    f"delete it, or set another output_dir"
                )
            self.module.load_state_dict(table["module"])
            self.optimizer.load_state_dict(table["optimizer"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(table["scheduler"])
            self.best_weights = table["weights"]
            epoch, best_epoch, best_score = table["numbers"]
            self.epoch = int(epoch)
            self.best_epoch = int(best_epoch)
            self.best_score = float(best_score)
            self.history = json.loads(table["history"])
        except InputError:
            raise
        except Exception as error:  # of zipfile, pickle and torch alike
            raise InputError(
                f"{path}: the checkpoint is damaged; delete it, and the training starts again"
            ) from error
