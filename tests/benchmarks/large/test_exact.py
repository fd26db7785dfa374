"""Sums and percentiles that do not depend on the parts."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.benchmarks.large.exact import (
    add_digit_counts,
    add_sums,
    compute_percentiles,
    count_digits,
    exact_sum,
    float_of_key,
    sort_keys,
    sum_to_float,
)

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.lists(st.lists(FLOATS, max_size=8), max_size=6), st.randoms())
def test_a_sum_is_the_nearest_to_the_true_one_in_any_parts(parts, random):
    values = [v for part in parts for v in part]
    sums = [exact_sum(np.array(part)) for part in parts]
    random.shuffle(sums)
    try:
        expected = math.fsum(values)
    except OverflowError:
        return
    if abs(expected) < 1e308:
        assert sum_to_float(add_sums(sums)) == expected


def test_sums_worked_by_hand():
    assert sum_to_float(exact_sum(np.array([0.1] * 10))) == 1.0  # 0.9999999999999999 one by one
    assert sum_to_float(exact_sum(np.array([1e300, 1.0, -1e300]))) == 1.0
    assert sum_to_float(exact_sum(np.array([5e-324, 5e-324]))) == 1e-323
    assert exact_sum(np.array([])) == 0
    assert exact_sum(np.array([1.0, np.nan])) is None
    assert math.isnan(sum_to_float(add_sums([1, None])))


@settings(deadline=None)
@given(st.lists(FLOATS, min_size=2))
def test_sort_keys_are_ordered_as_numbers_are(values):
    keys = sort_keys(np.array(values))
    assert (
        np.argsort(keys, kind="stable") == np.argsort(np.array(values) + 0.0, kind="stable")
    ).all()
    assert [float_of_key(k) for k in keys.tolist()] == [v + 0.0 for v in values]


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1.0, math.nan]), max_size=20),
        min_size=1,
        max_size=5,
    )
)
def test_percentiles_of_parts_are_those_of_numpy(parts):
    arrays = [np.array(part, dtype=float) for part in parts]
    values = np.concatenate(arrays)
    values = values[~np.isnan(values)]

    def count_pass(position, prefixes):
        total = {"x": {prefix: {} for prefix in prefixes["x"]}}
        for part in arrays:
            add_digit_counts(total["x"], count_digits(part, position, prefixes["x"]))
        return total

    shares = [0, 1, 33.3, 50, 99, 100]
    computed = compute_percentiles({"x": len(values)}, shares, count_pass)["x"]
    if len(values):
        np.testing.assert_allclose(computed, np.percentile(values, shares), rtol=1e-9, atol=1e-9)
    else:
        assert np.isnan(computed).all()
