"""Uploaded files: stored, made submissions, and checked for faults."""
