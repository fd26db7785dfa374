"""Printed tables as Python holds them, which show themselves at its prompt and in a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from ...datasets.errors import InputError
from ..runs.html_table import html_of
from ..runs.latex_table import join_latex
from ..runs.markdown_table import markdown_of
from ..runs.tables import ResultTable, count_of, frame_of


@dataclass(frozen=True, repr=False, kw_only=True)
class PrintedTables:
    """Tables that print themselves.

    Attributes:
        tables: the tables, with titles and notes.
    """

    tables: list[ResultTable] = field(default_factory=list[ResultTable])

    @property
    def notes(self) -> list[str]:
        """The lines below the tables, each once."""
        notes: dict[str, None] = {}
        for table in self.tables:
            notes |= dict.fromkeys(table.notes)
        return list(notes)

    def __repr__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        """Return the tables as a notebook shows them."""
        return "".join(html_of(table) for table in self.tables)

    def table(self, number: int = 0) -> pd.DataFrame:
        """Return a table as a DataFrame, with its row labels as index; the notes are left out.

        Args:
            number: which of `tables`, from 0.

        Raises:
            InputError: where there is no such table.
        """
        n_tables = len(self.tables)
        if not -n_tables <= number < n_tables:
            raise InputError(
                f"there is no table {number}; there are {count_of(n_tables, 'table')}, and the first is table 0"
            )
        return frame_of(self.tables[number])

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        return "\n\n".join(map(markdown_of, self.tables))

    def to_latex(self) -> str:
        """Return the tables as LaTeX (booktabs)."""
        return join_latex(self.tables)
