"""Tables as the texts that they show, for tests that read them line by line."""

from __future__ import annotations

from captau.benchmarks.runs.tables import ResultTable


def lines_of(table: ResultTable) -> list[tuple[str, list[str]]]:
    """Return the label and the texts of each row."""
    return [(row.label, [str(cell) for cell in row.cells]) for row in table.rows]
