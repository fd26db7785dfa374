"""Hydra's configuration: YAML by group, and the typed schemas that validate it."""
