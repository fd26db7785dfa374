"""Take over what `captau reproduce paper=all` found into docs: reproduction.csv, its table in reproduction.md, and
state_of_the_art.md.

    captau reproduce paper=all output_dir=RUN && python scripts/published/refresh_reproduction.py RUN

The site's page of all cells is made from the CSV. Why a cell is not computed is told without the places
where its files were looked for, which differ from machine to machine.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd

from captau.benchmarks.cli.script_options import show_manual
from captau.benchmarks.commands.reproduce import MATCHES
from captau.benchmarks.evaluation.papers.published_numbers import mark_printed
from captau.benchmarks.scoring.catalog import read_config

DOCS = Path(__file__).parents[2] / "docs"
CSV = DOCS / "reproduction.csv"
PAGE = DOCS / "reproduction.md"
#: Where the table stands in the page: its head, and rows to the first line that is none.
TABLE = re.compile(r"^\| paper \| table \|.*\n(?:\|.*\n)+", re.M)


def kept(comparison: pd.DataFrame) -> pd.DataFrame:
    """What of a comparison is the same on every machine.

    Args:
        comparison: a run's `comparison.csv`, all of it text.
    """
    notes = comparison["note"].where(
        comparison["match"] != "",
        comparison["note"].str.replace(r"(missing: [^,;:(]+).*", r"\1", regex=True),
    )
    return comparison.assign(note=notes)


def summary_table(cells: pd.DataFrame) -> str:
    """How many cells of each table match, lie within the spread of draws, are of another split, differ, and are not computed; Markdown."""
    lines = [
        "| paper | table | dataset | match | within the draw | of another split | differ | not computed |",
        "|:--|:--|:--|--:|--:|--:|--:|--:|",
    ]
    before = ""
    for (paper, table, dataset), one in cells.groupby(["paper", "table", "dataset"], sort=False):
        title = read_config("paper", str(paper))["title"].partition(",")[0]
        name = "" if paper == before else f"{title} (`{paper}`)"
        number = str(table).removeprefix("Table ")
        lines.append(f"| {name} | {number} | `{dataset}` | {counted(one)} |".replace("|  |", "| |"))
        before = str(paper)
    is_printed = mark_printed(cells)
    lines.append(f"| all that papers print | | | {counted(cells[is_printed])} |")
    lines.append(f"| made with authors' files | | | {counted(cells[~is_printed])} |")
    return "\n".join(lines) + "\n"


def counted(cells: pd.DataFrame) -> str:
    return " | ".join(str((cells["match"] == value).sum()) for value in MATCHES)


def page_with(text: str, cells: pd.DataFrame) -> str:
    """The page with its table anew.

    Raises:
        ValueError: where the page has no such table.
    """
    new, number = TABLE.subn(lambda _: summary_table(cells), text)
    if number != 1:
        raise ValueError(f"{PAGE}: one table of papers is expected, not {number}")
    return new


def main(run: Path) -> None:
    import state_of_the_art  # of this folder

    comparison = pd.read_csv(run / "comparison.csv", dtype=str, keep_default_na=False)
    cells = kept(comparison)
    page = page_with(PAGE.read_text(encoding="utf-8"), cells)
    cells.to_csv(CSV, index=False, lineterminator="\n")
    PAGE.write_text(page, encoding="utf-8")
    state_of_the_art.PAGE.write_text(state_of_the_art.state_of_the_art(), encoding="utf-8")
    print(summary_table(cells), end="")


if __name__ == "__main__":
    show_manual(__doc__)
    main(Path(sys.argv[1]))
