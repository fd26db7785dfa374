"""Checks of a metric's scores for other projects' test suites."""

from captau.benchmarks.regression.assert_scores import assert_scores

__all__ = ["assert_scores"]
