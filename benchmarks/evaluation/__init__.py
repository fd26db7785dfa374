"""Scores meet ratings: measured datasets, their tables and wording, and the numbers of papers."""
