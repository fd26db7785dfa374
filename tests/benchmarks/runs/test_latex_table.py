"""Numbers in LaTeX: by hand."""

from __future__ import annotations

import pytest

from captau.benchmarks.runs.latex_table import latex_of
from captau.benchmarks.runs.tables import MISSING, Cell, Column, ResultTable, Row

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
        # 30 + 5 characters of 4.9 points and 12 of gap are 183.5 of 225; 40 + 5 in small type 178.5; 60 + 5 are more, but
        # 330.5 of the page's 340; 70 + 5 in small type 289.5.
        (30, "", "table"),
        (40, r"\scriptsize", "table"),
        (60, "", "table*"),
        (70, r"\scriptsize", "table*"),
    ],
)
def test_a_table_is_in_small_type_or_wide_where_it_does_not_fit(
    n_characters: int, size: str, environment: str
) -> None:
    text = latex_of(ResultTable("t", "m", ["12345"], [Row("a" * n_characters, ["1"])]))
    assert (r"\scriptsize" in text) == bool(size)
    assert rf"\begin{{{environment}}}" in text
    assert ("takes the page's width" in text) == (environment == "table*")


def test_small_type_of_a_narrow_column_is_not_that_of_a_page() -> None:
    """40 + 5 characters are 232.5 points wide in the type of the text."""
    text = latex_of(ResultTable("t", "m", ["12345"], [Row("a" * 40, ["1"])]))
    assert r"  \ifdim\linewidth<233pt \scriptsize\fi" in text


def _survey(n_datasets: int, n_rows: int) -> str:
    columns = [Column("τ_c", r"$\tau_c$", over=f"Flickr8k-Expert {n}") for n in range(n_datasets)]
    cells = ["12.3"] * n_datasets
    return latex_of(ResultTable("t", "metric", columns, [Row("a", cells)] * n_rows))


@pytest.mark.parametrize(
    ("n_datasets", "n_rows", "environment", "n_panels", "n_turned"),
    [
        (4, 9, "table", 1, 0),
        (8, 9, "table*", 1, 0),
        (14, 9, "table*", 2, 0),
        # Two panels of 36 rows are higher than a page.
        (14, 36, "table*", 1, 14),
    ],
)
def test_heads_are_turned_only_where_a_table_fits_no_page_otherwise(
    n_datasets: int, n_rows: int, environment: str, n_panels: int, n_turned: int
) -> None:
    text = _survey(n_datasets, n_rows)
    assert rf"\begin{{{environment}}}" in text
    assert text.count(r"\toprule") == n_panels
    assert text.count(r"\rotatebox{90}") == n_turned
    assert text.count(r"Flickr8k- \\ Expert \\ ") == n_datasets - n_turned
