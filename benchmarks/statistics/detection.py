"""Detection: how well scores find the captions of a kind, as average precision and area under the ROC curve.

`coefficients.correlate` and `weighted_levels` call `prepare_detection`. To be found are the ratings of 1 among 0 and
1, by high scores; or those of -1 among 0 and -1, which are faults, by low scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from .weighted_coefficients import Floats, Ints, Statistic, check_weights

DETECTION_COEFFICIENTS = ("average_precision", "auroc")
#: Scores × replicates that are laid out at once.
MAX_CELLS = 4_000_000


def is_detection(ratings: Floats) -> bool:
    """Say whether all ratings are 0 and 1, or 0 and -1."""
    largest = np.abs(ratings).max(initial=0)
    signs = set(np.sign(ratings[ratings != 0]).tolist())
    return bool(np.isin(np.abs(ratings), (0, 1)).all()) and largest == 1 and len(signs) == 1


def chance_level(ratings: Floats, coefficient: str) -> float:
    """Return the value that scores without any information have on average, for many points."""
    return 0.5 if coefficient == "auroc" else float((ratings != 0).mean())


def prepare_detection(
    scores: Floats, ratings: Floats, coefficients: Sequence[str], unit: Ints
) -> Statistic:
    """Return average precision and AUROC as a statistic of the weights of units.

    Average precision is Σ (R_k - R_{k-1}) P_k over the distinct scores, P_k and R_k being precision and recall of all
    points from there on: points of equal score are found together, none before the other (the sum of scikit-learn's
    `average_precision_score`). AUROC is the share of pairs of both kinds that scores order rightly, a tie counting
    half (Hanley and McNeil 1982).

    Args:
        scores, ratings: shape (n_points,), paired, without NaN; see `is_detection` for the ratings.
        coefficients: any of `DETECTION_COEFFICIENTS`; a value each, in their order.
        unit: the unit whose weight each point takes, shape (n_points,).

    Returns:
        The statistic; NaN where a replicate has points of one kind, or one score.
    """
    is_target = ratings != 0
    direction = -1.0 if (ratings < 0).any() else 1.0
    # The first level is the score that points most to what is to be found.
    distinct, levels = np.unique(-direction * scores, return_inverse=True)
    n_units = int(unit.max(initial=-1)) + 1
    targets, points = (
        scipy.sparse.csr_matrix((counts, (levels, unit)), shape=(len(distinct), n_units))
        for counts in (is_target.astype(np.float64), np.ones(len(scores)))
    )

    def evaluate(weights: Floats) -> Floats:
        by_level = np.asarray(points @ weights)
        hits_by_level = np.asarray(targets @ weights)
        values = _detection_values(hits_by_level, by_level)
        is_constant = (by_level > 0).sum(axis=0) < 2
        return np.stack([np.where(is_constant, np.nan, values[c]) for c in coefficients])

    def statistic(weights: Floats) -> Floats:
        checked = check_weights(weights, n_units)
        step = max(1, MAX_CELLS // max(1, len(distinct)))
        parts = [evaluate(checked[:, i : i + step]) for i in range(0, checked.shape[1], step)]
        return np.concatenate(parts, axis=1)

    return statistic


def _detection_values(hits: NDArray[np.float64], points: NDArray[np.float64]) -> dict[str, Floats]:
    """Compute both coefficients from the weight of targets and of all points at each score, best score first."""
    hits_so_far, points_so_far = hits.cumsum(axis=0), points.cumsum(axis=0)
    misses = points - hits
    n_hits, n_misses = hits_so_far[-1], misses.sum(axis=0)
    with np.errstate(all="ignore"):
        precision = np.where(hits > 0, hits_so_far / points_so_far, 0.0)
        average_precision = (hits * precision).sum(axis=0) / n_hits
        misses_below = n_misses - misses.cumsum(axis=0) + misses / 2
        auroc = (hits * misses_below).sum(axis=0) / (n_hits * n_misses)
    return {
        "average_precision": np.where(n_misses > 0, average_precision, np.nan),
        "auroc": auroc,
    }
