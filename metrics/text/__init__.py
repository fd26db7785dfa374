"""Metrics that compare a candidate with its references as text."""
