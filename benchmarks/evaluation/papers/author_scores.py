"""Cells of metrics whose scores, caption by caption, the authors publish (`PaperTable.author_scores`).

They fill what captau does not compute itself, for want of images or weights. A system that has no such scores has no cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.errors import MissingFileError
from ..correlation_rows import metric_rows
from ..evaluation_set import EvaluationSet
from ..wording import join_notes
from .published_numbers import PaperTable
from .published_sources import Cells, TableCell, TableSources


def fill_author_scores(sources: TableSources, table: PaperTable, cells: Cells) -> Cells:
    """Return the cells of a table that authors' scores fill; empty where these are not here."""
    filled: Cells = {}
    for name, about in table.author_scores.items():
        try:
            scores = _load_scores(sources, table.dataset, about)
        except MissingFileError:
            continue

        note = join_notes("of the scores that the authors publish", about.get("note", ""))
        if table.kind == "system_means":
            values = _system_means(sources, table, name, scores)
        else:
            values = _correlations(sources, table, name, scores)
        for row_and_column, value in values.items():
            # A cell that was recomputed stays.
            if np.isnan(cells[row_and_column].value) and not np.isnan(value):
                filled[row_and_column] = TableCell(value, note)

    return filled


def _load_scores(sources: TableSources, dataset: str, about: Mapping[str, Any]) -> pd.Series:
    """Return the authors' score of each item of a dataset, by item id; NaN of those that they did not score."""
    authors = sources.load(about["dataset"])
    ratings = authors.ratings[authors.ratings["dimension"] == about["dimension"]]
    scored = authors.items.merge(ratings, on="item_id")[["image_id", "system", "value"]]

    items = sources.load(dataset).items
    values = items[["image_id", "system"]].merge(scored, "left", on=["image_id", "system"])["value"]
    return pd.Series(values.to_numpy(dtype=float), index=items["item_id"])


def _system_means(
    sources: TableSources, table: PaperTable, column: str, scores: pd.Series
) -> dict[tuple[str, str], float]:
    """Return the mean score of each system, NaN where one of its captions has none."""
    scale = table.columns[column].get("scale", table.scale)
    systems = sources.load(table.dataset).items["system"]
    by_system = pd.Series(scores.to_numpy()).groupby(systems)

    means: dict[tuple[str, str], float] = {}
    for row, system in table.rows.items():
        means[row, column] = float(by_system.get_group(system).to_numpy().mean()) * scale
    return means


def _correlations(
    sources: TableSources, table: PaperTable, row: str, scores: pd.Series
) -> dict[tuple[str, str], float]:
    """Return the correlations of each column whose captions all have scores; none of intervals."""
    values: dict[tuple[str, str], float] = {}
    for column, options in table.columns.items():
        if "bound" in options:
            continue

        changes = {**(options.get("protocol") or {}), "coefficients": [options["coefficient"]]}
        label = f"{row}, {table.table}, {column}, of the authors' scores"
        protocol = sources.resolve_protocol(table, label, changes)
        selection = EvaluationSet.select(sources.load(table.dataset), protocol)
        selected = scores[selection.items["item_id"]]
        if selected.isna().any():
            continue

        dimension = options.get("dimension") or selection.protocol.dimension[0]
        only = replace(selection.protocol, dimension=(dimension,))
        for correlation in metric_rows(replace(selection, protocol=only), row, selected, ""):
            if correlation["coefficient"] == options["coefficient"]:
                values[row, column] = correlation["value"] * table.scale

    return values
