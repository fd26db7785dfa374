"""The table that `captau table` prints, as data: columns, rows and numbers as they are printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..scoring.catalog import METRIC_KINDS
from ..scoring.protocol import Protocol

#: How rows are grouped, in this order.
GROUPS = (*METRIC_KINDS, "published", "floors", "ceilings")

_HEADINGS = {
    "given": "given as scores or functions",
    "published": "published alone",
    "systems": "",
}


@dataclass(frozen=True)
class CoefficientColumn:
    """A coefficient of a dataset.

    Attributes:
        dataset, dimension, coefficient, protocol: of what.
        revision: the dataset's, as the run read it.
        over: the head that it shares with its neighbours.
        head, latex: its own, in plain text and for LaTeX.
    """

    dataset: str
    dimension: str
    coefficient: str
    protocol: Protocol
    revision: str
    over: str
    head: str
    latex: str


@dataclass(frozen=True)
class PrintedNumber:
    """A number as it is printed.

    Attributes:
        text: the number, `MISSING` where there is none.
        value: in its natural range; NaN where there is none.
        low, high, reach: the interval's ends and half its width, as printed; empty where there is none.
        rank: the cluster of metrics that cannot be told apart; None where there is none.
        emphasis: `best`, `second` or nothing.
        marks: letters of the footnotes.
    """

    text: str
    value: float
    low: str = ""
    high: str = ""
    reach: str = ""
    rank: int | None = None
    emphasis: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableRow:
    """A metric's numbers, one a column; None where there is nothing to say.

    Attributes:
        source: who printed them; empty where captau computed them.
        spec, signature: of the metric; empty where a paper's is not in captau.
    """

    label: str
    source: str
    spec: str
    signature: str
    cells: tuple[PrintedNumber | None, ...]


@dataclass(frozen=True)
class RowGroup:
    """Rows of one kind, one of `GROUPS`, or `systems`."""

    kind: str
    rows: tuple[TableRow, ...]

    @property
    def heading(self) -> str:
        """The text above the rows; empty where it would only repeat the corner."""
        return _HEADINGS.get(self.kind, self.kind)


@dataclass(frozen=True)
class TableChoices:
    """What of finished runs a joined table shows, and how.

    Attributes:
        intervals: `subscript` (both ends), `plusminus` (half the width) or `none`.
        published: papers in `conf/paper/` whose numbers stand beside the runs'.
        coefficients: only these columns, in this order; of runs of `score`, these metrics.
        dimensions: only these dimensions, in this order.
        rows: only these metrics, labels, groups or systems, in this order.
        sort: the words that name the column by which rows are sorted.
        names: labels by metric, label or system.
        own: one's own metrics, labels, groups or systems, which are marked.
        notes: `brief`, `full` or `none`.
        title: the line above the table; None for the usual one.
        label: LaTeX's; None for none.
    """

    intervals: str = "subscript"
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


@dataclass(frozen=True)
class JoinedTable:
    """The table that `captau table` prints.

    Attributes:
        label: for LaTeX's `\\ref`; empty for none.
        marks: footnotes with their letters.
        notes: what else stands below.
        signatures: the metrics' labels and signatures, which stand there too.
        intervals: how intervals are shown: `subscript`, `plusminus` or `none`.
        has_legend: whether a line below explains the letters' shapes.
        corner: the head of the rows' names.
    """

    title: str
    label: str
    columns: tuple[CoefficientColumn, ...]
    groups: tuple[RowGroup, ...]
    marks: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    signatures: tuple[tuple[str, str], ...]
    intervals: str
    has_legend: bool = True
    corner: str = "metric"

    @property
    def cells(self) -> list[PrintedNumber]:
        """All that there are, row by row."""
        rows = [row for group in self.groups for row in group.rows]
        return [cell for row in rows for cell in row.cells if cell is not None]

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The heads that columns share, and over how many."""
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and spans[-1][0] == column.over:
                spans[-1] = column.over, spans[-1][1] + 1
            else:
                spans.append((column.over, 1))
        return spans
