"""Mean ratings of many captions from the ratings of few and metrics of all: prediction-powered inference.

n of N captions are rated, and every caption has scores. The mean rating of the rated captions is corrected by as much as
their scores differ from those of all captions:

    mean = Σ w (Y - λ g) / Σ w

over rated captions, where Y is a caption's mean rating, g what its scores predict less the mean prediction of all captions,
and λ the weight of the prediction, fitted by least squares, which makes the variance least. A metric without worth gets a λ
near 0, and the mean is then the classical one: a poor metric costs nothing and biases nothing. This is the estimator of
Angelopoulos et al. 2023 (Prediction-powered inference) with the weight of Angelopoulos, Duchi and Zrnic 2023 (PPI++), in
which the scores of the rated captions are among those of all. Several metrics are joined by a ridge that was fitted on the
captions of other images (`predict_other_folds`; Zrnic and Candès 2024, Cross-prediction-powered inference).

What makes the intervals right with few ratings:

- Student's t, with one degree of freedom less than rated images, and one less for λ; of strata Satterthwaite's.
- Residuals are divided by one less the caption's leverage on λ, as in the jackknife: λ was fitted on them.
- Residuals are summed by image before they are squared, since captions of an image are rated alike.
- The share of captions that is rated has no error of sampling: the variance is multiplied by 1 - n / N (`captions`). Of
  `images`, an interval that is to hold for other images as well, the variance of the N captions themselves is added; of
  `raters` that of the raters too, as the sum over raters less that over ratings (Cameron, Gelbach and Miller 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import stdtr, stdtrit

from .weighted_pairs import Floats, Ints

#: Of whom an interval speaks: the given captions, captions of images like these, or also raters like these.
POPULATIONS = ("captions", "images", "raters")
#: The number of folds in which metrics are joined.
FOLDS = 10
#: The penalty of the ridge, by the number of metrics: right where they explain a fifth of the ratings' variance
#: ((1 - R²) / R² = 4), and of little weight with a hundred ratings.
PENALTY = 4.0
#: The least share of a residual that a caption's leverage leaves.
MIN_FREE = 0.1


@dataclass(frozen=True)
class Scores:
    """Scores of all captions by metrics that tell captions apart, prepared once for many samples.

    Attributes:
        standardised: with the mean 0 and the variance 1 over all captions, shape (n_captions, n_metrics).
        correlations: of the metrics, shape (n_metrics, n_metrics).
    """

    standardised: Floats
    correlations: Floats

    @classmethod
    def of(cls, scores: Floats) -> Self:
        """Prepare finite scores, shape (n_captions, n_metrics); a metric with one score for all captions is left out."""
        columns = scores[:, np.ptp(scores, axis=0) > 0]
        standardised = (columns - columns.mean(axis=0)) / columns.std(axis=0)
        return cls(standardised, standardised.T @ standardised / len(scores))

    def __len__(self) -> int:
        return len(self.standardised)


@dataclass(frozen=True)
class RatedSample:
    """Captions with scores, some of which are rated.

    Attributes:
        scores: of all captions.
        images: the number of each caption's image, shape (n_captions,).
        strata: the stratum from which each caption was drawn; of one stratum all are 0; shape (n_captions,).
        caption: the caption that each rating is of, shape (n_ratings,).
        rater: the number of each rating's rater, shape (n_ratings,).
        values: the ratings, shape (n_ratings,).
        probabilities: the probability with which each caption was chosen, shape (n_captions,); None where the captions of
            a stratum had equal ones.
    """

    scores: Scores
    images: Ints
    strata: Ints
    caption: Ints
    rater: Ints
    values: Floats
    probabilities: Floats | None = None

    @classmethod
    def draw(cls, scores: Scores, images: Ints, rated: Ints, ratings: Floats) -> Self:
        """Make a sample that was drawn at random without strata, with one rating a caption.

        Args:
            scores: of all captions.
            images: shape (n_captions,).
            rated: the captions that are rated, shape (n_rated,).
            ratings: their ratings, shape (n_rated,).
        """
        return cls(
            scores=scores,
            images=images,
            strata=np.zeros(len(scores), dtype=np.int64),
            caption=rated,
            rater=np.zeros(len(rated), dtype=np.int64),
            values=ratings,
        )


@dataclass(frozen=True)
class Influences:
    """The part of each rating in an estimate's error; their sum is the error to first order.

    Attributes:
        sampling: of the choice of captions, shape (n_ratings,).
        population: of the images that the captions are of.
        rating: of the rating itself, without regard to which captions were chosen.
        image, rater: of each rating.
    """

    sampling: Floats
    population: Floats
    rating: Floats
    image: Ints
    rater: Ints

    def subtract(self, other: Influences) -> Influences:
        """Return the influences on the difference of two estimates, whose images and raters have the same numbers."""
        return Influences(
            sampling=np.concatenate([self.sampling, -other.sampling]),
            population=np.concatenate([self.population, -other.population]),
            rating=np.concatenate([self.rating, -other.rating]),
            image=np.concatenate([self.image, other.image]),
            rater=np.concatenate([self.rater, other.rater]),
        )

    def variance(self, population: str) -> float:
        """Return the variance of the estimate; see the module."""
        variance = _sum_of_squares(self.sampling, self.image)
        if population == "captions":
            return variance

        variance += _sum_of_squares(self.population, self.image)
        if population == "images":
            return variance

        return variance + self.rater_variance()

    def rater_variance(self) -> float:
        """Return what raters add to the variance; nought where they are found to be alike."""
        n_raters = len(np.unique(self.rater))
        if n_raters < 2:
            return 0.0

        # A number for each rater of each image, of which those that occur are numbered anew.
        numbers = self.image * (int(self.rater.max()) + 1) + self.rater
        _, image_and_rater = np.unique(numbers, return_inverse=True)
        by_rater = _sum_of_squares(self.rating, self.rater)
        by_both = _sum_of_squares(self.rating, image_and_rater)
        return max(0.0, (by_rater - by_both) * n_raters / (n_raters - 1))


def _sum_of_squares(values: Floats, groups: Ints) -> float:
    """Return the sum over groups of the square of the group's sum."""
    sums = np.bincount(groups, weights=values)
    return float(sums @ sums)


