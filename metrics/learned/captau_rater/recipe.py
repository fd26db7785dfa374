"""captau's own rater: references and text only, on a CPU; docs/captau_rater.md has its figures.

For captions of kinds that nobody has rated it is a formula (`formula.py`), which reads no rating. For captions of a kind
with a thousand ratings or more, `learns_from=ratings` fits a regression (`kernel_ridge.py`) to the formula's terms and to
further similarities (`similarities.py`). `captau train rater=captau` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import scipy

from ....datasets.errors import InputError
from ...base import Floats
from ...neural.models import resolve
from ...rows import Rows
from ..common.encoder_recipe import EncoderRecipe, TextStates
from ..common.examples import Examples
from ..common.recipe import RaterModel, register_recipe
from ..common.training import TrainingSession
from ..common.weight_files import arrays_to_tensors, make_arrays, save_tensors
from ..rater import Calibration
from .formula import TERMS, SameImage, apply_formula, compute_terms
from .kernel_ridge import KernelRidge, fit_kernel_ridge
from .similarities import (
    compute_comparison_vectors,
    compute_similarities,
    has_parser,
    select_layers,
)

WEIGHTS_FILE = "captau.safetensors"
REGRESSION_FILE = "regression.safetensors"
#: The weight of an element of a vector against a similarity.
VECTOR_SHARE = 0.2
#: Some datasets borrow captions from other images, which this term would recognise; the regression does not read it.
_UNREAD_TERM = "other_images"


@register_recipe("captau")
@dataclass(frozen=True)
class Captau(EncoderRecipe):
    """A score from 0 to 1: the formula's, or the expected rank of a caption among all ratings of its dataset.

    Args:
        model: the sentence encoder: a folder, or a name as `sentence_cosine` takes it.
        learns_from: `references` alone, for the formula, or `ratings`, for captions of the kind that is rated.
        spice: whether the regression reads SPICE; null: if its parser is on this machine.
    """

    learns_from: Literal["references", "ratings"] = "references"
    spice: bool | None = None

    file_format: ClassVar[str] = "5"
    needs: ClassVar[frozenset[str]] = frozenset({"references"})

    @property
    def has_regression(self) -> bool:
        """Tell whether it learns from ratings."""
        return self.learns_from == "ratings"

    @property
    def has_spice(self) -> bool:
        """Tell whether SPICE is read."""
        return self.has_regression and (has_parser() if self.spice is None else self.spice)

    @property
    def signature(self) -> str:
        """The encoder's weights, whether SPICE is an input, and versions of libraries."""
        return self._sign(f"spice:{self.has_spice}")

    def select_layers(self, n_layers: int) -> tuple[int, ...]:
        """Return the last layer, and those that the regression reads as well."""
        return select_layers(n_layers) if self.has_regression else (n_layers,)

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Learn the axes and the other images from references, and the regression from ratings.

        Nothing is chosen by the validation rows, so they are learned from as well. The formula reads ratings for its
        calibration alone.

        Raises:
            InputError: if there are no references, or no ratings to learn from.
        """
        examples = Examples.join([train, validation])
        if self.has_regression:
            examples = examples.select_rated()

        texts = self.encode_texts(examples.rows, session.device)
        same_image = SameImage.learn(texts, examples.image_ids.tolist())
        model = CaptauModel(self, same_image, session.device)

        if not self.has_regression:
            model.calibration = Calibration.fit(examples, model.predict(examples.rows))
            return model

        model.names, inputs = compute_inputs(
            texts, examples.rows, same_image, has_spice=self.has_spice
        )

        shares = np.full(inputs.shape[1], VECTOR_SHARE)
        # The numbers count in full, each element of a vector little.
        shares[: len(model.names)] = 1.0
        model.regression = fit_kernel_ridge(
            inputs,
            compute_midranks(examples),
            examples.image_ids,
            session.rng("regression"),
            shares=shares,
        )
        return model

    def load(self, folder: Path) -> RaterModel:
        path = folder / WEIGHTS_FILE
        tensors, card = self.load_file(path, "terms")
        if json.loads(card["terms"]) != TERMS:
            raise InputError(f"{path}: a rater with other weights; train it again")

        model = CaptauModel(self, make_arrays(SameImage, path, tensors), resolve("auto"))
        model.calibration = Calibration.read(folder)

        if self.has_regression:
            path = folder / REGRESSION_FILE
            tensors, card = self.load_file(path, "names")
            model.names = json.loads(card["names"])
            model.regression = make_arrays(KernelRidge, path, tensors)

        return model


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


def compute_inputs(
    texts: TextStates, rows: Rows, same_image: SameImage, *, has_spice: bool
) -> tuple[list[str], Floats]:
    """Compute the regression's inputs: similarities, the formula's terms, and vectors of what texts share and differ in.

    Returns:
        names of the inputs that are numbers; and all inputs, shape (n, width): these, then the elements of vectors.
    """
    names, similarities = compute_similarities(texts, rows, has_spice=has_spice)

    read_terms = [term for term in TERMS if term != _UNREAD_TERM]
    is_read = np.array([term != _UNREAD_TERM for term in TERMS])
    terms = compute_terms(texts, rows, same_image)[:, is_read]
    names += read_terms

    return names, np.hstack([similarities, terms, compute_comparison_vectors(texts)])


class CaptauModel(RaterModel):
    """The axes and the other images, and what was learned from ratings.

    Attributes:
        regression: None where the formula gives the scores.
        names: of the regression's inputs that are no elements of vectors, in order.
        calibration: of the formula's scores, once they are calibrated.
    """

    def __init__(self, recipe: Captau, same_image: SameImage, device: str) -> None:
        self.recipe = recipe
        self.same_image = same_image
        self.device = device
        self.regression: KernelRidge | None = None
        self.names: Sequence[str] = ()
        self.calibration: Calibration | None = None

    def predict(self, rows: Rows) -> Floats:
        """Return scores from 0 to 1, shape (n,); the formula gives an empty caption 0."""
        if not len(rows):
            return np.empty(0)

        texts = self.recipe.encode_texts(rows, self.device)
        if self.regression is None:
            return apply_formula(compute_terms(texts, rows, self.same_image), rows.captions)

        has_spice = "spice" in self.names
        names, inputs = compute_inputs(texts, rows, self.same_image, has_spice=has_spice)
        if names != self.names:
            raise InputError(
                "rater captau was trained on other similarities than this version computes; train it again"
            )

        return np.clip(self.regression.predict(inputs), 0.0, 1.0)

    def save(self, folder: Path) -> None:
        card = self.recipe.file_card
        tensors = arrays_to_tensors(self.same_image)
        save_tensors(folder / WEIGHTS_FILE, tensors, card | {"terms": json.dumps(TERMS)})
        if self.regression is not None:
            tensors = arrays_to_tensors(self.regression)
            save_tensors(
                folder / REGRESSION_FILE, tensors, card | {"names": json.dumps(self.names)}
            )
        if self.calibration is not None:
            self.calibration.write(folder)
