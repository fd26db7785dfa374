"""The in-domain rater: references and text only, for captions of the kind that it was trained on.

The weighted mean of two regressions on the ratings' ranks, each of which can stand alone. One is fitted to
similarities by a frozen encoder, n-gram metrics and SPICE and to the training images' captions (`inputs.py`). The other
fine-tunes the encoder's upper layers, with the same inputs (`_siamese_network.py`). docs/captau_rater.md has its figures.
`captau train rater=in_domain` makes it; for captions of another kind `captau_rater.py` is better.

The first is ridge regression in the space of a Laplacian kernel, on landmarks (Williams and Seeger 2001):
k(x, z) = exp(−|x − z| / s), s being `width` times the median distance of rows from the landmarks. Inputs
are standardised, clipped and weighted by their shares. For f = Σ w_j k(z_j, ·) over landmarks z_j, the fit
minimises the squared error plus `penalty` times f's squared norm w'Kw; if all rows are landmarks, that is
kernel ridge regression.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import linalg

from ....datasets.errors import InputError
from ...base import Floats
from ...neural.models import resolve
from ...neural.store import Array
from ...rows import Rows
from ..common.encoder_recipe import EncoderRecipe, TextStates
from ..common.recipe import (
    Examples,
    RaterModel,
    arrays_to_tensors,
    fill_module,
    make_arrays,
    register_recipe,
    save_tensors,
)
from ..common.training import TrainingSession
from .inputs import (
    CLIP,
    Background,
    compute_comparison_vectors,
    compute_similarities,
    has_parser,
    select_layers,
)

if TYPE_CHECKING:
    from ._siamese_network import SiameseNetwork


#: The candidates for the penalty, from which cross-validation over images chooses.
PENALTIES = tuple(float(p) for p in np.geomspace(0.03, 10, 6))
FOLDS = 5
#: Added to the diagonal, as a share of its mean: equal landmarks would make the matrix singular.
RIDGE = 1e-10
_CHUNK = 4096


@dataclass(frozen=True)
class KernelRidge:
    """A fitted regression; the arrays, float32 or float64, are saved under these names.

    Attributes:
        mean, scale: of the inputs; the deviation is infinite for an input that never changes,
            shape (width,).
        shares: weights of the standardised inputs, shape (width,).
        landmarks: standardised rows, shape (m, width).
        weights: of the kernels with each, shape (m,).
        numbers: the mean target, and s.
    """

    mean: Floats
    scale: Floats
    shares: Floats
    landmarks: NDArray[np.float32]
    weights: Floats
    numbers: Floats

    def predict(self, inputs: Array) -> Floats:
        """Return predictions, shape (n,), from inputs of shape (n, width)."""
        predictions = np.empty(len(inputs))
        for start in range(0, len(inputs), _CHUNK):
            rows = slice(start, start + _CHUNK)
            standard = _standardise(inputs[rows], self.mean, self.scale, self.shares)
            kernel = _kernel(_distances(standard, self.landmarks), self.numbers[1])
            predictions[rows] = self.numbers[0] + kernel @ self.weights
        return predictions


def fit_kernel_ridge(
    inputs: Array,
    targets: Floats,
    groups: NDArray[Any],
    rng: np.random.Generator,
    *,
    shares: Floats,
    landmarks: int,
    width: float,
) -> KernelRidge:
    """Fit a regression, with the penalty of least squared error over folds of whole groups.

    Args:
        inputs: shape (n, width).
        targets: shape (n,).
        groups: the image of each row, shape (n,).
        rng: draws landmarks and folds.
        shares: weights of the standardised inputs, shape (width,).
        landmarks: at most.
        width: of the kernel.
    """
    mean, scale = compute_scaling(inputs)
    standard = _standardise(inputs, mean, scale, shares)
    marks = np.sort(rng.permutation(len(inputs))[:landmarks])
    distances = _distances(standard, standard[marks])
    spread = width * max(float(np.median(distances)), 1e-6)
    kernel = _kernel(distances, spread)
    mark_kernel = kernel[marks]
    gram = kernel.T @ kernel
    _, group = np.unique(groups, return_inverse=True)
    fold = rng.permutation(group.max() + 1)[group] % FOLDS
    errors = np.zeros(len(PENALTIES))
    for number in range(FOLDS):
        test = fold == number
        if test.any() and not test.all():
            level = targets[~test].mean()
            train_gram = gram - kernel[test].T @ kernel[test]
            moments = kernel[~test].T @ (targets[~test] - level)
            for i, penalty in enumerate(PENALTIES):
                weights = _solve(train_gram, mark_kernel, moments, penalty)
                errors[i] += ((kernel[test] @ weights + level - targets[test]) ** 2).sum()
    level = targets.mean()
    penalty = PENALTIES[int(np.argmin(errors))]
    weights = _solve(gram, mark_kernel, kernel.T @ (targets - level), penalty)
    numbers = np.array([level, spread])
    return KernelRidge(mean, scale, shares, standard[marks], weights, numbers)


def compute_scaling(inputs: Array) -> tuple[Floats, Floats]:
    """Return inputs' means and deviations, infinite for an input that never changes but for rounding."""
    mean = inputs.mean(0, dtype=np.float64)
    deviation = inputs.std(0, dtype=np.float64)
    is_constant = deviation < 1e-6 * np.maximum(1.0, np.abs(mean))
    return mean, np.where(is_constant, np.inf, deviation)


