"""QE: a bilinear model over image, object-label and caption embeddings (Levinboim et al. 2021, section 5).

`captau train rater=qe` makes it; the network itself is in `_qe_network.py`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from ..base import Floats
from ..neural.device import resolve
from ..neural.weights import need_extra
from ..rows import Rows
from .common.captioned_images import CaptionedImages, load_captioned_images
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

    from ._qe_network import Batch

WEIGHTS_FILE = "model.safetensors"
#: The widths on the card of the weights, in order.
_WIDTH_KEYS = ("images", "texts", "label_width", "labels")
#: Rows in a batch of predictions.
_PREDICTION_BATCH = 16384


@dataclass(frozen=True)
class QeInputs:
    """Embeddings of n rows.

    Attributes:
        images: shape (n, image dimensions).
        texts: shape (n, caption dimensions).
        labels: shape (n, n_labels, label dimensions), padded with zeros.
        label_mask: 1 for labels and 0 for padding, shape (n, n_labels).
    """

    images: Floats
    texts: Floats
    labels: Floats
    label_mask: Floats

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """Dimensions of images, captions and labels, and the number of labels."""
        return self.images.shape[1], self.texts.shape[1], self.labels.shape[2], self.labels.shape[1]

    def to_batch(self, device: str, rows: slice = slice(None)) -> Batch:
        """Return the rows as tensors."""
        import torch

        from ._qe_network import Batch

        arrays = (self.images, self.texts, self.labels, self.label_mask)
        return Batch(*(torch.tensor(a[rows], dtype=torch.float32, device=device) for a in arrays))


@register_recipe("qe")
@dataclass(frozen=True)
class Qe(Recipe):
    """ŷ = σ(w · [b(i, s); b(oⱼ, i)…; b(oⱼ, s)…]), b(x, y) = [x; 1]ᵀ B [y; 1] (equation 1).

    i, s and oⱼ are the image's, the caption's and each object label's embedding after a dense layer
    with leaky ReLU, as wide as its input. The paper's are Graph-RISE's (64), the Universal Sentence
    Encoder's (512) and its label model's (256). Trained with mean squared error against p̂.

    Args:
        images, texts, labels: sources of embeddings (`features.py`); labels are sequences, the surest
            first; None uses no labels.
        n_labels: the number of labels; of several, the best on the validation rows.
        learning_rates: Adam's; of several, the best on the validation rows.
        dropout: on the inputs of every layer.
        batch_size: rows of a step, and image-caption pairs of a pretraining step.
        epochs: at most (the paper does not say).
        patience: epochs without improvement after which training stops.
        pretrain: captioned images for pretraining, which learns to find each image's own caption in a
            batch (section 5.2): `references`, a file, or `demo` (`captioned_images.py`); None skips it.
        pretrain_epochs: at most.
        pretrain_rate: Adam's in pretraining.
        select: the coefficient on the validation rows that selects the model.
    """

    images: str
    texts: str
    labels: str | None = None
    n_labels: tuple[int, ...] = (0, 5, 10, 20)
    learning_rates: tuple[float, ...] = (1e-4, 1e-5, 1e-6)
    dropout: float = 0.2
    batch_size: int = 256
    epochs: int = 500
    patience: int = 20
    pretrain: str | None = None
    pretrain_epochs: int = 100
    pretrain_rate: float = 1e-4
    select: Coefficient = "spearman"

    source_options: ClassVar[tuple[str, ...]] = ("images", "texts", "labels")

    def __post_init__(self) -> None:
        self.check_range("batch_size", "epochs", "patience", "pretrain_epochs", low=1)
        self.check_range("n_labels", low=0)
        self.check_range("learning_rates", "pretrain_rate", low=0, is_open=True)
        self.check_range("dropout", low=0, high=1)

    @property
    def signature(self) -> str:
        return "|".join(s.signature for s in self._sources() if s is not None)

    def _sources(self) -> tuple[FeatureSource, FeatureSource, FeatureSource | None]:
        return (
            make_source("images", self.images, self.name),
            make_source("texts", self.texts, self.name),
            make_source("labels", self.labels, self.name) if self.labels else None,
        )

    def load_inputs(
        self, rows: Rows, n_labels: int, widths: tuple[int, ...] | None = None
    ) -> QeInputs:
        """Load the embeddings of rows, with `n_labels` labels each.

        Raises:
            InputError: if a row has none, or they are of other dimensions than `widths`.
        """
        image_source, text_source, label_source = self._sources()
        image_width, text_width, label_width = (widths or (None, None, None))[:3]
        images = check_vectors(image_source.vectors(rows), image_width, image_source)
        texts = check_vectors(text_source.vectors(rows), text_width, text_source)
        if label_source is None or not n_labels:
            no_labels = np.zeros((len(rows), 0, label_width or 0))
            return QeInputs(images, texts, no_labels, np.zeros((len(rows), 0)))
        sequences = [s[:n_labels] for s in label_source.sequences(rows)]
        label_width = label_width or sequences[0].shape[1]
        labels = np.zeros((len(rows), n_labels, label_width))
        label_mask = np.zeros((len(rows), n_labels))
        for i, sequence in enumerate(sequences):
            labels[i, : len(sequence)] = check_vectors(sequence, label_width, label_source)
            label_mask[i, : len(sequence)] = 1
        return QeInputs(images, texts, labels, label_mask)

    def fit(self, train: Examples, validation: Examples, session: Session) -> Model:
        """Pretrain if asked to, then train on mean ratings for each number of labels and learning rate.

        Returns:
            the model with the best `select` on the validation rows.

        Raises:
            InputError: if there are no ratings or no embeddings.
        """
        need_extra(f"rater {self.name}", ("torch", "safetensors"))
        from ._qe_network import QeNetwork

        train, validation = train.select_rated(), validation.select_rated(must_vary=False)
        captioned_images = None
        if self.pretrain:
            captioned_images = load_captioned_images(self.pretrain, train, validation, session)
        best: tuple[float, QeModel] | None = None
        for n_labels in self.n_labels if self.labels else (0,):
            inputs = self.load_inputs(train.rows, n_labels)
            validation_inputs = self.load_inputs(validation.rows, n_labels, inputs.widths)
            session.reseed("weights", n_labels)
            network = QeNetwork(inputs.widths, self.dropout).to(session.device)
            if captioned_images is not None:
                self._pretrain(network, inputs.widths, captioned_images, session)
            for rate in self.learning_rates:
                model = QeModel(self, copy.deepcopy(network), inputs.widths)
                score = self._train(
                    model, rate, (inputs, train), (validation_inputs, validation), session
                )
                if best is None or score > best[0]:
                    best = score, model
        assert best is not None  # neither grid is empty
        return best[1]

    def _train(
        self,
        model: QeModel,
        rate: float,
        train: tuple[QeInputs, Examples],
        validation: tuple[QeInputs, Examples],
        session: Session,
    ) -> float:
        """Train a model in place; return its coefficient on the validation rows, -inf if undefined."""
        import torch

        inputs, examples = train
        y = torch.tensor(examples.mean_ratings, dtype=torch.float32, device=session.device)
        all_rows = inputs.to_batch(session.device)

        def steps(rng: np.random.Generator, _: int) -> Iterable[Any]:
            return draw_batches(len(y), self.batch_size, rng, session.device)

        def loss(rows: torch.Tensor) -> torch.Tensor:
            predictions = torch.sigmoid(model.module(_take(all_rows, rows)))
            return torch.nn.functional.mse_loss(predictions, y[rows])

        def validate() -> float:
            return correlate_with_ratings(model.forward(validation[0]), validation[1], self.select)

        session.train(
            f"qe-labels-{inputs.widths[3]}-rate-{rate:g}",
            model.module,
            steps=steps,
            loss=loss,
            optimizer=torch.optim.Adam(model.module.parameters(), lr=rate),
            epochs=self.epochs,
            patience=self.patience,
            validate=validate,
        )
        score = validate()
        return -math.inf if math.isnan(score) else score

    def _pretrain(
        self,
        network: Any,
        widths: tuple[int, int, int, int],
        captioned_images: tuple[CaptionedImages, CaptionedImages],
        session: Session,
    ) -> None:
        """Train a network to find each image's own caption in a batch; select by how often it does."""
        import torch

        train, validation = (
            _Pairs(self, images, widths, session.device) for images in captioned_images
        )

        def own_captions(batch: Batch) -> torch.Tensor:
            return torch.arange(len(batch.images), device=session.device)

        def steps(rng: np.random.Generator, _: int) -> Iterable[Any]:
            for batch in train.draw_batches(rng, self.batch_size):
                n = len(batch.texts)
                order = rng.permutation(n) if session.is_control else np.arange(n)
                index = torch.from_numpy(order).to(batch.texts.device)
                yield batch._replace(texts=batch.texts[index])

        def loss(batch: Batch) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(network.all_pairs(batch), own_captions(batch))

        def validate() -> float:
            hits = [
                network.all_pairs(batch).argmax(1) == own_captions(batch)
                for batch in validation.draw_batches(np.random.default_rng(0), self.batch_size)
            ]
            return float(torch.cat(hits).float().mean())

        session.train(
            f"pretraining-labels-{widths[3]}",
            network,
            steps=steps,
            loss=loss,
            optimizer=torch.optim.Adam(network.parameters(), lr=self.pretrain_rate),
            epochs=self.pretrain_epochs,
            patience=self.patience,
            validate=validate,
        )

    def load(self, folder: Path) -> Model:
        from ._qe_network import QeNetwork

        path = folder / WEIGHTS_FILE
        tensors, card = load_tensors(path, _WIDTH_KEYS)
        widths = tuple(int(card[key]) for key in _WIDTH_KEYS)
        module = QeNetwork(widths, self.dropout)
        fill_module(module, path, tensors)
        return QeModel(self, module.to(resolve("auto")).eval(), widths)


