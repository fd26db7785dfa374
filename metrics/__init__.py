"""Metrics: one number per caption."""