@dataclass(frozen=True)
class Estimate:
    """An estimate with its error.

    Attributes:
        value: the estimate.
        influences: of the ratings on it.
        freedom: the degrees of freedom of its error, images less what was fitted.
        weight: λ; 0 of a classical estimate.
        n_rated: the captions that are rated.
        n_captions: all captions.
    """

    value: float
    influences: Influences
    freedom: float
    weight: float
    n_rated: int
    n_captions: int

    def standard_error(self, population: str = "images") -> float:
        """Return the standard error for one of `POPULATIONS`."""
        return float(np.sqrt(self.influences.variance(population)))

    def degrees_of_freedom(self, population: str = "images") -> float:
        """Return the degrees of freedom; with raters those of Satterthwaite, of the images' and the raters' part."""
        if population != "raters":
            return self.freedom

        of_images = self.influences.variance("images")
        of_raters = self.influences.rater_variance()
        n_raters = len(np.unique(self.influences.rater))
        if not of_raters:
            return self.freedom

        denominator = of_images**2 / self.freedom + of_raters**2 / (n_raters - 1)
        return float((of_images + of_raters) ** 2 / denominator)

    def interval(self, level: float = 0.95, population: str = "images") -> tuple[float, float]:
        """Return the ends of the interval by Student's t."""
        quantile = float(stdtrit(self.degrees_of_freedom(population), 0.5 + level / 2))
        reach = quantile * self.standard_error(population)
        return self.value - reach, self.value + reach

    def p_value(self, population: str = "images") -> float:
        """Return the two-sided p-value of the estimate being 0; 1 where it is 0 without error."""
        error = self.standard_error(population)
        if not error:
            return float(self.value == 0)

        statistic = abs(self.value) / error
        return float(2 * stdtr(self.degrees_of_freedom(population), -statistic))

    def subtract(self, other: Estimate) -> Estimate:
        """Return the difference to another estimate, whose images and raters have the same numbers."""
        influences = self.influences.subtract(other.influences)
        # Each image of either counts once, and what was fitted is taken off twice.
        n_images = len(np.unique(influences.image))
        return Estimate(
            value=self.value - other.value,
            influences=influences,
            freedom=max(1.0, min(self.freedom + other.freedom, n_images - 2.0)),
            weight=float("nan"),
            n_rated=self.n_rated + other.n_rated,
            n_captions=self.n_captions + other.n_captions,
        )


@dataclass(frozen=True)
class PoweredMean:
    """The mean rating of captions, from the ratings alone and with the metrics' help."""

    classical: Estimate
    powered: Estimate

    @property
    def effective_n(self) -> float:
        """The number of ratings that would give the powered interval without a metric, as far as n and N tell.

        The variance of n ratings is S² (1 / n - 1 / N) for the given captions.
        """
        classical = self.classical.influences.variance("images")
        powered = self.powered.influences.variance("images")
        if not powered:
            return float(self.classical.n_captions)

        return self.classical.n_rated * classical / powered

    def subtract(self, other: PoweredMean) -> PoweredMean:
        """Return the difference of two means."""
        return PoweredMean(
            self.classical.subtract(other.classical), self.powered.subtract(other.powered)
        )


