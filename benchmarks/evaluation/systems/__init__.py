"""Captioning systems ranked by people's ratings and preferences."""
