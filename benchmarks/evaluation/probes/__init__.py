"""Captions with one known fault beside the original ones, and how often metrics notice."""
