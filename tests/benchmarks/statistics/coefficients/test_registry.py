"""The registry of coefficients: each says what tables, citations and help print of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from captau.benchmarks.statistics.bootstrap import TESTS
from captau.benchmarks.statistics.coefficients.registry import (
    are_of_preferences,
    coefficient_names,
    find_coefficient,
    list_coefficients,
    register,
)
from tests.conftest import says


def test_coefficients_stand_in_the_fields_order() -> None:
    assert coefficient_names() == [
        *("tau_c", "tau_b", "tau_a", "gamma", "spearman", "pearson"),
        *("pairwise_accuracy", "acc_eq", "soft_pairwise_accuracy"),
        *("average_precision", "auroc", "accuracy"),
    ]


def test_each_says_how_it_is_printed_and_tested() -> None:
    for coefficient in list_coefficients():
        assert coefficient.symbol
        assert coefficient.latex
        assert coefficient.words
        assert set(coefficient.tests) <= set(TESTS)
        assert coefficient.bounds[1] == 1
        assert coefficient.is_signed == (coefficient.bounds == (-1, 1))
    assert find_coefficient("pearson").tests == ("bootstrap", "permutation", "williams")
    assert find_coefficient("accuracy").tests == ("bootstrap", "permutation", "mcnemar")


def test_docs_name_every_coefficient() -> None:
    text = (Path(__file__).parents[4] / "docs" / "kinds.md").read_text(encoding="utf-8")
    assert [name for name in coefficient_names() if f"`{name}`" not in text] == []


def test_accuracy_alone_is_of_preferences() -> None:
    names = coefficient_names()
    marked = [n for n, is_marked in zip(names, are_of_preferences(names), strict=True) if is_marked]
    assert marked == ["accuracy"]
    accuracy, tau = find_coefficient("accuracy"), find_coefficient("tau_b")
    assert [accuracy.is_summary(d) for d in ("mean", "style")] == [True, False]
    assert tau.is_summary("style")


def test_an_unknown_name_and_one_that_is_taken() -> None:
    with says("unknown coefficient 'tau_d'", "tau_"):
        find_coefficient("tau_d")
    with pytest.raises(ValueError, match="accuracy is registered twice"):
        register(type(find_coefficient("accuracy")))