def _solve(gram: Floats, mark_kernel: Floats, moments: Floats, penalty: float) -> Floats:
    """Return the weights of landmarks, shape (m,), that minimise penalised squared error."""
    matrix = gram + penalty * mark_kernel
    matrix[np.diag_indices(len(matrix))] += RIDGE * matrix.diagonal().mean()
    return cast("Floats", linalg.solve(matrix, moments, assume_a="pos", overwrite_a=True))


def _kernel(distances: Floats, spread: float) -> Floats:
    return np.exp(-distances / spread)


def _standardise(inputs: Array, mean: Floats, scale: Floats, shares: Floats) -> NDArray[np.float32]:
    """Return inputs with mean 0 and deviation 1, clipped, and times their shares."""
    return (np.clip((inputs - mean) / scale, -CLIP, CLIP) * shares).astype(np.float32)


def _distances(rows: NDArray[np.float32], marks: NDArray[np.float32]) -> Floats:
    """Return distances, shape (n_rows, n_marks)."""
    x, z = rows.astype(np.float64), marks.astype(np.float64)
    squared = (x**2).sum(1)[:, None] + (z**2).sum(1) - 2 * x @ z.T
    return np.sqrt(np.maximum(squared, 0.0))


FROZEN_FILE = "frozen.safetensors"
FINE_TUNED_FILE = "finetuned.safetensors"
INPUTS_FILE = "inputs.safetensors"


@register_recipe("in_domain")
@dataclass(frozen=True)
class InDomain(EncoderRecipe):
    """Prediction of a caption's mean rank among all ratings of its dataset, from 0 to 1.

    Args:
        model: the sentence encoder: a BERT's folder, or a name as `sentence_cosine` takes it.
        encoder: `both` regressions, the one on `frozen` features, or the `finetuned` one.
        spice: whether SPICE is among the inputs; null: if its parser is on this machine.
        learn_validation: whether to learn from the validation rows, too: epochs are fixed and the penalty
            is chosen by cross-validation over images, so that nothing is selected by them.
        background: whether `Background` is among the inputs.
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
    file_format: ClassVar[str] = "3"

    def __post_init__(self) -> None:
        self.check_range("landmarks", "members", "epochs", "images", "hidden", low=1)
        self.check_range("width", "learning_rate", "head_rate", low=0, is_open=True)
        self.check_range("likeness", "decay", "ranking", "steepness", low=0)
        self.check_range("dropout", "share", low=0, high=1)

    @property
    def signature(self) -> str:
        """The encoder's weights, whether SPICE is an input, and versions of libraries."""
        return self._sign(f"spice:{self._has_spice()}")

    def _has_spice(self) -> bool:
        return has_parser() if self.spice is None else self.spice

    def select_layers(self, n_layers: int) -> tuple[int, ...]:
        return select_layers(n_layers)

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
            from ._siamese_network import RaterRows, fine_tune

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

        layers = TopLayers(self.encoder_folder, self.dropout)
        return SiameseNetwork(layers, n_numbers, n_inputs - n_numbers, self.hidden, self.dropout)

    def load(self, folder: Path) -> RaterModel:
        device = resolve("auto")
        has_frozen, has_networks = self.encoder != "finetuned", self.encoder != "frozen"
        # The parts before their inputs, for which a rater of the first format has no file.
        frozen_tensors = self.load_file(folder / FROZEN_FILE)[0] if has_frozen else {}
        tensors = self.load_file(folder / FINE_TUNED_FILE)[0] if has_networks else {}
        input_tensors, card = self.load_file(folder / INPUTS_FILE, "names", "spice")
        names: list[str] = json.loads(card["names"])
        background, frozen = None, None
        if self.background:
            background = make_arrays(Background, folder / INPUTS_FILE, input_tensors)
        if has_frozen:
            frozen = make_arrays(KernelRidge, folder / FROZEN_FILE, frozen_tensors)
        networks: list[SiameseNetwork] = []
        for prefix in (f"{i}." for i in range(self.members if has_networks else 0)):
            member = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            network = self.make_network(len(names), len(member.get("mean", ())))
            fill_module(network, folder / FINE_TUNED_FILE, member)
            networks.append(network.to(device).eval())
        maker = InputMaker(background, card["spice"] == "true")
        return InDomainModel(self, maker, names, frozen, networks, device)


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
            from ._siamese_network import predict

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
        card = self.recipe.file_card
        input_card = {"names": json.dumps(self.names), "spice": str(self.inputs.has_spice).lower()}
        save_tensors(
            folder / INPUTS_FILE, arrays_to_tensors(self.inputs.background), card | input_card
        )
        if self.frozen is not None:
            save_tensors(folder / FROZEN_FILE, arrays_to_tensors(self.frozen), card)
        if self.fine_tuned:
            tensors = {
                f"{i}.{name}": tensor
                for i, network in enumerate(self.fine_tuned)
                for name, tensor in network.state_dict().items()
            }
            save_tensors(folder / FINE_TUNED_FILE, tensors, card)
