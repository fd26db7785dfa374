"""QE: a bilinear model over image, object-label and caption embeddings (Levinboim et al. 2021, section 5)."""

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
from .common.captioned_images import Captioned, captioned
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
#: Of leaky ReLU below zero; the paper does not say, and this is TensorFlow's.
_SLOPE = 0.2
#: Rows at a time when it predicts.
_CHUNK = 16384


@dataclass(frozen=True)
class Inputs:
    """What the model reads of n rows.

    Attributes:
        images: shape (n, image dimensions).
        texts: shape (n, caption dimensions).
        labels: shape (n, most labels, label dimensions), zeros behind the last.
        there: which labels there are, shape (n, most labels).
    """

    images: Floats
    texts: Floats
    labels: Floats
    there: Floats

    def take(self, index: Any) -> Inputs:
        return Inputs(self.images[index], self.texts[index], self.labels[index], self.there[index])

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """Dimensions of images, captions and labels, and how many labels."""
        return self.images.shape[1], self.texts.shape[1], self.labels.shape[2], self.labels.shape[1]


@register_recipe("qe")
@dataclass(frozen=True)
class Qe(Recipe):
    """ŷ = σ(w · [b(i, s); b(oⱼ, i)…; b(oⱼ, s)…]), b(x, y) = [x; 1]ᵀ B [y; 1] (equation 1).

    i, s and oⱼ are the image's, the caption's and each object label's embedding after a dense layer
    with leaky ReLU, as wide as its input. The paper's are Graph-RISE's (64), the Universal Sentence
    Encoder's (512) and its label model's (256). Trained with mean squared error against p̂.

    Args:
        images, texts, labels: where embeddings come from (`features.py`); labels are sequences, the
            surest first; None goes without.
        n_labels: how many labels count; of several numbers the best on the validation rows.
        learning_rates: Adam's; of several the best on the validation rows.
        dropout: on the inputs of every layer.
        batch_size: rows of a step, and image-caption pairs of a pretraining step.
        epochs: at most (the paper does not say).
        patience: epochs without anything better until it stops.
        pretrain: captioned images to find each image's own caption among those of a batch first
            (section 5.2): `references`, a file, or `demo` (`captioned.py`); None goes without.
        pretrain_epochs: at most.
        pretrain_rate: Adam's then.
        select: the coefficient on the validation rows that chooses.
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
        given = [s for s in self._sources() if s is not None]
        return "|".join(s.signature for s in given)

    def _sources(self) -> tuple[Source, Source, Source | None]:
        return (
            source("images", self.images, self.name),
            source("texts", self.texts, self.name),
            source("labels", self.labels, self.name) if self.labels else None,
        )

    def inputs(self, rows: Rows, most: int, widths: tuple[int, ...] | None = None) -> Inputs:
        """The embeddings of rows, `most` labels each.

        Raises:
            InputError: where a row has none, or they are of other dimensions than `widths`.
        """
        images, texts, labels = self._sources()
        wanted = widths or (None, None, None)
        found = checked(images.vectors(rows), wanted[0], images)
        said = checked(texts.vectors(rows), wanted[1], texts)
        if labels is None or not most:
            none = np.zeros((len(rows), 0, wanted[2] or 0))
            return Inputs(
                found, said, none, none[:, :, 0] if none.shape[2] else np.zeros((len(rows), 0))
            )
        sequences = [s[:most] for s in labels.sequences(rows)]
        width = wanted[2] or sequences[0].shape[1]
        table = np.zeros((len(rows), most, width))
        there = np.zeros((len(rows), most))
        for i, sequence in enumerate(sequences):
            table[i, : len(sequence)] = checked(sequence, width, labels)
            there[i, : len(sequence)] = 1
        return Inputs(found, said, table, there)

    def fit(self, train: Examples, validation: Examples, session: Session) -> Model:
        """Pretrain, where that is asked for, then train on mean ratings for each number of labels and
        learning rate; what does best by `select` on the validation rows is kept.

        Raises:
            InputError: where there are no ratings or no embeddings.
        """
        need_extra(f"rater {self.name}", ("torch", "safetensors"))
        train, validation = train.select_rated(), validation.select_rated(must_vary=False)
        sides = captioned(self.pretrain, train, validation, session) if self.pretrain else None
        best: tuple[float, QeModel] | None = None
        for most in self.n_labels if self.labels else (0,):
            seen = self.inputs(train.rows, most)
            unseen = self.inputs(validation.rows, most, seen.widths)
            session.reseed("weights", most)
            start = _network(seen.widths, self.dropout).to(session.device)
            if sides is not None:
                self._pretrain(start, seen.widths, sides, session)
            for rate in self.learning_rates:
                model = QeModel(self, copy.deepcopy(start), seen.widths)
                score = self._train(model, rate, (seen, train), (unseen, validation), session)
                if best is None or score > best[0]:
                    best = score, model
        assert best is not None  # neither grid is empty
        return best[1]

    def _train(
        self,
        model: QeModel,
        rate: float,
        train: tuple[Inputs, Examples],
        validation: tuple[Inputs, Examples],
        session: Session,
    ) -> float:
        import torch

        seen, examples = train
        y = torch.tensor(examples.mean_ratings, dtype=torch.float32, device=session.device)
        tensors = _tensors(seen, session.device)

        def steps(rng: np.random.Generator, _: int) -> Iterable[Any]:
            return draw_batches(len(y), self.batch_size, rng, session.device)

        def loss(batch: Any) -> torch.Tensor:
            found = torch.sigmoid(model.module(*(t[batch] for t in tensors)))
            return torch.nn.functional.mse_loss(found, y[batch])

        def validate() -> float:
            return correlate_with_ratings(model.forward(validation[0]), validation[1], self.select)

        session.train(
            f"qe-labels-{seen.widths[3]}-rate-{rate:g}",
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
        module: Any,
        widths: tuple[int, int, int, int],
        sides: tuple[Captioned, Captioned],
        session: Session,
    ) -> None:
        """Find each image's own caption among those of a batch; chosen by how often that is found."""
        import torch

        tables = [_Pairs(self, side, widths, session.device) for side in sides]

        def steps(rng: np.random.Generator, _: int) -> Iterable[Any]:
            for images, texts, *labels in tables[0].batches(rng, self.batch_size):
                mixed = rng.permutation(len(texts)) if session.is_control else np.arange(len(texts))
                yield [images, texts[torch.from_numpy(mixed).to(texts.device)], *labels]

        def loss(batch: Any) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(
                module.all_pairs(*batch), torch.arange(len(batch[0]), device=session.device)
            )

        def validate() -> float:
            found = [
                (
                    module.all_pairs(*batch).argmax(1)
                    == torch.arange(len(batch[0]), device=session.device)
                )
                for batch in tables[1].batches(np.random.default_rng(0), self.batch_size)
            ]
            return float(torch.cat(found).float().mean())

        session.train(
            f"pretraining-labels-{widths[3]}",
            module,
            steps=steps,
            loss=loss,
            optimizer=torch.optim.Adam(module.parameters(), lr=self.pretrain_rate),
            epochs=self.pretrain_epochs,
            patience=self.patience,
            validate=validate,
        )

    def load(self, folder: Path) -> Model:
        tensors, card = load_tensors(folder / _FILE, _WIDTHS)
        widths = tuple(int(card[k]) for k in _WIDTHS)
        module = _network(widths, self.dropout)
        fill(module, folder / _FILE, tensors)
        return QeModel(self, module.to(resolve("auto")).eval(), widths)


