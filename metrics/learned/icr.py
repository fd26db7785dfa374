"""ICR: a small network over an image's and a caption's embedding (Scott et al. 2023, section 3.4).

The shortest rater, and the example for new ones. `captau train rater=icr` makes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...datasets.errors import InputError
from ..base import Floats
from ..neural.models import need_extra
from ..rows import Rows
from .common.agreement import Selection
from .common.examples import Examples
from .common.features import check_vectors
from .common.network_rater import NetworkModel, NetworkRecipe
from .common.recipe import RaterModel, register_recipe
from .common.training import TrainingSession

if TYPE_CHECKING:
    import torch


@register_recipe("icr")
@dataclass(frozen=True)
class Icr(NetworkRecipe):
    """y = W₃ relu(W₂ relu(W₁ [image; text])), trained with mean squared error.

    The error is of ratings as shares of their scale; predictions are mapped to `scale` afterwards.

    The paper's embeddings are those of ViLBERT's last hidden layer, 1,024 each, in which an image's vector
    depends on the caption beside it; here any will do, by image or by image and caption.

    Args:
        images, texts: sources of embeddings (`features.py`).
        hidden: widths of the hidden layers.
        dropout: after each hidden layer.
        batch_size: rows of a step.
        epochs: passes over all rows.
        learning_rate: Adam's, at first.
        decay: factor of the learning rate after every `decay_every` epochs.
        decay_every: epochs.
        select: the coefficient on the validation rows that selects the epoch; `last` takes the last one,
            and needs no validation rows.
        scale: the lowest and the highest rating of the scale that predictions are on; the paper's is 1 to 5.
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
    select: Selection = "tau_c"
    scale: tuple[float, ...] = (0.0, 1.0)

    source_options: ClassVar[tuple[str, ...]] = ("images", "texts")
    width_keys: ClassVar[tuple[str, ...]] = ("images", "texts")
    prediction_batch: ClassVar[int] = 65536

    def __post_init__(self) -> None:
        self.check_range("hidden", "batch_size", "epochs", "decay_every", low=1)
        self.check_range("learning_rate", "decay", low=0, is_open=True)
        self.check_range("dropout", low=0, high=1)
        if len(self.scale) != 2 or not -math.inf < self.scale[0] < self.scale[1] < math.inf:
            raise InputError(
                f"rater.scale is {list(self.scale)}; the lowest and the highest rating are expected, as [1,5]"
            )

    @property
    def rating_scale(self) -> tuple[float, float]:
        return self.scale[0], self.scale[1]

    def load_inputs(self, rows: Rows, widths: Sequence[int | None]) -> tuple[Floats, ...]:
        """Load the embeddings of images and of captions, shape (len(rows), width) each."""
        inputs: list[Floats] = []
        for source, width in zip(self.sources(), widths, strict=True):
            inputs.append(check_vectors(source.vectors(rows), width, source))

        return tuple(inputs)

    def compute_widths(self, inputs: Sequence[Floats]) -> tuple[int, ...]:
        return tuple(vectors.shape[1] for vectors in inputs)

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Train on mean ratings; `select` says which epoch's weights are taken.

        Raises:
            InputError: if there are no ratings or no embeddings.
        """
        need_extra(f"rater {self.name}", ("torch", "safetensors"))
        import torch

        train = train.select_rated()
        inputs = self.load_inputs(train.rows, (None, None))
        widths = self.compute_widths(inputs)

        validation_side = None
        if self.select != "last":
            validation = validation.select_rated(must_vary=False)
            validation_inputs = self.load_inputs(validation.rows, widths)
            validation_side = (validation_inputs, validation, self.select)

        session.reseed("weights")
        model = NetworkModel(self, self.make_network(widths).to(session.device), widths)
        optimizer = torch.optim.Adam(model.network.parameters(), lr=self.learning_rate)
        self.train_network(
            "icr",
            model,
            train=(inputs, train),
            validation=validation_side,
            session=session,
            optimizer=optimizer,
            scheduler=torch.optim.lr_scheduler.StepLR(optimizer, self.decay_every, self.decay),
        )
        return model

    def make_network(self, widths: Sequence[int]) -> torch.nn.Module:
        from torch import nn

        layers: list[nn.Module] = []
        width = sum(widths)
        for hidden in self.hidden:
            layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(self.dropout)]
            width = hidden

        return nn.Sequential(*layers, nn.Linear(width, 1))

    def run_network(self, network: Any, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        import torch

        return network(torch.cat(list(batch), dim=1))[:, 0]
