"""Leaderboards: rows, places, rank clusters, and the address that selects them."""
