"""Scoring of submissions, by the functions of `captau score` and `captau bench`."""
