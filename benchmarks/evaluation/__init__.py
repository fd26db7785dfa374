"""The package benchmarks.evaluation."""
