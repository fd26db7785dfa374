"""Examples in the docstrings of metrics, run as they are printed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import captau.metrics

MODULES = [
    module.name
    for module in pkgutil.walk_packages(captau.metrics.__path__, "captau.metrics.")
    if "._" not in module.name
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_their_results(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_examples_are_found():
    tests = doctest.DocTestFinder().find(importlib.import_module("captau.metrics.text.cider"))
    assert any(test.examples for test in tests)
