"""Metrics that add to one another: partial correlations, and forward selection of a linear combination's metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .coefficients.coefficient import correlate
from .coefficients.kendall import TauB
from .weighted_pairs import Floats, Ints, RankedPairs

#: The number of folds of a cross-validation.
FOLDS = 5
#: Singular values below this share of the largest count as nought: metrics that are linear in others.
SINGULAR_SHARE = 1e-9


def partial_correlation(x: Floats, y: Floats, control: Floats) -> float:
    """Compute Pearson's r of the residuals of x and y after regression on a third variable.

    (r_xy - r_xz r_yz) / √((1 - r_xz²)(1 - r_yz²)); plain r where the third is constant, and NaN where
    it leaves nothing.

    Args:
        x, y, control: shape (n_points,), finite; x and y not constant.
    """
    if np.ptp(control) == 0:
        return correlate(x, y, "pearson").value

    xy = correlate(x, y, "pearson").value
    xz = correlate(x, control, "pearson").value
    yz = correlate(y, control, "pearson").value
    remainder = (1 - xz**2) * (1 - yz**2)
    return float((xy - xz * yz) / np.sqrt(remainder)) if remainder > 1e-12 else float("nan")


@dataclass(frozen=True)
class CrossValidation:
    """Linear combinations of metrics, fitted on some images and tested on others.

    Attributes:
        columns: a one, each metric standardised, and the rating, shape (n_points, n_metrics + 2).
        image: of each point, from 0, shape (n_points,).
        grams: sums of products of the columns by image, shape (n_images, p, p).
        fold: of each image, shape (n_images,).
    """

    columns: Floats
    image: Ints
    grams: Floats
    fold: Ints

    @classmethod
    def prepare(
        cls, scores: Sequence[Floats], ratings: Floats, image: Ints, seed: int
    ) -> CrossValidation:
        """Draw folds, with all points of an image in one fold.

        Args:
            scores: of each metric, shape (n_points,), finite and not constant.
            ratings, image: shape (n_points,).
            seed: of the folds.
        """
        standardised: list[Floats] = []
        for of_metric in scores:
            # Divided first, so that no square overflows.
            scaled = of_metric / np.abs(of_metric).max()
            standardised.append((scaled - scaled.mean()) / scaled.std())
        ones = np.ones(len(ratings))
        columns = np.stack([ones, *standardised, ratings - ratings.mean()], axis=1)

        n_images = int(image.max()) + 1
        grams = np.zeros((n_images, columns.shape[1], columns.shape[1]))
        # The products of every two columns at each point, shape (n_points, p, p), are added up by image.
        products = columns[:, :, None] * columns[:, None, :]
        np.add.at(grams, image, products)

        folds = np.arange(n_images) % min(FOLDS, n_images)
        fold = np.random.default_rng(seed).permutation(folds)
        return cls(columns=columns, image=image, grams=grams, fold=fold)

    @property
    def n_metrics(self) -> int:
        """The number of metrics that may be combined."""
        return self.columns.shape[1] - 2

    def draw_weights(self, draws: int, seed: int) -> Iterator[Floats]:
        """Yield how often each image stands in a resampled dataset, shape (n_images,), for each draw."""
        n_images = len(self.fold)
        rng = np.random.default_rng(seed)
        for _ in range(draws):
            yield rng.multinomial(n_images, np.ones(n_images) / n_images).astype(np.float64)

    def r2(self, metrics: Sequence[int], weights: Floats) -> float:
        """Return 1 - squared errors / squared distances from the mean, both on images left out.

        Args:
            metrics: the combined metrics' numbers.
            weights: of the images, shape (n_images,).
        """
        errors = self._sum_errors(_columns_of(metrics), weights)
        # The constant alone predicts the mean of the images that were fitted.
        distances = self._sum_errors([0], weights)
        return 1 - errors / distances if distances > 0 else float("nan")

    def _sum_errors(self, columns: list[int], weights: Floats) -> float:
        """Return the squared errors of the fits of some columns, on the images that each leaves out."""
        errors = 0.0
        for _, gram, beta in self._fits(columns, weights):
            errors += _squared_error(gram, beta, columns)
        return errors

    def tau(self, metrics: Sequence[int], weights: Floats) -> float:
        """Return Kendall's τ_b of ratings and predictions, both of images left out; see `r2`."""
        used = _columns_of(metrics)
        predicted = np.zeros(len(self.columns))
        for fold, _, beta in self._fits(used, weights):
            is_tested = self.fold[self.image] == fold
            predicted[is_tested] = self.columns[is_tested][:, used] @ beta

        # Rounded, so that predictions that differ in their last bits are tied.
        ranked = RankedPairs(np.round(predicted, 10), self.columns[:, -1], self.image)
        # A column of weights, and so one value.
        pairs = ranked.pairs(weights[:, None])
        (tau_b,) = TauB().of_pairs(pairs)
        return float(tau_b)

    def _fits(self, used: list[int], weights: Floats) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield each fold, its sums of products, and the coefficients fitted on the other folds."""
        weighted = weights[:, None, None] * self.grams
        total = weighted.sum(axis=0)
        for fold in np.unique(self.fold):
            tested = weighted[self.fold == fold].sum(axis=0)
            trained = total - tested
            gram = trained[np.ix_(used, used)]
            target = trained[used, -1]
            beta, *_ = np.linalg.lstsq(gram, target, rcond=SINGULAR_SHARE)
            yield int(fold), tested, beta

    def select(self, criterion: str, weights: Floats) -> list[tuple[int, float]]:
        """Select metrics in the order in which each adds most.

        Args:
            criterion: `r2` or `tau_b`.
            weights: of the images, shape (n_images,).

        Returns:
            each metric's number, and the criterion's value with it and those before.
        """
        measure = self.r2 if criterion == "r2" else self.tau
        path: list[tuple[int, float]] = []
        candidates = list(range(self.n_metrics))
        while candidates:
            selected = [metric for metric, _ in path]
            values = [measure([*selected, metric], weights) for metric in candidates]
            if np.isnan(values).all():
                break
            best = int(np.nanargmax(values))
            path.append((candidates[best], values[best]))
            del candidates[best]

        return path


def _columns_of(metrics: Sequence[int]) -> list[int]:
    """Return the columns of a combination: the constant, and the metrics'."""
    return [0, *(metric + 1 for metric in metrics)]


def _squared_error(gram: Floats, beta: Floats, used: list[int]) -> float:
    """Return the sum of squared errors of a fit on points whose sums of products are given."""
    # Of columns X and ratings y, |y - Xβ|² = βᵀXᵀXβ - 2 βᵀXᵀy + yᵀy.
    error = beta @ gram[np.ix_(used, used)] @ beta - 2 * beta @ gram[used, -1] + gram[-1, -1]
    return max(float(error), 0.0)