_WIDTHS = ("images", "texts", "label_width", "labels")


class _Pairs:
    """Captioned images as the model reads them: a caption of each is drawn for every epoch."""

    def __init__(self, made: Qe, side: Captioned, widths: tuple[int, ...], device: str) -> None:
        images = [
            i for i, captions in zip(side.image_ids, side.captions, strict=True) for _ in captions
        ]
        captions = [c for captions in side.captions for c in captions]
        frame = pd.DataFrame({"image_id": images, "caption": captions, "item_id": images})
        self.tensors = _tensors(made.inputs(Rows(frame), widths[3], widths), device)
        self.ends = np.cumsum([0, *(len(c) for c in side.captions)])

    def batches(self, rng: np.random.Generator, size: int) -> list[Any]:
        import torch

        lengths = np.diff(self.ends)
        chosen = self.ends[:-1] + (rng.random(len(lengths)) * lengths).astype(int)
        order = torch.from_numpy(rng.permutation(chosen)).to(self.tensors[0].device)
        # A batch of one has nothing to choose from.
        return [[t[part] for t in self.tensors] for part in order.split(size) if len(part) > 1]


def _tensors(inputs: Inputs, device: str) -> list[Any]:
    import torch

    fields = (inputs.images, inputs.texts, inputs.labels, inputs.there)
    return [torch.tensor(f, dtype=torch.float32, device=device) for f in fields]


