"""The package benchmarks.reporting."""