class _Pairs:
    """Captioned images as tensors, a row for each caption."""

    def __init__(
        self, recipe: Qe, captioned: CaptionedImages, widths: tuple[int, ...], device: str
    ) -> None:
        pairs = zip(captioned.image_ids, captioned.captions, strict=True)
        table = [(image, caption) for image, captions in pairs for caption in captions]
        frame = pd.DataFrame(table, columns=pd.Index(["image_id", "caption"]))
        rows = Rows(frame.assign(item_id=frame["image_id"]))
        self._all_rows = recipe.load_inputs(rows, widths[3], widths).to_batch(device)
        self._n_captions = np.array([len(c) for c in captioned.captions])

    def draw_batches(self, rng: np.random.Generator, size: int) -> list[Batch]:
        """Draw a caption of each image, and return batches of these pairs in random order."""
        import torch

        starts = np.cumsum(self._n_captions) - self._n_captions
        rows = starts + (rng.random(len(starts)) * self._n_captions).astype(int)
        order = torch.from_numpy(rng.permutation(rows)).to(self._all_rows.images.device)
        # In a batch of one, there is nothing to choose from.
        return [_take(self._all_rows, part) for part in order.split(size) if len(part) > 1]


def _take(batch: Batch, rows: Any) -> Batch:
    return type(batch)(*(tensor[rows] for tensor in batch))


class QeModel(Model):
    """A trained network, for inputs of `widths`."""

    def __init__(self, recipe: Qe, module: Any, widths: tuple[int, ...]) -> None:
        self.recipe = recipe
        self.module = module
        self.widths = widths

    def forward(self, inputs: QeInputs) -> Floats:
        """Return estimates from 0 to 1, shape (n,)."""
        import torch

        device = str(next(self.module.parameters()).device)
        starts = range(0, len(inputs.images), _PREDICTION_BATCH)
        slices = [slice(start, start + _PREDICTION_BATCH) for start in starts]
        with torch.no_grad():
            estimates = [
                torch.sigmoid(self.module(inputs.to_batch(device, part))).cpu() for part in slices
            ]
        return torch.cat(estimates).numpy().astype(np.float64)

    def predict(self, rows: Rows) -> Floats:
        return self.forward(self.recipe.load_inputs(rows, self.widths[3], self.widths))

    def save(self, folder: Path) -> None:
        card = {k: str(v) for k, v in zip(_WIDTH_KEYS, self.widths, strict=True)}
        save_tensors(folder / WEIGHTS_FILE, self.module.state_dict(), card)
