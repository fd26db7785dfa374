"""Sums and percentiles of numbers in many parts: the same to the last bit, whatever the parts and their order.

A float64 is a whole number times a power of two, so sums are kept as whole numbers. Percentiles are
found digit by digit of the numbers' ordered bits, in as many passes as a number has digits, with memory
that depends on neither the numbers nor their count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metrics.base import Floats

#: Every float64 is a whole number of 2^-SCALE.
_SCALE = 1074
_LOW = 27

#: Bits of a digit, and how many digits a float64 has.
BITS = 16
DIGITS = 64 // BITS

#: From a digit's place and the prefixes of interest by name to how often each next digit occurs.
Pass = Callable[[int, Mapping[str, Sequence[int]]], dict[str, dict[int, dict[int, int]]]]


def exact_sum(values: Floats) -> int | None:
    """The sum in units of 2^-1074; None where a value is not finite.

    Args:
        values: float64 of any shape.
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(values).all():
        return None
    mantissas, exponents = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64)  # |whole| < 2^53
    places, index = np.unique(exponents, return_inverse=True)
    high, low = whole >> _LOW, whole & ((1 << _LOW) - 1)
    total = 0
    for place, i in zip(places.tolist(), range(len(places)), strict=True):
        here = index == i
        part = (int(high[here].sum()) << _LOW) + int(low[here].sum())
        shift = place - 53 + _SCALE
        total += (
            part << shift if shift >= 0 else part >> -shift
        )  # exact: a subnormal's last bits are 0
    return total


def added(sums: Iterable[int | None]) -> int | None:
    """Of sums of parts that of the whole; None where one is."""
    total = 0
    for one in sums:
        if one is None:
            return None
        total += one
    return total


def to_float(total: int | None) -> float:
    """The float64 next to a sum; NaN for None."""
    return math.nan if total is None else float(Fraction(total, 1 << _SCALE))


def ordered(values: Floats) -> NDArray[np.uint64]:
    """Whole numbers in the order of these floats; -0 counts as 0."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    sign = np.uint64(1) << np.uint64(63)
    return np.where(bits & sign, ~bits, bits | sign)


def from_ordered(key: int) -> float:
    """The float that `ordered` made a number of."""
    sign = 1 << 63
    bits = key ^ sign if key & sign else ~key & (2**64 - 1)
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])


def digit_counts(values: Floats, place: int, prefixes: Sequence[int]) -> dict[int, dict[int, int]]:
    """How often each digit follows a prefix, in the ordered bits of some numbers.

    Args:
        values: shape (n,), NaN left out.
        place: which digit, 0 the first.
        prefixes: the digits before, as one number each; [0] for the first digit.

    Returns:
        by prefix, by digit.
    """
    keys = ordered(values[~np.isnan(values)])
    shift = np.uint64(BITS * (DIGITS - 1 - place))
    digits = keys >> shift
    before = digits >> np.uint64(BITS)
    found: dict[int, dict[int, int]] = {}
    for prefix in prefixes:
        here, counts = np.unique(digits[before == np.uint64(prefix)], return_counts=True)
        low = (here & np.uint64((1 << BITS) - 1)).tolist()
        found[prefix] = dict(zip(low, counts.tolist(), strict=True))
    return found


def percentiles(
    counts: Mapping[str, int], shares: Sequence[float], look: Pass
) -> dict[str, list[float]]:
    """Percentiles of several columns, interpolated as NumPy does by default.

    Args:
        counts: how many numbers each column has; NaN for one without any.
        shares: 0 to 100.
        look: counts digits in all parts, as `digit_counts` does in one.

    Returns:
        by column, in the order of `shares`.
    """
    ranks: dict[str, dict[int, tuple[int, int]]] = {}  # rank → prefix, rank among those with it
    for name, size in counts.items():
        wanted = {k for share in shares for k in _ranks(size, share)[:2]} if size else set[int]()
        ranks[name] = {rank: (0, rank) for rank in wanted}
    for place in range(DIGITS):
        ask = {n: sorted({prefix for prefix, _ in of.values()}) for n, of in ranks.items() if of}
        found = look(place, ask) if ask else {}
        for name, of in ranks.items():
            for rank, (prefix, left) in of.items():
                for digit, count in sorted(found[name][prefix].items()):
                    if left < count:
                        of[rank] = (prefix << BITS) + digit, left
                        break
                    left -= count
    return {
        name: [
            _between(
                {rank: from_ordered(key) for rank, (key, _) in of.items()}, counts[name], share
            )
            for share in shares
        ]
        for name, of in ranks.items()
    }


def _ranks(size: int, share: float) -> tuple[int, int, float]:
    """The two ranks that a percentile lies between, and how far from the first."""
    at = Fraction(share) * (size - 1) / 100
    low = math.floor(at)
    return low, min(low + 1, size - 1), float(at - low)


def _between(values: Mapping[int, float], size: int, share: float) -> float:
    if not size:
        return math.nan
    low, high, weight = _ranks(size, share)
    a, b = values[low], values[high]
    return a if a == b or not weight else a + (b - a) * weight


def histogram(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """How many values are in each bin, the last one closed at both ends; NaN is in none."""
    counts: Any = np.histogram(values[~np.isnan(values)], bins=edges)[0]
    return counts.astype(np.int64)
