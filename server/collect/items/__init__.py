"""Captions and images that a study shows, and where they are read from."""
