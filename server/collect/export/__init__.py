"""A study's answers as files and as a dataset."""