def _network(widths: tuple[int, ...], dropout: float) -> Any:
    import torch
    from torch import nn

    images, texts, label_width, labels = widths

    class Bilinear(nn.Module):
        """[x; 1]ᵀ B [y; 1]."""

        def __init__(self, x: int, y: int) -> None:
            super().__init__()
            self.b = nn.Parameter(torch.empty(x + 1, y + 1))
            nn.init.xavier_uniform_(self.b)

        def left(self, x: Any) -> Any:
            """[x; 1]ᵀ B, which y has yet to meet."""
            return _with_one(x) @ self.b

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(dropout)
            self.image, self.text = nn.Linear(images, images), nn.Linear(texts, texts)
            self.image_text = Bilinear(images, texts)
            if labels:
                self.label = nn.Linear(label_width, label_width)
                self.label_image = Bilinear(label_width, images)
                self.label_text = Bilinear(label_width, texts)
            self.out = nn.Linear(1 + 2 * labels, 1)

        def _dense(self, layer: Any, x: Any) -> Any:
            return self.drop(nn.functional.leaky_relu(layer(self.drop(x)), _SLOPE))

        def forward(self, i: Any, s: Any, o: Any, there: Any) -> Any:
            """Logits of n rows, shape (n,)."""
            return self._combined(i, s, o, there, "nd,nd->n", "nld,nd->nl")

        def all_pairs(self, i: Any, s: Any, o: Any, there: Any) -> Any:
            """Logits of every image with every caption, shape (n, n)."""
            return self._combined(i, s, o, there, "nd,md->nm", "nld,md->nml")

        def _combined(self, i: Any, s: Any, o: Any, there: Any, one: str, many: str) -> Any:
            i, s = self._dense(self.image, i), self._dense(self.text, s)
            met = torch.einsum(one, self.image_text.left(i), _with_one(s))
            parts = [met[..., None]]
            if labels:
                o = self._dense(self.label, o)
                of_image = (
                    torch.einsum("nld,nd->nl", self.label_image.left(o), _with_one(i)) * there
                )
                if met.ndim == 2:
                    of_image, there = of_image[:, None].expand(*met.shape, -1), there[:, None]
                of_text = torch.einsum(many, self.label_text.left(o), _with_one(s)) * there
                parts += [of_image, of_text]
            return self.out(self.drop(torch.cat(parts, dim=-1)))[..., 0]

    def _with_one(x: Any) -> Any:
        return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)

    return Network()


class QeModel(Model):
    """A trained network, for inputs of `widths`."""

    def __init__(self, made: Qe, module: Any, widths: tuple[int, ...]) -> None:
        self.recipe = made
        self.module = module
        self.widths = widths

    def forward(self, inputs: Inputs) -> Floats:
        """Estimates between 0 and 1, shape (n,)."""
        import torch

        device = str(next(self.module.parameters()).device)
        starts = range(0, len(inputs.images), _CHUNK)
        with torch.no_grad():
            found = [
                torch.sigmoid(
                    self.module(*_tensors(inputs.take(slice(i, i + _CHUNK)), device))
                ).cpu()
                for i in starts
            ]
        return torch.cat(found).numpy().astype(np.float64)

    def predict(self, rows: Rows) -> Floats:
        return self.forward(self.recipe.inputs(rows, self.widths[3], self.widths))

    def save(self, folder: Path) -> None:
        card = {k: str(v) for k, v in zip(_WIDTHS, self.widths, strict=True)}
        save_tensors(folder / _FILE, self.module.state_dict(), card)
