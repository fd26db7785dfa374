"""Columns of the table that `captau table` prints, and the groups of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    "published": "other metrics, as printed by papers",
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


def heading_of(kind: str) -> str:
    """Return the heading above the rows of a kind."""
    return _HEADINGS.get(kind, kind)


def with_headings(rows: Sequence[Row], headings: Sequence[str]) -> list[Row]:
    """Return rows with a heading above each group of them, where there are several groups.

    Args:
        rows: those of one group after another.
        headings: that of each row's group.
    """
    has_groups = len(set(headings)) > 1
    lines: list[Row] = []
    heading_above = ""
    for row, heading in zip(rows, headings, strict=True):
        if has_groups and heading != heading_above:
            lines.append(Row(heading, kind=row.kind))
        heading_above = heading
        lines.append(row)
    return lines


def spare_columns(columns: Sequence[Column]) -> tuple[tuple[int, ...], ...]:
    """Return the columns that a narrow terminal leaves out, from the right: all of datasets but the first."""
    of_datasets = [index for index, column in enumerate(columns) if column.over]
    return tuple((index,) for index in reversed(of_datasets[1:]))
