"""The package benchmarks.commands."""
