"""The layouts of the table that `captau table` prints, by the name of the style, and its appendix."""

from __future__ import annotations

from collections.abc import Callable

from ...runs.tables import latex_escape
from .latex_table import breaking, latex
from .printed_table import JoinedTable, csv_of, escape_markdown, html_of, json_of, markdown


def appendix(table: JoinedTable, *, is_latex: bool) -> str:
    """Return the notes and signatures of a table for a paper's appendix, as LaTeX or Markdown."""
    title = f"Details of the table: {table.title}"
    if is_latex:
        signatures = [
            rf"  \item {latex_escape(label)}: {breaking(signature)}"
            for label, signature in table.signatures
        ]
        lines = [rf"\paragraph{{{latex_escape(title)}}}", *map(latex_escape, table.notes)]
        lines += [r"\begin{itemize}\raggedright", *signatures, r"\end{itemize}"]
        return "\n".join(lines) + "\n"
    signatures = [
        f"- {escape_markdown(label)}: `{signature}`" for label, signature in table.signatures
    ]
    return (
        "\n\n".join([f"## {title}", *map(escape_markdown, table.notes), "\n".join(signatures)])
        + "\n"
    )


LAYOUTS: dict[str, Callable[[JoinedTable], str]] = {
    "markdown": markdown,
    "latex": latex,
    "html": html_of,
    "csv": csv_of,
    "json": json_of,
}
