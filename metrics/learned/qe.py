"""QE: a bilinear model over image, object-label and caption embeddings (Levinboim et al. 2021, section 5).

`captau train rater=qe` makes it; the network itself is in `_qe_network.py`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ..base import Floats
from ..neural.models import need_extra
from ..rows import Rows
from .common.agreement import Coefficient
from .common.captioned_images import CaptionedImages, load_captioned_images
from .common.examples import Examples
from .common.features import check_vectors
from .common.network_rater import NetworkModel, NetworkRecipe, to_tensors
from .common.recipe import RaterModel, register_recipe
from .common.training import TrainingSession

if TYPE_CHECKING:
    import torch

    from ._qe_network import QeNetwork


@register_recipe("qe")
@dataclass(frozen=True)
class Qe(NetworkRecipe):
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
        epochs: at most (the paper does not say); 0 returns the pretrained network as it is.
        patience: epochs without improvement after which training stops.
        pretrain: captioned images for pretraining, which learns to find each image's own caption in a
            batch (section 5.2): `references`, a file, or `demo` (`load_captioned_images`); None skips it.
            One network is pretrained, with the most labels of `n_labels`; fewer read its first ones. The
            paper's pretrained models all have 16.
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
    #: Dimensions of images, captions and labels, and the number of labels.
    width_keys: ClassVar[tuple[str, ...]] = ("images", "texts", "label_width", "labels")
    prediction_batch: ClassVar[int] = 16384

    def __post_init__(self) -> None:
        self.check_range("batch_size", "patience", "pretrain_epochs", low=1)
        self.check_range("epochs", "n_labels", low=0)
        self.check_range("learning_rates", "pretrain_rate", low=0, is_open=True)
        self.check_range("dropout", low=0, high=1)
        if not self.epochs and not self.pretrain:
            raise InputError(
                "rater.epochs=0 is the pretrained network itself; name what it is pretrained on: "
                "rater.pretrain=FILE"
            )

    def load_inputs(self, rows: Rows, widths: Sequence[int | None]) -> tuple[Floats, ...]:
        """Load the embeddings of n rows.

        Args:
            widths: the last is the number of labels; None stands for 0.

        Returns:
            images, shape (n, width); texts, shape (n, width); labels, shape (n, n_labels, width), padded
            with zeros; and 1 for labels and 0 for padding, shape (n, n_labels).
        """
        image_source, text_source, *label_sources = self.sources()
        image_width, text_width, label_width, n_labels = widths
        images = check_vectors(image_source.vectors(rows), image_width, image_source)
        texts = check_vectors(text_source.vectors(rows), text_width, text_source)
        if not label_sources or not n_labels:
            return images, texts, np.zeros((len(rows), 0, 0)), np.zeros((len(rows), 0))

        sequences = [vectors[:n_labels] for vectors in label_sources[0].sequences(rows)]
        label_width = label_width or sequences[0].shape[1]
        labels = np.zeros((len(rows), n_labels, label_width))
        label_mask = np.zeros((len(rows), n_labels))
        for i, sequence in enumerate(sequences):
            labels[i, : len(sequence)] = check_vectors(sequence, label_width, label_sources[0])
            label_mask[i, : len(sequence)] = 1

        return images, texts, labels, label_mask

    def compute_widths(self, inputs: Sequence[Floats]) -> tuple[int, ...]:
        images, texts, labels, _ = inputs
        return images.shape[1], texts.shape[1], labels.shape[2], labels.shape[1]

    def make_network(self, widths: Sequence[int]) -> torch.nn.Module:
        from ._qe_network import QeNetwork

        return QeNetwork(widths, self.dropout)

    def run_network(self, network: Any, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        return network(*batch).sigmoid()

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Pretrain if asked to, then train on mean ratings for each number of labels and learning rate.

        Returns:
            the model with the best `select` on the validation rows.

        Raises:
            InputError: if there are no ratings or no embeddings.
        """
        need_extra(f"rater {self.name}", ("torch", "safetensors"))
        import torch

        train = train.select_rated()
        validation = validation.select_rated(must_vary=False)
        label_counts = self.n_labels if self.labels else (0,)
        pretrained = None
        if self.pretrain:
            captioned = load_captioned_images(self.pretrain, train, validation, session)
            pretrained = self._pretrain(max(label_counts), captioned, train, session)

        best: tuple[float, NetworkModel] | None = None
        for n_labels in label_counts:
            inputs = self.load_inputs(train.rows, (None, None, None, n_labels))
            widths = self.compute_widths(inputs)
            validation_inputs = self.load_inputs(validation.rows, widths)

            session.reseed("weights", n_labels)
            if pretrained is not None:
                network = pretrained.keep_labels(n_labels)
            else:
                network = self.make_network(widths).to(session.device)

            # Without epochs, all learning rates leave the same network.
            rates = self.learning_rates if self.epochs else self.learning_rates[:1]
            for rate in rates:
                model = NetworkModel(self, copy.deepcopy(network), widths)
                score = self.train_network(
                    f"qe-labels-{n_labels}-rate-{rate:g}",
                    model,
                    (inputs, train),
                    (validation_inputs, validation, self.select),
                    session,
                    torch.optim.Adam(model.network.parameters(), lr=rate),
                    patience=self.patience,
                )
                if math.isnan(score):
                    score = -math.inf
                if best is None or score > best[0]:
                    best = score, model

        assert best is not None  # neither grid is empty
        _, best_model = best
        return best_model

    def _pretrain(
        self,
        n_labels: int,
        captioned: tuple[CaptionedImages, CaptionedImages],
        examples: Examples,
        session: TrainingSession,
    ) -> QeNetwork:
        """Train a network to find each image's own caption in a batch; select by how often it does.

        Args:
            n_labels: of the network.
            captioned: to train on, and to validate by.
            examples: rows whose features say how wide the network is.
        """
        import torch

        from ._qe_network import QeNetwork

        first_row = examples.take(np.zeros(1, dtype=np.intp)).rows
        widths = self.compute_widths(self.load_inputs(first_row, (None, None, None, n_labels)))
        session.reseed("weights", n_labels)
        network = QeNetwork(widths, self.dropout).to(session.device)
        train, validation = (_Pairs(self, side, widths, session.device) for side in captioned)

        def own_captions(batch: Sequence[torch.Tensor]) -> torch.Tensor:
            return torch.arange(len(batch[0]), device=session.device)

        def steps(rng: np.random.Generator, _: int) -> Iterable[Any]:
            for images, texts, *labels in train.draw_batches(rng, self.batch_size):
                order = np.arange(len(texts))
                if session.is_control:
                    order = rng.permutation(len(texts))
                yield [images, texts[torch.from_numpy(order).to(texts.device)], *labels]

        def loss(batch: Sequence[torch.Tensor]) -> torch.Tensor:
            logits = network.all_pairs(*batch)
            return torch.nn.functional.cross_entropy(logits, own_captions(batch))

        def validate() -> float:
            # The same batches in every epoch, so that these can be compared.
            batches = validation.draw_batches(np.random.default_rng(0), self.batch_size)
            hits: list[torch.Tensor] = []
            for batch in batches:
                hits.append(network.all_pairs(*batch).argmax(1) == own_captions(batch))

            return float(torch.cat(hits).float().mean())

        session.train(
            f"pretraining-labels-{n_labels}",
            network,
            steps=steps,
            loss=loss,
            optimizer=torch.optim.Adam(network.parameters(), lr=self.pretrain_rate),
            epochs=self.pretrain_epochs,
            patience=self.patience,
            validate=validate,
        )
        return network


