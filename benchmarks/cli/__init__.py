"""The package benchmarks.cli."""
