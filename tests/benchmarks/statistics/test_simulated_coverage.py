"""Coverage of intervals and size of tests: a small run of scripts/checks/simulate_statistics.py.

The bounds are of the binomial distribution: what coverage between 93 and 97 %, and a size between 4 and
6 %, gives in so few simulations but once in ten thousand times. `test_the_bounds_would_notice` shows
that they exclude the errors that matter.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from scipy import stats

from captau.benchmarks.statistics.bootstrap import StatisticsOptions

SCRIPT = Path(__file__).parents[3] / "scripts" / "checks" / "simulate_statistics.py"
SIMULATIONS = 160
RARE = 1e-4


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("simulate_statistics", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def possible(share: float, low: float, high: float) -> bool:
    count = round(share * SIMULATIONS)
    least = stats.binom.ppf(RARE, SIMULATIONS, low)
    return least <= count <= stats.binom.ppf(1 - RARE, SIMULATIONS, high)


def test_intervals_cover(script):
    found = script.coverage(SIMULATIONS, 100, StatisticsOptions(replicates=300), seed=11)
    assert len(found) == 12
    for key, share in found.items():
        assert possible(share, 0.93, 0.97), (key, share)


@pytest.mark.parametrize("case", range(9))
def test_tests_find_nothing_where_nothing_is(script, case):
    chosen = script.TESTED[case]
    share = script.size(chosen, SIMULATIONS, 100, StatisticsOptions(replicates=300), seed=12)
    assert possible(share, 0.04, 0.06), (chosen, share)


def test_the_bounds_would_notice(script):
    """Intervals of half the width, which cover two thirds; Williams' test of images' captions."""
    assert not possible(0.67, 0.93, 0.97)
    misused = script.size(
        ("williams", "pearson", "images", "both"), SIMULATIONS, 100, StatisticsOptions(), seed=12
    )
    assert not possible(misused, 0.04, 0.06)


@pytest.mark.parametrize(
    ("data", "swap", "ratio"),
    [
        # Independent captions; what images share and swapped images keep: the variance is right.
        ("systems", "both", 1.0),
        ("leaning to images", "image", 1.0),
        # PERM-BOTH takes captions for independent, so that it misses what they share.
        ("leaning to images", "both", 1.16),
    ],
)
def test_perm_both_takes_captions_for_independent(script, data, swap, ratio):
    """Worked by theory for the first two, printed by the script (seed 0) for the third."""
    assert script.explain(data, swap, 2000, 100, seed=5)[0] == pytest.approx(ratio, abs=0.07)
