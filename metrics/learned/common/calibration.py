"""Calibration of a rater's scores: the rating to be expected, and the probability that a caption is good.

Isotonic regressions on the rated captions that a rater was trained on, one a dataset and one of all of them,
each dataset counting the same. Raters write one with `Calibration.write`; `captau thresholds` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ...base import Floats
from .recipe import Examples

CALIBRATION_FILE = "calibration.json"
#: The name of the curve of all datasets.
ALL = "all"
#: A caption is good where most of its ratings are at least this share of the scale, as in `captau thresholds`.
GOOD_SHARE = 0.5
#: Captions of similar score count as one point of a curve; so many points at most.
_POINTS = 100


@dataclass(frozen=True)
class Curve:
    """Expected rating and probability of being good by score; between the points it is linear, beyond them constant.

    Attributes:
        scores: in ascending order.
        ratings: the mean rating expected, as a share of the scale.
        good: the probability that a caption is good.
    """

    scores: tuple[float, ...]
    ratings: tuple[float, ...]
    good: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.scores) == len(self.ratings) == len(self.good):
            raise ValueError("a curve's rows are of unequal lengths")
        table = np.array([self.scores, self.ratings, self.good])
        if not (np.isfinite(table).all() and table.size and (np.diff(table) >= -1e-9).all()):
            raise ValueError("a curve falls, or is no row of numbers")

    @classmethod
    def fit(cls, scores: Floats, ratings: Floats, is_good: Floats, weights: Floats) -> Curve:
        """Fit both regressions; all arguments have shape (n,)."""
        order = np.argsort(scores, kind="stable")
        groups = [g for g in np.array_split(order, min(_POINTS, len(order))) if len(g)]
        totals = np.array([weights[g].sum() for g in groups])

        def average(values: Floats) -> Floats:
            return np.array([values[g] @ weights[g] for g in groups]) / totals

        def rise(values: Floats) -> tuple[float, ...]:
            return tuple(isotonic_regression(average(values), weights=totals).x.tolist())

        return cls(tuple(average(scores).tolist()), rise(ratings), rise(is_good))

    def threshold(self, precision: float) -> float:
        """Return the least score from which on at least this share of captions of that score is good; or NaN."""
        reached = np.flatnonzero(np.array(self.good) >= precision)
        return self.scores[reached[0]] if reached.size else float("nan")


@dataclass(frozen=True)
class Calibration:
    """The curves by dataset, and of all under `ALL`."""

    curves: Mapping[str, Curve]

    @classmethod
    def fit(cls, examples: Examples, scores: Floats) -> Calibration:
        """Fit the curves to the rated rows; there are none where no row is rated."""
        rated = np.flatnonzero(examples.has_rating)
        names = examples.rows.frame["dataset"].astype(str).to_numpy()[rated]
        ratings = examples.mean_ratings[rated]
        is_good = np.array(
            [float((examples.ratings[i] >= GOOD_SHARE - 1e-9).mean() > 0.5) for i in rated]
        )
        sizes = {name: int((names == name).sum()) for name in np.unique(names).tolist()}
        weights = np.array([1 / sizes[name] for name in names])
        masks = {name: names == name for name in sizes}
        if sizes:
            masks[ALL] = np.ones(len(rated), dtype=bool)
        columns = (scores[rated], ratings, is_good, weights)
        return cls({k: Curve.fit(*(c[mask] for c in columns)) for k, mask in masks.items()})

    def curve_of(self, dataset: str) -> Curve | None:
        """Return the curve of a dataset, or of all where it has none of its own; None without any."""
        return self.curves.get(dataset, self.curves.get(ALL))

    def write(self, folder: Path) -> None:
        """Write the calibration, whole or not at all."""
        table = {name: asdict(curve) for name, curve in self.curves.items()}
        with replacing(folder / CALIBRATION_FILE) as stream:
            stream.write(json.dumps({"good": GOOD_SHARE, "curves": table}, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> Calibration | None:
        """Read the calibration in a rater's folder; None where it has none.

        Raises:
            InputError: if it is damaged.
        """
        path = folder / CALIBRATION_FILE
        if not path.is_file():
            return None
        try:
            table: Any = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                {
                    name: Curve(**{k: tuple(map(float, curve[k])) for k in curve})
                    for name, curve in table["curves"].items()
                }
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: damaged ({error}); train the rater again") from error
