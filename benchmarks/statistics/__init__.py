"""The package benchmarks.statistics."""
