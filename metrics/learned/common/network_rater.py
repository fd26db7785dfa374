"""Raters that are a network over embeddings, trained on mean ratings: what ICR and QE share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ...base import Floats
from ...neural.models import check_shapes, resolve
from ...rows import Rows
from .agreement import Coefficient, correlate_with_ratings
from .examples import Examples
from .features import FeatureKind, FeatureSource, make_source
from .recipe import RaterModel, Recipe
from .training import TrainingSession, draw_batches
from .weight_files import load_tensors, save_tensors

if TYPE_CHECKING:
    import torch

WEIGHTS_FILE = "model.safetensors"


class NetworkRecipe(Recipe):
    """A recipe whose model is a network over arrays of n rows, as `load_inputs` returns them."""

    #: Names of the network's widths on the card of its weights.
    width_keys: ClassVar[tuple[str, ...]]
    #: Rows in a batch of predictions.
    prediction_batch: ClassVar[int]

    batch_size: int
    epochs: int

    @property
    def rating_scale(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def signature(self) -> str:
        return "|".join(source.signature for source in self.sources())

    def sources(self) -> list[FeatureSource]:
        """Make the sources that `source_options` name, in their order; an option that is None has none."""
        sources: list[FeatureSource] = []
        for kind in self.source_options:
            text = getattr(self, kind)
            if text is not None:
                sources.append(make_source(cast("FeatureKind", kind), text, self.name))
        return sources

    def check_features(self, rows: Rows) -> None:
        for source in self.sources():
            source.check(rows)

    @abstractmethod
    def load_inputs(self, rows: Rows, widths: Sequence[int | None]) -> tuple[Floats, ...]:
        """Load the network's inputs, of the widths that are not None.

        Raises:
            InputError: if a row has none, or they are of other widths.
        """

    @abstractmethod
    def compute_widths(self, inputs: Sequence[Floats]) -> tuple[int, ...]:
        """Return the widths of inputs, in the order of `width_keys`."""

    @abstractmethod
    def make_network(self, widths: Sequence[int]) -> torch.nn.Module:
        """Make a network with random weights."""

    @abstractmethod
    def run_network(self, network: Any, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return estimates, shape (n,), from inputs as tensors."""

    def train_network(
        self,
        stage: str,
        model: NetworkModel,
        train: tuple[Sequence[Floats], Examples],
        validation: tuple[Sequence[Floats], Examples, Coefficient] | None,
        session: TrainingSession,
        optimizer: torch.optim.Optimizer,
        **options: Any,
    ) -> float:
        """Train a model in place, with squared error against mean ratings.

        Args:
            train: inputs, and the rated rows that they belong to.
            validation: the same, and the coefficient that selects the epoch; None takes the last one.
            options: more arguments of `TrainingSession.train`.

        Returns:
            the coefficient on the validation rows; NaN without them.
        """
        import torch

        inputs, examples = train
        tensors = to_tensors(inputs, session.device)
        targets = torch.tensor(examples.mean_ratings, dtype=torch.float32, device=session.device)

        def draw_steps(rng: np.random.Generator, _epoch: int) -> Iterable[torch.Tensor]:
            return draw_batches(len(targets), self.batch_size, rng, session.device)

        def loss(rows: torch.Tensor) -> torch.Tensor:
            estimates = self.run_network(model.network, [t[rows] for t in tensors])
            return torch.nn.functional.mse_loss(estimates, targets[rows])

        def validate() -> float:
            if validation is None:
                return math.nan
            validation_inputs, rated, coefficient = validation
            predictions = model.estimate(validation_inputs)
            return correlate_with_ratings(predictions, rated, coefficient, session.correlate)

        session.train(
            stage,
            model.network,
            steps=draw_steps,
            loss=loss,
            optimizer=optimizer,
            epochs=self.epochs,
            validate=None if validation is None else validate,
            **options,
        )
        return validate()

    def load(self, folder: Path) -> RaterModel:
        tensors, card = load_tensors(folder / WEIGHTS_FILE, self.width_keys)
        widths = tuple(int(card[key]) for key in self.width_keys)

        network = self.make_network(widths)
        check_shapes(folder / WEIGHTS_FILE, network.state_dict(), tensors)
        network.load_state_dict(tensors)
        return NetworkModel(self, network.to(resolve("auto")).eval(), widths)


class NetworkModel(RaterModel):
    """A trained network, for inputs of `widths`."""

    def __init__(self, recipe: NetworkRecipe, network: Any, widths: tuple[int, ...]) -> None:
        self.recipe = recipe
        self.network = network
        self.widths = widths

    def estimate(self, inputs: Sequence[Floats]) -> Floats:
        """Return estimates, shape (n,), from inputs."""
        import torch

        device = str(next(self.network.parameters()).device)
        size = self.recipe.prediction_batch
        estimates: list[torch.Tensor] = []
        with torch.no_grad():
            for start in range(0, len(inputs[0]), size):
                part = [array[start : start + size] for array in inputs]
                tensors = to_tensors(part, device)
                estimates.append(self.recipe.run_network(self.network, tensors).cpu())

        return torch.cat(estimates).numpy().astype(np.float64)

    def predict(self, rows: Rows) -> Floats:
        low, high = self.recipe.rating_scale
        return low + (high - low) * self.estimate(self.recipe.load_inputs(rows, self.widths))

    def save(self, folder: Path) -> None:
        widths = [str(width) for width in self.widths]
        card = dict(zip(self.recipe.width_keys, widths, strict=True))
        save_tensors(folder / WEIGHTS_FILE, self.network.state_dict(), card)


def to_tensors(arrays: Sequence[Floats], device: str) -> list[torch.Tensor]:
    """Copy arrays to float32 tensors."""
    import torch

    return [torch.tensor(array, dtype=torch.float32, device=device) for array in arrays]
