"""ICR: a small network over an image's and a caption's embedding (Scott et al. 2023, section 3.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..base import Floats
from ..neural.device import resolve
from ..neural.weights import need_extra
from ..rows import Rows
from .common.features import Source, checked, source
from .common.recipe import (
    Coefficient,
    Examples,
    Model,
    Recipe,
    correlate_with_ratings,
    register_recipe,
)
from .common.training import draw_batches
from .common.weights import fill, load_tensors, save_tensors

if TYPE_CHECKING:
    import torch

    from .common.training import Session

_FILE = "model.safetensors"
#: Rows at a time when it predicts.
_CHUNK = 65536


@register_recipe("icr")
@dataclass(frozen=True)
class Icr(Recipe):
    """y = W₃ relu(W₂ relu(W₁ [image; text])), trained with mean squared error.

    The paper's embeddings are those of ViLBERT's last hidden layer, 1,024 each; here any will do.

    Args:
        images, texts: where embeddings come from (`features.py`).
        hidden: widths of the hidden layers.
        dropout: after each hidden layer, the share that is dropped.
        batch_size: rows of a step.
        epochs: how often all rows are seen.
        learning_rate: Adam's, at first.
        decay: what is left of the learning rate after every `decay_every` epochs.
        decay_every: epochs.
        select: the coefficient on the validation rows that chooses the epoch.
    """

    images: str
    texts: str
    hidden: tuple[int, ...] = (1024, 64)
    dropout: float = 0.8
    batch_size: int = 256
    epochs: int = 4000
    learning_rate: float = 1e-5
    decay: float = 0.99
    decay_every: int = 15
    select: Coefficient = "tau_c"

    source_options: ClassVar[tuple[str, ...]] = ("images", "texts")

    def __post_init__(self) -> None:
        self.check_range("hidden", "batch_size", "epochs", "decay_every", low=1)
        self.check_range("learning_rate", "decay", low=0, is_open=True)
        self.check_range("dropout", low=0, high=1)

    @property
    def signature(self) -> str:
        return "|".join(s.signature for s in self._sources())

    def _sources(self) -> tuple[Source, Source]:
        return source("images", self.images, self.name), source("texts", self.texts, self.name)

    def inputs(self, rows: Rows, widths: tuple[int, int] | None = None) -> tuple[Floats, Floats]:
        """The embeddings of images and captions, shape (len(rows), width) each.

        Raises:
            InputError: where a row has none, or they are not `widths` wide.
        """
        wanted = widths or (None, None)
        images, texts = (
            checked(one.vectors(rows), width, one)
            for one, width in zip(self._sources(), wanted, strict=True)
        )
        return images, texts

    def fit(self, train: Examples, validation: Examples, session: Session) -> Model:
        """Train on mean ratings; the epoch with the best `select` on the validation rows is kept.

        Raises:
            InputError: where there are no ratings or no embeddings.
        """
        need_extra(f"rater {self.name}", ("torch", "safetensors"))
        import torch

        train, validation = train.select_rated(), validation.select_rated(must_vary=False)
        images, texts = self.inputs(train.rows)
        widths = (images.shape[1], texts.shape[1])
        x = torch.tensor(np.hstack([images, texts]), dtype=torch.float32, device=session.device)
        y = torch.tensor(train.mean_ratings, dtype=torch.float32, device=session.device)
        unseen = np.hstack(self.inputs(validation.rows, widths))
        session.reseed("weights")
        module = _network(sum(widths), self.hidden, self.dropout).to(session.device)
        optimizer = torch.optim.Adam(module.parameters(), lr=self.learning_rate)
        model = IcrModel(self, module, widths)

        def steps(rng: np.random.Generator, _: int) -> Iterable[Any]:
            return draw_batches(len(y), self.batch_size, rng, session.device)

        def loss(batch: Any) -> torch.Tensor:
            return torch.nn.functional.mse_loss(module(x[batch])[:, 0], y[batch])

        session.train(
            "icr",
            module,
            steps=steps,
            loss=loss,
            optimizer=optimizer,
            scheduler=torch.optim.lr_scheduler.StepLR(optimizer, self.decay_every, self.decay),
            epochs=self.epochs,
            validate=lambda: correlate_with_ratings(model.forward(unseen), validation, self.select),
        )
        return model

    def load(self, folder: Path) -> Model:
        tensors, card = load_tensors(folder / _FILE, ("images", "texts"))
        widths = (int(card["images"]), int(card["texts"]))
        module = _network(sum(widths), self.hidden, self.dropout)
        return IcrModel(self, module, widths).filled(folder / _FILE, tensors)


def _network(width: int, hidden: tuple[int, ...], dropout: float) -> Any:
    import torch

    layers: list[Any] = []
    for wide in hidden:
        layers += [torch.nn.Linear(width, wide), torch.nn.ReLU(), torch.nn.Dropout(dropout)]
        width = wide
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))


class IcrModel(Model):
    """A trained network; `widths` are those of images and texts."""

    def __init__(self, made: Icr, module: Any, widths: tuple[int, int]) -> None:
        self.recipe = made
        self.module = module
        self.widths = widths

    def filled(self, path: Path, tensors: dict[str, Any]) -> IcrModel:
        fill(self.module, path, tensors)
        self.module.to(resolve("auto")).eval()
        return self

    def forward(self, x: Floats) -> Floats:
        """Predictions of shape (n,) from embeddings side by side, shape (n, sum of widths)."""
        import torch

        device = next(self.module.parameters()).device
        with torch.no_grad():
            found = [
                self.module(torch.tensor(part, dtype=torch.float32, device=device))[:, 0].cpu()
                for part in np.split(x, range(_CHUNK, len(x), _CHUNK))
            ]
        return torch.cat(found).numpy().astype(np.float64)

    def predict(self, rows: Rows) -> Floats:
        return self.forward(np.hstack(self.recipe.inputs(rows, self.widths)))

    def save(self, folder: Path) -> None:
        images, texts = self.widths
        save_tensors(
            folder / _FILE, self.module.state_dict(), {"images": str(images), "texts": str(texts)}
        )
