"""Sums and percentiles of numbers in many parts: the same to the last bit, whatever the parts and their order.

A float64 is a whole number times a power of two, so sums are whole numbers. Percentiles are found digit by
digit of the numbers' sort keys, in as many passes as a key has digits, with memory that depends on neither
the numbers nor their count. `stages` counts in parts; `run` and `filtering` put the counts together.
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
_LOW_BITS = 27

#: Bits of a digit of a sort key, and how many digits a float64 has.
BITS = 16
DIGITS = 64 // BITS

#: How often each digit follows a prefix: by prefix, by digit.
DigitCounts = dict[int, dict[int, int]]
#: From a digit's position and the prefixes of interest by column to the counts by column.
CountPass = Callable[[int, Mapping[str, Sequence[int]]], Mapping[str, DigitCounts]]


def exact_sum(values: Floats) -> int | None:
    """Sum numbers in units of 2^-1074; None where one is not finite.

    Args:
        values: float64 of any shape.
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(values).all():
        return None
    mantissas, exponents = np.frexp(values)
    integers = np.ldexp(mantissas, 53).astype(np.int64)  # |integer| < 2^53
    high, low = integers >> _LOW_BITS, integers & ((1 << _LOW_BITS) - 1)
    total = 0
    for exponent in np.unique(exponents).tolist():
        has_exponent = exponents == exponent
        part = (int(high[has_exponent].sum()) << _LOW_BITS) + int(low[has_exponent].sum())
        shift = exponent - 53 + _SCALE
        # The right shift is exact: a subnormal's last bits are 0.
        total += part << shift if shift >= 0 else part >> -shift
    return total


def add_sums(sums: Iterable[int | None]) -> int | None:
    """Add the sums of parts; None where one of them is None."""
    total = 0
    for part in sums:
        if part is None:
            return None
        total += part
    return total


def sum_to_float(total: int | None) -> float:
    """Return the float64 next to a sum of `exact_sum`; NaN for None."""
    return math.nan if total is None else float(Fraction(total, 1 << _SCALE))


def sort_keys(values: Floats) -> NDArray[np.uint64]:
    """Return whole numbers that are ordered as these floats are; -0 counts as 0."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    sign = np.uint64(1) << np.uint64(63)
    return np.where(bits & sign, ~bits, bits | sign)


def float_of_key(key: int) -> float:
    """Return the float that has a key of `sort_keys`."""
    sign = 1 << 63
    bits = key ^ sign if key & sign else ~key & (2**64 - 1)
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])


def count_digits(values: Floats, position: int, prefixes: Sequence[int]) -> DigitCounts:
    """Count how often each digit follows each prefix in the sort keys of some numbers.

    Args:
        values: shape (n,); NaN is left out.
        position: which digit, 0 the first.
        prefixes: the digits before, as one number each; [0] for the first digit.
    """
    keys = sort_keys(values[~np.isnan(values)])
    digits = keys >> np.uint64(BITS * (DIGITS - 1 - position))
    prefix_of_key = digits >> np.uint64(BITS)
    by_prefix: DigitCounts = {}
    for prefix in prefixes:
        following, counts = np.unique(
            digits[prefix_of_key == np.uint64(prefix)], return_counts=True
        )
        low = (following & np.uint64((1 << BITS) - 1)).tolist()
        by_prefix[prefix] = dict(zip(low, counts.tolist(), strict=True))
    return by_prefix


def add_digit_counts(total: DigitCounts, part: Mapping[int, Mapping[int, int]]) -> None:
    """Add the digit counts of a part to a total, in place."""
    for prefix, digits in part.items():
        sums = total.setdefault(prefix, {})
        for digit, count in digits.items():
            sums[digit] = sums.get(digit, 0) + count


def compute_percentiles(
    sizes: Mapping[str, int], shares: Sequence[float | Fraction], count_pass: CountPass
) -> dict[str, list[float]]:
    """Compute percentiles of several columns, interpolated as NumPy does by default.

    Args:
        sizes: how many numbers each column has.
        shares: 0 to 100.
        count_pass: counts digits in all parts, as `count_digits` does in one.

    Returns:
        By column, in the order of `shares`; NaN for a column without numbers.
    """
    # For each rank that is needed: the digits found so far, and its rank among the keys that have them.
    searches: dict[str, dict[int, tuple[int, int]]] = {
        name: {
            rank: (0, rank)
            for share in shares
            if size
            for rank in _neighbour_ranks(size, share)[:2]
        }
        for name, size in sizes.items()
    }
    for position in range(DIGITS):
        prefixes = {
            name: sorted({prefix for prefix, _ in search.values()})
            for name, search in searches.items()
            if search
        }
        counts = count_pass(position, prefixes) if prefixes else {}
        for name, search in searches.items():
            for rank, (prefix, rank_within) in search.items():
                search[rank] = _descend(prefix, rank_within, counts[name][prefix])
    return {
        name: [
            _interpolate(
                {rank: float_of_key(key) for rank, (key, _) in search.items()}, sizes[name], share
            )
            for share in shares
        ]
        for name, search in searches.items()
    }


def _descend(prefix: int, rank: int, counts: Mapping[int, int]) -> tuple[int, int]:
    """Return the prefix with one digit more that holds a rank, and the rank within it."""
    for digit, count in sorted(counts.items()):
        if rank < count:
            return (prefix << BITS) + digit, rank
        rank -= count
    raise AssertionError("the parts hold fewer numbers than their sizes say")


def _neighbour_ranks(size: int, share: float | Fraction) -> tuple[int, int, float]:
    """Return the two ranks that a percentile lies between, and how far from the first."""
    exact_rank = Fraction(share) * (size - 1) / 100
    low = math.floor(exact_rank)
    return low, min(low + 1, size - 1), float(exact_rank - low)


def _interpolate(value_by_rank: Mapping[int, float], size: int, share: float | Fraction) -> float:
    if not size:
        return math.nan
    low, high, weight = _neighbour_ranks(size, share)
    a, b = value_by_rank[low], value_by_rank[high]
    return a if a == b or not weight else a + (b - a) * weight


def count_bins(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """Count the values in each bin, the last one closed at both ends; NaN is in none."""
    counts: Any = np.histogram(values[~np.isnan(values)], bins=edges)[0]
    return counts.astype(np.int64)
