"""Quantiles and tails of the normal distribution and of Student's t, and ranks, without SciPy.

SciPy's special functions and statistics take a tenth to half of a second to import, which is a good part of what a small
run takes in all. What every run needs of them is here; whatever else a test needs is imported where the test is.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NORMAL = NormalDist()


def normal_quantile(share: float) -> float:
    """Return the value below which a share of the normal distribution lies; infinite for 0 and 1."""
    if share <= 0 or share >= 1:
        return math.copysign(math.inf, share - 0.5)
    return _NORMAL.inv_cdf(share)


def normal_share(value: float) -> float:
    """Return the share of the normal distribution below a value, exact to the last digits of the smallest shares too."""
    return math.erfc(-value / math.sqrt(2)) / 2


#: From so many degrees of freedom on Student's quantiles are expanded about the normal ones.
_MANY = 500


@lru_cache(maxsize=64)
def student_quantile(share: float, freedom: int) -> float:
    """Return the value below which a share of Student's t lies.

    Args:
        share: between 0 and 1.
        freedom: the degrees of freedom, a whole number from 1 on.
    """
    z = normal_quantile(share)
    if math.isinf(z):
        return z
    if freedom >= _MANY:
        # Abramowitz and Stegun 1964, 26.7.5: what is left out is below 1e-13.
        first = (z**3 + z) / 4
        second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
        fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
        return z + first / freedom + second / freedom**2 + third / freedom**3 + fourth / freedom**4

    # Newton's method. The share between -t and t is concave in t, and |z| is below t: no step goes beyond it.
    value = abs(z)
    central = abs(2 * share - 1)
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    log_scale -= math.log(freedom * math.pi) / 2
    step = value
    while step > 1e-15 * value:
        log_density = log_scale - (freedom + 1) / 2 * math.log1p(value**2 / freedom)
        step = (central - _student_central_share(value, freedom)) / (2 * math.exp(log_density))
        value += step

    return math.copysign(value, share - 0.5)


def student_share(value: float, freedom: int) -> float:
    """Return the share of Student's t below a value.

    Args:
        value: infinity is legal.
        freedom: the degrees of freedom, a whole number from 1 on.
    """
    if math.isinf(value):
        return float(value > 0)
    return (1 + math.copysign(_student_central_share(abs(value), freedom), value)) / 2


def _student_central_share(value: float, freedom: int) -> float:
    """Return the share of Student's t between -value and value (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    sine = value / math.sqrt(freedom + value**2)
    cosine = math.sqrt(freedom / (freedom + value**2))
    if freedom % 2 == 0:
        odd = np.arange(1, freedom - 2, 2)
        terms = np.cumprod(odd / (odd + 1) * cosine**2)
        return sine * (1 + float(terms.sum()))

    angle = math.atan2(value, math.sqrt(freedom))
    if freedom == 1:
        return 2 / math.pi * angle
    even = np.arange(2, freedom - 1, 2)
    terms = np.cumprod(even / (even + 1) * cosine**2)
    return 2 / math.pi * (angle + sine * cosine * (1 + float(terms.sum())))


def mid_ranks(values: Floats) -> Floats:
    """Return the ranks of values from 1 on, the mean rank of equal ones, as `scipy.stats.rankdata` does.

    Args:
        values: shape (n,), or (n, n_columns), each column of which has its own ranks; those of a column with NaN are NaN.
    """
    columns = values[:, None] if values.ndim == 1 else values
    order = np.argsort(columns, axis=0)
    ordered = np.take_along_axis(columns, order, axis=0)
    differs = ordered[1:] != ordered[:-1]
    # The first value differs from what is before it, and the last from what is behind it; of no values there is neither.
    edge = np.ones((min(1, len(columns)), columns.shape[1]), dtype=bool)

    # Equal values stand side by side: each takes the middle between the first and the last of them.
    position = np.arange(1.0, len(columns) + 1)[:, None]
    first = np.where(np.concatenate([edge, differs]), position, 0.0)
    first = np.maximum.accumulate(first, axis=0)
    last = np.where(np.concatenate([differs, edge]), position, np.inf)
    # From the end on, where the last of equal values comes first.
    backwards = np.minimum.accumulate(last[::-1], axis=0)
    last = backwards[::-1]

    ranks = np.empty(columns.shape)
    np.put_along_axis(ranks, order, (first + last) / 2, axis=0)
    ranks[:, np.isnan(columns).any(axis=0)] = np.nan
    return ranks.reshape(values.shape)
