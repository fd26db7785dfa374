"""Captions to scores: protocols, the score store, scorers, and the catalog of metrics in `conf/`."""
