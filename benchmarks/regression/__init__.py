"""The package benchmarks.regression."""
