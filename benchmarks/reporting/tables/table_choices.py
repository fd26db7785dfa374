"""Choices of what `captau table` shows of finished runs, and how.

They stand in a module of their own, as the options of the command hold them and must not load what draws the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TableChoices:
    """Choices of what a joined table shows of finished runs, and how.

    Attributes:
        intervals: `subscript` (both ends), `plusminus` (half the width) or `none`; None for the usual one.
        ranks: `superscript`, `groups` (rows of one rank of the first column stand under a heading) or `none`.
        published: papers in `conf/paper/` whose numbers stand beside the runs'.
        coefficients: only these columns, in this order, or `headline` or `all`; of runs of `score`, these metrics. Empty for
            the headlines, but of a reproduced paper all.
        dimensions: only these dimensions, in this order.
        rows: only these metrics, labels, groups or systems, in this order.
        sort: the words that name the column by which rows are sorted.
        names: labels by metric, label or system.
        own: one's own metrics, labels, groups or systems, which are marked.
        notes: `brief`, `full` or `none`.
        title: the line above the table; None for the usual one.
        label: LaTeX's; None for none.
    """

    intervals: str | None = None
    ranks: str = "superscript"
    published: tuple[str, ...] = ()
    coefficients: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    own: tuple[str, ...] = ("given",)
    notes: str = "brief"
    title: str | None = None
    label: str | None = None


#: What a table shows where nobody says.
USUAL_CHOICES = TableChoices()
