"""ICR: a small network over an image's and a caption's embedding (Scott et al. 2023, section 3.4).

The shortest rater, and the example for new ones. `captau train rater=icr` makes it.
"""

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
from .common.features import FeatureSource, check_vectors, make_source
from .common.recipe import (
    Coefficient,
    Examples,
    Model,
    Recipe,
    correlate_with_ratings,
    register_recipe,
)
from .common.training import Session, draw_batches
from .common.weights import fill_module, load_tensors, save_tensors

if TYPE_CHECKING:
    import torch

WEIGHTS_FILE = "model.safetensors"
#: Rows in a batch of predictions.
_PREDICTION_BATCH = 65536


@register_recipe("icr")
@dataclass(frozen=True)
class Icr(Recipe):
    """y = W₃ relu(W₂ relu(W₁ [image; text])), trained with mean squared error.

    The paper's embeddings are those of ViLBERT's last hidden layer, 1,024 each; here any will do.

    Args:
        images, texts: sources of embeddings (`features.py`).
        hidden: widths of the hidden layers.
        dropout: after each hidden layer.
        batch_size: rows of a step.
        epochs: passes over all rows.
        learning_rate: Adam's, at first.
        decay: factor of the learning rate after every `decay_every` epochs.
        decay_every: epochs.
        select: the coefficient on the validation rows that selects the epoch.
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

    def _sources(self) -> tuple[FeatureSource, FeatureSource]:
        return (
            make_source("images", self.images, self.name),
            make_source("texts", self.texts, self.name),
        )

    def load_inputs(
        self, rows: Rows, widths: tuple[int, int] | None = None
    ) -> tuple[Floats, Floats]:
        """Load the embeddings of images and of captions, shape (len(rows), width) each.

        Raises:
            InputError: if a row has none, or they are not `widths` wide.
        """
        images, texts = (
            check_vectors(source.vectors(rows), width, source)
            for source, width in zip(self._sources(), widths or (None, None), strict=True)
        )
        return images, texts

    def fit(self, train: Examples, validation: Examples, session: Session) -> Model:
        """Train on mean ratings; `select` on the validation rows selects the epoch.

        Raises:
            InputError: if there are no ratings or no embeddings.
        """
        need_extra(f"rater {self.name}", ("torch", "safetensors"))
        import torch

        train, validation = train.select_rated(), validation.select_rated(must_vary=False)
        images, texts = self.load_inputs(train.rows)
        widths = (images.shape[1], texts.shape[1])
        x = torch.tensor(np.hstack([images, texts]), dtype=torch.float32, device=session.device)
        y = torch.tensor(train.mean_ratings, dtype=torch.float32, device=session.device)
        validation_inputs = np.hstack(self.load_inputs(validation.rows, widths))
        session.reseed("weights")
        module = self.make_network(widths).to(session.device)
        optimizer = torch.optim.Adam(module.parameters(), lr=self.learning_rate)
        model = IcrModel(self, module, widths)

        def steps(rng: np.random.Generator, _: int) -> Iterable[Any]:
            return draw_batches(len(y), self.batch_size, rng, session.device)

        def loss(batch: Any) -> torch.Tensor:
            return torch.nn.functional.mse_loss(module(x[batch])[:, 0], y[batch])

        def validate() -> float:
            predictions = model.forward(validation_inputs)
            return correlate_with_ratings(predictions, validation, self.select)

        session.train(
            "icr",
            module,
            steps=steps,
            loss=loss,
            optimizer=optimizer,
            scheduler=torch.optim.lr_scheduler.StepLR(optimizer, self.decay_every, self.decay),
            epochs=self.epochs,
            validate=validate,
        )
        return model

    def make_network(self, widths: tuple[int, int]) -> torch.nn.Module:
        """Make a network for embeddings of these widths, with random weights."""
        import torch

        layers: list[torch.nn.Module] = []
        width = sum(widths)
        for hidden in self.hidden:
            layers += [
                torch.nn.Linear(width, hidden),
                torch.nn.ReLU(),
                torch.nn.Dropout(self.dropout),
            ]
            width = hidden
        return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))

    def load(self, folder: Path) -> Model:
        path = folder / WEIGHTS_FILE
        tensors, card = load_tensors(path, ("images", "texts"))
        widths = (int(card["images"]), int(card["texts"]))
        module = self.make_network(widths)
        fill_module(module, path, tensors)
        return IcrModel(self, module.to(resolve("auto")).eval(), widths)


class IcrModel(Model):
    """A trained network; `widths` are those of the embeddings of images and texts."""

    def __init__(self, recipe: Icr, module: Any, widths: tuple[int, int]) -> None:
        self.recipe = recipe
        self.module = module
        self.widths = widths

    def forward(self, x: Floats) -> Floats:
        """Return predictions, shape (n,), from embeddings side by side, shape (n, sum of widths)."""
        import torch

        device = next(self.module.parameters()).device
        with torch.no_grad():
            predictions = [
                self.module(torch.tensor(part, dtype=torch.float32, device=device))[:, 0].cpu()
                for part in np.split(x, range(_PREDICTION_BATCH, len(x), _PREDICTION_BATCH))
            ]
        return torch.cat(predictions).numpy().astype(np.float64)

    def predict(self, rows: Rows) -> Floats:
        return self.forward(np.hstack(self.recipe.load_inputs(rows, self.widths)))

    def save(self, folder: Path) -> None:
        images, texts = self.widths
        card = {"images": str(images), "texts": str(texts)}
        save_tensors(folder / WEIGHTS_FILE, self.module.state_dict(), card)
