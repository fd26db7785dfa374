"""Readers of JSON files and tables, and where a dataset's files lie in the data folder."""
