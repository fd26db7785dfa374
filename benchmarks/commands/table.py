"""`captau table` from Python: finished runs and published numbers as one table, for a paper.

The command line prints the same table in the style that `style=` names, or the table that a run of another kind wrote.
"""

from __future__ import annotations

from ...datasets.errors import InputError
from ..options.finished_runs import TableOptions
from ..options.python_function import make_function
from ..reporting.printed_tables import PrintedTables
from ..reporting.tables.joined_table import join
from ..runs.finished_run import read_runs


def run(options: TableOptions) -> PrintedTables:
    """Join finished runs in one table.

    Raises:
        InputError: on runs without correlations and corpus scores, whose table is their own; and as `read_runs` and
            `join` do.
    """
    runs = read_runs(options.runs)
    first = runs[0]
    if first.has_own_table:
        raise InputError(
            f"{first.folder} is a run of captau {first.command}, which has a table of its own: "
            f"{first.path_of('table.md')}, or table.tex beside it"
        )
    return PrintedTables(tables=[join(runs, options.choices)])


table = make_function(
    "table",
    TableOptions,
    run,
    summary="Join finished runs, and published numbers, in one table",
    returns="`PrintedTables`, which a notebook shows; `table()` is a DataFrame, `to_latex()` and `to_markdown()` are texts.",
    returned="PrintedTables",
    raises="on an unknown name, a folder without a finished run, runs over different data, or runs that have a table "
    "of their own, such as those of rank.",
)
