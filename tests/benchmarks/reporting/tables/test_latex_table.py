"""Numbers in LaTeX: by hand."""

from __future__ import annotations

import math

import pytest

from captau.benchmarks.reporting.tables.latex_table import _latex_cell, _latex_text
from captau.benchmarks.reporting.tables.printed_table import JoinedTable, PrintedNumber
from captau.benchmarks.runs.tables import MISSING


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
    assert _latex_cell(PrintedNumber(MISSING, math.nan), table) == ["--", ""]
