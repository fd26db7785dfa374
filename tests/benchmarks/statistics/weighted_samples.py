"""Coefficients of all points together as a statistic, for tests of weighted samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from captau.benchmarks.statistics.levels import prepare_at_level
from captau.benchmarks.statistics.weighted_pairs import Statistic


def prepare_pooled(
    x: ArrayLike, y: ArrayLike, coefficients: Sequence[str], unit: ArrayLike | None = None
) -> Statistic:
    """Return the coefficients of paired values; without units each point has its own."""
    scores, ratings = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    units = np.arange(len(scores)) if unit is None else np.asarray(unit, dtype=np.int64)
    return prepare_at_level("pooled", scores, ratings, pd.DataFrame(), coefficients, units)
