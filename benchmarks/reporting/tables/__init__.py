"""The tables of finished runs, in each format."""
