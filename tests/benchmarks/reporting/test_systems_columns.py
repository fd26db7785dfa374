"""Cells, columns and rows of tables of systems, of made-up parts: worked by hand."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from captau.benchmarks.evaluation.wording import Standing
from captau.benchmarks.reporting.latex_table import _latex_cell, _latex_text
from captau.benchmarks.reporting.printed_table import JoinedTable, PrintedNumber
from captau.benchmarks.reporting.run_parts import ScoredCaptions
from captau.benchmarks.reporting.systems_table import (
    _cell,
    _mark_column,
    _name_rows,
    _select_columns,
    _signatures,
    _sort,
)
from captau.benchmarks.reporting.table_rows import (
    MEAN,
    RowDraft,
    TableChoices,
    check_labels,
    emphasise,
    sort_rows,
)
from captau.benchmarks.runs.tables import MISSING
from tests.conftest import says


def part(
    folder: str,
    digest: str,
    rows: dict[tuple[str, str], tuple[float, float, float]],
    signatures: dict[str, str] | None = None,
) -> ScoredCaptions:
    """A part whose scores are printed ×100 with one decimal; the less is the better of `chair`."""
    metrics = list(dict.fromkeys(metric for _, metric in rows))
    systems = list(dict.fromkeys(system for system, _ in rows))
    standings = {m: [Standing(s, 0.0, n + 1) for n, s in enumerate(systems)] for m in metrics}
    made = SimpleNamespace(
        digest=digest,
        metrics=metrics,
        systems=systems,
        rows={
            key: dict(zip(("score", "ci_low", "ci_high"), values, strict=True))
            for key, values in rows.items()
        },
        standings=standings,
        styles={m: {"higher_is_better": m != "chair"} for m in metrics},
        run=SimpleNamespace(folder=Path(folder), run={"signatures": signatures or {}}),
        label=str.upper,
        sort_metrics=sorted,
        format_score=lambda value, _: f"{100 * value:.1f}",
    )
    return cast(ScoredCaptions, made)


NAN = math.nan
FIRST = part(
    "runs/one",
    "d1",
    {
        ("a", "cider"): (0.5, 0.4, 0.7),
        ("b", "cider"): (0.25, NAN, NAN),
        ("a", "chair"): (0.2, 0.1, 0.3),
        ("b", "chair"): (0.1, 0.0, 0.3),
    },
    {"cider": "cider|x:1"},
)
SECOND = part("runs/two", "d1", {("a", "cider"): (0.9, 0.8, 0.95), ("c", "cider"): (0.1, 0.0, 0.2)})
OTHER = part("runs/three", "d2", {("c", "cider"): (0.3, 0.2, 0.4)}, {"cider": "cider|x:1"})


def test_a_cell_is_of_its_references_metric_and_signature() -> None:
    row = [(SECOND, "a"), (FIRST, "a")]
    key = ("d1", "cider", "cider|x:1")
    assert _cell(row, key, "subscript", has_ranks=True) == PrintedNumber(
        "50.0", 0.5, "40.0", "70.0", "15.0", 1
    )
    assert _cell(row, key, "none", has_ranks=False) == PrintedNumber("50.0", 0.5)
    plain = _cell(row, ("d1", "cider", ""), "plusminus", has_ranks=False)
    assert (plain.text, plain.low, plain.high, plain.reach) == ("90.0", "80.0", "95.0", "7.5")
    assert _cell([(FIRST, "b")], key, "subscript", has_ranks=True) == PrintedNumber(
        "25.0", 0.25, rank=2
    )
    for other in (("d2", "cider", "cider|x:1"), ("d1", "cider", "cider|x:2")):
        assert _cell(row, other, "subscript", has_ranks=True).text == MISSING


def test_columns_are_by_references_then_by_metric() -> None:
    parts = [FIRST, SECOND, OTHER]
    found = _select_columns(parts, TableChoices())
    assert list(found) == [
        ("d1", "chair", ""),
        ("d1", "cider", "cider|x:1"),
        ("d1", "cider", ""),
        ("d2", "cider", "cider|x:1"),
    ]
    assert [p.run.folder.name for p in found.values()] == ["one", "one", "two", "three"]
    chosen = _select_columns(parts, TableChoices(coefficients=("cider", "chair")))
    assert [key[:2] for key in chosen] == [
        *(("d1", "cider"), ("d1", "cider"), ("d1", "chair"), ("d2", "cider")),
    ]
    assert list(_select_columns(parts, TableChoices(coefficients=("chair",)))) == [
        ("d1", "chair", "")
    ]
    with says("unknown metric of run=runs/one 'spice'"):
        _select_columns(parts, TableChoices(coefficients=("spice",)))
    assert _signatures(found) == (("CIDER", "cider|x:1"),)


def test_systems_of_equal_names_have_their_runs() -> None:
    rows = _name_rows([FIRST, SECOND, OTHER])
    assert {name: [p.run.folder.name for p, _ in places] for name, places in rows.items()} == {
        "a (one)": ["one"],
        "b": ["one"],
        "a (two)": ["two"],
        "c (two)": ["two"],
        "c (three)": ["three"],
    }
    assert list(_name_rows([FIRST])) == ["a", "b"]


def numbers(*texts: str) -> list[PrintedNumber]:
    return [PrintedNumber(t, NAN if t == MISSING else float(t)) for t in texts]


def test_the_best_two_numbers_as_printed_are_marked() -> None:
    cells = {"a": numbers("1.0"), "b": numbers("3.0"), "c": numbers("3.0"), "d": numbers(MISSING)}
    cells |= {"e": numbers("2.0")}
    _mark_column(cells, 0, higher_is_better=True)
    assert [row[0].emphasis for row in cells.values()] == ["", "best", "best", "", "second"]
    cells = {name: numbers(row[0].text) for name, row in cells.items()}
    _mark_column(cells, 0, higher_is_better=False)
    assert [row[0].emphasis for row in cells.values()] == ["best", "", "", "", "second"]
    for texts in (["1.0", MISSING], [MISSING]):
        alone = {str(n): numbers(text) for n, text in enumerate(texts)}
        _mark_column(alone, 0, higher_is_better=True)
        assert [row[0].emphasis for row in alone.values()] == [""] * len(texts)


def test_systems_are_sorted_from_the_best_to_the_worst() -> None:
    columns = {("d1", "chair", ""): FIRST, ("d1", "cider", ""): FIRST}
    cells = {"a": numbers("2", "1"), "b": numbers(MISSING, "3"), "c": numbers("1", "2")}
    assert list(_sort(cells, columns, ())) == ["a", "b", "c"]
    assert list(_sort(cells, columns, ("cider",))) == ["b", "c", "a"]
    assert list(_sort(cells, columns, ("chair",))) == ["c", "a", "b"]
    for sort in (("spice",), ("cider", "chair")):
        with says(f"unknown metric to sort by '{', '.join(sort)}'"):
            _sort(cells, columns, sort)


KEYS: list[Any] = [("one", "p", "overall", "tau_c"), ("two", "p", "recall", "pearson")]


def draft(kind: str, label: str, *values: float | None, spec: str = "") -> RowDraft:
    cells = {
        key: PrintedNumber(f"{100 * value:.1f}", value)
        for key, value in zip(KEYS, values, strict=False)
        if value is not None
    }
    return RowDraft(kind, (0, 0, ""), label, spec, cells=cells)


def labels(drafts: list[RowDraft], *words: str, columns: list[Any] = KEYS) -> str:
    return " ".join(row.label for row in sort_rows(drafts, columns, words))


def test_rows_are_sorted_within_their_group() -> None:
    drafts = [
        draft("given", "a", 0.1, 0.9),
        draft("given", "b", 0.3, 0.1),
        draft("floors", "low", 0.0, 0.0),
        draft("floors", "high", 0.2, 0.2),
        draft("published", "none", None, 0.5),
        draft("published", "c", 0.4, None),
    ]
    assert labels(drafts) == "b a low high c none"
    assert labels(drafts, "two") == "a b high low none c"
    assert labels(drafts, "overall", "tau_c") == "b a high low c none"
    mean = (MEAN, "", "", "")
    drafts[0].cells[cast(Any, mean)] = PrintedNumber("9", 9.0)
    assert labels(drafts, columns=[*KEYS, mean]).startswith("a b")
    with says(
        "sort=two,tau_c: no column has these names; there are one overall tau_c two recall pearson"
    ):
        labels(drafts, "two", "tau_c")


def test_a_papers_row_stands_beside_the_metrics_own() -> None:
    drafts = [
        draft("given", "own", 0.1, spec="m"),
        draft("given", "paper", 0.9, spec="m"),
        draft("given", "other", 0.5, spec="n"),
    ]
    assert labels(drafts) == "other own paper"


def test_names_that_two_rows_would_share_are_refused() -> None:
    check_labels({"a": "X"}, [("a", "X"), ("a", "X"), ("b", "Y"), ("c", "Y")])
    with says("names: the rows a and b would both be called 'X'; give them different labels"):
        check_labels({"a": "X"}, [("a", "X"), ("b", "X")])


@pytest.mark.parametrize(
    ("intervals", "text", "cell"),
    [
        ("subscript", "-5.0-7.1-2.03", [r"\textbf{$-$5.0}", r"$^{\mathrm{3}}${}$_{-7.1,\,-2.0}$"]),
        (
            "plusminus",
            "-5.02.63",
            [r"\textbf{$-$5.0}", r"\,{\scriptsize$\pm$\,2.6}$^{\mathrm{3}}$"],
        ),
        ("none", "-5.03", [r"\textbf{$-$5.0}", r"$^{\mathrm{3}}$"]),
    ],
)
def test_a_number_in_latex_has_its_interval_and_rank(
    intervals: str, text: str, cell: list[str]
) -> None:
    table = JoinedTable("t", "", (), (), (), (), (), intervals)
    number = PrintedNumber("-5.0", -0.05, "-7.1", "-2.0", "2.6", 3, "best")
    assert _latex_text(number, table) == text
    assert _latex_cell(number, table) == cell
    plain = PrintedNumber("5.0", 0.05, emphasis="second")
    assert _latex_cell(plain, table) == [r"\underline{5.0}", ""]
    assert _latex_cell(PrintedNumber(MISSING, NAN), table) == ["--", ""]


def test_the_best_of_a_column_are_those_as_printed() -> None:
    drafts = [draft("given", n, v) for n, v in zip("abcd", (0.3001, 0.3, 0.2, 0.1), strict=True)]
    drafts += [draft("floors", "e", 0.9), draft("given", "f", None)]
    emphasise(KEYS[0], drafts)
    marks = [d.cells[KEYS[0]].emphasis for d in drafts[:5]]
    assert marks == ["best", "best", "second", "", ""]


def test_a_papers_number_beside_ones_own_does_not_compete() -> None:
    own, paper, apart, alone = (
        draft("given", "own", 0.1, spec="m"),
        draft("given", "paper", 0.9, spec="m"),
        draft("published", "apart", 0.8, spec="n"),
        draft("published", "alone", 0.2, spec="o"),
    )
    for row in (paper, apart, alone):
        row.source = "somewhere"
    apart.apart.add(KEYS[0])
    emphasise(KEYS[0], [own, paper, apart, alone])
    marks = {d.label: d.cells[KEYS[0]].emphasis for d in (own, paper, apart, alone)}
    assert marks == {"own": "second", "paper": "", "apart": "", "alone": "best"}
    one = draft("given", "one", 0.1)
    emphasise(KEYS[0], [one, draft("floors", "low", 0.2)])
    assert one.cells[KEYS[0]].emphasis == ""