@dataclass(frozen=True)
class _Rated:
    """The rated captions of a sample.

    Attributes:
        captions: their numbers, shape (n_rated,).
        index: the rated caption of each rating, shape (n_ratings,).
        share: one over the number of ratings that the rating's caption has, shape (n_ratings,).
        ratings: the mean ratings, shape (n_rated,).
        images, strata: of each, shape (n_rated,).
        weights: how many captions each stands for, as shares that sum to 1.
        drawn: the share of captions drawn where each was drawn.
        factor: the small-sample factor of each one's variance, G / (G - 1) of the G rated images of its stratum.
        images_of_strata: G, shape (n_strata,).
    """

    captions: Ints
    index: Ints
    share: Floats
    ratings: Floats
    images: Ints
    strata: Ints
    weights: Floats
    drawn: Floats
    factor: Floats
    images_of_strata: Floats

    @classmethod
    def of(cls, sample: RatedSample) -> _Rated:
        """Gather the rated captions of a sample."""
        captions, index, counts = np.unique(sample.caption, return_inverse=True, return_counts=True)
        ratings = np.bincount(index, weights=sample.values) / counts
        images = sample.images[captions]
        strata = sample.strata[captions]

        n_strata = int(sample.strata.max()) + 1
        in_stratum = np.bincount(sample.strata, minlength=n_strata)
        rated_in_stratum = np.bincount(strata, minlength=n_strata)
        if sample.probabilities is None:
            drawn = (rated_in_stratum / np.maximum(in_stratum, 1))[strata]
        else:
            drawn = sample.probabilities[captions]
        weights = 1 / drawn

        # Each image once in each stratum; the remainder of its number there is the stratum.
        image_in_stratum = np.unique(images * n_strata + strata)
        stratum_of_image = image_in_stratum % n_strata
        n_images = np.bincount(stratum_of_image, minlength=n_strata).astype(np.float64)
        # A stratum with one rated image says nothing of its variance.
        factor = n_images / np.maximum(n_images - 1, 1)
        return cls(
            captions=captions,
            index=index,
            share=1 / counts[index],
            ratings=ratings,
            images=images,
            strata=strata,
            weights=weights / weights.sum(),
            drawn=drawn,
            factor=factor[strata],
            images_of_strata=n_images,
        )

    def freedom(self, influences: Floats) -> float:
        """Return the degrees of freedom of the sum of squared influences: images less 1, of strata Satterthwaite's."""
        squares = np.bincount(self.strata, weights=influences**2)
        if not squares.any():
            return float(len(np.unique(self.images)) - len(np.unique(self.strata)))

        has_error = squares > 0
        freedoms = np.maximum(self.images_of_strata[has_error] - 1, 1)
        parts = squares[has_error] ** 2 / freedoms
        return float(squares.sum() ** 2 / parts.sum())

    def centre(self, values: Floats) -> Floats:
        """Return values less their weighted mean within each stratum."""
        totals = np.bincount(self.strata, weights=self.weights)
        sums = np.bincount(self.strata, weights=self.weights * values)
        means = sums / np.where(totals > 0, totals, 1)
        return values - means[self.strata]


@dataclass(frozen=True)
class Predictions:
    """The predictions of metrics for the rated captions.

    Attributes:
        values: predictions less the mean prediction of all captions, shape (n_rated,).
        variance: of the predictions of all captions; 0 where metrics tell no captions apart.
        is_joint: whether several metrics were joined by what ratings taught.
    """

    values: Floats
    variance: float
    is_joint: bool


def estimate_mean(sample: RatedSample, seed: int = 0) -> PoweredMean:
    """Estimate the mean rating of all captions of a sample.

    Args:
        sample: the captions; without metrics both estimates are the classical one.
        seed: of the folds in which several metrics are joined.
    """
    rated = _Rated.of(sample)
    predicted = predict_other_folds(sample, rated.captions, rated.ratings, seed)
    nothing = Predictions(np.zeros(len(rated.ratings)), 0.0, is_joint=False)
    classical = _estimate(sample, rated, nothing)
    if not predicted.variance:
        return PoweredMean(classical, classical)

    return PoweredMean(classical, _estimate(sample, rated, predicted))


