"""Numbers in LaTeX: by hand."""

from __future__ import annotations

import pytest

from captau.benchmarks.runs.latex_table import latex_of
from captau.benchmarks.runs.tables import MISSING, Cell, ResultTable, Row

NUMBER = Cell("-5.0", -0.05, -5.0, low="-7.1", high="-2.0", reach="2.6", rank=3, emphasis="best")


@pytest.mark.parametrize(
    ("intervals", "cell"),
    [
        ("subscript", r"\textbf{$-$5.0} & $^{\mathrm{3}}${}$_{-7.1,\,-2.0}$"),
        ("plusminus", r"\textbf{$-$5.0} & \,{\scriptsize$\pm$\,2.6}$^{\mathrm{3}}$"),
        ("none", r"\textbf{$-$5.0} & $^{\mathrm{3}}$"),
    ],
)
def test_a_number_in_latex_has_its_interval_and_rank(intervals: str, cell: str) -> None:
    plain = Cell("5.0", 0.05, 5.0, emphasis="second")
    rows = [Row("a", [NUMBER]), Row("b", [plain]), Row("c", [Cell(MISSING)])]
    lines = latex_of(ResultTable("t", "m", ["x"], rows, intervals=intervals)).splitlines()
    assert rf"    a & {cell} \\" in lines
    assert r"    b & \underline{5.0} &  \\" in lines
    assert r"    c & -- &  \\" in lines


@pytest.mark.parametrize(
    ("n_characters", "size", "environment"),
    [
        # 30 + 5 characters of 4.9 points and 12 of gap are 183.5 of 225; 40 + 5 in small type 178.5; 60 + 5 are more.
        (30, "", "table"),
        (40, r"\scriptsize", "table"),
        (60, r"\scriptsize", "table*"),
    ],
)
def test_a_table_is_in_small_type_or_wide_where_it_does_not_fit(
    n_characters: int, size: str, environment: str
) -> None:
    text = latex_of(ResultTable("t", "m", ["12345"], [Row("a" * n_characters, ["1"])]))
    assert (r"\scriptsize" in text) == bool(size)
    assert rf"\begin{{{environment}}}" in text
    assert ("takes the page's width" in text) == (environment == "table*")
