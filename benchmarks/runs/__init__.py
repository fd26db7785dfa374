"""The package benchmarks.runs."""
