"""The package benchmarks.scoring."""
