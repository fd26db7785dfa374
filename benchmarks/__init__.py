"""Scores meet ratings: protocols, correlation, tables and the command line."""
