"""Columns, letters, titles and notes of joined tables, and named runs, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from captau.benchmarks.reporting.tables.named_run import (
    NamedRun,
    describe_statistics,
    name_runs,
    shorten_hashes,
    style_of,
)

KEYS: list[Any] = [("one", ("p",), "overall", "tau_c"), ("two", ("p",), "overall", "tau_b")]


def test_hashes_are_cut_to_twelve_digits() -> None:
    long, short = "0a" * 16, "0a" * 15 + "0"
    assert shorten_hashes(f"x:{long}|y:{short}") == f"x:{'0a' * 6}|y:{short}"
    assert shorten_hashes(f"z{long}") == f"z{long}"


def run_of(folder: str, **statistics: Any) -> Any:
    path = SimpleNamespace(name=folder.rpartition("/")[2], __str__=lambda: folder)
    return SimpleNamespace(folder=path, run={"config": {"statistics": statistics}, "data": {}})


def test_statistics_have_the_names_of_runs_where_they_differ() -> None:
    runs = [
        NamedRun(run_of(name, **options), name)
        for name, options in (("a", {"seed": 1}), ("b", {"seed": 2}), ("c", {"seed": 1}), ("d", {}))
    ]
    words: Any = lambda options: f"seed {options.seed}"  # noqa: E731
    assert describe_statistics(runs, words) == ["seed 1 (a, c)", "seed 2 (b)"]
    assert describe_statistics(runs[2:], words) == ["seed 1"]
    assert describe_statistics(runs[3:], words) == []


def test_runs_are_named_by_their_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "captau.benchmarks.reporting.tables.named_run.check_same_data", lambda _: None
    )
    a, b = run_of("x/a"), run_of("x/b")
    assert [named.name for named in name_runs([a, b])] == ["a", "b"]
    again = [named.name for named in name_runs([a, run_of("y/a")])]
    assert again == [str(a.folder), again[1]]
    assert again[0] != "a"


def test_a_label_is_a_metric_of_its_own_style() -> None:
    style = style_of("not a metric", "given")
    assert vars(style) == {
        "label": "not a metric", "order": 1000, "scale": 1, "decimals": 3, "note": "",
        "kind": "given", "higher_is_better": True, "citation": "",
    }  # fmt: skip
    assert (style_of("cider", "given").label, style_of("cider", "given").kind) == (
        *("CIDEr", "reference-based"),
    )