class _Pairs:
    """Captioned images as tensors, a row for each caption."""

    def __init__(
        self, recipe: Qe, captioned: CaptionedImages, widths: tuple[int, ...], device: str
    ) -> None:
        # Features by `item_id` are of the image: a caption here has no id of its own.
        table: list[tuple[str, str, str]] = []
        for image, texts in captioned.items():
            table += [(image, image, text) for text in texts]
        columns = pd.Index(["item_id", "image_id", "caption"])
        rows = Rows(pd.DataFrame(table, columns=columns))
        self._tensors = to_tensors(recipe.load_inputs(rows, widths), device)
        self._n_captions = np.array([len(texts) for texts in captioned.values()])

    def draw_batches(self, rng: np.random.Generator, size: int) -> list[list[torch.Tensor]]:
        """Draw a caption of each image, and return batches of these pairs in random order."""
        import torch

        starts = np.cumsum(self._n_captions) - self._n_captions
        rows = starts + (rng.random(len(starts)) * self._n_captions).astype(int)
        order = torch.from_numpy(rng.permutation(rows)).to(self._tensors[0].device)

        batches: list[list[torch.Tensor]] = []
        for part in order.split(size):
            if len(part) > 1:  # in a batch of one, there is nothing to choose from
                batches.append([tensor[part] for tensor in self._tensors])
        return batches