def _estimate(sample: RatedSample, rated: _Rated, predicted: Predictions) -> Estimate:
    """Estimate the mean with the help of predictions; none have the variance 0."""
    predictions = predicted.values
    weights = rated.weights
    centred = predictions - weights @ predictions
    is_powered = predicted.variance > 0
    weight = 0.0
    leverage = np.zeros(len(predictions))
    if is_powered:
        # Where most scores are alike, as BLEU-4's are 0, a few rated captions may all have the same one.
        variance = max(float(weights @ centred**2), predicted.variance)
        weight = float(weights @ (centred * rated.ratings)) / variance
        leverage = weights * centred**2 / variance
    if predicted.is_joint:
        # Joined predictions were fitted to ratings, so that they rise with them; a negative weight would be noise.
        weight = max(0.0, weight)

    value = float(weights @ (rated.ratings - weight * predictions))
    residuals = rated.ratings - weight * predictions - value
    # A caption that alone fixes the weight has no residual of its own.
    residuals = residuals / np.maximum(1 - leverage, MIN_FREE)

    # Factors of errors are the roots of those of variances.
    root = np.sqrt(rated.factor)
    by_caption = weights * root * rated.centre(residuals)
    sampling = by_caption * np.sqrt(1 - rated.drawn)
    # The variance of the ratings by the number of all captions.
    deviations = np.sqrt(weights) * (rated.ratings - weights @ rated.ratings)
    population = root * deviations / np.sqrt(len(sample.scores))
    rating = (sample.values - weight * predictions[rated.index] - value) * weights[rated.index]

    influences = Influences(
        sampling=sampling[rated.index] * rated.share,
        population=population[rated.index] * rated.share,
        rating=rating * rated.share,
        image=sample.images[sample.caption],
        rater=sample.rater,
    )
    return Estimate(
        value=value,
        influences=influences,
        freedom=max(1.0, rated.freedom(by_caption) - is_powered),
        weight=weight,
        n_rated=len(rated.ratings),
        n_captions=len(sample.scores),
    )


def predict_other_folds(
    sample: RatedSample, captions: Ints, ratings: Floats, seed: int
) -> Predictions:
    """Predict the deviation of rated captions from the mean of all captions, by what other images taught.

    One metric predicts by itself. Of several, slopes are fitted by a ridge on the captions of the other folds; a fold
    has whole images.

    Args:
        sample: the captions with their scores.
        captions, ratings: the rated captions and their mean ratings, shape (n_rated,).
        seed: of the folds.
    """
    of_rated = sample.scores.standardised[captions]
    n_metrics = of_rated.shape[1]
    if not n_metrics:
        return Predictions(np.zeros(len(captions)), 0.0, is_joint=False)
    if n_metrics == 1:
        return Predictions(of_rated[:, 0], 1.0, is_joint=False)

    _, image = np.unique(sample.images[captions], return_inverse=True)
    n_images = int(image.max()) + 1
    n_folds = min(FOLDS, n_images)
    # Folds of equal size, or of one image more, in random order.
    fold_of_image = np.random.default_rng(seed).permutation(np.arange(n_images) % n_folds)
    fold = fold_of_image[image]

    slopes = _fit_other_folds(of_rated, ratings, fold)
    predictions = np.einsum("ij,ij->i", of_rated, slopes[fold])
    shares = np.bincount(fold) / len(fold)
    variances = np.einsum("ki,ij,kj->k", slopes, sample.scores.correlations, slopes)
    return Predictions(predictions, float(shares @ variances), is_joint=True)


def _fit_other_folds(scores: Floats, ratings: Floats, fold: Ints) -> Floats:
    """Return the slopes of a ridge on all folds but each, shape (n_folds, n_metrics).

    Args:
        scores: shape (n_rated, n_metrics).
        ratings, fold: shape (n_rated,).
    """
    n_metrics = scores.shape[1]
    columns = np.column_stack([np.ones(len(ratings)), scores, ratings])
    folds = np.arange(int(fold.max()) + 1)
    is_in_other_fold = (folds[:, None] != fold).astype(np.float64)
    products = columns[:, :, None] * columns[:, None, :]
    sums = np.tensordot(is_in_other_fold, products, axes=1)

    # Sums of squares and products about the means of the other folds. The first column is 1, so that its products are
    # the number of captions and the totals of the other columns.
    counts = sums[:, :1, :1]
    totals = sums[:, 0, 1:]
    centred = sums[:, 1:, 1:] - totals[:, :, None] * totals[:, None, :] / counts
    penalty = PENALTY * n_metrics * np.eye(n_metrics)
    slopes = np.linalg.solve(centred[:, :-1, :-1] + penalty, centred[:, :-1, -1:])
    return slopes[:, :, 0]
