"""Columns of the table that `captau table` prints, and the groups of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ....datasets import registry
from ...runs.tables import Column, Row
from ...scoring.catalog import METRIC_KINDS
from ...scoring.protocol import Protocol

#: How rows are grouped, in this order.
GROUPS = (*METRIC_KINDS, "published", "floors", "ceilings")

_HEADINGS = {
    "given": "your metrics",
    "released": "scores that their authors published",
    "ceilings": "people",
    "published": "published alone",
}


@dataclass(frozen=True, kw_only=True)
class CoefficientColumn(Column):
    """A coefficient of a dataset, or a metric of a system's captions.

    Attributes:
        dataset, dimension, coefficient, protocol: of what.
        revision: the dataset's, as the run read it.
    """

    dataset: str
    dimension: str
    coefficient: str
    protocol: Protocol
    revision: str


def shorten_dataset(dataset: str, head: str) -> str:
    """Return a whole head with the short title of its dataset, for narrow terminals."""
    if dataset not in registry.names():
        return head
    card = registry.card(dataset)
    if not card.short_title or not head.startswith(card.title):
        return head
    return head.replace(card.title, card.short_title, 1)


def with_headings(rows: Iterable[Row]) -> list[Row]:
    """Return rows of one kind after another, the kind of each group as a heading above it, where there are several."""
    groups = [(kind, list(group)) for kind, group in groupby(rows, key=lambda row: row.kind)]
    lines: list[Row] = []
    for kind, group in groups:
        if len(groups) > 1:
            lines.append(Row(_HEADINGS.get(kind, kind), kind=kind))
        lines += group
    return lines


def spare_columns(columns: Sequence[Column]) -> tuple[tuple[int, ...], ...]:
    """Return the columns that a narrow terminal leaves out, from the right: all of datasets but the first."""
    of_datasets = [index for index, column in enumerate(columns) if column.over]
    return tuple((index,) for index in reversed(of_datasets[1:]))
