"""Detection: how well scores find the captions of a kind, as average precision and area under the ROC curve.

To be found are the ratings of 1 among 0 and 1, by high scores; or those of -1 among 0 and -1, which are faults, by
low scores.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ..rated_points import RatedPoints
from ..remarks import Note, Undefined, remark
from ..weighted_pairs import Floats, Statistic, check_weights
from .coefficient import CoefficientValue, PreparedCoefficient, RatingCoefficient, register
from .kendall import kendall_p_value

#: Scores × replicates that are laid out at once.
MAX_CELLS = 4_000_000


def is_detection(ratings: Floats) -> bool:
    """Say whether all ratings are 0 and 1, or 0 and -1."""
    are_marks = bool(np.isin(ratings, (-1, 0, 1)).all())
    marks_besides_zero = set(ratings[ratings != 0].tolist())
    return are_marks and len(marks_besides_zero) == 1


class DetectionCoefficient(RatingCoefficient):
    """A coefficient of how well scores find captions; systems' means, neither 0 nor 1 but by accident, have none."""

    bounds = (0.0, 1.0)
    chance = 0.5
    system_reason = Undefined.NO_DETECTION
    has_standing_note = True

    @abstractmethod
    def compute(self, hits: Floats, points: Floats) -> Floats:
        """Compute the coefficient of weighted samples, in each of which there are two different scores.

        Args:
            hits, points: the weight of what is to be found, and of all points, at each distinct score, best score
                first, shape (n_scores, n_replicates).
        """

    @abstractmethod
    def chance_level(self, ratings: Floats) -> float:
        """Return the value that scores without any information have on average, for many points."""

    def chance_on(self, ratings: Floats, ties: str = "half") -> float:
        return self.chance_level(ratings) if is_detection(ratings) else float("nan")

    def measure(self, points: RatedPoints) -> CoefficientValue:
        if not is_detection(points.ratings):
            return CoefficientValue.undefined(remark(Undefined.NO_DETECTION))
        chance = remark(Note.CHANCE_LEVEL, chance=self.chance_level(points.ratings))
        return super().measure(points).with_remarks(chance)

    def prepare(self, points: RatedPoints) -> PreparedCoefficient:
        if not is_detection(points.ratings):
            return lambda sample: sample.undefined  # NaN for each sample
        statistic = self.prepare_detection(points)
        return lambda sample: statistic(sample.weights)

    def prepare_detection(self, rated: RatedPoints) -> Statistic:
        """Return the coefficient as a function of the units' weights; NaN where a replicate has a single score."""
        from scipy.sparse import csr_matrix

        is_target = rated.ratings != 0
        direction = -1.0 if (rated.ratings < 0).any() else 1.0
        # The first level is the score that points most to what is to be found.
        distinct, levels = np.unique(-direction * rated.scores, return_inverse=True)
        n_units = int(rated.unit.max(initial=-1)) + 1

        shape = (len(distinct), n_units)
        cells = (levels, rated.unit)
        targets = csr_matrix((is_target.astype(np.float64), cells), shape=shape)
        points = csr_matrix((np.ones(len(rated.scores)), cells), shape=shape)

        def evaluate(weights: Floats) -> Floats:
            by_level = np.asarray(points @ weights)
            with np.errstate(all="ignore"):
                values = self.compute(np.asarray(targets @ weights), by_level)
            return np.where((by_level > 0).sum(axis=0) < 2, np.nan, values)

        def statistic(weights: Floats) -> Floats:
            checked = check_weights(weights, n_units)
            step = max(1, MAX_CELLS // max(1, len(distinct)))
            starts = range(0, checked.shape[1], step)
            return np.concatenate([evaluate(checked[:, i : i + step]) for i in starts])

        return statistic


@register
class AveragePrecision(DetectionCoefficient):
    """Σ (R_k - R_{k-1}) P_k over the distinct scores, P_k and R_k being precision and recall from there on.

    Points of equal score are found together, none before the other (the sum of scikit-learn's
    `average_precision_score`).
    """

    chance = None
    name = "average_precision"
    order = 11
    symbol = "AP"
    latex = "AP"
    words = "average precision of detection"
    is_smooth = True

    def compute(self, hits: Floats, points: Floats) -> Floats:
        hits_so_far = hits.cumsum(axis=0)
        # Scores without hits add nothing; at the first of them precision may be 0 / 0.
        precision = np.where(hits > 0, hits_so_far / points.cumsum(axis=0), 0.0)
        average_precision = (hits * precision).sum(axis=0) / hits_so_far[-1]

        # Where there is nothing else, every order finds all: that says nothing.
        n_misses = (points - hits).sum(axis=0)
        return np.where(n_misses > 0, average_precision, np.nan)

    def chance_level(self, ratings: Floats) -> float:
        return float((ratings != 0).mean())


@register
class AreaUnderCurve(DetectionCoefficient):
    """The share of pairs of both kinds that scores order rightly, a tie counting half (Hanley and McNeil 1982).

    It is one half exactly where τ_b is zero, so that its test is this one's.
    """

    name = "auroc"
    order = 12
    symbol = "AUROC"
    latex = "AUROC"
    words = "the area under the ROC curve"
    source = "Hanley and McNeil 1982"
    is_smooth = True

    def compute(self, hits: Floats, points: Floats) -> Floats:
        misses = points - hits
        n_hits = hits.cumsum(axis=0)[-1]
        n_misses = misses.sum(axis=0)
        misses_so_far = misses.cumsum(axis=0)
        # Those of equal score count half.
        misses_below = n_misses - misses_so_far + misses / 2
        return (hits * misses_below).sum(axis=0) / (n_hits * n_misses)

    def chance_level(self, ratings: Floats) -> float:
        return 0.5

    def p_value(self, points: RatedPoints) -> float:
        return kendall_p_value(points)
