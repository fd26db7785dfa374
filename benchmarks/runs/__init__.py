"""Folders of runs: writing and reading their files, tables for people, and progress bars."""
