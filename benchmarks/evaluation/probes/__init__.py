"""Captions with one known fault beside the whole ones, and how often metrics notice."""
