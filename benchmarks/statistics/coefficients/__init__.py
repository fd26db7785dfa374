"""Coefficients of agreement with people: one class each, which everybody asks for what they need to know of it."""
